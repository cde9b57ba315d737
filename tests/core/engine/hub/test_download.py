"""Downloads from the Hub: only what is safe and needed, whole or not at all, continued where they ended."""

import errno
import json
import shutil
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import errors, hf_hub_download, snapshot_download

from core.base import settings
from core.base.errors import ModelError, UserError
from core.base.jobs import EngineJob, JobCancelled, JobProgress, run_job
from core.engine.hub import download as hub_download
from core.engine.hub.api import Subject, as_user_error
from core.engine.hub.download import (
    MAX_CONFIG_BYTES,
    cached,
    download,
    drop_partial,
    fetch_config,
    remove_cached,
)
from core.jobs.hub import ConfigFetched, ConfigRequest, Downloaded, DownloadRequest, RemoveRequest
from core.memory.model import Basis, Forecast, options_request, question_about
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.hub import RepoKind, is_complete, names_here
from core.options.sections import ModelOptions
from tests.fakes.hub import CONFIG, TINY, WEIGHTS, Repo, blob, partials, point_at

SAFE = {"config.json", "model.safetensors", "tokenizer.json"}
GOOD, WRONG = "hf_good_token", "hf_WrongSecret42"


def fetch(name: str = "org/tiny") -> list[tuple[int, int, str]]:
    reports: list[tuple[int, int, str]] = []
    download(DownloadRequest(id=name), lambda *report: reports.append(report))
    return reports


def refused(name: str = "org/tiny") -> UserError:
    with pytest.raises(UserError) as caught:
        fetch(name)
    return caught.value


def here(name: str = "org/tiny") -> set[str]:
    return set(names_here(name, RepoKind.MODEL))


def test_only_safe_weights_config_and_tokenizer_are_fetched_once_for_every_library(hub, cache):
    reports = fetch()
    assert here() == SAFE
    assert next(cache.rglob("snapshots/*/model.safetensors")).read_bytes() == WEIGHTS
    assert reports[-1][0] == reports[-1][1] == sum(len(TINY[name]) for name in SAFE)
    assert not partials(cache)
    assert not [asked for asked in hub.asked if asked.path.endswith((".bin", ".py", ".md", ".onnx"))]
    hub.asked.clear()
    assert Path(hf_hub_download("org/tiny", "config.json", local_files_only=True)).read_bytes() == CONFIG
    snapshot_download("org/tiny", local_files_only=True)
    assert hub.asked == []
    assert fetch() == []
    assert [asked.path for asked in hub.asked] == ["/api/models/org/tiny"]


@pytest.mark.parametrize(
    ("breaks", "knows_ranges", "ranges"),
    [
        ([300_000, 200_000], True, ["", "bytes=300000-", "bytes=500000-"]),
        ([300_000], False, ["", "bytes=300000-"]),
        ([429], True, ["", ""]),  # too many requests
    ],
)
def test_a_broken_connection_is_continued(hub, monkeypatch, breaks, knows_ranges, ranges):
    monkeypatch.setattr("time.sleep", lambda _: None)
    hub.knows_ranges, hub.moods = knows_ranges, [None, None, *breaks]
    fetch()
    assert [asked.range for asked in hub.contents()] == ranges
    assert (
        Path(hf_hub_download("org/tiny", "model.safetensors", local_files_only=True)).read_bytes() == WEIGHTS
    )


def test_a_pause_loses_nothing(hub, cache):
    """The real process is killed in the middle of a file, with a second download meanwhile, and continued."""
    hub.gate.clear()
    job, titles = EngineJob("hub-download"), []

    def pause(progress: JobProgress) -> None:
        if progress.done > len(WEIGHTS) // 2 and not titles:
            titles.append(refused().title)
            job.kill()

    with pytest.raises(JobCancelled):
        job.ask(b'{"id": "org/tiny"}', tell=pause)
    assert titles == ["org/tiny is being downloaded already"]
    begun = blob(cache, WEIGHTS).stat().st_size
    assert len(WEIGHTS) // 2 <= begun < len(WEIGHTS)
    assert "config.json" not in names_here("org/tiny", RepoKind.MODEL), "half a model is none"
    hub.gate.set()
    reports: list[JobProgress] = []
    done = run_job("hub-download", DownloadRequest(id="org/tiny"), Downloaded, reports.append)
    assert hub.contents()[-1].range == f"bytes={begun}-"
    assert min(report.done for report in reports if report.what == "model.safetensors") >= begun
    assert (Path(done.path) / "model.safetensors").read_bytes() == WEIGHTS


def check_refused(title: str, detail: str) -> None:
    error = refused()
    assert title in error.title
    assert detail in error.detail
    assert WRONG not in f"{error.title} {error.detail}"
    assert here() == set(), "no model is left"


