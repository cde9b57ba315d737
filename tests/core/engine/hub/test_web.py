"""uv, requested from a stand-in on this computer, and what is reported without it."""

import hashlib
import socket
import zipfile
from io import BytesIO

import pytest

from core.base import uv
from core.base.errors import UserError
from core.engine.hub import web
from core.engine.hub.web import fetch_uv, read
from tests.fakes.hub import Publisher


@pytest.fixture(autouse=True)
def plain_network(monkeypatch, tmp_path):
    """No proxy."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HONE_HOME", str(tmp_path))


@pytest.fixture
def publisher():
    with Publisher().serving() as publisher:
        yield publisher


def failure(api: str) -> UserError:
    with pytest.raises(UserError) as caught:
        read(api, "Not downloaded")
    return caught.value


def test_why_there_is_no_connection_is_reported(publisher, monkeypatch):
    assert "pypi.invalid can't be reached" in failure("http://pypi.invalid").detail
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
    assert failure("http://pypi.invalid").detail == web.PROXY


# --- uv

FILE = "/files/uv-for-tests.whl"


@pytest.fixture
def index(publisher, monkeypatch):
    """The publisher with a wheel of uv, whose hash is known."""
    packed, name = BytesIO(), "uv-for-tests.whl"
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(f"uv-{uv.VERSION}.data/scripts/{uv.PROGRAM}", "#!/bin/sh\necho uv\n")
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    monkeypatch.setattr(uv, "wheel", lambda: (name, digest))
    monkeypatch.setenv("UV_DEFAULT_INDEX", publisher.url)
    listed = f'<a href="../other/{name}.txt">text</a> <a href="../files/{name}#sha256={digest}">uv</a>'
    publisher.pages = {"/uv/": listed.encode(), FILE: packed.getvalue()}
    return publisher


def test_uv_is_downloaded_once(index, tmp_path):
    program = fetch_uv(tmp_path / "gpu")
    assert {sent["User-Agent"] for sent in index.told} == {"Hone"}
    assert fetch_uv(tmp_path / "gpu") == program
    assert index.asked == ["/uv/", FILE]
    assert program.stat().st_mode & 0o100


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (lambda index, _: index.pages.update({FILE: b"something else"}), "hash"),
        (lambda index, _: index.pages.update({"/uv/": b""}), "has no uv"),
        (lambda index, _: setattr(index, "status", 404), "404"),
        (lambda _, patch: patch.setattr(uv, "wheel", lambda: ("", "")), "has no uv"),
    ],
    ids=["other-file", "not-listed", "not-found", "other-system"],
)
def test_uv_that_can_not_be_downloaded_leaves_nothing(index, tmp_path, monkeypatch, change, detail):
    change(index, monkeypatch)
    with pytest.raises(UserError) as caught:
        fetch_uv(tmp_path / "gpu")
    assert detail in caught.value.detail
    assert not (tmp_path / "gpu").exists()
