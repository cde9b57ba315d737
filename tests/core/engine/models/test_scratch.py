"""Models from scratch: their sizes, and a tokenizer trained on the run's own texts."""

import pytest
import torch

from core.engine.environment import prepare_torchvision
from core.engine.inspect.draft import model_tokenizer
from core.engine.memory.model_check import check_model
from core.engine.models.text import (
    fitting_vocabulary,
    longest_text,
    random_model,
    sample,
    scratch_config,
    tokenizer_for,
    train_tokenizer,
)
from core.options import RunOptions
from core.options.choices import Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, ModelOptions, OutputOptions
from core.options.sources import SCRATCH_MODELS
from tests.fakes.training import model, reviews, train, write_reviews

prepare_torchvision()

from transformers import AutoModelForSequenceClassification, AutoTokenizer  # noqa: E402 - torchvision comes first

TEXTS = ("To be, or not to be: that is the question.\n", "Whether 'tis nobler in the mind to suffer\n") * 3


ENGLISH = ["The film was good, really, and so was the food."]
HANGUL = ["".join(chr(0xAC00 + 7 * place) for place in range(1600))]


@pytest.mark.parametrize(
    ("texts", "least", "usual"),
    [
        (ENGLISH, 300, 1024),
        (ENGLISH * 10_000, 300, 8192),
        (HANGUL * 10, 2700, 4096),
        (HANGUL * 2, 300, 1024),
        (["один и другой фильм"] * 100, 300, 1024),
        ([], 300, 1024),
    ],
)
def test_a_vocabulary_fits_the_script_and_the_size_of_the_data(texts, least, usual):
    assert fitting_vocabulary(texts) == (least, usual)


def options(name: str = "llama-tiny", vocabulary: int = 320, **data: object) -> RunOptions:
    task = Task.CAUSAL_LM if SCRATCH_MODELS[name].writes else Task.TEXT_CLASSIFICATION
    source = ModelOptions(source=f"scratch:{name}", vocabulary=vocabulary)
    return RunOptions(task=task, model=source, data=DataOptions(**data))


@pytest.mark.parametrize(
    ("texts", "vocabulary", "found"),
    [
        (HANGUL * 10, 2048, ["small-vocabulary"]),
        (HANGUL * 10, 4096, []),
        (HANGUL * 10, 16384, []),
        (ENGLISH, 512, []),
        (ENGLISH, 2048, []),
        (ENGLISH, 8192, ["large-vocabulary"]),
    ],
)
def test_a_vocabulary_is_only_warned_about_where_it_does_not_suit(texts, vocabulary, found):
    tokenizer = model_tokenizer(options(vocabulary=vocabulary), lambda: texts)
    assert [finding.code for finding in tokenizer.findings] == found
    for finding in tokenizer.findings:
        assert finding.fixes[0].changes == {"model.vocabulary": tokenizer.vocabulary}


@pytest.mark.parametrize("name", SCRATCH_MODELS)
def test_a_model_has_as_many_weights_as_is_stated_and_can_be_described_before_a_tokenizer_exists(name):
    asked = options(name, 1024)
    with torch.device("meta"):
        built = random_model(scratch_config(asked), asked.task)
    body = built if SCRATCH_MODELS[name].writes else built.base_model
    stated = SCRATCH_MODELS[name].parameters(1024)
    assert sum(weight.numel() for weight in body.parameters()) == stated
    report = check_model(asked)
    assert (report.problems, report.shape.vocabulary > 0) == ((), SCRATCH_MODELS[name].writes)


@pytest.mark.parametrize(
    "text", ["To be.\n\n  To be!", "żółw — 亀 🐢 \x07", "<|im_start|>user\nho<|im_end|>"]
)
def test_any_text_comes_back_from_its_tokens(text):
    tokenizer = train_tokenizer(options(), TEXTS)
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_the_same_text_gives_the_same_tokens():
    first, second, other = (
        train_tokenizer(options(), texts).backend_tokenizer.to_str() for texts in (TEXTS, TEXTS, TEXTS[:1])
    )
    assert first == second != other


def test_the_tokenizer_has_the_tokens_of_a_chat_and_is_saved_as_any_other(tmp_path):
    asked = options(max_length=512)
    made, config = train_tokenizer(asked, TEXTS), scratch_config(asked)
    assert len(made) <= config.vocab_size == 320
    assert made.convert_ids_to_tokens([config.eos_token_id, config.pad_token_id]) == [
        "<|endoftext|>",
        "<|pad|>",
    ]
    assert len(made("<|im_start|><|im_end|>")["input_ids"]) == 2
    made.save_pretrained(tmp_path)
    read = AutoTokenizer.from_pretrained(tmp_path)
    assert read("question<|im_end|>")["input_ids"] == made("question<|im_end|>")["input_ids"]
    assert (read.eos_token, read.pad_token, read.model_max_length) == ("<|endoftext|>", "<|pad|>", 512)


def test_an_encoder_marks_the_two_texts_of_a_pair():
    tokenizer, config = train_tokenizer(options("bert-tiny"), TEXTS), scratch_config(options("bert-tiny"))
    pair = tokenizer("to be", "or not")
    tokens = tokenizer.convert_ids_to_tokens(pair["input_ids"])
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
    assert (pair["token_type_ids"][0], pair["token_type_ids"][-1]) == (0, 1)
    assert config.pad_token_id == tokenizer.pad_token_id


@pytest.mark.parametrize(("max_length", "positions"), [(8, 256), (700, 700)])
def test_a_model_reads_the_chosen_length_and_at_least_256_tokens(max_length, positions):
    asked = options(max_length=max_length)
    tokenizer = tokenizer_for(asked, lambda: TEXTS)
    assert longest_text(scratch_config(asked), tokenizer) == positions
    assert check_model(asked).max_length is None, "it grows with the option"


def test_a_long_text_is_sampled_all_over():
    texts = [f"{number:04}" for number in range(1000)]
    some = list(sample(texts, 400))
    assert 90 <= len(some) <= 110
    assert int(some[0]) < 20
    assert int(some[-1]) > 980
    assert list(sample(texts, 4000)) == texts
    assert list(sample((), 10)) == []


@pytest.mark.parametrize("name", ["bert-tiny", "llama-tiny"])
def test_a_classifier_is_trained_from_scratch(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    run = train(
        tmp_path / "run",
        model=model(f"scratch:{name}", vocabulary=300),
        data=reviews(write_reviews(tmp_path / "reviews.csv")),
        output=OutputOptions(predictions=0, keep_checkpoints=0),
        device=DeviceOptions(name="cpu", precision=Precision.FP32, threads=1),
    )
    assert run.status == 0
    assert len(AutoTokenizer.from_pretrained(run.run.model)) > 256 + 4, "it has learned words"
    assert AutoModelForSequenceClassification.from_pretrained(run.run.model).config.num_labels == 2
