"""Folders, adapters and cards of tiny models, and comparing them with the trained model."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from core.base.errors import ModelError
from core.base.jobs import JobProgress
from core.engine.export import formats
from core.engine.export import job as export_card
from core.engine.export.job import NotTheSame, export
from core.engine.models.past_runs import save_base_model
from core.engine.models.vision import read_recipe
from core.engine.run.checkpoints import seal
from core.jobs.export import Compared, ExportKind, ExportReport, ExportRequest, NumberFormat
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import ImageFit, Method, Quantization, Task
from core.options.sections import OutputOptions
from core.runs.events import Evaluated, Example, ExamplesChosen, Outcome, RunFinished, RunPlanned, RunStarted
from core.runs.export_source import ExportSource
from core.runs.folder import RunFolder
from core.runs.status import RunStatus
from core.services.export import Export, Wanted
from tests.fakes.exports import LABELS, TEXTS, exported
from tests.fakes.models import WORDS, save_tiny_bert, save_tiny_gpt2, save_tiny_llama, save_tiny_vision
from tests.fakes.runs import write_events
from tests.fakes.trained_runs import finished_run, with_model, with_network

BARE = """
import sys, json, torch
sys.modules["torchvision"] = None  # beside a torch for CPUs alone, the usual one can't be imported
from transformers import AutoModelForSequenceClassification, AutoModelForCausalLM, AutoTokenizer
texts, writer = sys.argv[1:]
model, tokenizer = AutoModelForSequenceClassification.from_pretrained(texts), AutoTokenizer.from_pretrained(texts)
with torch.no_grad():
    logits = model(**tokenizer("a good story", return_tensors="pt")).logits[0]
