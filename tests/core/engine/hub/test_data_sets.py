"""Data sets of the Hub: which files come, and which of them are which split, without a network afterwards."""

import pytest

from core.base.errors import DataError, UserError
from core.engine.hub.download import download
from core.engine.hub.search import dataset_files, dataset_splits
from core.services.hub import DownloadRequest, Kind
from tests.fakes.whole_hub import Repo

CARD = b"""---
license: mit
configs:
- config_name: news
  default: true
  data_files:
  - split: train
    path: news/train-*
  - split: test
    path: news/test.jsonl
- config_name: mail
  data_dir: mail
---
# Rows
"""
FILES = {
    "README.md": CARD,
    "rows.py": b"print('never run')",
    "news/train-00000-of-00002.parquet": b"1",
    "news/train-00001-of-00002.parquet": b"2",
    "news/test.jsonl": b"{}",
    "mail/train.csv": b"a",
    "mail/dev.csv": b"b",
    "mail/notes.pdf": b"pdf",
}


def bring(name: str, subset: str = "") -> None:
    download(DownloadRequest(id=name, kind=Kind.DATASET, subset=subset), lambda *_: None)


@pytest.fixture
def rows(hub):
    hub.repos["datasets", "org/rows"] = Repo(dict(FILES))
    return hub


def test_a_subset_comes_with_its_splits(rows):
    bring("org/rows", "news")
    with pytest.raises(DataError, match="has no subset mail") as refused:
        dataset_splits("org/rows", "mail")
    assert refused.value.detail == "It has: news."
    assert dataset_splits("org/rows") == ["train", "test"]
    names = [path.name for path in dataset_files("org/rows")]
    assert names == ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
    assert [path.read_bytes() for path in dataset_files("org/rows", "news", "test")] == [b"{}"]
    fetched = {asked.path.rpartition("/")[2] for asked in rows.asked if "/resolve/" in asked.path}
    assert "rows.py" not in fetched
    assert "train.csv" not in fetched


def test_another_subset_comes_beside(rows):
    bring("org/rows")
    bring("org/rows", "mail")
    assert dataset_splits("org/rows", "mail") == ["validation", "train"] or dataset_splits(
        "org/rows", "mail"
    ) == ["train", "validation"]
    assert [path.name for path in dataset_files("org/rows", "mail", "validation")] == ["dev.csv"]


def test_afterwards_nothing_is_asked(rows, monkeypatch):
    bring("org/rows")
    rows.asked.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert dataset_files("org/rows")
    assert rows.asked == []


def test_without_a_card_names_tell_the_splits(hub):
    hub.repos["datasets", "org/plain"] = Repo(
        {"data/training.csv": b"a", "data/eval.csv": b"b", "dataset_infos.json": b"{}", ".x.json": b"{}"}
    )
    bring("org/plain")
    assert [path.name for path in dataset_files("org/plain")] == ["training.csv"]
    assert [path.name for path in dataset_files("org/plain", split="test")] == ["eval.csv"]


def test_one_file_of_no_name_is_for_training(hub):
    hub.repos["datasets", "org/one"] = Repo({"alpaca.json": b"[]"})
    bring("org/one")
    assert dataset_splits("org/one") == ["train"]


def test_a_damaged_card_says_nothing(hub):
    hub.repos["datasets", "org/odd"] = Repo({"README.md": b"---\nconfigs: [\n---\n", "train.csv": b"a"})
    bring("org/odd")
    assert dataset_splits("org/odd") == ["train"]


def test_a_script_is_refused_and_not_fetched(hub):
    hub.repos["datasets", "org/script"] = Repo({"script.py": b"evil", "data.zip": b"zip"})
    with pytest.raises(UserError, match="can't use org/script") as caught:
        bring("org/script")
    assert "Python code that makes the samples" in caught.value.detail
    assert not [asked for asked in hub.asked if "/resolve/" in asked.path]


@pytest.mark.parametrize(
    ("name", "subset", "split", "words"),
    [
        ("org/none", "", "", "isn't on this computer"),
        ("a b", "", "", "is no name"),
        ("org/rows", "sport", "", "no subset sport"),
        ("org/rows", "", "dev", "no split dev"),
    ],
)
def test_what_isn_t_there_is_named(rows, name, subset, split, words):
    bring("org/rows")
    with pytest.raises(DataError, match=words):
        dataset_files(name, subset, split)


def test_a_subset_that_the_card_doesn_t_name(rows):
    with pytest.raises(UserError, match="no subset sport"):
        bring("org/rows", "sport")
