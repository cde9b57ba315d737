"""From texts and words to tokens, what is lost on the way, and tokens stored for the next run."""

import pickle

import pytest
import torch
from datasets import Dataset

from core.base.errors import ModelError
from core.engine.data import NO_LABEL as NONE
from core.engine.data import labelled_texts
from core.engine.data.batches import PadTexts
from core.engine.data.labelled_texts import TextData, encode_texts, encode_words
from core.engine.data.tables import cached_tokens, lengths_of, tokenizer_print, tokens_key
from core.engine.models.refusals import check_word_ids
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.runs.event_log import EventReader
from core.runs.events import MessageRaised
from core.runs.folder import RunFolder
from tests.fakes.models import tiny_tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "##s", "a", "game")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where tokens are stored."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "cache" / "tokens"


@pytest.fixture
def tokenizer():
    from transformers import BertTokenizer

    return BertTokenizer(vocab={piece: index for index, piece in enumerate(PIECES)})


def test_a_word_has_its_label_at_its_first_token(tokenizer):
    encoded = encode_words([["playing", "a", "games"], ["a"]], [[2, 0, 1], [3]], tokenizer, 16)
    pieces = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0])
    assert pieces == ["[CLS]", "play", "##ing", "a", "game", "##s", "[SEP]"]
    assert encoded["labels"] == [[NONE, 2, NONE, 0, 1, NONE, NONE], [NONE, 3, NONE]]
    assert encoded["attention_mask"] == [[1] * 7, [1] * 3]


@pytest.mark.parametrize(
    ("words", "classes", "length", "labels"),
    [
        ([["playing"] * 4], [[1] * 4], 8, [1, 1, 1]),  # beyond the limit
        ([["a", "", "\u200b", "game"]], [[1, 2, 3, 4]], 16, [1, 4]),  # words without tokens
        ([["", "\u200b"], ["a"]], [[1, 2], [3]], 16, [3]),  # texts without tokens
    ],
)
def test_words_that_are_lost(tokenizer, words, classes, length, labels):
    encoded = encode_words(words, classes, tokenizer, length)
    (row,) = encoded["labels"]
    assert [label for label in row if label != NONE] == labels
    assert len(encoded["input_ids"][0]) == len(row) <= length


def test_byte_level_tokens_are_those_of_the_running_text():
    words = ["Hello", "there,", "how", "are", "you?"]
    encoded = encode_words([words], [[0, 1, 2, 3, 4]], tiny_tokenizer(), 64)
    assert encoded["input_ids"][0] == tiny_tokenizer()(" ".join(words))["input_ids"]
    assert [label for label in encoded["labels"][0] if label != NONE] == [0, 1, 2, 3, 4]


def test_a_tokenizer_that_cannot_map_words_is_refused():
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
    labels = PadTexts(pad_id=0)([{"input_ids": [1], "labels": score} for score in (0.5, 3.0)])["labels"]
    assert (labels.dtype, labels.tolist()) == (torch.float32, [0.5, 3.0])


TEXTS = {"text": ["playing " * 5, "a game"], "label": [0, 1]}
TAGGED = {"tokens": [["playing"] * 4, ["a", "game"]], "label": [[1] * 4, [0, 1]]}


@pytest.mark.parametrize(
    ("rows", "longest", "most", "reported"),
    [
        (TAGGED, 512, 8, ["texts-cut", "words-lost"]),
        (TEXTS, 8, 512, ["length-limit"]),
        (TEXTS, 32, 512, []),
    ],
)
def test_cut_texts_are_reported_and_tokens_stored_for_the_next_run(
    *, tmp_path, rows, longest, most, reported, monkeypatch, tokenizer
):
    task = Task.TOKEN_CLASSIFICATION if "tokens" in rows else Task.TEXT_CLASSIFICATION
    encoded: list[int] = []
    encode = labelled_texts.encode_rows
    monkeypatch.setattr(labelled_texts, "encode_rows", lambda *args: encoded.append(1) or encode(*args))
    data = TextData(Dataset.from_dict(rows), None, ("x", "y"), ("text",), "label")
    options = RunOptions(task=task, data=DataOptions(max_length=most))
    for name in ("first", "from the cache"):
        run = RunFolder(tmp_path / name)
        run.path.mkdir()
        train, _eval = encode_texts(
            options, data, pickle.loads(pickle.dumps(tokenizer)), longest, Reporter(run)
        )
        assert max(map(len, train["input_ids"])) <= min(longest, most)
        events = EventReader(run.events_file).read_all() if run.events_file.exists() else ()
        assert [event.id for event in events if isinstance(event, MessageRaised)] == reported
    assert encoded == [1]


class Tokenizing:
    """Makes the same few tokens and counts how often it is called."""

    def __init__(self, rows: int = 3) -> None:
        self.times, self._rows = 0, rows

    def __call__(self) -> Dataset:
        self.times += 1
        return Dataset.from_dict({"input_ids": [[2, 5, 3]] * self._rows, "labels": [1] * self._rows})


def texts(*rows: str, labels: tuple[int, ...] = (0, 1)) -> Dataset:
    return Dataset.from_dict({"text": list(rows), "label": list(labels)})


class TestCache:
    def test_stored_tokens_are_mapped_into_memory_and_sent_to_workers_as_a_path(self, folder):
        make = Tokenizing(rows=5_000)
        first, second = cached_tokens("a", make), cached_tokens("a", make)
        assert (first[:], first.features, make.times) == (second[:], second.features, 1)
        assert second.cache_files[0]["filename"] == str(folder / "a.arrow")
        sent = pickle.dumps(second)
        assert len(sent) < 5_000
        assert lengths_of(pickle.loads(sent)) == [3] * 5_000

    @pytest.mark.parametrize(
        "damage", [lambda whole: whole[:-400], lambda whole: bytes(byte ^ 1 for byte in whole), lambda _: b""]
    )
    def test_damaged_texts_are_tokenized_again(self, folder, damage):
        make = Tokenizing()
        cached_tokens("a", make)
        (path,) = folder.iterdir()
        path.write_bytes(damage(path.read_bytes()))
        assert cached_tokens("a", make)[:] == cached_tokens("a", make)[:] == Tokenizing()()[:]
        assert make.times == 2

    def test_a_folder_that_cannot_be_written_is_logged(self, tmp_path, caplog):
        (tmp_path / "home").write_text("in the way")
        assert len(cached_tokens("a", Tokenizing())) == 3
        assert "not kept for the next run" in caplog.text

    def test_the_key_tells_texts_labels_lengths_and_tokenizers_apart(self, tokenizer):
        known = tokenizer_print(tokenizer)
        keys = [
            tokens_key(texts("good", "bad"), known, 32),
            tokens_key(texts("good", "bat"), known, 32),
            tokens_key(texts("goodb", "ad"), known, 32),
            tokens_key(texts("good", "bad", labels=(1, 0)), known, 32),
            tokens_key(texts("good", "bad"), known, 33),
            tokens_key(texts("good", "bad"), known + "x", 32),
            tokens_key(texts("good", "bad").rename_column("text", "text_pair"), known, 32),
        ]
        assert len(set(keys)) == 7
        assert keys[0] == tokens_key(texts("good", "bad"), known, 32)
        tokenizer.add_tokens(["film-like"])
        assert tokenizer_print(tokenizer) != known
        assert tokenizer_print(object()) == ""
