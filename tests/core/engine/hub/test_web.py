"""uv, requested from a stand-in on this computer, and what is reported without it."""

import hashlib
import shutil
import socket
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from core.base import uv
from core.base.errors import UserError
from core.engine.hub import web
from core.engine.hub.web import fetch_uv, read
from tests.fakes.hub import Publisher


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of this computer, which nobody has signed, with its key."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl, for a certificate")
    path = tmp_path_factory.mktemp("certificate") / "localhost.pem"
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    host = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    subprocess.run([*made, *host, "-keyout", path, "-out", f"{path}.crt"], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


@pytest.fixture(autouse=True)
def plain_network(monkeypatch, tmp_path):
    """No proxy, no certificates of one's own, no settings of pip's."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(uv, "_pip_files", lambda _environ: [])
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
    monkeypatch.setattr(uv, "SECONDS", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert "in time" in failure(f"http://127.0.0.1:{silent.getsockname()[1]}").detail
    publisher.hangs_up, publisher.status = False, 407
    monkeypatch.setenv("http_proxy", publisher.url)
    monkeypatch.setenv("no_proxy", "")
    assert failure("http://pypi.invalid").detail == web.PROXY


def test_a_download_that_breaks_off_is_an_error_of_the_connection(publisher):
    publisher.headers = {"Content-Length": "99"}
    with pytest.raises(OSError, match="IncompleteRead"):
        uv.read(publisher.url)


def test_the_proxy_that_pip_is_told_of_is_asked(publisher, monkeypatch):
    monkeypatch.setenv("PIP_PROXY", publisher.url)
    monkeypatch.setenv("no_proxy", "")
    assert read("http://pypi.invalid/uv/", "Not downloaded") == publisher.body
    assert publisher.asked == ["http://pypi.invalid/uv/"]


@pytest.mark.parametrize("trusting", ["PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "PIP_TRUSTED_HOST"])
def test_certificates_and_hosts_that_pip_trusts_are_trusted(monkeypatch, trusting, certificate):
    with Publisher().serving(certificate) as publisher:
        monkeypatch.setenv("PIP_TRUSTED_HOST", "other")
        assert "certificate" in failure(publisher.url).detail
        monkeypatch.setenv(trusting, "other\n127.0.0.1" if "HOST" in trusting else str(certificate))
        assert uv.read(publisher.url) == read(publisher.url, "Not downloaded") == publisher.body


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


@pytest.mark.parametrize(
    ("files", "logins"),
    [
        ("../files", ["Basic bWU6c2UgY3JldA=="] * 2),
        ("{url}/files", ["Basic bWU6c2UgY3JldA=="] * 2),
        ("{elsewhere}/files", ["Basic bWU6c2UgY3JldA==", None]),
    ],
    ids=["relative", "same-host", "other-host"],
)
def test_the_login_of_an_index_is_sent_to_its_host_alone(index, tmp_path, monkeypatch, files, logins):
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url.replace("//", "//me:se%20cret@"))
    place = files.format(url=index.url, elsewhere=index.url.replace("127.0.0.1", "localhost"))
    index.pages["/uv/"] = f'<a href="{place}/uv-for-tests.whl">uv</a>'.encode()
    assert fetch_uv(tmp_path / "gpu").is_file()
    assert [sent.get("Authorization") for sent in index.told] == logins


@pytest.mark.parametrize("change", [{"status": 401}, {"pages": {"/uv/": b""}}], ids=["refused", "not-listed"])
def test_the_login_of_an_index_is_not_shown(index, tmp_path, monkeypatch, change):
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url.replace("//", "//me:secret@"))
    for name, value in change.items():
        setattr(index, name, value)
    with pytest.raises(UserError) as caught:
        fetch_uv(tmp_path / "gpu")
    assert caught.value.detail.startswith("127.0.0.1:")
    command = [sys.executable, "-m", "core.base.uv", str(tmp_path / "gpu")]
    done = subprocess.run(command, cwd=Path(__file__).parents[4], capture_output=True, text=True, check=False)
    assert done.stderr.startswith(f"error: uv {uv.VERSION} couldn't be downloaded from http://127.0.0.1:")
    assert "secret" not in done.stderr


def test_a_folder_of_wheels_is_asked_first(index, tmp_path, monkeypatch):
    wheels = tmp_path / "my wheels"
    wheels.mkdir()
    monkeypatch.setenv("UV_FIND_LINKS", f"{tmp_path},{wheels.as_uri()}")
    monkeypatch.setenv("UV_NO_INDEX", "true")
    with pytest.raises(UserError) as caught:
        fetch_uv(tmp_path / "gpu")
    assert caught.value.detail.startswith("UV_FIND_LINKS has no uv")
    wheel = wheels / "uv-for-tests.whl"
    wheel.write_bytes(b"something else")
    with pytest.raises(UserError, match="couldn't be downloaded") as caught:
        fetch_uv(tmp_path / "gpu")
    assert "hash" in caught.value.detail
    wheel.write_bytes(index.pages[FILE])
    monkeypatch.delenv("UV_NO_INDEX")
    assert fetch_uv(tmp_path / "gpu").is_file()
    assert index.asked == []
