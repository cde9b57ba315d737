"""The newest release and uv, asked of a stand-in on this computer; and what is said where they can't be had."""

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
from core.services.hub import Release, ReleaseRequest
from core.services.hub import ReleaseStanding as Standing
from tests.fakes.publisher import Publisher

REQUEST = ReleaseRequest(repository="someone/hone", running="0.1.0")
NAME = "uv-for-tests.whl"


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


def failure(api):
    with pytest.raises(UserError) as caught:
        newest_release(REQUEST, api=api)
    return caught.value


def test_a_newer_release_is_told_and_nothing_about_who_asks_is_sent(publisher):
    publisher.publish("v0.2.0")
    found = newest_release(REQUEST, api=publisher.url)
    assert (found.version, found.standing) == ("0.2.0", Standing.OLDER)
    assert found.page == "https://github.com/someone/hone/releases/tag/v0.2.0"
    assert publisher.asked == ["/repos/someone/hone/releases/latest"]
    (told,) = publisher.told
    assert told.pop("Host").startswith("127.0.0.1:")
    assert told == {
        "Accept": "application/vnd.github+json",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "User-Agent": "Hone",
    }


@pytest.mark.parametrize(
    ("running", "newest", "standing"),
    [
        ("0.9.0", "0.10.0", Standing.OLDER),
        ("1.0", "v1.0.0", Standing.SAME),
        ("2.0.0", "1.9.9", Standing.NEWER),
    ],
)
def test_versions_are_compared_as_numbers(publisher, running, newest, standing):
    publisher.publish(newest)
    request = ReleaseRequest(repository="someone/hone", running=running)
    assert newest_release(request, api=publisher.url).standing is standing


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>Sign in</html>", b"[]", b'{"tag_name": "nightly"}', b'{"tag_name": 3}', b"[" * 9999],
)
def test_an_answer_of_somebody_else_is_told(publisher, body):
    publisher.body = body
    error = failure(publisher.url)
    assert error.detail == NOT_UNDERSTOOD
    assert [fix.label for fix in error.fixes] == ["Look at https://github.com/someone/hone/releases"]


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (404, {}, "nothing is published there"),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1200"}, "again in 20 min"),
        (429, {"retry-after": "61"}, "again in 1 min"),
        (503, {}, "answered with 503"),
        (403, {}, "answered with 403"),
    ],
)
def test_a_refusal_is_told(publisher, status, headers, said):
    if "x-ratelimit-reset" in headers:
        headers = {**headers, "x-ratelimit-reset": str(int(time.time()) + int(headers["x-ratelimit-reset"]))}
    publisher.status, publisher.headers = status, headers
    assert said in failure(publisher.url).detail


def test_a_proxy_that_wants_a_password_is_told(publisher, monkeypatch):
    publisher.status = 407
    monkeypatch.setenv("http_proxy", publisher.url)
    monkeypatch.setenv("no_proxy", "")
    assert failure("http://releases.invalid").detail == web.PROXY


def test_no_network_nobody_there_and_strangers_are_told(publisher, monkeypatch):
    assert "releases.invalid can't be found" in failure("http://releases.invalid").detail
    publisher.hangs_up = True
    assert "can't be reached" in failure(publisher.url).detail
    assert "certificate" in failure(publisher.url.replace("http:", "https:")).detail
    monkeypatch.setattr(web, "SECONDS", 0.05)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{other.getsockname()[1]}"
        assert "can't be reached" in failure(address).detail
        other.listen()  # and says nothing
        assert "didn't answer in" in failure(address).detail


def test_offline_nobody_is_asked(publisher):
    settings.save(Settings(offline=True))
    assert failure(publisher.url).title == "Hone works offline"
    assert publisher.asked == []
    with pytest.raises(UserError) as caught:  # the whole way through its process
        run_job("release", REQUEST, Release)
    assert caught.value.title == "Hone works offline"


@pytest.fixture
def index(publisher, monkeypatch):
    """The publisher with a wheel of uv, whose hash is known."""
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(f"uv-{UV_VERSION}.data/scripts/{web.UV}", "#!/bin/sh\necho uv\n")
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    monkeypatch.setattr(web, "UV_WHEELS", {(sys.platform, platform.machine().lower()): (NAME, digest)})
    listed = {"urls": [{"filename": NAME, "url": f"{publisher.url}/file"}]}
    publisher.pages = {f"/uv/{UV_VERSION}/json": json.dumps(listed).encode(), "/file": packed.getvalue()}
    return publisher


def test_uv_is_fetched_once(index, tmp_path):
    program = fetch_uv(tmp_path / "gpu", index=index.url)
    assert fetch_uv(tmp_path / "gpu", index=index.url) == program
    assert index.asked == [f"/uv/{UV_VERSION}/json", "/file"]
    assert program.stat().st_mode & 0o100


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda index, _: index.pages.update({"/file": b"something else"}), "isn't the file whose hash"),
        (lambda index, _: index.pages.clear(), "has no uv"),
        (lambda index, _: setattr(index, "status", 404), "404"),
        (lambda _, patch: patch.setattr(web, "UV_WHEELS", {}), "has no uv"),
    ],
)
def test_what_keeps_uv_from_being_fetched_is_told(index, tmp_path, monkeypatch, change, said):
    change(index, monkeypatch)
    with pytest.raises(UserError, match="couldn't be fetched") as caught:
        fetch_uv(tmp_path / "gpu", index=index.url)
    assert said in caught.value.detail
    assert not (tmp_path / "gpu").exists()
