"""Text generation: rows of running text, the metrics of what is held out, and models that go on writing."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from core.base.errors import DataError, ModelError
from core.engine.memory.model_check import check_model
from core.engine.reporter import Reporter
from core.engine.training.build import prepare
from core.options.choices import Method, Optimizer, Quantization, Task
from core.runs.events import Evaluated, RunPlanned
from tests.fakes.models import save_tiny_bert, save_tiny_gpt2, save_tiny_llama, tiny_tokenizer, write_text
from tests.fakes.training import ENGINES, TinyRun, options_of, train


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return save_tiny_llama(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("texts") / "text.txt")


def write(folder: Path, source: Path | str, text: Path | str, **changes: Any) -> TinyRun:
    """A run of two steps, unless more are chosen."""
    usual = {"max_length": 16, "max_steps": 2, "predictions": 0, "keep_checkpoints": 0}
    run = train(folder, task=Task.CAUSAL_LM, source=source, train=text, **{**usual, **changes})
    assert run.status == 0, run.messages
    return run


@pytest.mark.parametrize("tied", [True, False])
def test_a_plain_script_goes_on_writing_with_what_was_trained(text, tmp_path, tied):
    run = write(tmp_path / "run", save_tiny_llama(tmp_path / "llama", tied=tied), text)
    model = AutoModelForCausalLM.from_pretrained(run.run.model)
    tokenizer = AutoTokenizer.from_pretrained(run.run.model)
    found = model.generate(**tokenizer("The river", return_tensors="pt"), max_new_tokens=4)
    assert tokenizer.decode(found[0]).startswith("The river")
    assert torch.equal(model.lm_head.weight, run.trainer.model.lm_head.weight)
    assert torch.equal(model.lm_head.weight, model.model.embed_tokens.weight) is tied


@pytest.mark.parametrize("save", [save_tiny_llama, save_tiny_gpt2])
def test_the_held_out_end_is_measured_token_by_token_without_gathering_logits(save, text, tmp_path):
    """With batches that don't divide the rows, and a rate that moves nothing, against a loop written out."""
    source = save(tmp_path / "model")
    still = {"max_steps": 1, "learning_rate": 1e-12}
    run = write(tmp_path / "run", source, text, eval_fraction=0.4, batch_size=7, **still)
    rows = torch.tensor([row["input_ids"].tolist() for row in run.trainer.eval_dataset])
    assert len(rows) % 7 != 0
    with torch.no_grad():
        loss = AutoModelForCausalLM.from_pretrained(source).eval()(input_ids=rows, labels=rows).loss.item()
    content = text.read_text()
    held_out = content[content.index("\n", round(len(content) * 0.6)) + 1 :]
    tokens = len(run.trainer.processing_class(held_out)["input_ids"]) + 1
    nats = loss * tokens / len(held_out)
    metrics = [event for event in run.events if isinstance(event, Evaluated)][-1].metrics
    expected = {
        "eval_loss": loss,
        "eval_perplexity": math.exp(loss),
        "eval_nats_per_character": nats,
        "eval_bits_per_character": nats / math.log(2),
    }
    assert metrics == pytest.approx(expected, rel=1e-5)

    gathered, step = [], run.trainer.prediction_step
    run.trainer.prediction_step = lambda *args, **kwargs: (
        gathered.append(step(*args, **kwargs)) or gathered[-1]
    )
    run.trainer.evaluate()
    assert gathered
    assert all(logits is None and labels is None for _, logits, labels in gathered)


def test_four_accumulated_batches_are_one_large_one(llama, text, tmp_path):
    plain = {"learning_rate": 0.1, "optimizer": Optimizer.SGD, "momentum": 0.0}
    large = write(tmp_path / "large", llama, text, batch_size=8, **plain)
    small = {"batch_size": 2, "gradient_accumulation_steps": 4}
    accumulated = write(tmp_path / "accumulated", llama, text, **small, **plain)
    assert [step.tokens for step in accumulated.steps] == [step.tokens for step in large.steps] == [128, 128]
    for one, other in zip(large.steps, accumulated.steps, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)
    expected = large.trainer.model.state_dict()
    for name, weight in accumulated.trainer.model.state_dict().items():
        torch.testing.assert_close(weight, expected[name], rtol=1e-4, atol=1e-6)


def test_a_model_from_scratch_learns_with_a_tokenizer_of_its_own(text, tmp_path):
    run = write(tmp_path / "run", "scratch:llama-tiny", text, vocabulary=300, max_steps=20)
    assert run.steps[-1].loss < run.steps[0].loss - 1
    assert "300 tokens" in run.messages["vocabulary"].title
    assert run.messages["vocabulary"].detail == ""
    tokenizer = AutoTokenizer.from_pretrained(run.run.model)
    config = AutoModelForCausalLM.from_pretrained(run.run.model).config
    assert config.vocab_size == len(tokenizer) == 300
    assert (config.eos_token_id, config.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)


