"""Searching the Hub, and the subsets and splits of its data sets."""

import pytest

from core.base import settings
from core.base.errors import DataError, UserError
from core.engine.hub.download import download
from core.engine.hub.search import cached_splits, search
from core.jobs.hub import DownloadRequest, Found, SearchRequest
from core.options.hub import RepoKind
from tests.fakes.hub import CONFIG, FACTS, TINY, WEIGHTS, Repo, blob

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


def find(words: str, **others: object) -> list[Found]:
    return list(search(SearchRequest(words=words, **others)).found)  # type: ignore[arg-type]


def test_the_facts_of_a_model(hub):
    assert find("tiny") == [
        Found(
            id="org/tiny",
            downloads=500,
            likes=7,
            size=1000 * 4 + 10 * 2,
            parameters=1010,
            licence="mit",
            purpose="fill-mask",
        )
    ]
    (request,) = hub.asked
    assert (request.path, request.query["search"]) == ("/api/models", ["tiny"])
    assert {"safetensors", "siblings", "gated", "tags", "config"} <= set(request.query["expand"])


@pytest.mark.parametrize(("config", "parameters"), [({"quantization_config": {"bits": 4}}, 8000), ({}, None)])
def test_weights_that_mlx_packs_into_words_are_counted(hub, config, parameters):
    tensors = {"parameters": {"U32": 1000, "BF16": 250}, "total": 1250}
    hub.repos["models", "org/tiny"] = Repo(dict(TINY), {**FACTS, "safetensors": tensors, "config": config})
    [found] = find("tiny")
    assert (found.parameters, found.size) == (parameters, 4 * 1000 + 2 * 250)


def test_models_are_filtered_by_task_and_sorted_by_downloads(hub):
    hub.repos["models", "org/writer"] = Repo(
        dict(TINY), {**FACTS, "pipeline_tag": "text-generation", "downloads": 900}
    )
    hub.repos["models", "org/tiny"].gated = True
    hub.repos["models", "org/speaker"] = Repo(dict(TINY), {**FACTS, "pipeline_tag": "text-to-speech"})
    assert [(found.id, found.gated) for found in find("", task="chat")] == [("org/writer", False)]
    assert [(found.id, found.gated) for found in find("", task="text-classification")] == [("org/tiny", True)]
    assert [found.id for found in find("")] == ["org/writer", "org/tiny"]


def test_how_much_is_on_this_computer(hub):
    part = blob(settings.hub_cache(), WEIGHTS)
    part.parent.mkdir(parents=True)
    part.write_bytes(WEIGHTS[:1000])
    assert (find("tiny")[0].here, find("tiny")[0].complete) == (1000, False)
    download(DownloadRequest(id="org/tiny"), lambda *_: None)
    assert find("tiny")[0].complete
    assert find("tiny")[0].here == len(WEIGHTS) + len(CONFIG) + len(TINY["tokenizer.json"])


def test_models_that_can_t_be_used_are_shown_with_the_reason(hub):
    pickled = {"config.json": CONFIG, "pytorch_model.bin": b"x"}
    hub.repos["models", "org/pickled"] = Repo(pickled, FACTS)
    hub.repos["models", "org/coded"] = Repo(dict(TINY), {**FACTS, "tags": ["transformers", "custom_code"]})
    models = {found.id: bool(found.refusal) for found in find("org")}
    assert models == {"org/pickled": True, "org/coded": True, "org/tiny": False}


def test_a_full_name_finds_a_private_model(hub, monkeypatch):
    hub.repos["models", "org/tiny"].private = True
    assert find("org/tiny") == []
    hub.people["hf_good_token"] = "ada"
    monkeypatch.setenv("HF_TOKEN", "hf_good_token")
    answer = search(SearchRequest(words="org/tiny"))
    assert [(found.id, found.private) for found in answer.found] == [("org/tiny", True)]
    assert answer.signed_in


