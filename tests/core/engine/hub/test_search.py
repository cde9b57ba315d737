"""Searching the Hub: the facts of what is found, and whether Hone can train it."""

import pytest

from core.base import settings
from core.base.errors import UserError
from core.engine.hub.download import download
from core.engine.hub.search import search
from core.services.hub import DownloadRequest, Found, Kind, SearchRequest, cache_folder
from tests.fakes.tiny_on_hub import CONFIG, FACTS, TINY, WEIGHTS, blob
from tests.fakes.whole_hub import Repo


def find(words: str, **others: object) -> list[Found]:
    return list(search(SearchRequest(words=words, **others)).found)  # type: ignore[arg-type]


def test_the_facts_of_a_model(hub):
    (found,) = find("tiny")
    assert found == Found(
        id="org/tiny",
        downloads=500,
        likes=7,
        size=1000 * 4 + 10 * 2,
        parameters=1010,
        licence="mit",
        purpose="fill-mask",
    )
    (asked,) = hub.asked
    assert (asked.path, asked.query["search"], asked.query["sort"]) == (
        "/api/models",
        ["tiny"],
        ["downloads"],
    )
    assert {"safetensors", "siblings", "gated", "tags", "config"} <= set(asked.query["expand"])


def test_only_kinds_that_can_learn_the_task(hub):
    hub.repos["models", "org/writer"] = Repo(dict(TINY), {**FACTS, "pipeline_tag": "text-generation"})
    hub.repos["models", "org/tiny"].gated = True
    hub.repos["models", "org/speaker"] = Repo(dict(TINY), {**FACTS, "pipeline_tag": "text-to-speech"})
    assert [(found.id, found.gated) for found in find("", task="chat")] == [("org/writer", False)]
    assert [(found.id, found.gated) for found in find("", task="text-classification")] == [("org/tiny", True)]
    hub.repos["models", "org/writer"].facts["downloads"] = 900
    assert [found.id for found in find("")] == ["org/writer", "org/tiny"], "the most downloaded first"


def test_how_much_is_here_already(hub):
    assert (find("tiny")[0].here, find("tiny")[0].complete) == (0, False)
    part = blob(cache_folder(), WEIGHTS)
    part.parent.mkdir(parents=True)
    part.write_bytes(WEIGHTS[:1000])
    assert (find("tiny")[0].here, find("tiny")[0].complete) == (1000, False)
    download(DownloadRequest(id="org/tiny"), lambda *_: None)
    found = find("tiny")[0]
    assert found.complete
    assert found.here == len(WEIGHTS) + len(CONFIG) + len(TINY["tokenizer.json"])


def test_pickled_and_own_code_are_told_with_the_reason(hub):
    pickled = {"config.json": CONFIG, "pytorch_model.bin": b"x"}
    hub.repos["models", "org/pickled"] = Repo(pickled, {**FACTS, "downloads": 3})
    hub.repos["models", "org/coded"] = Repo(
        dict(TINY), {**FACTS, "downloads": 2, "tags": ["transformers", "custom_code"]}
    )
    by_name = {found.id: found for found in find("org")}
    assert "can run code" in by_name["org/pickled"].refusal
    assert "AutoModelForMaskedLM" in by_name["org/pickled"].command
    assert "Python code of its own" in by_name["org/coded"].refusal
    assert not by_name["org/coded"].command
    assert not by_name["org/tiny"].refusal


def test_a_whole_name_finds_a_private_one(hub, monkeypatch):
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
    found = find("org", kind=Kind.DATASET)
    assert [(one.id, one.size, one.licence, bool(one.refusal)) for one in found] == [
        ("org/rows", 99, "cc0-1.0", False),
        ("org/script", None, "", True),
    ]
    assert "Python code" in found[1].refusal


@pytest.mark.parametrize(
    ("status", "words"), [(500, "500"), (503, "503"), (429, "too often"), (403, "leave to read")]
)
def test_a_refusal_is_told_at_once(hub, status, words):
    hub.api_moods = [(status, {})]
    with pytest.raises(UserError, match="refuses") as caught:
        find("tiny")
    assert words in caught.value.detail
    assert len(hub.asked) == 1


def test_offline_nothing_is_asked(hub):
    settings.save(settings.Settings(offline=True))
    with pytest.raises(UserError, match="Hone works offline"):
        find("tiny")
    assert hub.asked == []
