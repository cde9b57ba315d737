import math
from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.models.check import check_model
from core.engine.tasks.metrics import HeldOut, perplexity_metrics
from core.options import RunOptions
from core.options.choices import Method, Optimizer, Precision, Quantization, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.runs.events import Evaluated
from tests.fakes.models import save_tiny_gpt2, save_tiny_llama, write_text
from tests.fakes.training import TinyRun
from tests.fakes.training import train as train_tiny

ONE_THREAD = DeviceOptions(name="cpu", precision=Precision.FP32, threads=1)
"""Two would wait for each other longer than so small a model computes."""


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return save_tiny_llama(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("texts") / "text.txt")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def write(folder: Path, source: Path | str, text: Path | str, **sections: Any) -> TinyRun:
    """A run of two steps, unless more are asked for."""
    model = sections.pop("model", {})
    data = {"train": str(text), "max_length": 16, **sections.pop("data", {})}
    asked = {
        "training": TrainingOptions(max_steps=2, learning_rate=1e-2),
        "output": OutputOptions(predictions=0, keep_checkpoints=0),
        "device": ONE_THREAD,
        **sections,
    }
    return train_tiny(
        folder,
        task=Task.CAUSAL_LM,
        model=ModelOptions(source=str(source), **model),
        data=DataOptions(**data),
        **asked,
    )


def evaluations(run: TinyRun) -> list[Evaluated]:
    return [event for event in run.events if isinstance(event, Evaluated)]


def failure(run: TinyRun) -> str:
    assert run.status == 1
    errors = [message for message in run.messages.values() if message.level == "error"]
    return f"{errors[-1].title}. {errors[-1].detail}"