def test_data_sets(hub):
    hub.repos["datasets", "org/rows"] = Repo(
        {"train.csv": b"a"}, {"tags": ["license:cc0-1.0"], "mainSize": 99}
    )
    hub.repos["datasets", "org/script"] = Repo({"script.py": b"evil"}, {})
    assert [
        (found.id, found.size, found.licence, bool(found.refusal))
        for found in find("org", kind=RepoKind.DATASET)
    ] == [("org/rows", 99, "cc0-1.0", False), ("org/script", None, "", True)]


@pytest.mark.parametrize(("status", "detail"), [(503, "503"), (429, "Too many"), (403, "permission to read")])
def test_a_refusal_is_reported_without_retries(hub, status, detail):
    hub.api_moods = [(status, {})]
    with pytest.raises(UserError) as caught:
        find("tiny")
    assert detail in caught.value.detail
    assert len(hub.asked) == 1


def test_no_request_offline(hub):
    settings.save(settings.Settings(offline=True))
    with pytest.raises(UserError, match="offline"):
        find("tiny")
    assert hub.asked == []


# --- Data sets


def get(name: str, subset: str = "") -> None:
    download(DownloadRequest(id=name, kind=RepoKind.DATASET, subset=subset), lambda *_: None)


@pytest.fixture
def rows(hub):
    hub.repos["datasets", "org/rows"] = Repo(dict(FILES))
    return hub


def test_only_the_files_of_a_subset_are_downloaded(rows, monkeypatch):
    get("org/rows")
    downloaded = {request.path.rpartition("/")[2] for request in rows.asked if "/resolve/" in request.path}
    assert not downloaded & {"rows.py", "train.csv"}
    rows.asked.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    news = cached_splits("org/rows")
    assert list(news) == ["train", "test"]
    names = [path.name for path in news["train"]]
    assert names == ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
    assert [path.read_bytes() for path in cached_splits("org/rows", "news")["test"]] == [b"{}"]
    assert rows.asked == []
    monkeypatch.delenv("HF_HUB_OFFLINE")
    get("org/rows", "mail")
    mail = cached_splits("org/rows", "mail")
    assert sorted(mail) == ["train", "validation"]
    assert [path.name for path in mail["validation"]] == ["dev.csv"]


@pytest.mark.parametrize(
    ("files", "splits"),
    [
        (
            {"data/training.csv": b"a", "data/eval.csv": b"b", "dataset_infos.json": b"{}", ".x.json": b"{}"},
            {"train": ["training.csv"], "test": ["eval.csv"]},
        ),
        ({"alpaca.json": b"[]"}, {"train": ["alpaca.json"]}),
        ({"README.md": b"---\nconfigs: [\n---\n", "train.csv": b"a"}, {"train": ["train.csv"]}),
    ],
    ids=["folder", "one-file", "damaged-card"],
)
def test_without_a_card_the_names_of_files_give_the_splits(hub, files, splits):
    hub.repos["datasets", "org/plain"] = Repo(files)
    get("org/plain")
    found = cached_splits("org/plain")
    assert {split: [path.name for path in paths] for split, paths in found.items()} == splits


def test_a_script_is_refused_and_not_downloaded(hub):
    hub.repos["datasets", "org/script"] = Repo({"script.py": b"evil", "data.zip": b"zip"})
    with pytest.raises(UserError, match="can't use org/script"):
        get("org/script")
    assert not [request for request in hub.asked if "/resolve/" in request.path]


@pytest.mark.parametrize(
    ("name", "subset", "title"),
    [
        ("org/none", "", "isn't on this computer"),
        ("a b", "", "not a valid name"),
        ("org/rows", "sport", "no subset sport"),
    ],
)
def test_missing_data_is_refused(rows, name, subset, title):
    get("org/rows")
    with pytest.raises(DataError, match=title):
        cached_splits(name, subset)
    with pytest.raises(UserError, match="no subset sport"):
        get("org/rows", "sport")
