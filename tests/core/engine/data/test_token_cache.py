"""Tokenized texts are kept for the next run: used again, told apart, bounded, and never in the way."""

import logging
import os
import pickle
from pathlib import Path

import pytest
from datasets import Dataset

from core.engine.data.token_cache import TokenCache, cache_key, lengths_of, tokenizer_print
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_training import model, reviews, train, write_reviews


class Tokenizing:
    """Makes the same few tokens and counts how often it was asked to."""

    def __init__(self, rows: int = 3) -> None:
        self.times = 0
        self._rows = rows

    def __call__(self) -> Dataset:
        self.times += 1
        return Dataset.from_dict({"input_ids": [[2, 5, 3]] * self._rows, "labels": [1] * self._rows})


@pytest.fixture
def cache(tmp_path: Path) -> TokenCache:
    return TokenCache(tmp_path / "home" / "tokens")


def files(cache: TokenCache) -> list[Path]:
    return sorted(cache.folder.iterdir())


def texts(*rows: str, labels: tuple[int, ...] = (0, 1)) -> Dataset:
    return Dataset.from_dict({"text": list(rows), "label": list(labels)})


def test_texts_are_tokenized_once(cache: TokenCache) -> None:
    make = Tokenizing()
    first, second = cache.get("a", make), cache.get("a", make)
    assert make.times == 1
    assert first[:] == second[:] == make()[:]
    assert first.features == second.features


def test_they_are_mapped_into_memory_and_sent_to_workers_as_a_path(cache: TokenCache) -> None:
    kept = cache.get("a", Tokenizing(rows=5_000))
    assert kept.cache_files[0]["filename"] == str(files(cache)[0])
    assert len(pickle.dumps(kept)) < 5_000
    assert lengths_of(pickle.loads(pickle.dumps(kept))) == [3] * 5_000


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[:-40], lambda whole: bytes(byte ^ 1 for byte in whole), lambda _: b""]
)
def test_damaged_texts_are_tokenized_again(
    cache: TokenCache, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    make = Tokenizing()
    cache.get("a", make)
    (path,) = files(cache)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert cache.get("a", make)[:] == Tokenizing()()[:]
    assert make.times == 2
    assert "is damaged" in caplog.text
    cache.get("a", make)
    assert make.times == 2


def test_a_folder_that_cannot_be_written_is_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    make = Tokenizing()
    with caplog.at_level(logging.WARNING):
        assert len(TokenCache(tmp_path / "file" / "tokens").get("a", make)) == 3
    assert make.times == 1
    assert "not kept for the next run" in caplog.text


def test_the_longest_unused_goes_first(cache: TokenCache) -> None:
    cache.get("a", Tokenizing())
    (path,) = files(cache)
    small = TokenCache(cache.folder, limit=2 * path.stat().st_size)
    small.get("b", Tokenizing())
    for age, path in zip((200, 100), files(cache), strict=True):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))
    small.get("a", Tokenizing())  # used again, so b is older now
    small.get("c", Tokenizing())
    assert [path.name[0] for path in files(cache)] == ["a", "c"]


def test_what_is_larger_than_all_room_is_not_kept(tmp_path: Path) -> None:
    make, cache = Tokenizing(), TokenCache(tmp_path / "tokens", limit=8)
    assert len(cache.get("a", make)) == len(cache.get("a", make)) == 3
    assert make.times == 2
    assert not cache.folder.exists()


def test_what_a_killed_engine_left_unfinished_goes(cache: TokenCache) -> None:
    cache.folder.mkdir(parents=True)
    old, new = cache.folder / "x.1.unfinished", cache.folder / "y.2.unfinished"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    cache.get("a", Tokenizing())
    assert [path.suffix for path in files(cache)] == [".arrow", ".unfinished"]
    assert new.exists()


def test_the_key_tells_texts_labels_lengths_and_tokenizers_apart(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(save_tiny_bert(tmp_path / "a"))
    known = tokenizer_print(tokenizer)
    base = cache_key(texts("good", "bad"), known, 32)
    assert base == cache_key(texts("good", "bad"), known, 32)
    others = {
        cache_key(texts("good", "bat"), known, 32),
        cache_key(texts("goodb", "ad"), known, 32),
        cache_key(texts("good", "bad", labels=(1, 0)), known, 32),
        cache_key(texts("good", "bad"), known, 33),
        cache_key(texts("good", "bad"), known + "x", 32),
        cache_key(texts("good", "bad").rename_column("text", "text_pair"), known, 32),
    }
    assert len(others | {base}) == 7
    tokenizer.add_tokens(["film-like"])
    assert tokenizer_print(tokenizer) != known
    assert tokenizer_print(object()) == ""


def test_a_second_run_takes_them_from_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from core.engine.data import labelled_texts

    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    bert = save_tiny_bert(tmp_path / "model")
    data = reviews(write_reviews(tmp_path / "reviews.csv"), eval_fraction=0.25)
    asked: list[int] = []
    tokenize = labelled_texts._tokenize
    monkeypatch.setattr(labelled_texts, "_tokenize", lambda *args: asked.append(1) or tokenize(*args))
    first = train(tmp_path / "first", model=model(bert), data=data)
    assert (first.status, len(asked)) == (0, 2)  # to train on, and to evaluate on
    second = train(tmp_path / "second", model=model(bert), data=data)
    assert (second.status, len(asked)) == (0, 2)
    assert [step.loss for step in second.steps] == [step.loss for step in first.steps]
    assert len(list((tmp_path / "home" / "cache" / "tokens").iterdir())) == 2