def test_the_tokenizer_is_trained_on_no_text_that_is_held_out(tmp_path):
    (tmp_path / "text.txt").write_text("plain words here\n" * 40 + "xylophone " * 40)
    source, file = "scratch:llama-tiny", tmp_path / "text.txt"
    run = write(tmp_path / "run", source, file, vocabulary=5000, eval_fraction=0.35)
    words = {word.strip("Ġ") for word in run.trainer.processing_class.get_vocab()}
    assert "words" in words
    assert not any("xyl" in word for word in words)
    assert "No more tokens" in run.messages["vocabulary"].detail


def test_lora_adapts_every_layer_but_the_last_and_is_loaded_back(llama, text, tmp_path):
    method = {"method": Method.LORA, "lora_rank": 4}
    run = write(tmp_path / "run", llama, text, **method)
    moving = [name for name, weight in run.trainer.model.named_parameters() if weight.requires_grad]
    assert moving
    assert all("lora_" in name and "lm_head" not in name and "embed" not in name for name in moving)
    report = check_model(options_of(Task.CAUSAL_LM, source=llama, **method))
    assert run.what_ran.trainable_parameters == report.trainable_parameters
    assert run.what_ran.adapter == "LoRA, rank 4 on 14 layers"
    loaded = AutoModelForCausalLM.from_pretrained(run.run.model).eval()
    rows = torch.tensor([run.trainer.train_dataset[0]["input_ids"].tolist()])
    with torch.no_grad():
        expected = run.trainer.model.eval()(input_ids=rows).logits
        torch.testing.assert_close(loaded(input_ids=rows).logits, expected)


@pytest.mark.parametrize("quantization", [one for one in Quantization if not one.is_affine])
def test_qlora_quantizes_all_but_the_last_layer(text, tmp_path, quantization):
    pytest.importorskip("bitsandbytes")
    llama = save_tiny_llama(tmp_path / "llama", hidden_size=64, intermediate_size=128)
    run = write(tmp_path / "run", llama, text, method=Method.QLORA, quantization=quantization)
    assert run.what_ran.adapter.startswith("QLoRA")
    head = run.trainer.model.get_base_model().lm_head.weight
    assert (head.dtype, head.requires_grad) == (torch.float32, False)


def test_random_tokens_are_trained_on_for_timing(llama, tmp_path):
    run = write(tmp_path / "run", llama, "synthetic:20x32")
    assert run.steps[0].tokens == 8 * 32
    assert not any(isinstance(event, Evaluated) for event in run.events)


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("length", [8, 1000])
def test_rows_are_as_long_as_chosen_and_as_the_model_sees(llama, text, tmp_path, length, backend):
    rows = {"max_train_samples": 3, "max_eval_samples": 2, "eval_fraction": 0.4}
    run = write(tmp_path / "run", llama, text, max_length=length, max_steps=1, backend=backend, **rows)
    plan = next(event for event in run.events if isinstance(event, RunPlanned))
    assert (plan.train_samples, plan.eval_samples) == (3, 2)
    assert run.steps[0].tokens == 3 * min(length, 64)
    assert "length-limit" not in run.messages, "nothing is lost: what doesn't fit a row begins the next"
    assert ("maximum length" in run.messages["blocks"].detail) is (length > 64)
    assert run.what_ran.padded_to == ""


@pytest.mark.parametrize("task", [Task.CAUSAL_LM, Task.CHAT, Task.PREFERENCE])
def test_an_encoder_is_refused(task, text, tmp_path):
    options = options_of(task, source=save_tiny_bert(tmp_path / "bert"), train=text)
    with pytest.raises(ModelError, match="can't be trained for"):
        prepare(options, Reporter(None))


def test_a_text_without_a_token_to_predict_is_refused(tmp_path):
    (tmp_path / "text.txt").write_text("a")
    source, tokenizer = save_tiny_llama(tmp_path / "llama"), tiny_tokenizer(pad_token="!")
    tokenizer.eos_token = None
    tokenizer.save_pretrained(source)
    with pytest.raises(DataError, match="too short to train on"):
        prepare(options_of(Task.CAUSAL_LM, source=source, train=tmp_path / "text.txt"), Reporter(None))


def test_a_model_that_lost_its_last_layer_is_refused(text, tmp_path):
    folder = save_tiny_llama(tmp_path / "llama", tied=False)
    AutoModel.from_pretrained(folder).save_pretrained(folder)
    config = (folder / "config.json").read_text().replace('"LlamaModel"', '"LlamaForCausalLM"')
    (folder / "config.json").write_text(config)
    with pytest.raises(ModelError, match="no language modeling head"):
        prepare(options_of(Task.CAUSAL_LM, source=folder, train=text, max_length=16), Reporter(None))
