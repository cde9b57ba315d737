"""Downloads from the Hub: only what is safe and needed, whole or not at all, continued where they ended."""

import errno
import json
import shutil
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import errors

from core.base import settings
from core.base.errors import ModelError, UserError
from core.base.jobs import EngineJob, JobCancelled, JobProgress, run_job
from core.engine.hub import download as hub_download
from core.engine.hub.account import FAILURES, Subject, as_user_error
from core.engine.hub.download import (
    MAX_CONFIG_BYTES,
    cached,
    download,
    drop_partial,
    fetch_config,
    remove_cached,
)
from core.memory.model import Basis, Forecast, options_request
from core.options import RunOptions
from core.options.validate import read_options
from core.services import hub as hub_services
from core.services.hub import (
    ConfigFetched,
    ConfigRequest,
    Downloaded,
    DownloadRequest,
    Kind,
    RemoveRequest,
    is_complete,
    is_in_hub_cache,
    names_here,
    question_about,
)
from tests.fakes.hub import CONFIG, TINY, WEIGHTS, Repo, WholeHub, blob, partials, point_at

REQUEST = DownloadRequest(id="org/tiny")
SAFE = {"config.json", "model.safetensors", "tokenizer.json"}
GOOD = "hf_good_token"


def fetch(request: DownloadRequest = REQUEST) -> list[tuple[int, int, str]]:
    reports: list[tuple[int, int, str]] = []
    download(request, lambda *report: reports.append(report))
    return reports


def refused(request: DownloadRequest = REQUEST) -> UserError:
    with pytest.raises(UserError) as caught:
        fetch(request)
    return caught.value


def here(name: str = "org/tiny", kind: Kind = Kind.MODEL) -> set[str]:
    return set(names_here(name, kind))


def test_only_safe_weights_config_and_tokenizer_are_fetched_once(hub, cache):
    reports = fetch()
    assert here() == SAFE
    assert next(cache.rglob("snapshots/*/model.safetensors")).read_bytes() == WEIGHTS
    assert reports[-1][0] == reports[-1][1] == sum(len(TINY[name]) for name in SAFE)
    assert not partials(cache)
    assert not [asked for asked in hub.asked if asked.path.endswith((".bin", ".py", ".md", ".onnx"))]
    hub.asked.clear()
    assert fetch() == []
    assert [asked.path for asked in hub.asked] == ["/api/models/org/tiny"]


def test_huggingface_hub_finds_what_was_fetched(hub):
    from huggingface_hub import hf_hub_download, snapshot_download

    fetch()
    hub.asked.clear()
    assert Path(hf_hub_download("org/tiny", "config.json", local_files_only=True)).read_bytes() == CONFIG
    snapshot_download("org/tiny", local_files_only=True)
    assert hub.asked == []


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_broken_connection_is_continued(hub, cache, knows_ranges):
    hub.knows_ranges = knows_ranges
    hub.moods = [None, None, 300_000, 200_000] if knows_ranges else [None, None, 300_000]
    fetch()
    if knows_ranges:
        assert [asked.range for asked in hub.contents()] == ["", "bytes=300000-", "bytes=500000-"]
    assert next(cache.rglob("model.safetensors")).read_bytes() == WEIGHTS


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
    assert titles[0] == "org/tiny is being downloaded already"
    begun = blob(cache, WEIGHTS).stat().st_size
    assert len(WEIGHTS) // 2 <= begun < len(WEIGHTS)
    assert not is_in_hub_cache("org/tiny"), "half a model is none"
    hub.gate.set()
    reports: list[JobProgress] = []
    done = run_job("hub-download", REQUEST, Downloaded, reports.append)
    assert hub.contents()[-1].range == f"bytes={begun}-"
    assert min(report.done for report in reports if report.what == "model.safetensors") >= begun
    assert (Path(done.path) / "model.safetensors").read_bytes() == WEIGHTS


def test_cancelling_deletes_what_is_unfinished_and_nothing_else(hub, cache):
    hub.moods = [None, None, 300_000, *[503] * 5]
    refused()
    assert partials(cache)
    assert drop_partial("org/tiny", Kind.MODEL) > 300_000
    assert not (cache / "models--org--tiny").exists()
    hub.moods = []
    fetch()
    blob(cache, b"newer").write_bytes(b"new")
    assert drop_partial("org/tiny", Kind.MODEL) == 3
    assert here() == SAFE