def test_a_plain_script_goes_on_writing_with_what_was_trained(llama, text, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run = write(tmp_path / "run", llama, text)
    assert run.status == 0
    model = AutoModelForCausalLM.from_pretrained(run.run.model)
    tokenizer = AutoTokenizer.from_pretrained(run.run.model)
    found = model.generate(**tokenizer("The river", return_tensors="pt"), max_new_tokens=4)
    assert tokenizer.decode(found[0]).startswith("The river")
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr(), "they are one table"
    assert torch.equal(model.lm_head.weight, run.trainer.model.lm_head.weight)


def test_a_table_of_its_own_for_the_last_layer_stays_so(text, tmp_path):
    from transformers import AutoModelForCausalLM

    run = write(tmp_path / "run", save_tiny_llama(tmp_path / "untied", tied=False), text)
    model = AutoModelForCausalLM.from_pretrained(run.run.model)
    assert not torch.equal(model.lm_head.weight, model.model.embed_tokens.weight)
    assert torch.equal(model.lm_head.weight, run.trainer.model.lm_head.weight)


def test_the_held_out_end_is_measured_token_by_token(llama, text, tmp_path):
    """With batches that don't divide the rows, and a rate that moves nothing, against a loop written out."""
    from transformers import AutoModelForCausalLM

    run = write(
        tmp_path / "run",
        llama,
        text,
        data={"eval_fraction": 0.4},
        memory=MemoryOptions(batch_size=7),
        training=TrainingOptions(max_steps=1, learning_rate=1e-12),
    )
    told = evaluations(run)[-1].metrics
    rows = torch.tensor([row["input_ids"].tolist() for row in run.trainer.eval_dataset])
    assert len(rows) % 7 != 0
    model = AutoModelForCausalLM.from_pretrained(llama).eval()
    with torch.no_grad():
        loss = model(input_ids=rows, labels=rows).loss.item()
    assert told["eval_loss"] == pytest.approx(loss, rel=1e-5)
    assert told["eval_perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
    content = text.read_text()
    held_out = content[content.index("\n", round(len(content) * 0.6)) + 1 :]
    tokenizer = run.trainer.processing_class
    tokens = len(tokenizer(held_out)["input_ids"]) + 1
    nats = loss * tokens / len(held_out)
    assert told["eval_nats_per_character"] == pytest.approx(nats, rel=1e-5)
    assert told["eval_bits_per_character"] == pytest.approx(nats / math.log(2), rel=1e-5)


def test_an_evaluation_gathers_no_logits(llama, text, tmp_path):
    run = write(tmp_path / "run", llama, text)
    gathered = []
    step = run.trainer.prediction_step
    run.trainer.prediction_step = lambda *args, **kwargs: (
        gathered.append(step(*args, **kwargs)) or gathered[-1]
    )
    run.trainer.evaluate()
    assert gathered
    assert all(logits is None and labels is None for _, logits, labels in gathered)


@pytest.mark.parametrize("kind", [save_tiny_llama, save_tiny_gpt2])
def test_four_accumulated_batches_are_one_large_one(kind, text, tmp_path):
    runs = []
    for size, accumulated in ((8, 1), (2, 4)):
        model = kind(tmp_path / f"model-{size}")
        runs.append(
            write(
                tmp_path / f"run-{size}",
                model,
                text,
                memory=MemoryOptions(batch_size=size, gradient_accumulation_steps=accumulated),
                training=TrainingOptions(
                    max_steps=2, learning_rate=0.1, optimizer=Optimizer.SGD, momentum=0.0
                ),
            )
        )
    large, accumulated = runs
    assert [step.tokens for step in accumulated.steps] == [step.tokens for step in large.steps] == [128, 128]
    for one, other in zip(large.steps, accumulated.steps, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)
    expected = large.trainer.model.state_dict()
    for name, weight in accumulated.trainer.model.state_dict().items():
        torch.testing.assert_close(weight, expected[name], rtol=1e-4, atol=1e-6)


def test_it_starts_from_nothing_and_learns(text, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run = write(
        tmp_path / "run",
        "scratch:llama-tiny",
        text,
        model={"vocabulary": 300},
        training=TrainingOptions(max_steps=20, learning_rate=1e-2),
    )
    assert run.status == 0
    assert run.steps[-1].loss < run.steps[0].loss - 1
    assert "300 tokens" in run.messages["vocabulary"].title
    tokenizer = AutoTokenizer.from_pretrained(run.run.model)
    model = AutoModelForCausalLM.from_pretrained(run.run.model)
    assert model.config.vocab_size == len(tokenizer) == 300
    assert (model.config.eos_token_id, model.config.pad_token_id) == (
        tokenizer.eos_token_id,
        tokenizer.pad_token_id,
    )


def test_the_tokenizer_never_sees_what_is_held_out(tmp_path):
    content = "plain words here\n" * 40 + "xylophone " * 40
    (tmp_path / "text.txt").write_text(content)
    run = write(tmp_path / "run", "scratch:llama-tiny", tmp_path / "text.txt", data={"eval_fraction": 0.35})
    words = run.trainer.processing_class.get_vocab()
    assert "words" in {word.strip("Ġ") for word in words}
    assert not any("xyl" in word for word in words)


def test_a_small_vocabulary_is_told(text, tmp_path):
    run = write(tmp_path / "run", "scratch:llama-tiny", text, model={"vocabulary": 5000})
    assert run.status == 0
    assert run.messages["vocabulary"].detail


def test_lora_learns_beside_everything_but_the_last_layer(llama, text, tmp_path):
    from transformers import AutoModelForCausalLM

    run = write(tmp_path / "run", llama, text, model={"method": Method.LORA, "lora_rank": 4})
    assert run.status == 0
    moving = [name for name, weight in run.trainer.model.named_parameters() if weight.requires_grad]
    assert moving
    assert all("lora_" in name for name in moving)
    assert not any("lm_head" in name or "embed" in name for name in moving)
    report = check_model(
        RunOptions(
            task=Task.CAUSAL_LM, model=ModelOptions(source=str(llama), method=Method.LORA, lora_rank=4)
        )
    )
    assert run.what_ran.trainable_parameters == report.trainable_parameters
    assert run.what_ran.adapter == "LoRA, rank 4 on 14 layers"
    loaded = AutoModelForCausalLM.from_pretrained(run.run.model).eval()
    rows = torch.tensor([run.trainer.train_dataset[0]["input_ids"].tolist()])
    with torch.no_grad():
        expected = run.trainer.model.eval()(input_ids=rows).logits
        torch.testing.assert_close(loaded(input_ids=rows).logits, expected)


@pytest.mark.parametrize("packed", list(Quantization))
def test_qlora_packs_all_but_the_last_layer(llama, text, tmp_path, packed):
    pytest.importorskip("bitsandbytes")
    run = write(tmp_path / "run", llama, text, model={"method": Method.QLORA, "quantization": packed})
    assert run.status == 0
    assert run.what_ran.adapter.startswith("QLoRA")
    head = run.trainer.model.get_base_model().lm_head.weight
    assert head.dtype == torch.float32
    assert not head.requires_grad


def test_random_tokens_are_trained_on_for_timing(llama, tmp_path):
    run = write(tmp_path / "run", llama, "synthetic:20x32")
    assert (run.status, run.steps[0].tokens, evaluations(run)) == (0, 8 * 32, [])


@pytest.mark.parametrize(("length", "tokens"), [(8, 8), (1000, 64)])
def test_rows_are_as_long_as_the_model_sees_and_the_person_wishes(llama, text, tmp_path, length, tokens):
    run = write(tmp_path / "run", llama, text, data={"max_length": length})
    assert run.status == 0
    found = run.trainer.train_dataset
    assert len(found[0]["input_ids"]) == tokens
    assert "length-limit" not in run.messages, "nothing is lost: what doesn't fit a row begins the next"
    assert ("maximum length" in run.messages["blocks"].detail) is (length > 64)
    assert run.what_ran.padded_to == ""


def test_so_many_rows_are_used_as_are_asked_for(llama, text, tmp_path):
    run = write(
        tmp_path / "run",
        llama,
        text,
        data={"max_train_samples": 3, "max_eval_samples": 2, "eval_fraction": 0.4},
    )
    assert (len(run.trainer.train_dataset), len(run.trainer.eval_dataset)) == (3, 2)


@pytest.mark.parametrize(
    ("content", "message"), [("", "is empty"), ("a", "too short to train on"), ("\0\0\0", "zero bytes")]
)
def test_a_text_nothing_can_be_learned_from_is_told(llama, tmp_path, content, message):
    from tests.fakes.models import tiny_tokenizer

    (tmp_path / "text.txt").write_text(content)
    model = save_tiny_llama(tmp_path / "model")
    tokenizer = tiny_tokenizer()
    tokenizer.eos_token = None
    tokenizer.pad_token = "!"
    tokenizer.save_pretrained(model)
    assert message in failure(write(tmp_path / "run", model, tmp_path / "text.txt"))
    assert not (tmp_path / "run" / "model").exists()


def test_an_encoder_is_not_asked_to_write(tmp_path, text):
    from tests.fakes.models import save_tiny_bert

    bert = save_tiny_bert(tmp_path / "bert")
    assert "can't be trained for" in failure(write(tmp_path / "run", bert, text))


def test_a_model_that_lost_its_last_layer_is_refused(text, tmp_path):
    from transformers import AutoModel

    folder = save_tiny_llama(tmp_path / "llama", tied=False)
    AutoModel.from_pretrained(folder).save_pretrained(folder)
    config = (folder / "config.json").read_text().replace('"LlamaModel"', '"LlamaForCausalLM"')
    (folder / "config.json").write_text(config)
    assert "no language modeling head" in failure(write(tmp_path / "run", folder, text))


def test_what_a_loss_says():
    assert perplexity_metrics(0.0) == {"perplexity": 1.0}
    assert perplexity_metrics(1e4)["perplexity"] == math.inf
    told = perplexity_metrics(2.0, HeldOut(tokens=300, characters=900))
    assert told["nats_per_character"] == pytest.approx(2 / 3)
    assert told["bits_per_character"] == pytest.approx(2 / 3 / math.log(2))
    assert math.isnan(perplexity_metrics(math.nan)["perplexity"])