talker, its = AutoModelForCausalLM.from_pretrained(writer), AutoTokenizer.from_pretrained(writer)
said = talker.generate(**its("Say hello", return_tensors="pt"), max_new_tokens=8, do_sample=False)[0]
assert "core" not in sys.modules
print(json.dumps([logits.tolist(), model.config.id2label[0], said.tolist()]))
"""


@pytest.mark.long
def test_folders_are_loaded_by_a_bare_script(lora, talker, tmp_path):
    told: list[JobProgress] = []
    wanted = Wanted(run=str(lora[0].path), kind=ExportKind.MERGED, folder=str(tmp_path / "merged"))
    merged = Export(wanted).run(told.append)  # by the engine, in a process of its own
    assert {progress.what for progress in told} >= {"Writing the model", "Running the exported model"}
    assert [path.name for path in tmp_path.iterdir()] == ["merged"]
    assert merged.agreement is not None
    assert merged.agreement.held_out == len(TEXTS)
    assert merged.agreement.equal == merged.agreement.counted == 16
    folder = exported(talker[0], ExportKind.FOLDER, tmp_path / "folder")
    assert folder.agreement is not None
    assert folder.agreement.largest == 0.0, "the same numbers"
    assert folder.agreement.compared is Compared.TOKENS
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", "-c", BARE, str(tmp_path / "merged"), str(tmp_path / "folder")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    logits, label, tokens = json.loads(said.stdout)
    words = torch.tensor([[2, *(5 + WORDS.index(word) for word in TEXTS[0].split()), 3]])
    with torch.no_grad():
        expected = lora[1](input_ids=words).logits[0]
        torch.testing.assert_close(torch.tensor(logits), expected, rtol=1e-4, atol=1e-5)
        assert label == LABELS[0]
        prompt = torch.tensor([tokens[:-8]])
        assert talker[1].generate(input_ids=prompt, max_new_tokens=8, do_sample=False)[0].tolist() == tokens


def test_dora_is_merged_as_it_was_trained(bert, tmp_path):
    method = {"method": Method.LORA, "lora_rank": 4, "lora_dora": True, "lora_rslora": True}
    run, options = finished_run(tmp_path / "dora", Task.TEXT_CLASSIFICATION, bert, TEXTS, **method)
    with_model(run, options, LABELS)
    merged = exported(run, ExportKind.MERGED, tmp_path / "merged")
    assert merged.agreement.largest < merged.agreement.allowed
    assert "| DoRA | On |" in (tmp_path / "merged" / "README.md").read_text()


def test_the_card_tells_of_the_run_and_not_of_this_computer(lora, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    exported(lora[0], ExportKind.MERGED, tmp_path / "merged")
    card = (tmp_path / "merged" / "README.md").read_text()
    head = dict(line.split(": ", 1) for line in card.split("---")[1].strip().splitlines())
    assert json.loads(head["pipeline_tag"]) == "text-classification"
    assert json.loads(head["library_name"]) == "transformers"
    assert "license" not in head
    for words in (
        "merged in fp32 into the weights of its base model as they are stored,",
        "| accuracy | 0.875 |",
        "`reviews`",
        "torch 2.13.0",
        "| Method | LoRA |",
        "16 examples",
        "Unknown",
    ):
        assert words in card
    assert "secret-place" not in card
    assert str(tmp_path) not in card


def card_of(run: RunFolder, options: RunOptions, folder: str = "model") -> str:
    report = ExportReport(kind=ExportKind.FOLDER, path="/export", files=(), size=0)
    export_card.write_card(ExportSource(run, options, run.path / folder, False), report, run.path, "", {})
    return (run.path / "README.md").read_text()


@pytest.mark.parametrize(
    ("end", "folder", "said"),
    [
        ({"steps": 100}, "model", "for 100 steps (10 epochs).\n"),
        (
            {"steps": 40, "state": Outcome.STOPPED},
            "model",
            "for 40 of the 100 planned steps (4 of 10 epochs), then stopped by the user.\n",
        ),
        (
            {"steps": 40, "model_step": 25, "waited": 3},
            "model",
            "It stopped early, after 3 evaluations without improvement. This model is that of step 25, the best",
        ),
        ({"steps": 100}, "checkpoints/checkpoint-30", "for 30 of the 100 planned steps"),
    ],
)
def test_the_card_tells_how_far_this_model_was_trained(tmp_path, end, folder, said):
    run, options = finished_run(tmp_path / "run", Task.CHAT, "scratch:llama-small")
    plan = RunPlanned(total_steps=100, epochs=10, train_samples=80, eval_samples=9, effective_batch=8)
    events = (RunStarted(from_step=end["steps"]), plan, RunFinished(**{"state": Outcome.FINISHED} | end))
    write_events(run.events_file, *events)
    card = card_of(run, options, folder)
    assert said in card
    assert "trained from scratch on `reviews`" in card
    assert ("It stopped early" in card) == ("waited" in end)


def test_the_card_names_the_runs_before_and_the_licence_of_the_first(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    finished_run(tmp_path / "runs" / "first", Task.CAUSAL_LM, "scratch:llama-small")
    chat = finished_run(tmp_path / "runs" / "second", Task.CHAT, "run:first")
    card = card_of(*chat)
    assert "fine-tuned from `llama-small on reviews` on `reviews` with Hone" in card
    assert "“llama-small on reviews” is an earlier run: trained from scratch on `reviews`." in card
    assert "It started from random weights" in card
    base = tmp_path / "base"
    base.mkdir()
    (base / "README.md").write_text("---\nlicense: mit\n---\n")
    finished_run(tmp_path / "runs" / "tuned", Task.CHAT, base)
    assert "The model it started from is under mit" in card_of(
        *finished_run(tmp_path / "runs" / "again", Task.CHAT, "run:tuned")
    )
    unknown = finished_run(tmp_path / "runs" / "lost", Task.CHAT, "run:gone")
    assert "Unknown: check the terms" in card_of(*unknown)


@pytest.mark.parametrize(
    ("papers", "ink", "said"),
    [
        ((0, 30), 250, "grey, light on dark, as in MNIST: invert"),
        ((240, 255), 9, "grey, dark on light."),
        ((240, 0), 9, ""),
        ((120, 140), 9, ""),
        (((90, 0, 0),), 250, ""),
    ],
)
def test_the_card_of_an_image_model_says_which_images_it_expects(tmp_path, papers, ink, said):
    run, options = finished_run(
        tmp_path / "run", Task.IMAGE_CLASSIFICATION, "torchvision:squeezenet1_0", pretrained=False
    )
    with_network(run, options)
    (run.path / "examples").mkdir()
    examples = tuple(Example(image=f"examples/{number}.png") for number in range(len(papers)))
    for example, paper in zip(examples, papers, strict=True):
        image = Image.new("L" if isinstance(paper, int) else "RGB", (8, 8), paper)
        for place in ((0, 0), (4, 4)):
            image.putpixel(place, ink if isinstance(paper, int) else (ink,) * 3)
        image.save(run.path / example.image)
    write_events(run.events_file, ExamplesChosen(examples=examples))
    card = card_of(run, options)
    assert "RGB images of 64 × 64 pixels; the code above resizes others." in card
    assert said in card
    assert bool(said) == ("The training images are grey" in card)


@pytest.mark.parametrize("limit", [None, 40])
def test_epochs_that_a_limit_of_steps_overrides_are_not_on_the_card(tmp_path, limit):
    run, options = finished_run(tmp_path / "run", Task.TEXT_CLASSIFICATION, "scratch:bert-tiny")
    options = with_changes(options, {"training.max_steps": limit, "training.epochs": 7.0})
    (run.model).mkdir()
    card = card_of(run, options)
    assert ("| Epochs | 7 |" in card) is (limit is None)
    assert ("| Maximum steps | 40" in card) is (limit is not None)


def test_an_adapter_names_what_it_belongs_to(lora, bert, tmp_path):
    report = exported(lora[0], ExportKind.ADAPTER, tmp_path / "adapter")
    told = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert told["base_model_name_or_path"] == str(bert)
    assert "adapter_model.safetensors" in report.files
    assert "model.safetensors" not in report.files
    assert str(bert) in report.notes[0]


def test_an_adapter_of_a_past_run_brings_that_model_along(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    first, options = finished_run(
        tmp_path / "runs" / "first", Task.CAUSAL_LM, save_tiny_gpt2(tmp_path / "gpt2")
    )
    with_model(first, options)
    second, options = finished_run(
        tmp_path / "runs" / "second", Task.CAUSAL_LM, "run:first", method=Method.LORA
    )
    with_model(second, options)
    save_base_model(second.model, "run:first")
    exported(second, ExportKind.ADAPTER, tmp_path / "adapter")
    told = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert told["base_model_name_or_path"] == f"{tmp_path / 'adapter'}-there/base"
    assert (tmp_path / "adapter" / "base" / "model.safetensors").is_file()
    exported(second, ExportKind.MERGED, tmp_path / "merged")


@pytest.mark.parametrize("task", [Task.TEXT_CLASSIFICATION, Task.CAUSAL_LM])
def test_what_was_trained_packed_is_merged_into_full_weights(task, tmp_path):
    pytest.importorskip("bitsandbytes")
    packed = {"method": Method.QLORA, "quantization": Quantization.NF4}
    save = save_tiny_bert if task.has_labels else save_tiny_llama
    source = save(tmp_path / "model", hidden_size=64, intermediate_size=128)
    run, options = finished_run(tmp_path / "run", task, source, **packed)
    with_model(run, options, LABELS if task.has_labels else ())
    report = exported(run, ExportKind.MERGED, tmp_path / "merged")
    assert report.agreement is not None
    assert (report.agreement.largest or 0) < (report.agreement.allowed or 0)
    assert report.agreement.equal == report.agreement.counted > 0
    assert "quantization_config" not in json.loads((tmp_path / "merged" / "config.json").read_text())
    dtypes = {weight.dtype for weight in load_file(tmp_path / "merged" / "model.safetensors").values()}
    assert dtypes == {torch.float32}
    exported(run, ExportKind.ADAPTER, tmp_path / "adapter")
    if task.has_labels:  # which its head takes
        assert "quantization_config" not in json.loads((tmp_path / "adapter" / "config.json").read_text())


def test_tied_weights_are_rounded_once_and_stay_tied(tmp_path):
    run, options = finished_run(tmp_path / "run", Task.CAUSAL_LM, save_tiny_llama(tmp_path / "llama"))
    with_model(run, options)
    report = exported(run, ExportKind.FOLDER, tmp_path / "folder", NumberFormat.BF16)
    weights = load_file(tmp_path / "folder" / "model.safetensors")
    assert "lm_head.weight" not in weights
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
    assert report.agreement is not None
    assert 0 < (report.agreement.largest or 0) < (report.agreement.allowed or 0)
    assert "bf16" in report.agreement.why


@pytest.mark.parametrize(
    ("folder", "keep_best", "said"),
    [
        ("model", False, ", after step 20."),
        ("model", True, "Measured."),
        ("checkpoints/checkpoint-20", True, ", after step 20."),
        ("checkpoints/checkpoint-10", True, ""),
    ],
)
def test_the_card_tells_no_figures_of_another_step(tmp_path, folder, keep_best, said):
    run = RunFolder(tmp_path)
    write_events(run.events_file, Evaluated(step=20, epoch=2, metrics={"eval_accuracy": 0.4}, seconds=1))
    status = RunStatus(
        evaluations=[Evaluated(step=20, epoch=1, metrics={"eval_accuracy": 0.9}, seconds=1)], step=20
    )  # 0.9: of the model that was kept
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, output=OutputOptions(keep_best=keep_best))
    source = ExportSource(run, options, tmp_path / folder, is_adapter=False)
    measured, rows = export_card._results(source, status)
    assert bool(rows) == bool(said)
    assert measured.endswith(said)
    assert rows == [] or rows[0][1].startswith("0.4" if folder == "checkpoints/checkpoint-20" else "0.9")


def test_a_checkpoint_of_images_that_lacks_its_labels_takes_those_of_the_model(tmp_path):
    source = "torchvision:squeezenet1_0"
    run, options = finished_run(tmp_path / "run", Task.IMAGE_CLASSIFICATION, source, pretrained=False)
    with_network(run, options)
    checkpoint = run.checkpoints / "checkpoint-6"
    checkpoint.mkdir(parents=True)
    assert read_recipe(checkpoint).labels == ("cat", "dog", "owl")
    (run.model / "hone.json").unlink()
    with pytest.raises(ModelError, match="is incomplete"):
        read_recipe(checkpoint)


def test_a_vision_model_brings_its_image_processor(tmp_path):
    from transformers import AutoImageProcessor

    from core.engine.models.vision import preprocessor

    run, _ = finished_run(tmp_path / "run", Task.IMAGE_CLASSIFICATION, "vit")
    save_tiny_vision(run.model)
    (run.model / "preprocessor_config.json").write_bytes(
        preprocessor(32, (0.5,) * 3, (0.5,) * 3, ImageFit.SQUASH)
    )
    recipe = {
        "architecture": "vit",
        "labels": ["a", "b"],
        "image_size": 32,
        "mean": [0.5] * 3,
        "std": [0.5] * 3,
    }
    (run.model / "hone.json").write_text(json.dumps(recipe))
    exported(run, ExportKind.FOLDER, tmp_path / "folder")
    assert AutoImageProcessor.from_pretrained(tmp_path / "folder").size["height"] == 32


def test_what_answers_otherwise_is_an_error(talker, tmp_path, monkeypatch):
    def copy_badly(folder: Path, into: Path, patterns: tuple[str, ...]) -> None:
        copy(folder, into, patterns)
        file = into / "model.safetensors"
        if file.is_file():
            weights = load_file(file)
            weights["model.norm.weight"] *= 1.5
            save_file(weights, file, metadata={"format": "pt"})

    copy = formats.copy_files
    monkeypatch.setattr(formats, "copy_files", copy_badly)
    (tmp_path / "folder").mkdir()
    asked = ExportRequest(
        run=str(talker[0].path), kind=ExportKind.FOLDER, staging=str(tmp_path / "folder"), target="there"
    )
    with pytest.raises(NotTheSame, match="differs from the trained one") as refused:
        export(asked, lambda _: None)
    assert "tolerance" in refused.value.detail


def test_only_files_of_models_are_taken_along(talker, tmp_path):
    run = talker[0]
    for name in ("training_args.bin", "run_me.py"):
        (run.model / name).write_text("not to be passed on")
    (tmp_path / "secret").write_text("{}")
    (run.model / "added_tokens.json").symlink_to(tmp_path / "secret")
    try:
        report = exported(run, ExportKind.FOLDER, tmp_path / "folder")
    finally:
        for name in ("training_args.bin", "run_me.py", "added_tokens.json"):
            (run.model / name).unlink()
    assert not {"training_args.bin", "run_me.py", "added_tokens.json"} & set(report.files)


def test_pickled_matrices_are_not_opened(lora, tmp_path):
    run = RunFolder(tmp_path / "run")
    shutil.copytree(lora[0].path, run.path)
    (run.model / "adapter_model.safetensors").rename(run.model / "adapter_model.bin")
    (run.model / "model.safetensors").touch()
    (tmp_path / "out").mkdir()
    asked = ExportRequest(
        run=str(run.path), kind=ExportKind.MERGED, staging=str(tmp_path / "out"), target="there"
    )
    with pytest.raises(ModelError, match="is incomplete"):
        export(asked, lambda _: None)


def test_a_run_that_was_paused_gives_its_newest_checkpoint(talker, tmp_path):
    run = RunFolder(tmp_path / "run")
    shutil.copytree(talker[0].path, run.path)
    run.checkpoints.mkdir()
    run.model.rename(run.checkpoints / "checkpoint-3")
    (run.checkpoints / "checkpoint-3" / "trainer_state.json").write_text("{}")
    seal(run.checkpoints / "checkpoint-3")
    report = exported(run, ExportKind.FOLDER, tmp_path / "folder")
    assert not {"trainer_state.json", "complete.json"} & set(report.files)