def test_a_hub_that_asks_for_patience_is_asked_again(hub, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    hub.moods = [None, 429]
    fetch()
    assert here() == SAFE


def impatient(hub: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.05)
    monkeypatch.setattr("time.sleep", lambda _: None)
    hub.gate.clear()
    hub.is_silent = True


def full_disk(_: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=hub_download.SPARE + 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)


TROUBLES = {
    "busy": (lambda hub, _: setattr(hub, "moods", [None, 503]), "refuses org/tiny", "503"),
    "silent": (impatient, "can't be reached", "didn't answer in time"),
    "longer": (
        lambda hub, _: hub.listed.update({"model.safetensors": (len(WEIGHTS) + 5, "a" * 64)}),
        "is damaged",
        "1,048,581 bytes",
    ),
    "other-content": (
        lambda hub, _: hub.listed.update({"model.safetensors": (len(WEIGHTS), "a" * 64)}),
        "is damaged",
        "hash of model.safetensors",
    ),
    "no-hash": (
        lambda hub, _: hub.listed.update({"model.safetensors": (len(WEIGHTS), "../a")}),
        "can't be used",
        "model.safetensors",
    ),
    "full-disk": (full_disk, "not enough disk space for org/tiny", "are free"),
    "no-network": (lambda _, patch: point_at("http://127.0.0.1:1", patch), "can't be reached", "online?"),
    "no-host": (lambda _, patch: point_at("http://hub.invalid", patch), "can't be reached", "be offline"),
    "not-the-hub": (lambda hub, _: setattr(hub, "is_the_hub", False), "doesn't respond as the Hub", "proxy"),
    "private": (
        lambda hub, _: setattr(hub.repos["models", "org/tiny"], "private", True),
        "is private",
        "token",
    ),
    "gated": (
        lambda hub, _: setattr(hub.repos["models", "org/tiny"], "gated", True),
        "accepted its terms",
        "https://huggingface.co/org/tiny",
    ),
    "wrong-token": (
        lambda _, patch: patch.setenv("HF_TOKEN", "hf_WrongSecret42"),
        "refuses",
        "doesn't accept the token",
    ),
    "own-code": (
        lambda hub, _: hub.repos["models", "org/tiny"].facts.update(config={"auto_map": {"AutoModel": "x"}}),
        "can't use org/tiny",
        "Python code of its own",
    ),
    "offline": (lambda *_: settings.save(settings.Settings(offline=True)), "works offline", "Settings"),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_a_failed_download_is_reported_and_leaves_no_model(name, hub, monkeypatch):
    cause, title, detail = TROUBLES[name]
    cause(hub, monkeypatch)
    error = refused()
    assert title in error.title
    assert detail in error.detail
    assert "hf_WrongSecret42" not in f"{error.title} {error.detail}"
    assert here() == set()


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


def test_a_cache_that_cant_be_written(hub, cache):
    cache.write_text("a file where the cache should be")
    assert "can't be saved" in refused().title


@pytest.mark.parametrize("name", ["org/ti ny", "org//tiny", "../etc", "org/tïny", "a/b/c", ""])
def test_an_impossible_name_is_not_asked_for(hub, name):
    assert "not a valid name" in refused(DownloadRequest(id=name)).title
    assert hub.asked == []


def test_pickled_weights_are_refused_before_any_file(hub):
    files = {name: content for name, content in TINY.items() if name != "model.safetensors"}
    hub.repos["models", "org/old"] = Repo(files, {"pipeline_tag": "fill-mask"})
    error = refused(DownloadRequest(id="org/old"))
    assert "pickled" in error.detail
    assert any("save_pretrained('old-safetensors')" in fix.label for fix in error.fixes)
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
    fetch(DownloadRequest(id="org/big"))
    assert here("org/big") == {"config.json", *parts, "model.safetensors.index.json"}


def test_files_of_the_same_content_both_get_their_names(hub, monkeypatch):
    hub.repos["models", "org/tiny"].files["added_tokens.json"] = CONFIG
    monkeypatch.setattr(hub_download, "are_symlinks_supported", lambda _: False)
    fetch()
    assert names_here("org/tiny", Kind.MODEL)["added_tokens.json"] == len(CONFIG)
    assert here() == {*SAFE, "added_tokens.json"}


# --- The cache


def test_the_cache_is_listed_and_emptied(hub, cache):
    assert cached().repos == ()
    fetch()
    part = cache / "models--org--begun" / "blobs" / "abc.hone.incomplete"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"12345")
    report = cached()
    found = {repo.id: (repo.kind, repo.complete, repo.partial) for repo in report.repos}
    assert found == {
        "org/tiny": (Kind.MODEL, True, 0),
        "org/begun": (Kind.MODEL, False, 5),
    }
    assert report.repos[0].id == "org/tiny", "the largest first"
    assert report.total == sum(repo.size + repo.partial for repo in report.repos)
    blob(cache, b"newer").write_bytes(b"new")
    assert remove_cached(RemoveRequest(id="org/tiny", only_partial=True)).freed == 3
    assert remove_cached(RemoveRequest(id="org/tiny")).freed == report.repos[0].size
    assert not (cache / "models--org--tiny").exists()
    with pytest.raises(UserError, match="isn't in the cache"):
        remove_cached(RemoveRequest(id="org/tiny"))


# --- A model's config.json


BERT = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 1000,
    "max_position_embeddings": 128,
}
OWN_CODE = {"model_type": "theirs", "auto_map": {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"}}


def options_of(source: str) -> RunOptions:
    data = {"train": "", "max_length": 64}
    options, problems = read_options(
        {"task": "text-classification", "model": {"source": source}, "data": data}
    )
    assert options is not None, problems
    return options


def no_config(source: str = "org/tiny") -> ModelError:
    with pytest.raises(ModelError) as caught:
        fetch_config(source)
    return caught.value


@pytest.mark.long
def test_a_config_alone_gives_a_forecast(hub):
    """The real processes: the config is downloaded, then the forecast made without the Hub."""
    hub.repos["models", "org/tiny"].files["config.json"] = json.dumps(BERT).encode()
    options = options_of("org/tiny")
    assert question_about(options) is None
    run_job("fetch-config", ConfigRequest(source="org/tiny"), ConfigFetched)
    assert {(request.way, request.path) for request in hub.asked} == {
        (way, "/org/tiny/resolve/main/config.json") for way in ("HEAD", "GET")
    }
    assert question_about(options) is not None
    assert not is_complete(options), "the weights are missing"
    hub.asked.clear()
    forecast = run_job("forecast", options_request(options), Forecast)
    assert (forecast.basis, forecast.length) == (Basis.FORMULA, 64)
    assert forecast.parts.activations > 0
    assert hub.asked == []


def test_a_model_s_code_is_neither_downloaded_nor_run(hub, monkeypatch):
    from core.engine.models import text

    hub.repos["models", "org/theirs"] = Repo(
        {"config.json": json.dumps(OWN_CODE).encode(), "theirs.py": b"evil"}
    )
    fetch_config("org/theirs")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError):
        text.load_config(options_of("org/theirs"))
    assert {request.path.rpartition("/")[2] for request in hub.asked} == {"config.json"}


@pytest.mark.parametrize(
    ("status", "code", "title", "detail"),
    [
        (404, "RepoNotFound", "has no org/tiny", "hf auth login"),
        (401, "GatedRepo", "accepted its terms", "https://huggingface.co/org/tiny"),
        (403, "GatedRepo", "accepted its terms", "hf auth login"),
        (404, "EntryNotFound", "org/tiny has no config.json", "architecture"),
        (401, "", "refuses org/tiny", "hf auth login"),
        (429, "", "refuses org/tiny", "Too many"),
        (503, "", "refuses org/tiny", "503 Service Unavailable"),
    ],
)
def test_a_refused_config_is_requested_once(hub, status, code, title, detail):
    hub.refusals["org/tiny"] = (status, code)
    error = no_config()
    assert title in error.title
    assert detail in error.detail
    assert [request.way for request in hub.asked] == ["HEAD"]
    with pytest.raises(UserError) as caught:
        run_job("fetch-config", ConfigRequest(source="org/tiny"), ConfigFetched)
    assert caught.value.title == error.title


def test_what_is_no_config_is_not_downloaded(hub, tmp_path, monkeypatch):
    hub.repos["models", "org/tiny"].files["config.json"] = b" " * (MAX_CONFIG_BYTES + 1)
    assert "too large" in no_config().title
    assert [request.way for request in hub.asked] == ["HEAD"]
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


@pytest.mark.parametrize(
    "error",
    [httpx2.ReadTimeout("timed out"), errors.LocalEntryNotFoundError("lost on the way")],
    ids=["timeout", "lost"],
)
def test_a_silent_hub_can_t_be_reached(error):
    assert isinstance(error, FAILURES)
    failure = as_user_error(error, Subject("org/tiny"))
    assert failure.title == f"{hub_services.host()} can't be reached"
    assert str(error) in failure.detail
