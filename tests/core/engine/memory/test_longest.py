"""The longest row is found without tokenizing all of the data, and is as long as the run finds it."""

from pathlib import Path

import pytest

from core.base.errors import OptionsError
from core.engine.data.tables import lengths_of
from core.engine.memory.forecast import CANDIDATES, longest_row
from core.engine.models import text
from core.options import RunOptions
from core.options.choices import Padding, Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from tests.fakes.answered_texts import write_data
from tests.fakes.tiny_bert import WORDS, save_tiny_bert
from tests.fakes.tiny_training import model, reviews, train, write_reviews


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("longest") / "bert")


def found(bert: Path, **data: object) -> object:
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source=str(bert)), data=DataOptions(**data)
    )
    config, tokenizer = text.load_config(options), text.load_tokenizer(str(bert))
    return longest_row(options, config, tokenizer)


def test_it_is_what_a_run_finds(bert, tmp_path):
    data = reviews(write_reviews(tmp_path / "reviews.csv", rows=48))
    trainer = train(tmp_path / "run", model=model(bert), data=data).trainer
    longest = found(bert, train=data.train, max_length=32)
    assert longest.tokens == max(lengths_of(trainer.train_dataset))
    assert longest.notes == ()
    assert longest.rows == 48


def test_one_long_text_is_found_among_thousands(bert, tmp_path):
    path = tmp_path / "many.csv"
    rows = [f"{WORDS[row % 10]},{row % 2}" for row in range(4 * CANDIDATES)]
    rows[1234] = f"{' '.join(WORDS[:7])},0"
    path.write_text("text,label\n" + "\n".join(rows))
    assert found(bert, train=str(path)).tokens == 9


def test_fixed_padding_makes_every_row_as_long_and_random_ones_never_shorter(bert, tmp_path):
    path = str(write_reviews(tmp_path / "reviews.csv"))
    plain = found(bert, train=path, max_length=40).tokens

    def padded(train: str, most: int) -> tuple[int, int]:
        longest = found(bert, train=train, max_length=most, padding=Padding.FIXED)
        return longest.tokens, longest.text

    assert padded(path, 40) == (40, plain)
    assert plain < 40
    assert padded("synthetic:10x16", 32) == (32, 16)
    assert padded("synthetic:10x48", 32) == (48, 48)
    longest = found(bert, train=path, max_length=500, padding=Padding.FIXED)
    assert longest.tokens == 64
    assert "truncated at 64 tokens" in longest.notes[0]


@pytest.mark.parametrize(("train", "why"), [("", "no data is chosen"), ("/nowhere.csv", "can't be read")])
def test_without_data_the_limit_counts(bert, train, why):
    longest = found(bert, train=train, max_length=24)
    assert (longest.tokens, longest.text) == (24, None)
    assert why in longest.notes[0]


def test_random_texts_have_the_length_asked_for_and_no_more_than_the_model_sees(bert):
    assert found(bert, train="synthetic:10x48").tokens == 48
    with pytest.raises(OptionsError) as refused:
        found(bert, train="synthetic:10x65")
    (problem,) = refused.value.problems
    assert problem.path == "data.train"
    assert problem.fixes[0].changes == {"data.train": "synthetic:10x64"}


@pytest.mark.parametrize("task", [Task.TEXT_REGRESSION, Task.TOKEN_CLASSIFICATION])
def test_texts_with_numbers_and_with_tags_are_measured_as_a_run_does(task, bert, tmp_path):
    data = DataOptions(train=write_data(tmp_path, task), max_length=32, eval_fraction=0.0)
    trainer = train(tmp_path / "run", task=task, model=model(bert), data=data).trainer
    options = RunOptions(task=task, model=model(bert), data=data)
    config, tokenizer = text.load_config(options), text.load_tokenizer(str(bert))
    longest = longest_row(options, config, tokenizer)
    assert (longest.tokens, longest.notes) == (max(lengths_of(trainer.train_dataset)), ())


def test_tags_that_fit_no_words_are_a_note(bert, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"tokens": ["a", "b"], "tags": ["O"]}\n')
    options = RunOptions(
        task=Task.TOKEN_CLASSIFICATION, model=model(bert), data=DataOptions(train=str(path), max_length=32)
    )
    config, tokenizer = text.load_config(options), text.load_tokenizer(str(bert))
    longest = longest_row(options, config, tokenizer)
    assert longest.tokens == 32
    assert "bad.jsonl" in longest.notes[0]
