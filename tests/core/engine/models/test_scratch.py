import pytest
import torch

from core.engine.environment import prepare_torchvision
from core.engine.models.check import check_model
from core.engine.models.scratch import sample, scratch_config, train_tokenizer
from core.engine.models.text import longest_text, random_model, tokenizer_for
from core.options import RunOptions
from core.options.choices import Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, ModelOptions, OutputOptions
from core.options.sources import SCRATCH_MODELS
from tests.fakes.training import reviews, train, write_reviews

prepare_torchvision()
TEXTS = ("To be, or not to be: that is the question.\n", "Whether 'tis nobler in the mind to suffer\n") * 3


def asked(name: str = "llama-tiny", vocabulary: int = 320, **data: object) -> RunOptions:
    task = Task.CAUSAL_LM if SCRATCH_MODELS[name].writes else Task.TEXT_CLASSIFICATION
    model = ModelOptions(source=f"scratch:{name}", vocabulary=vocabulary)
    return RunOptions(task=task, model=model, data=DataOptions(**data))


@pytest.mark.parametrize("name", SCRATCH_MODELS)
def test_it_has_as_many_weights_as_is_said(name):
    with torch.device("meta"):
        model = random_model(scratch_config(asked(name, 1024)), asked(name).task)
    body = model if SCRATCH_MODELS[name].writes else model.base_model
    assert sum(weight.numel() for weight in body.parameters()) == SCRATCH_MODELS[name].parameters(1024)


@pytest.mark.parametrize(
    "text", ["To be.\n\n  To be!", "żółw — 亀 🐢 \x07", "<|im_start|>user\nho<|im_end|>"]
)
def test_any_text_comes_back_from_its_tokens(text):
    tokenizer = train_tokenizer(asked(), TEXTS)
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_the_same_text_gives_the_same_tokens(tmp_path):
    first, second = (train_tokenizer(asked(), TEXTS) for _ in range(2))
    assert first.backend_tokenizer.to_str() == second.backend_tokenizer.to_str()
    assert first.backend_tokenizer.to_str() != train_tokenizer(asked(), TEXTS[:1]).backend_tokenizer.to_str()


def test_it_has_the_tokens_that_a_chat_needs_and_the_config_knows_them():
    tokenizer, config = train_tokenizer(asked(), TEXTS), scratch_config(asked())
    assert tokenizer.convert_ids_to_tokens(config.eos_token_id) == "<|endoftext|>" == tokenizer.eos_token
    assert tokenizer.convert_ids_to_tokens(config.pad_token_id) == tokenizer.pad_token != tokenizer.eos_token
    assert len(tokenizer("<|im_start|><|im_end|>")["input_ids"]) == 2
    assert len(tokenizer) <= config.vocab_size == 320


def test_a_tokenizer_is_saved_and_read_as_any_other(tmp_path):
    from transformers import AutoTokenizer

    made = train_tokenizer(asked(max_length=512), TEXTS)
    made.save_pretrained(tmp_path)
    read = AutoTokenizer.from_pretrained(tmp_path)
    assert read("question<|im_end|>")["input_ids"] == made("question<|im_end|>")["input_ids"]
    assert (read.eos_token, read.pad_token, read.model_max_length) == ("<|endoftext|>", "<|pad|>", 512)


def test_one_that_reads_marks_the_two_texts_of_a_pair():
    tokenizer, config = train_tokenizer(asked("bert-tiny"), TEXTS), scratch_config(asked("bert-tiny"))
    pair = tokenizer("to be", "or not")
    tokens = tokenizer.convert_ids_to_tokens(pair["input_ids"])
    assert tokens[0] == "[CLS]"
    assert tokens[-1] == "[SEP]"
    assert pair["token_type_ids"][0] == 0
    assert pair["token_type_ids"][-1] == 1
    assert config.pad_token_id == tokenizer.pad_token_id


def test_a_text_that_holds_fewer_tokens_gives_fewer():
    assert len(train_tokenizer(asked(vocabulary=5000), TEXTS)) < 400
    assert len(train_tokenizer(asked(vocabulary=5000), ())) == 256 + 4


def test_it_sees_as_much_as_is_asked():
    for asked_for, seen in ((8, 256), (700, 700)):
        options = asked(max_length=asked_for)
        tokenizer = tokenizer_for(options, lambda: TEXTS)
        assert longest_text(scratch_config(options), tokenizer) == seen
        assert check_model(options).max_length == seen


def test_it_is_looked_at_before_there_is_a_tokenizer():
    report = check_model(asked("llama-small", 1024))
    assert report.architecture == "LlamaForCausalLM"
    assert report.trainable_parameters == SCRATCH_MODELS["llama-small"].parameters(1024)
    assert report.shape is not None
    assert report.shape.vocabulary == 1024
    assert report.shape.head == 0
    assert not report.problems


def test_a_long_text_is_sampled_all_over():
    texts = [f"{number:04}" for number in range(1000)]
    some = list(sample(texts, 400))
    assert 90 <= len(some) <= 110
    assert int(some[0]) < 20
    assert int(some[-1]) > 980
    assert list(sample(texts, 4000)) == texts
    assert list(sample((), 10)) == []


@pytest.mark.parametrize("name", ["bert-tiny", "llama-tiny"])
def test_a_classifier_starts_from_nothing(name, tmp_path, monkeypatch):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    run = train(
        tmp_path / "run",
        model=ModelOptions(source=f"scratch:{name}", vocabulary=300),
        data=reviews(write_reviews(tmp_path / "reviews.csv")),
        output=OutputOptions(predictions=0, keep_checkpoints=0),
        device=DeviceOptions(name="cpu", precision=Precision.FP32, threads=1),
    )
    assert run.status == 0
    tokenizer = AutoTokenizer.from_pretrained(run.run.model)
    assert len(tokenizer) > 256 + 4, "it has learned words"
    assert AutoModelForSequenceClassification.from_pretrained(run.run.model).config.num_labels == 2