@pytest.mark.parametrize(
    ("hub_is", "title", "detail"),
    [
        ({"moods": [None, 503]}, "refuses org/tiny", "503"),
        ({"listed": {"model.safetensors": (len(WEIGHTS) + 5, "a" * 64)}}, "is damaged", "1,048,581 bytes"),
        ({"listed": {"model.safetensors": (len(WEIGHTS), "a" * 64)}}, "is damaged", "hash of model"),
        ({"listed": {"model.safetensors": (len(WEIGHTS), "../a")}}, "can't be used", "model.safetensors"),
        ({"is_the_hub": False}, "doesn't respond as the Hub", "proxy"),
    ],
    ids=["busy", "longer", "other-content", "no-hash", "not-the-hub"],
)
def test_a_hub_that_is_busy_or_damaged_is_reported(hub, hub_is, title, detail):
    for name, value in hub_is.items():
        setattr(hub, name, value)
    check_refused(title, detail)


@pytest.mark.parametrize(
    ("repo_is", "title", "detail"),
    [
        ({"private": True}, "is private", "token"),
        ({"gated": True}, "accepted its terms", "https://huggingface.co/org/tiny"),
        (
            {"facts": {"config": {"auto_map": {"AutoModel": "x"}}}},
            "can't use org/tiny",
            "Python code of its own",
        ),
    ],
    ids=["private", "gated", "own-code"],
)
def test_a_model_that_can_not_be_had_is_reported(hub, repo_is, title, detail):
    for name, value in repo_is.items():
        setattr(hub.repos["models", "org/tiny"], name, value)
    check_refused(title, detail)


@pytest.mark.parametrize(
    ("address", "detail"), [("http://127.0.0.1:1", "online?"), ("http://hub.invalid", "be offline")]
)
def test_a_hub_that_can_not_be_reached_is_reported(hub, monkeypatch, address, detail):
    point_at(address, monkeypatch)
    check_refused("can't be reached", detail)


def test_a_hub_that_falls_silent_is_reported(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.05)
    monkeypatch.setattr("time.sleep", lambda _: None)
    hub.gate.clear()
    hub.is_silent = True
    check_refused("can't be reached", "didn't answer in time")


def test_a_computer_that_can_not_download_is_reported(hub, cache, monkeypatch):
    with monkeypatch.context() as patched:
        usage = shutil.disk_usage("/")._replace(free=hub_download.SPARE + 1000)
        patched.setattr(shutil, "disk_usage", lambda _: usage)
        check_refused("not enough disk space for org/tiny", "are free")
    with monkeypatch.context() as patched:
        patched.setenv("HF_TOKEN", WRONG)
        check_refused("refuses", "doesn't accept the token")
    shutil.rmtree(cache)
    cache.write_text("a file where the cache should be")
    check_refused("can't be saved", "hub")
    settings.save(settings.Settings(offline=True))
    check_refused("works offline", "Settings")


def test_a_disk_that_fills_up_keeps_what_was_fetched(hub, cache, monkeypatch):
    write = hub_download.PartialFile.write

    def failing(file: hub_download.PartialFile, content: bytes) -> int:
        if file.tell() + len(content) > 300_000:
            write(file, content[: 300_000 - file.tell()])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, content)

    monkeypatch.setattr(hub_download.PartialFile, "write", failing)
    assert refused().title == "The disk is full"
    assert blob(cache, WEIGHTS).stat().st_size == 300_000


@pytest.mark.parametrize("name", ["org/ti ny", "org//tiny", "../etc", "org/tïny", "a/b/c", ""])
def test_an_impossible_name_is_not_asked_for(hub, name):
    assert "not a valid name" in refused(name).title
    assert hub.asked == []


def test_pickled_weights_are_refused_before_any_file(hub):
    files = {name: content for name, content in TINY.items() if name != "model.safetensors"}
    hub.repos["models", "org/old"] = Repo(files, {"pipeline_tag": "fill-mask"})
    error = refused("org/old")
    assert "pickled" in error.detail
    assert "converted copy" in error.fixes[0].label
    assert not [asked for asked in hub.asked if "/resolve/" in asked.path]


def test_the_token_goes_to_the_hub_and_to_nobody_else(hub, cache, monkeypatch):
    hub.repos["models", "org/tiny"].gated = hub.repos["models", "org/tiny"].private = True
    hub.people[GOOD] = "ada"
    monkeypatch.setenv("HF_TOKEN", GOOD)
    fetch()
    assert {asked.token for asked in hub.asked if asked.host == "hub"} == {GOOD}
    assert {asked.token for asked in hub.contents()} == {""}
    written = [path for path in cache.parent.rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if GOOD.encode() in path.read_bytes()]


def test_parts_come_with_their_index(hub):
    parts = {f"model-0000{n}-of-00002.safetensors": b"part %d" % n for n in (1, 2)}
    index = {"model.safetensors.index.json": b"{}", "consolidated.safetensors": b"the same again"}
    hub.repos["models", "org/big"] = Repo({"config.json": CONFIG, **parts, **index}, {})
    fetch("org/big")
    assert here("org/big") == {"config.json", *parts, "model.safetensors.index.json"}


