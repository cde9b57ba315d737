"""From texts and words to tokens, what is lost on the way, and tokens kept for the next run."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset

from core.base.errors import ModelError
from core.engine.data import NO_LABEL, labelled_texts
from core.engine.data.batches import PadTexts
from core.engine.data.labelled_texts import TextData, encode_texts, encode_words
from core.engine.data.tables import cached_tokens, lengths_of, tokenizer_print, tokens_key
from core.engine.environment import prepare_torchvision
from core.engine.models.refusals import check_word_ids
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.runs.event_log import EventReader
from core.runs.events import MessageRaised
from core.runs.folder import RunFolder
from tests.fakes.models import save_tiny_bert, tiny_tokenizer

prepare_torchvision()

from transformers import AutoTokenizer, BertTokenizer  # noqa: E402 - torchvision must be prepared first

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "##s", "a", "game")
NONE = NO_LABEL


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where tokens are kept."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "cache" / "tokens"


@pytest.fixture
def tokenizer():
    return BertTokenizer(vocab={piece: index for index, piece in enumerate(PIECES)})


class TestWords:
    def test_a_word_has_its_label_at_its_first_token(self, tokenizer):
        found = encode_words([["playing", "a", "games"], ["a"]], [[2, 0, 1], [3]], tokenizer, 16)
        pieces = tokenizer.convert_ids_to_tokens(found["input_ids"][0])
        assert pieces == ["[CLS]", "play", "##ing", "a", "game", "##s", "[SEP]"]
        assert found["labels"] == [[NONE, 2, NONE, 0, 1, NONE, NONE], [NONE, 3, NONE]]
        assert found["attention_mask"] == [[1] * 7, [1] * 3]

    @pytest.mark.parametrize(
        ("words", "classes", "length", "labels"),
        [
            ([["playing"] * 4], [[1] * 4], 8, [1, 1, 1]),  # beyond the limit
            ([["a", "", "\u200b", "game"]], [[1, 2, 3, 4]], 16, [1, 4]),  # words without tokens
            ([["", "\u200b"], ["a"]], [[1, 2], [3]], 16, [3]),  # texts without tokens
        ],
    )
    def test_words_that_are_lost(self, tokenizer, words, classes, length, labels):
        found = encode_words(words, classes, tokenizer, length)
        (row,) = found["labels"]
        assert [label for label in row if label != NONE] == labels
        assert len(found["input_ids"][0]) == len(row) <= length

    def test_byte_level_tokens_are_those_of_the_running_text(self):
        words = ["Hello", "there,", "how", "are", "you?"]
        found = encode_words([words], [[0, 1, 2, 3, 4]], tiny_tokenizer(), 64)
        assert found["input_ids"][0] == tiny_tokenizer()(" ".join(words))["input_ids"]
        assert [label for label in found["labels"][0] if label != NONE] == [0, 1, 2, 3, 4]

    def test_a_tokenizer_that_can_not_tell_words_is_refused(self):
        class Slow:
            is_fast = False

        with pytest.raises(ModelError, match="can't map tokens to words"):
            check_word_ids("some/model", Slow())


@pytest.mark.parametrize("on_left", [False, True])
def test_labels_of_tokens_are_padded_with_none(on_left):
    samples = [
        {"input_ids": [7, 8, 9], "attention_mask": [1, 1, 1], "labels": [NONE, 1, 0]},
        {"input_ids": [5], "attention_mask": [1], "labels": [2]},
    ]
    batch = PadTexts(pad_id=3, on_left=on_left)(samples)
    assert batch["labels"].tolist() == [[NONE, 1, 0], [NONE, NONE, 2] if on_left else [2, NONE, NONE]]
    assert batch["input_ids"][1].tolist() == ([3, 3, 5] if on_left else [5, 3, 3])
    assert PadTexts(pad_id=3, length=5)(samples)["labels"].shape == (2, 5)
    scores = [{"input_ids": [1], "labels": score} for score in (0.5, 3.0)]
    labels = PadTexts(pad_id=0)(scores)["labels"]
    assert (labels.dtype, labels.tolist()) == (torch.float32, [0.5, 3.0])


@pytest.mark.parametrize(
    ("rows", "task", "longest", "most", "reported"),
    [
        (
            {"tokens": [["playing"] * 4, ["a", "game"]], "label": [[1] * 4, [0, 1]]},
            *(Task.TOKEN_CLASSIFICATION, 512, 8, ["texts-cut", "words-lost"]),
        ),
        (
            {"text": ["playing " * 5, "a game"], "label": [0, 1]},
            *(Task.TEXT_CLASSIFICATION, 8, 512, ["length-limit"]),
        ),
        ({"text": ["playing " * 5, "a game"], "label": [0, 1]}, Task.TEXT_CLASSIFICATION, 32, 512, []),
    ],
)
def test_lost_words_and_cut_texts_are_reported(  # noqa: PLR0917
    tmp_path: Path,
    rows: Any,
    task: Task,
    longest: int,
    most: int,
    reported: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    encode = labelled_texts.encode_rows
    monkeypatch.setattr(labelled_texts, "encode_rows", lambda *args: made.append(1) or encode(*args))
    data = TextData(Dataset.from_dict(rows), None, ("x", "y"), ("text",), "label")
    options = RunOptions(task=task, data=DataOptions(max_length=most))
    for run in (RunFolder(tmp_path / "first"), RunFolder(tmp_path / "from the cache")):
        run.path.mkdir()
        tokenizer = BertTokenizer(vocab={piece: index for index, piece in enumerate(PIECES)})
        train, evaluation = encode_texts(options, data, tokenizer, longest, Reporter(run))
        assert evaluation is None
        assert max(map(len, train["input_ids"])) <= min(longest, most)
        events = EventReader(run.events_file).read_all() if run.events_file.exists() else ()
        assert [event.id for event in events if isinstance(event, MessageRaised)] == reported
    assert made == [1]


class Tokenizing:
    """Makes the same few tokens and counts how often it was asked to."""

    def __init__(self, rows: int = 3) -> None:
        self.times, self._rows = 0, rows

    def __call__(self) -> Dataset:
        self.times += 1
        return Dataset.from_dict({"input_ids": [[2, 5, 3]] * self._rows, "labels": [1] * self._rows})


def texts(*rows: str, labels: tuple[int, ...] = (0, 1)) -> Dataset:
    return Dataset.from_dict({"text": list(rows), "label": list(labels)})


class TestCache:
    def test_kept_mapped_into_memory_and_sent_to_workers_as_a_path(self, folder):
        make = Tokenizing(rows=5_000)
        first, second = cached_tokens("a", make), cached_tokens("a", make)
        assert make.times == 1
        assert first[:] == second[:] == make()[:]
        assert first.features == second.features
        assert second.cache_files[0]["filename"] == str(folder / "a.arrow")
        assert len(pickle.dumps(second)) < 5_000
        assert lengths_of(pickle.loads(pickle.dumps(second))) == [3] * 5_000

    @pytest.mark.parametrize(
        "damage", [lambda whole: whole[:-400], lambda whole: bytes(byte ^ 1 for byte in whole), lambda _: b""]
    )
    def test_damaged_texts_are_tokenized_again(self, folder, damage):
        make = Tokenizing()
        cached_tokens("a", make)
        (path,) = folder.iterdir()
        path.write_bytes(damage(path.read_bytes()))
        assert cached_tokens("a", make)[:] == Tokenizing()()[:]
        cached_tokens("a", make)
        assert make.times == 2

    def test_a_folder_that_cannot_be_written(self, tmp_path, caplog):
        (tmp_path / "home").write_text("in the way")
        make = Tokenizing()
        assert len(cached_tokens("a", make)) == 3
        assert make.times == 1
        assert "not kept for the next run" in caplog.text

    def test_the_key_tells_texts_labels_lengths_and_tokenizers_apart(self, tmp_path):
        tokenizer = AutoTokenizer.from_pretrained(save_tiny_bert(tmp_path / "a"))
        known = tokenizer_print(tokenizer)
        base = tokens_key(texts("good", "bad"), known, 32)
        assert base == tokens_key(texts("good", "bad"), known, 32)
        others = {
            tokens_key(texts("good", "bat"), known, 32),
            tokens_key(texts("goodb", "ad"), known, 32),
            tokens_key(texts("good", "bad", labels=(1, 0)), known, 32),
            tokens_key(texts("good", "bad"), known, 33),
            tokens_key(texts("good", "bad"), known + "x", 32),
            tokens_key(texts("good", "bad").rename_column("text", "text_pair"), known, 32),
        }
        assert len(others | {base}) == 7
        tokenizer.add_tokens(["film-like"])
        assert tokenizer_print(tokenizer) != known
        assert tokenizer_print(object()) == ""
