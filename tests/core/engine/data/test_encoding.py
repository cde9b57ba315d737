"""From words to tokens with a label at the first token of each, batches of them, and what is lost on the way."""

from pathlib import Path
from typing import Any

import pytest
import torch

from core.base.errors import ModelError
from core.engine.data.batches import PadTexts
from core.engine.data.labelled_texts import TextData, encode_texts, encode_words
from core.engine.data.token_cache import NO_LABEL
from core.engine.environment import prepare_torchvision
from core.engine.models.refusals import check_tells_words
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.runs.event_log import EventReader
from core.runs.events import MessageRaised
from core.runs.folder import RunFolder
from tests.fakes.tiny_tokenizer import tiny_tokenizer

prepare_torchvision()

from transformers import BertTokenizer  # noqa: E402 - torchvision must be prepared first

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "##s", "a", "game")


@pytest.fixture
def tokenizer() -> Any:
    return BertTokenizer(vocab={piece: index for index, piece in enumerate(PIECES)})


def test_a_word_has_its_label_at_its_first_token(tokenizer: Any) -> None:
    found = encode_words([["playing", "a", "games"], ["a"]], [[2, 0, 1], [3]], tokenizer, 16)
    tokens = tokenizer.convert_ids_to_tokens(found["input_ids"][0])
    assert tokens == ["[CLS]", "play", "##ing", "a", "game", "##s", "[SEP]"]
    none = NO_LABEL
    assert found["labels"] == [[none, 2, none, 0, 1, none, none], [none, 3, none]]
    assert found["attention_mask"] == [[1] * 7, [1] * 3]


def test_what_lies_beyond_the_limit_has_no_label(tokenizer: Any) -> None:
    found = encode_words([["playing"] * 4], [[1] * 4], tokenizer, 8)
    assert len(found["input_ids"][0]) == 8
    assert found["labels"][0].count(1) == 3


def test_a_word_without_tokens_moves_no_label_to_its_neighbour(tokenizer: Any) -> None:
    found = encode_words([["a", "", "\u200b", "game"]], [[1, 2, 3, 4]], tokenizer, 16)
    assert [label for label in found["labels"][0] if label != NO_LABEL] == [1, 4]


def test_texts_of_no_tokens_are_left_out(tokenizer: Any) -> None:
    found = encode_words([["", "\u200b"], ["a"]], [[1, 2], [3]], tokenizer, 16)
    assert found["labels"] == [[NO_LABEL, 3, NO_LABEL]]
    assert [len(values) for values in found.values()] == [1] * len(found)


def test_byte_level_tokens_are_those_of_the_running_text() -> None:
    tokenizer = tiny_tokenizer()
    words = ["Hello", "there,", "how", "are", "you?"]
    found = encode_words([words], [[0, 1, 2, 3, 4]], tokenizer, 64)
    assert found["input_ids"][0] == tokenizer(" ".join(words))["input_ids"]
    assert [label for label in found["labels"][0] if label != NO_LABEL] == [0, 1, 2, 3, 4]


def test_a_tokenizer_that_can_not_tell_words_is_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(ModelError, match="can't tell words"):
        check_tells_words("some/model", Slow())


@pytest.mark.parametrize("on_left", [False, True])
def test_labels_of_tokens_are_padded_with_none(on_left: bool) -> None:
    samples = [
        {"input_ids": [7, 8, 9], "attention_mask": [1, 1, 1], "labels": [NO_LABEL, 1, 0]},
        {"input_ids": [5], "attention_mask": [1], "labels": [2]},
    ]
    batch = PadTexts(pad_id=3, on_left=on_left)(samples)
    none = NO_LABEL
    short = [none, none, 2] if on_left else [2, none, none]
    assert batch["labels"].tolist() == [[none, 1, 0], short]
    assert batch["input_ids"][1].tolist() == ([3, 3, 5] if on_left else [5, 3, 3])
    assert PadTexts(pad_id=3, length=5)(samples)["labels"].shape == (2, 5)


def test_a_number_a_text_is_a_float_a_row() -> None:
    samples = [{"input_ids": [1], "attention_mask": [1], "labels": score} for score in (0.5, 3.0)]
    labels = PadTexts(pad_id=0)(samples)["labels"]
    assert (labels.dtype, labels.tolist()) == (torch.float32, [0.5, 3.0])


def test_lost_words_and_cut_texts_are_told(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasets import Dataset

    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    rows = {"tokens": [["playing"] * 4, ["a", "game"]], "label": [[1] * 4, [0, 1]]}
    data = TextData(Dataset.from_dict(rows), None, ("x", "y"), ("tokens",), "tags")
    (tmp_path / "run").mkdir()
    run = RunFolder(tmp_path / "run")
    options = RunOptions(task=Task.TOKEN_CLASSIFICATION, data=DataOptions(max_length=8))
    for _ in ("tokenized", "from the cache"):
        encoded = encode_texts(options, data, tokenizer, 512, Reporter(run))
        assert [len(ids) for ids in encoded.train["input_ids"]] == [8, 4]
    told = [
        event.title for event in EventReader(run.events_file).read_all() if isinstance(event, MessageRaised)
    ]
    assert told[:2] == ["1 of 2 texts reach 8 tokens", "1 of 6 words is not learned from"]


@pytest.mark.parametrize(("longest", "warned"), [(8, True), (32, False)])
def test_a_model_that_sees_less_than_was_asked_for_is_told_where_it_matters(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int, warned: bool
) -> None:
    from datasets import Dataset

    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    rows = {"text": ["playing " * 5, "a game"], "label": [0, 1]}
    data = TextData(Dataset.from_dict(rows), None, ("x", "y"), ("text",), "label")
    (tmp_path / "run").mkdir()
    run = RunFolder(tmp_path / "run")
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, data=DataOptions(max_length=512))
    encode_texts(options, data, tokenizer, longest, Reporter(run))
    told = [event for event in EventReader(run.events_file).read_all() if isinstance(event, MessageRaised)]
    assert [event.id for event in told] == ["length-limit"] * warned
    assert all("1 of 2 texts reach 8 tokens" in event.title and "512" in event.detail for event in told)
