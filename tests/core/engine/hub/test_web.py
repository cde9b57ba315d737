"""The newest release and uv, requested from a stand-in on this computer; and what is reported without them."""

import hashlib
import json
import platform
import socket
import sys
import time
import zipfile
from io import BytesIO

import pytest

from core.base import settings
from core.base.errors import UserError
from core.base.jobs import run_job
from core.base.settings import Settings
from core.engine.hub import web
from core.engine.hub.web import NOT_UNDERSTOOD, UV_VERSION, fetch_uv, newest_release
from core.services.hub import Release, ReleaseRequest, ReleaseStanding
from tests.fakes.hub import Publisher


@pytest.fixture(autouse=True)
def plain_network(monkeypatch, tmp_path):
    """No proxy, nothing forbidden."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HONE_HOME", str(tmp_path))


@pytest.fixture
def publisher():
    with Publisher().serving() as publisher:
        yield publisher


def release(api: str, running: str = "0.1.0") -> Release:
    return newest_release(ReleaseRequest(repository="someone/hone", running=running), api=api)


def failure(api: str) -> UserError:
    with pytest.raises(UserError) as caught:
        release(api)
    return caught.value


@pytest.mark.parametrize(
    ("running", "newest", "standing"),
    [("0.9.0", "v0.10.0", "older"), ("1.0", "v1.0.0", "same"), ("2.0.0", "1.9.9", "newer")],
)
def test_versions_are_compared_as_numbers(publisher, running, newest, standing):
    publisher.publish(newest)
    found = release(publisher.url, running)
    assert (found.version, found.standing) == (newest.removeprefix("v"), ReleaseStanding(standing))
    assert found.page == f"https://github.com/someone/hone/releases/tag/{newest}"


def test_a_request_for_the_newest_release_identifies_nobody(publisher):
    publisher.publish("v0.2.0")
    release(publisher.url)
    assert publisher.asked == ["/repos/someone/hone/releases/latest"]
    (sent,) = publisher.told
    assert sent.keys() == {"Host", "Accept", "Accept-Encoding", "Connection", "User-Agent"}
    assert sent["User-Agent"] == "Hone"


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>Sign in</html>", b"[]", b'{"tag_name": "nightly"}', b'{"tag_name": 3}', b"[" * 9999],
    ids=["empty", "html", "list", "word", "number", "deep"],
)
def test_an_invalid_answer_is_reported(publisher, body):
    publisher.body = body
    assert failure(publisher.url).detail == NOT_UNDERSTOOD


@pytest.mark.parametrize(
    ("status", "headers", "detail"),
    [
        (404, {}, "404"),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1200"}, "again in 20 min"),
        (429, {"retry-after": "61"}, "again in 1 min"),
        (403, {}, "403"),
    ],
    ids=["absent", "limited", "too-many", "refused"],
)
def test_a_refusal_is_reported_with_how_long_to_wait(publisher, monkeypatch, status, headers, detail):
    monkeypatch.setattr(time, "time", lambda: 0.0)
    publisher.status, publisher.headers = status, headers
    assert detail in failure(publisher.url).detail


def test_why_there_is_no_connection_is_reported(publisher, monkeypatch):
    assert "releases.invalid can't be reached" in failure("http://releases.invalid").detail
    publisher.hangs_up = True
    assert "can't be reached" in failure(publisher.url).detail
    assert "certificate" in failure(publisher.url.replace("http:", "https:")).detail
    monkeypatch.setattr(web, "SECONDS", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert "in time" in failure(f"http://127.0.0.1:{silent.getsockname()[1]}").detail
    publisher.hangs_up, publisher.status = False, 407
    monkeypatch.setenv("http_proxy", publisher.url)
    monkeypatch.setenv("no_proxy", "")
    assert failure("http://releases.invalid").detail == web.PROXY


def test_there_is_no_request_offline(publisher):
    settings.save(Settings(offline=True))
    assert failure(publisher.url).title == "Hone works offline"
    assert publisher.asked == []
    with pytest.raises(UserError, match="offline"):
        run_job("release", ReleaseRequest(repository="someone/hone", running="0.1.0"), Release)


# --- uv


@pytest.fixture
def index(publisher, monkeypatch):
    """The publisher with a wheel of uv, whose hash is known."""
    packed, name = BytesIO(), "uv-for-tests.whl"
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(f"uv-{UV_VERSION}.data/scripts/{web.UV}", "#!/bin/sh\necho uv\n")
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    monkeypatch.setattr(web, "UV_WHEELS", {(sys.platform, platform.machine().lower()): (name, digest)})
    listed = {"urls": [{"filename": name, "url": f"{publisher.url}/file"}]}
    publisher.pages = {f"/uv/{UV_VERSION}/json": json.dumps(listed).encode(), "/file": packed.getvalue()}
    return publisher


def test_uv_is_downloaded_once(index, tmp_path):
    program = fetch_uv(tmp_path / "gpu", index=index.url)
    assert fetch_uv(tmp_path / "gpu", index=index.url) == program
    assert index.asked == [f"/uv/{UV_VERSION}/json", "/file"]
    assert program.stat().st_mode & 0o100


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (lambda index, _: index.pages.update({"/file": b"something else"}), "hash"),
        (lambda index, _: index.pages.clear(), "has no uv"),
        (lambda index, _: setattr(index, "status", 404), "404"),
        (lambda _, patch: patch.setattr(web, "UV_WHEELS", {}), "has no uv"),
    ],
    ids=["other-file", "not-listed", "not-found", "other-system"],
)
def test_uv_that_can_not_be_downloaded_leaves_nothing(index, tmp_path, monkeypatch, change, detail):
    change(index, monkeypatch)
    with pytest.raises(UserError) as caught:
        fetch_uv(tmp_path / "gpu", index=index.url)
    assert detail in caught.value.detail
    assert not (tmp_path / "gpu").exists()
