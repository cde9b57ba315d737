"""What a run's model can be exported to and why not the rest; exports as processes, and what is left of them."""

import json
import os
import shutil
import sys
import threading
import tomllib
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from core.base.errors import OptionsError, UserError
from core.base.jobs import EngineJob, JobCancelled
from core.jobs.export import ExportKind, NumberFormat
from core.options import RunOptions, run_file
from core.options.choices import Method, Task
from core.options.sections import ModelOptions
from core.runs.export_source import ExportSource, find_source
from core.runs.folder import RunFolder
from core.services import offers as offered
from core.services.export import Export, Wanted
from core.services.offers import SMALL_FILES, bytes_of, default_pushed, numbers_refusal, offers

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tests" / "fakes" / "export_job.py"


def source(folder: Path, task: Task, architecture: str = "", adapter: str = "") -> ExportSource:
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "model.safetensors").write_bytes(b"weights")
    if architecture:
        (folder / "model" / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    if adapter:
        config = json.dumps({"base_model_name_or_path": adapter})
        (folder / "model" / "adapter_config.json").write_text(config)
    method = Method.LORA if adapter else Method.FULL
    options = RunOptions(task=task, model=ModelOptions(source="some/model", method=method))
    run_file.write(options, folder / "run.toml")
    return find_source(RunFolder(folder))


def refusals(found: ExportSource) -> dict[ExportKind, str]:
    return {offer.kind: offer.refusal for offer in offers(found)}


@pytest.fixture
def run(tmp_path):
    return source(tmp_path / "run", Task.TEXT_CLASSIFICATION, "BertForSequenceClassification").run


@pytest.fixture
def out(tmp_path):
    return tmp_path / "exports" / "mine"


def exporting(run, out, scenario="do", kind=ExportKind.FOLDER, **fields) -> Export:
    """An export by a fake engine job."""
    wanted = Wanted(run=str(run.path), kind=kind, folder=str(out), **fields)
    return Export(wanted, lambda job: EngineJob(job, [sys.executable, str(SCRIPT), job, scenario]))


def test_offers_of_a_classifier(run):
    refused = refusals(find_source(run))
    assert {kind for kind, reason in refused.items() if not reason} == {ExportKind.FOLDER, ExportKind.ONNX}
    assert "Mac" in refused[ExportKind.COREML]
    assert "HF_HUB_OFFLINE" in refused[ExportKind.HUB]


def test_offers_of_an_adapter(tmp_path, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(offered, "_has_mlx", lambda: True)
    found = source(tmp_path / "chat", Task.CHAT, "Qwen2ForCausalLM", "some/base")
    refused = {kind for kind, reason in refusals(found).items() if reason}
    assert refused == {ExportKind.FOLDER, ExportKind.ONNX, ExportKind.COREML, ExportKind.GGUF}
    assert default_pushed(found) is ExportKind.ADAPTER
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"]}')
    found = source(tmp_path / "writer", Task.CAUSAL_LM, adapter=str(tmp_path / "base"))
    assert default_pushed(found) is ExportKind.MERGED, "its base is not on the Hub"
    assert "GPT2LMHeadModel" in refusals(found)[ExportKind.OLLAMA], "the architecture of its base"
    assert "llama.cpp was not found" in refusals(found)[ExportKind.GGUF]


@pytest.mark.parametrize(("is_packed_along", "caution"), [(True, "it comes along whole"), (False, "")])
def test_an_adapter_says_where_its_base_comes_along(tmp_path, *, is_packed_along, caution):
    found = source(tmp_path / "writer", Task.CAUSAL_LM, adapter="some/base")
    if is_packed_along:
        (found.folder / "base").mkdir()
    [adapter] = [offer for offer in offered.offers(found) if offer.kind is ExportKind.ADAPTER]
    assert "MB" not in offered.EXPORTS[ExportKind.ADAPTER][1]
    assert caution in adapter.caution
    assert bool(adapter.caution) is is_packed_along


def test_a_missing_package_is_named_in_the_tested_version(run, monkeypatch):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras["onnx"]) <= set(extras["test"])
    monkeypatch.setattr(offered, "ONNX_PACKAGES", ("onnx", "not_to_be_had"))
    refusal = refusals(find_source(run))[ExportKind.ONNX]
    assert "not_to_be_had" in refusal
    assert all(f'"{version}"' in refusal for version in extras["onnx"])


def test_an_export_takes_its_place_and_no_other(run, out):
    out.mkdir(parents=True)  # an empty folder will do
    gone, here = out.parent / ".mine.999999999.exporting", out.parent / f".mine.{os.getppid()}.exporting"
    for folder in (gone, here):
        folder.mkdir()
    progress = []
    report = exporting(run, out).run(progress.append)
    assert report.path == str(out)
    assert (out / "README.md").read_text() == "# Model"
    assert {path.name for path in out.parent.iterdir()} == {"mine", here.name}, "that process still runs"
    assert progress[0].what == "Copying the model"
    for target in (out, ""):
        with pytest.raises(OptionsError):
            exporting(run, target).run()


def test_a_refused_or_cancelled_export_leaves_nothing(run, out):
    with pytest.raises(UserError, match="answers differ from the trained model's"):
        exporting(run, out, "refuse").run()
    assert not list(out.parent.iterdir())
    cancelled = exporting(run, out, "hang")
    ended = []

    def work() -> None:
        try:
            cancelled.run(lambda _: cancelled.kill())
        except JobCancelled:
            ended.append(list(out.parent.iterdir()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=30)
    assert ended == [[]]
    with pytest.raises(JobCancelled):
        cancelled.run()
    with pytest.raises(UserError, match="can't be moved"):
        exporting(run, out, "taken").run()
    assert [path.name for path in out.iterdir()] == [path.name for path in out.parent.iterdir()] == ["mine"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes in folders")
def test_a_cancelled_export_does_not_wait_for_the_converter(tmp_path, monkeypatch):
    found = source(tmp_path / "chat", Task.CHAT, "LlamaForCausalLM")
    pipe, converter = tmp_path / "begun", tmp_path / "convert_hf_to_gguf.py"
    os.mkfifo(pipe)
    converter.write_text(f"import signal\nwith open({str(pipe)!r}, 'w'): pass\nsignal.pause()\n")
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    export = exporting(found.run, tmp_path / "out", kind=ExportKind.GGUF)
    ended = []

    def work() -> None:
        try:
            export.run()
        except JobCancelled:
            ended.append(not (tmp_path / "out").exists())

    thread = threading.Thread(target=work)
    thread.start()
    pipe.read_bytes()  # until the converter has opened and closed it
    export.kill()
    thread.join(timeout=30)
    assert ended == [True]


def test_what_can_be_known_before_is_refused_before(run, out, monkeypatch):
    for fields, message in (
        ({"kind": ExportKind.ADAPTER}, "can't be exported as"),
        ({"kind": ExportKind.OLLAMA}, "can't be exported as"),
        ({"checkpoint": "checkpoint-7"}, "no complete checkpoint checkpoint-7"),
    ):
        with pytest.raises(UserError, match=message):
            exporting(run, out, **fields).run()
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10, 9, 1 << 20))
    with pytest.raises(UserError, match="Not enough space") as refused:
        exporting(run, out).run()
    assert "1.00 MB are free" in refused.value.detail
    shutil.rmtree(run.model)
    with pytest.raises(UserError, match="no model to export"):
        exporting(run, out).run()
    assert not out.parent.exists()


@pytest.mark.parametrize(
    ("computer", "package", "refused"),
    [
        ("darwin arm64", "mlx_lm", False),
        ("linux x86_64 1", "mlx_lm", False),
        ("linux x86_64", "mlx_lm", True),
        ("linux aarch64", "mlx_lm", True),
        ("darwin x86_64", "mlx_lm", True),
        ("darwin arm64", None, True),
    ],
)
def test_exports_for_mlx_are_offered_where_mlx_is(tmp_path, monkeypatch, computer, package, refused):
    system, machine, *variable = computer.split()
    monkeypatch.setattr(offered.sys, "platform", system)
    monkeypatch.setattr(offered.platform, "machine", lambda: machine)
    monkeypatch.setattr(offered, "find_spec", lambda name: package if name == "mlx_lm" else None)
    monkeypatch.setenv("HONE_MLX_CPU", "".join(variable))
    found = source(tmp_path / "run", Task.CHAT, adapter="some/base")
    offer = next(each for each in offers(found) if each.kind is ExportKind.MLX)
    assert offer.suits
    assert ("Only on a Mac with Apple silicon" in offer.refusal) is refused
    assert bool(refusals(found)[ExportKind.MLX_ADAPTER]) is refused


def test_each_program_has_its_own_quantized_formats(tmp_path, monkeypatch):
    monkeypatch.setattr(offered, "_has_mlx", lambda: True)
    found = {each.kind: each for each in offers(source(tmp_path / "run", Task.CHAT, "LlamaForCausalLM"))}
    kinds = {
        kind: [one.numbers for one in offer.formats if one.numbers.is_quantized]
        for kind, offer in found.items()
    }
    assert kinds[ExportKind.MLX] == ["affine8", "affine4"]
    assert kinds[ExportKind.FOLDER] == ["q8_0", "q4_0", "q4_k_m"], "refused, with Ollama's way"
    assert not numbers_refusal(ExportKind.MLX, NumberFormat.AFFINE4)
    assert "format of MLX" in numbers_refusal(ExportKind.GGUF, NumberFormat.AFFINE4)
    assert "format of llama.cpp" in numbers_refusal(ExportKind.MLX, NumberFormat.Q8_0)


@pytest.mark.parametrize(
    ("kind", "numbers", "bytes_a_weight"),
    [
        (ExportKind.FOLDER, NumberFormat.AUTO, 2),
        (ExportKind.FOLDER, NumberFormat.FP32, 4),
        (ExportKind.GGUF, NumberFormat.FP32, 8),
        (ExportKind.GGUF, NumberFormat.Q4_0, 4),
        (ExportKind.MLX, NumberFormat.AUTO, 4),
        (ExportKind.MLX, NumberFormat.AFFINE4, 2 + 4.5 / 8),
        (ExportKind.ONNX, NumberFormat.AUTO, 4),
    ],
)
def test_bytes_needed(run, kind, numbers, bytes_a_weight):
    header = json.dumps({"w": {"dtype": "BF16", "shape": [100_000]}}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(200_000)
    (run.model / "model.safetensors").write_bytes(content)
    needed = bytes_of(find_source(run), kind, numbers) - SMALL_FILES
    assert needed == pytest.approx(100_000 * bytes_a_weight, rel=0.01)


def test_the_size_of_a_quantized_file_is_told_before(tmp_path, monkeypatch):
    (tmp_path / "base").mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "vocab_size": 100, "hidden_size": 64}
    (tmp_path / "base" / "config.json").write_text(json.dumps(config))
    header = json.dumps({"w": {"dtype": "F32", "shape": [106_400]}}).encode()
    (tmp_path / "base" / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    found = source(tmp_path / "writer", Task.CAUSAL_LM, adapter=str(tmp_path / "base"))
    monkeypatch.setenv("LLAMA_CPP", str(ROOT / "tests" / "fakes" / "convert_hf_to_gguf.py"))
    offer = next(each for each in offers(found) if each.kind is ExportKind.GGUF)
    assert {one.numbers for one in offer.formats if one.refusal} == {"q4_k_m"}
    sizes = {one.numbers: one.size for one in offer.formats}
    assert (sizes["fp16"], sizes["q8_0"]) == (212_800, 106_400 * 34 // 32)
    assert sizes["q4_0"] == 100_000 * 18 // 32 + 6_400 * 34 // 32, "the output layer keeps 8 bits"
    with pytest.raises(UserError, match="can't be q8_0"):
        exporting(found.run, tmp_path / "out", kind=ExportKind.MERGED, numbers=NumberFormat.Q8_0).run()


def test_the_model_is_uploaded_to_the_hub_and_nothing_stays_here(run, tmp_path, monkeypatch):
    def to_hub(scenario="do", repo="me/mine"):
        return exporting(run, "", scenario, ExportKind.HUB, repo=repo, numbers=NumberFormat.BF16).run()

    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert to_hub().path == "https://huggingface.co/me/mine"
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    with pytest.raises(UserError, match="needs a token"):
        to_hub("no-token")
    with pytest.raises(OptionsError):
        to_hub(repo="mine")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="can't be exported"):
        to_hub()


@pytest.mark.parametrize(
    ("task", "first", "last"),
    [
        (
            Task.IMAGE_CLASSIFICATION,
            ["folder", "onnx"],
            ["adapter", "merged", "ollama", "gguf", "mlx", "mlx-adapter"],
        ),
        (Task.CHAT, ["folder", "ollama"], ["adapter", "merged", "mlx-adapter", "onnx", "coreml"]),
    ],
)
def test_what_suits_the_model_is_offered_before_what_does_not(tmp_path, task, first, last):
    architecture = "ViTForImageClassification" if task.reads_images else "LlamaForCausalLM"
    offered = offers(source(tmp_path / "run", task, architecture))
    kinds = [offer.kind.value for offer in offered]
    assert kinds[: len(first)] == first
    assert not any(offer.refusal for offer in offered[: len(first)])
    assert kinds[-len(last) :] == last
    assert {offer.kind.value for offer in offered if not offer.suits} == set(last)
    between = offered[len(first) : -len(last)]
    assert between, "the Hub and what this computer lacks"
    assert all(offer.refusal and offer.suits for offer in between)


@pytest.fixture
def on_bits(tmp_path):
    """A run whose base model has 100,000 weights of 4 bits, with a scale and a bias for 64."""
    base = tmp_path / "base"
    base.mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "quantization": {"group_size": 64, "bits": 4}}
    (base / "config.json").write_text(json.dumps(config))
    (base / "model.safetensors").write_bytes(bytes(56_250))
    return source(tmp_path / "run", Task.CHAT, adapter=str(base))


def test_what_was_trained_on_weights_of_mlx_is_exported_only_where_mlx_is(on_bits, monkeypatch):
    monkeypatch.setattr(offered, "_has_mlx", lambda: False)
    for offer in offers(on_bits):
        assert not offer.suits or "only MLX reads that" in offer.refusal
    monkeypatch.setattr(offered, "_has_mlx", lambda: True)
    found = {offer.kind: offer for offer in offers(on_bits)}
    assert not any("only MLX reads" in offer.refusal for offer in found.values())
    assert "it comes along with plain weights" in found[ExportKind.ADAPTER].caution
    assert "Its base model has 4-bit weights" in found[ExportKind.MERGED].caution
    assert not found[ExportKind.MLX_ADAPTER].caution


@pytest.mark.parametrize(
    ("kind", "numbers", "bytes_a_weight"),
    [
        (ExportKind.MERGED, NumberFormat.AUTO, 4 + 2),
        (ExportKind.ADAPTER, NumberFormat.AUTO, 4 + 2),
        (ExportKind.MLX, NumberFormat.AFFINE4, 4 + 2 + 4.5 / 8),
        (ExportKind.GGUF, NumberFormat.AUTO, 4 + 2 + 2),
        (ExportKind.MLX_ADAPTER, NumberFormat.AUTO, 4),
    ],
)
def test_the_plain_weights_of_such_a_base_are_counted(kind, numbers, bytes_a_weight, on_bits):
    needed = bytes_of(on_bits, kind, numbers) - SMALL_FILES
    assert needed == pytest.approx(100_000 * bytes_a_weight, rel=0.01)


def test_the_hub_gets_what_mlx_lm_reads_with_such_a_base(on_bits, monkeypatch):
    monkeypatch.setattr(offered, "is_on_hub", lambda _base: True)
    assert default_pushed(on_bits) is ExportKind.MLX_ADAPTER
    assert default_pushed(replace(on_bits, packing=None)) is ExportKind.ADAPTER