def test_files_of_the_same_content_both_get_their_names_where_links_are_unknown(hub, monkeypatch):
    hub.repos["models", "org/tiny"].files["added_tokens.json"] = CONFIG
    monkeypatch.setattr(hub_download, "are_symlinks_supported", lambda _: False)
    fetch()
    assert here() == {*SAFE, "added_tokens.json"}
    assert names_here("org/tiny", RepoKind.MODEL)["added_tokens.json"] == len(CONFIG)


# --- The cache


def test_cancelling_deletes_what_is_unfinished_and_nothing_else(hub, cache):
    hub.moods = [None, None, 300_000, *[503] * 5]
    refused()
    assert drop_partial("org/tiny", RepoKind.MODEL) > 300_000
    assert not (cache / "models--org--tiny").exists()
    hub.moods = []
    fetch()
    blob(cache, b"newer").write_bytes(b"new")
    assert remove_cached(RemoveRequest(id="org/tiny", only_partial=True)).freed == 3
    assert here() == SAFE


def test_the_cache_is_listed_and_emptied(hub, cache):
    assert cached().repos == ()
    fetch()
    part = cache / "models--org--begun" / "blobs" / "abc.hone.incomplete"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"12345")
    report = cached()
    found = [(repo.id, repo.kind, repo.complete, repo.partial) for repo in report.repos]  # the largest first
    assert found == [("org/tiny", RepoKind.MODEL, True, 0), ("org/begun", RepoKind.MODEL, False, 5)]
    assert report.total == sum(repo.size + repo.partial for repo in report.repos)
    assert remove_cached(RemoveRequest(id="org/tiny")).freed == report.repos[0].size
    assert not (cache / "models--org--tiny").exists()
    with pytest.raises(UserError, match="isn't in the cache"):
        remove_cached(RemoveRequest(id="org/tiny"))


# --- A model's config.json


def options_of(source: str) -> RunOptions:
    data = DataOptions(train="", max_length=64)
    return RunOptions(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source=source), data=data)


def no_config(source: str = "org/tiny") -> ModelError:
    with pytest.raises(ModelError) as caught:
        fetch_config(source)
    return caught.value


@pytest.mark.long
def test_a_config_alone_gives_a_forecast(hub):
    """The real processes: the config is downloaded, then the forecast made without the Hub."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = {"model_type": "bert", "vocab_size": 1000, "max_position_embeddings": 128, **sizes}
    hub.repos["models", "org/tiny"].files["config.json"] = json.dumps(config).encode()
    options = options_of("org/tiny")
    assert question_about(options) is None
    run_job("fetch-config", ConfigRequest(source="org/tiny"), ConfigFetched)
    assert {asked.path for asked in hub.asked} == {"/org/tiny/resolve/main/config.json"}
    assert question_about(options) is not None
    assert not is_complete(options), "the weights are missing"
    hub.asked.clear()
    forecast = run_job("forecast", options_request(options), Forecast)
    assert (forecast.basis, forecast.length) == (Basis.FORMULA, 64)
    assert forecast.parts.activations > 0
    assert hub.asked == []


def test_a_model_s_code_is_neither_downloaded_nor_run(hub, monkeypatch):
    from core.engine.models import text

    config = {
        "model_type": "theirs",
        "auto_map": {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"},
    }
    files = {"config.json": json.dumps(config).encode(), "theirs.py": b"evil"}
    hub.repos["models", "org/theirs"] = Repo(files)
    fetch_config("org/theirs")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError):
        text.load_config(options_of("org/theirs"))
    assert {asked.path.rpartition("/")[2] for asked in hub.asked} == {"config.json"}


@pytest.mark.parametrize(
    ("status", "code", "title", "detail"),
    [
        (404, "EntryNotFound", "org/tiny has no config.json", "architecture"),
        (503, "", "refuses org/tiny", "503 Service Unavailable"),
    ],
)
def test_a_refused_config_is_requested_once(hub, status, code, title, detail):
    hub.refusals["org/tiny"] = (status, code)
    error = no_config()
    assert title in error.title
    assert detail in error.detail
    assert [asked.way for asked in hub.asked] == ["HEAD"]


def test_what_is_no_config_is_not_downloaded(hub, tmp_path, monkeypatch):
    hub.repos["models", "org/tiny"].files["config.json"] = b" " * (MAX_CONFIG_BYTES + 1)
    assert "too large" in no_config().title
    assert [asked.way for asked in hub.asked] == ["HEAD"]
    hub.repos["models", "org/tiny"].files["config.json"] = b"{}"
    hub.is_the_hub = False
    assert "doesn't respond as the Hub does" in no_config().title
    assert here() == set()
    hub.is_the_hub = True
    (tmp_path / "hub").write_text("a file where the cache should be")
    assert str(tmp_path / "hub") in no_config().detail
    hub.asked.clear()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE" in no_config().detail
    assert "not a valid name" in no_config("org//tiny").title
    assert hub.asked == []


@pytest.mark.parametrize("error", [httpx2.ReadTimeout("timed out"), errors.LocalEntryNotFoundError("lost")])
def test_a_connection_lost_on_the_way_is_no_bug(error):
    failure = as_user_error(error, Subject("org/tiny"))
    assert "can't be reached" in failure.title
    assert str(error) in failure.detail
