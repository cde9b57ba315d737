"""Downloads from the Hub: only what is safe and needed, whole or not at all, going on where they ended."""

import errno
import shutil
from pathlib import Path

import pytest

from core.base import settings
from core.base.errors import UserError
from core.base.jobs import JobCancelled, JobProgress, run_job
from core.engine.hub import download as downloading
from core.engine.hub import download as hub_download
from core.engine.hub.download import download, drop_partial
from core.services import hub as asking
from core.services.hub import (
    ConfigFetched,
    ConfigRequest,
    Download,
    DownloadRequest,
    Kind,
    names_here,
)
from tests.fakes.tiny_on_hub import CONFIG, TINY, WEIGHTS, blob, partials, point_at
from tests.fakes.whole_hub import Repo, WholeHub

REQUEST = DownloadRequest(id="org/tiny")
SAFE = {"config.json", "model.safetensors", "tokenizer.json"}


def bring(request: DownloadRequest = REQUEST) -> list[JobProgress]:
    """Download without waiting between tries; returns what was told meanwhile."""
    told: list[JobProgress] = []
    download(request, told.append)
    return told


def refused(request: DownloadRequest = REQUEST) -> UserError:
    with pytest.raises(UserError) as caught:
        bring(request)
    return caught.value


def test_only_safe_weights_config_and_tokenizer_come(hub: WholeHub, cache: Path) -> None:
    told = bring()
    assert set(names_here("org/tiny", Kind.MODEL)) == SAFE
    folder = cache / "models--org--tiny" / "snapshots"
    assert next(folder.glob("*/model.safetensors")).read_bytes() == WEIGHTS
    assert told[-1].done == told[-1].total == sum(len(TINY[name]) for name in SAFE)
    assert not partials(cache)
    assert not [asked for asked in hub.asked if asked.path.endswith((".bin", ".py", ".md", ".onnx"))]


def test_the_hub_s_own_library_finds_what_came(hub: WholeHub) -> None:
    from huggingface_hub import hf_hub_download, snapshot_download

    bring()
    hub.asked.clear()
    path = hf_hub_download("org/tiny", "config.json", local_files_only=True)
    assert Path(path).read_bytes() == CONFIG
    snapshot_download("org/tiny", local_files_only=True)
    assert asking.cached_files("org/tiny") == SAFE
    assert hub.asked == []


def test_a_second_time_nothing_comes_again(hub: WholeHub) -> None:
    bring()
    hub.asked.clear()
    told = bring()
    assert [asked.path for asked in hub.asked] == ["/api/models/org/tiny"]
    assert told == []


def test_a_connection_that_breaks_off_is_gone_on_with(hub: WholeHub, cache: Path) -> None:
    hub.moods = [None, None, 300_000, 200_000]
    bring()
    ranges = [asked.range for asked in hub.contents()]
    assert ranges == ["", "bytes=300000-", "bytes=500000-"]
    assert next(cache.rglob("model.safetensors")).read_bytes() == WEIGHTS


def test_a_pause_loses_nothing(hub: WholeHub, cache: Path) -> None:
    """The real process, ended in the midst of a file, and another one that goes on."""
    hub.gate.clear()
    halfway = len(WEIGHTS) // 2
    first = Download(REQUEST)

    def pause(progress: JobProgress) -> None:
        if progress.done > halfway:
            first.kill()

    with pytest.raises(JobCancelled):
        first.run(pause)
    here = blob(cache, WEIGHTS).stat().st_size
    assert halfway <= here < len(WEIGHTS)
    assert asking.cached_files("org/tiny") == frozenset(), "half a model is none"
    hub.gate.set()
    told: list[JobProgress] = []
    done = Download(REQUEST).run(told.append)
    assert hub.contents()[-1].range == f"bytes={here}-"
    assert min(progress.done for progress in told if progress.what == "model.safetensors") >= here
    assert (Path(done.path) / "model.safetensors").read_bytes() == WEIGHTS


def test_giving_up_leaves_nothing(hub: WholeHub, cache: Path) -> None:
    hub.moods = [None, None, *[300_000], *[503] * 5]
    refused()
    assert partials(cache)
    assert drop_partial("org/tiny", Kind.MODEL) > 300_000
    assert not (cache / "models--org--tiny").exists()


