"""Downloads from the Hub: only what is safe and needed, whole or not at all, continued where they ended."""

import errno
import shutil
from pathlib import Path

import pytest

from core.base import settings
from core.base.errors import UserError
from core.base.jobs import EngineJob, JobCancelled, JobProgress, run_job
from core.engine.hub import download as hub_download
from core.engine.hub.download import cached, download, drop_partial, remove_cached
from core.services.hub import (
    ConfigFetched,
    ConfigRequest,
    Downloaded,
    DownloadRequest,
    Kind,
    RemoveRequest,
    is_in_hub_cache,
    names_here,
)
from tests.fakes.tiny_on_hub import CONFIG, TINY, WEIGHTS, blob, partials, point_at
from tests.fakes.whole_hub import Repo, WholeHub

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


def signed_in(hub: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.people[GOOD] = "ada"
    monkeypatch.setenv("HF_TOKEN", GOOD)


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
    """The real process, ended in the middle of a file, another download meanwhile, and one that continues."""
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


def busy(hub: WholeHub, _: pytest.MonkeyPatch) -> None:
    hub.moods = [None, 503]


def silent(hub: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.05)
    monkeypatch.setattr("time.sleep", lambda _: None)
    hub.gate.clear()
    hub.is_silent = True


def longer(hub: WholeHub, _: pytest.MonkeyPatch) -> None:
    hub.listed["model.safetensors"] = (len(WEIGHTS) + 5, "a" * 64)


def other_content(hub: WholeHub, _: pytest.MonkeyPatch) -> None:
    hub.listed["model.safetensors"] = (len(WEIGHTS), "a" * 64)


def full_disk(_: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=hub_download.SPARE + 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)


def no_network(_: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at("http://127.0.0.1:1", monkeypatch)


def no_such_host(_: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at("http://hub.invalid", monkeypatch)


def somebody_else(hub: WholeHub, _: pytest.MonkeyPatch) -> None:
    hub.is_the_hub = False


def private(hub: WholeHub, _: pytest.MonkeyPatch) -> None:
    hub.repos["models", "org/tiny"].private = True


def gated(hub: WholeHub, _: pytest.MonkeyPatch) -> None:
    hub.repos["models", "org/tiny"].gated = True


def wrong_token(_: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_WrongSecret42")


def own_code(hub: WholeHub, _: pytest.MonkeyPatch) -> None:
    hub.repos["models", "org/tiny"].facts["config"] = {"auto_map": {"AutoModel": "modeling.Tiny"}}


def offline(_: WholeHub, __: pytest.MonkeyPatch) -> None:
    settings.save(settings.Settings(offline=True))


@pytest.mark.parametrize(
    ("trouble", "title", "detail"),
    [
        (busy, "refuses org/tiny", "503"),
        (silent, "can't be reached", "kept silent"),
        (longer, "came damaged", "1,048,581 bytes"),
        (other_content, "came damaged", "The hash of model.safetensors"),
        (full_disk, "There is no room for org/tiny", "are free"),
        (no_network, "can't be reached", "Is this computer online?"),
        (no_such_host, "can't be reached", "seems to be offline"),
        (somebody_else, "doesn't answer as the Hub does", "proxy"),
        (private, "or it is private", "spelled right"),
        (gated, "open only to those who accepted its terms", "https://huggingface.co/org/tiny"),
        (wrong_token, "refuses", "doesn't accept the token"),
        (own_code, "Hone can't use org/tiny", "Python code of its own"),
        (offline, "Hone works offline", "“Work offline” in Settings"),
    ],
)
def test_what_goes_wrong_is_reported_and_leaves_no_half_model(trouble, title, detail, hub, monkeypatch):
    trouble(hub, monkeypatch)
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
    assert "can't be kept on this computer" in refused().title


@pytest.mark.parametrize("name", ["org/ti ny", "org//tiny", "../etc", "org/tïny", "a/b/c", ""])
def test_an_impossible_name_is_not_asked_for(hub, name):
    assert "is no name on the Hub" in refused(DownloadRequest(id=name)).title
    assert hub.asked == []


def test_pickled_weights_are_refused_before_any_file(hub):
    files = {name: content for name, content in TINY.items() if name != "model.safetensors"}
    hub.repos["models", "org/old"] = Repo(files, {"pipeline_tag": "fill-mask"})
    error = refused(DownloadRequest(id="org/old"))
    assert "pickled" in error.detail
    assert any("save_pretrained('old-safetensors')" in fix.label for fix in error.fixes)
    assert not [asked for asked in hub.asked if "/resolve/" in asked.path]


def test_the_token_goes_to_the_hub_and_to_nobody_else(hub, cache, monkeypatch):
    gated(hub, monkeypatch)
    private(hub, monkeypatch)
    signed_in(hub, monkeypatch)
    fetch()
    assert {asked.token for asked in hub.asked if asked.host == "hub"} == {GOOD}
    assert {asked.token for asked in hub.contents()} == {""}
    written = [path for path in cache.parent.rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if GOOD.encode() in path.read_bytes()]


def test_offline_no_process_asks(hub, monkeypatch):
    offline(hub, monkeypatch)
    with pytest.raises(UserError, match="works offline"):
        run_job("fetch-config", ConfigRequest(source="org/tiny"), ConfigFetched)
    assert hub.asked == []


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