def test_giving_up_keeps_what_was_whole_before(hub: WholeHub, cache: Path) -> None:
    bring()
    blob(cache, b"newer").write_bytes(b"new")
    assert drop_partial("org/tiny", Kind.MODEL) == 3
    assert set(names_here("org/tiny", Kind.MODEL)) == SAFE


def test_whoever_knows_no_ranges_sends_it_from_the_beginning(hub: WholeHub, cache: Path) -> None:
    hub.moods = [None, None, 300_000]
    hub.knows_ranges = False
    bring()
    assert next(cache.rglob("model.safetensors")).read_bytes() == WEIGHTS


def test_a_hub_that_asks_for_patience_is_asked_again(hub: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    hub.moods = [None, 429]
    bring()
    assert set(names_here("org/tiny", Kind.MODEL)) == SAFE


def test_a_busy_hub_is_told(hub: WholeHub) -> None:
    hub.moods = [None, 503]
    error = refused()
    assert "refuses org/tiny" in error.title
    assert "503" in error.detail
    assert names_here("org/tiny", Kind.MODEL) == {}


def test_a_hub_that_falls_silent(hub: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.05)
    monkeypatch.setattr("time.sleep", lambda _: None)
    hub.gate.clear()
    hub.is_silent = True
    error = refused()
    assert "can't be reached" in error.title
    assert "kept silent" in error.detail


def test_another_length_than_listed_is_not_taken(hub: WholeHub, cache: Path) -> None:
    hub.listed["model.safetensors"] = (len(WEIGHTS) + 5, "a" * 64)
    error = refused()
    assert "came damaged" in error.title
    assert "1,048,581 bytes" in error.detail
    assert asking.cached_files("org/tiny") == frozenset()


def test_another_content_than_listed_is_not_taken(hub: WholeHub, cache: Path) -> None:
    hub.listed["model.safetensors"] = (len(WEIGHTS), "a" * 64)
    assert "The hash of model.safetensors" in refused().detail
    assert not (cache / "models--org--tiny" / "blobs" / f"{'a' * 64}.hone.incomplete").exists()


def test_a_full_disk_is_seen_before(hub: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=hub_download.SPARE + 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    error = refused()
    assert "There is no room for org/tiny" in error.title
    assert not hub.contents()


def test_a_disk_that_fills_up_meanwhile(hub: WholeHub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = hub_download._Partial.write

    def write(file: hub_download._Partial, content: bytes) -> int:
        if file.tell() + len(content) > 300_000:
            genuine(file, content[: 300_000 - file.tell()])
            raise OSError(errno.ENOSPC, "No space left on device")
        return genuine(file, content)

    monkeypatch.setattr(hub_download._Partial, "write", write)
    error = refused()
    assert error.title == "The disk is full"
    assert blob(cache, WEIGHTS).stat().st_size == 300_000


def test_a_cache_that_can_t_be_written(hub: WholeHub, cache: Path) -> None:
    cache.write_text("a file where the cache should be")
    assert "can't be kept on this computer" in refused().title


def test_without_a_network_nobody_waits(hub: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at("http://127.0.0.1:1", monkeypatch)
    error = refused()
    assert error.title.endswith("can't be reached")
    assert "Is this computer online?" in error.detail


def test_a_host_whose_name_nobody_knows(hub: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at("http://hub.invalid", monkeypatch)
    assert "seems to be offline" in refused().detail


def test_somebody_in_the_hub_s_place_is_not_believed(hub: WholeHub) -> None:
    hub.is_the_hub = False
    assert "doesn't answer as the Hub does" in refused().title


@pytest.mark.parametrize("name", ["org/ti ny", "org//tiny", "../etc", "org/tïny", "a/b/c", ""])
def test_a_name_with_odd_letters_is_not_asked_for(hub: WholeHub, name: str) -> None:
    assert "is no name on the Hub" in refused(DownloadRequest(id=name)).title
    assert hub.asked == []


def test_one_that_is_gone(hub: WholeHub) -> None:
    error = refused(DownloadRequest(id="org/gone"))
    assert "There is no model org/gone" in error.title
    assert "spelled right" in error.detail


def test_a_private_one_needs_a_token(hub: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos["models", "org/tiny"].private = True
    assert "or it is private" in refused().title
    hub.people["hf_good_token"] = "ada"
    monkeypatch.setenv("HF_TOKEN", "hf_good_token")
    bring()
    assert set(names_here("org/tiny", Kind.MODEL)) == SAFE


def test_a_gated_one_says_what_to_do(hub: WholeHub) -> None:
    hub.repos["models", "org/tiny"].gated = True
    error = refused()
    assert "open only to those who accepted its terms" in error.title
    assert "https://huggingface.co/org/tiny" in error.detail
    assert "hf auth login" in error.detail


def test_the_token_goes_to_the_hub_and_to_nobody_else(
    hub: WholeHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos["models", "org/tiny"].gated = True
    hub.people["hf_good_token"] = "ada"
    monkeypatch.setenv("HF_TOKEN", "hf_good_token")
    bring()
    assert {asked.token for asked in hub.asked if asked.host == "hub"} == {"hf_good_token"}
    assert {asked.token for asked in hub.contents()} == {""}
    written = [path for path in cache.parent.rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if b"hf_good_token" in path.read_bytes()]


def test_a_wrong_token_is_never_told(hub: WholeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_WrongSecret42")
    error = refused()
    assert "doesn't accept the token" in error.detail
    assert "hf_WrongSecret42" not in f"{error.title} {error.detail}"
    with pytest.raises(UserError) as caught:
        Download(REQUEST).run(lambda _: None)
    assert "hf_WrongSecret42" not in f"{caught.value.title} {caught.value.detail}"


def test_pickled_weights_are_refused_before_any_file(hub: WholeHub) -> None:
    files = {name: content for name, content in TINY.items() if name != "model.safetensors"}
    hub.repos["models", "org/old"] = Repo(files, {"pipeline_tag": "fill-mask"})
    error = refused(DownloadRequest(id="org/old"))
    assert "pickled" in error.detail
    assert any("save_pretrained('old-safetensors')" in fix.label for fix in error.fixes)
    assert not [asked for asked in hub.asked if "/resolve/" in asked.path]


def test_a_model_with_code_of_its_own_is_refused_before_any_file(hub: WholeHub) -> None:
    hub.repos["models", "org/tiny"].facts["config"] = {"auto_map": {"AutoModel": "modeling.Tiny"}}
    assert "Python code of its own" in refused().detail
    assert not [asked for asked in hub.asked if "/resolve/" in asked.path]


def test_where_it_is_forbidden_nothing_is_asked(hub: WholeHub) -> None:
    settings.save(settings.Settings(offline=True))
    error = refused()
    assert error.title == "Hone works offline"
    assert "“Work offline” in Settings" in error.detail
    with pytest.raises(UserError, match="Hone works offline"):
        Download(REQUEST).run(lambda _: None)
    with pytest.raises(UserError, match="works offline"):
        run_job("fetch-config", ConfigRequest(source="org/tiny"), ConfigFetched)
    assert hub.asked == []


def test_two_at_once_don_t_write_into_one_file(hub: WholeHub, cache: Path) -> None:
    hub.gate.clear()
    first = Download(REQUEST)
    messages: list[str] = []

    def try_too(_: JobProgress) -> None:
        if hub.contents() and not messages:
            messages.append(refused().title)
            hub.gate.set()

    first.run(try_too)
    assert messages == ["org/tiny is being downloaded already"]


def test_parts_come_with_their_index(hub: WholeHub) -> None:
    parts = {f"model-0000{n}-of-00002.safetensors": b"part %d" % n for n in (1, 2)}
    index = {"model.safetensors.index.json": b"{}", "consolidated.safetensors": b"the same again"}
    hub.repos["models", "org/big"] = Repo({"config.json": CONFIG, **parts, **index}, {})
    bring(DownloadRequest(id="org/big"))
    assert set(names_here("org/big", Kind.MODEL)) == {"config.json", *parts, "model.safetensors.index.json"}


def test_files_of_the_same_content_both_get_their_names(
    hub: WholeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos["models", "org/tiny"].files["added_tokens.json"] = CONFIG
    monkeypatch.setattr(downloading, "are_symlinks_supported", lambda _: False)
    bring()
    assert names_here("org/tiny", Kind.MODEL)["added_tokens.json"] == len(CONFIG)
    assert set(names_here("org/tiny", Kind.MODEL)) == {*SAFE, "added_tokens.json"}
