"""uv's wheel, fetched from a stand-in for PyPI on this computer, and held against the hash that is known."""

import hashlib
import json
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO

import pytest

from core.base.errors import UserError
from core.engine.hub import fetch_uv as module
from core.engine.hub.fetch_uv import fetch_uv
from core.services.gpu_install import VERSION, UvRequest, program_in, unpack_uv

NAME = "uv-for-tests.whl"


def wheel():
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(f"uv-{VERSION}.data/scripts/uv", "#!/bin/sh\necho uv\n")
        file.writestr(f"uv-{VERSION}.data/scripts/uv.exe", "MZ")
    return packed.getvalue()


@pytest.fixture
def index():
    class Pages(BaseHTTPRequestHandler):
        answers: dict[str, bytes] = {}
        asked: list[str] = []

        def do_GET(self):
            self.asked.append(self.path)
            found = self.answers.get(self.path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, *_said):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    listed = {"urls": [{"filename": NAME, "url": f"{address}/file"}]}
    Pages.answers = {f"/uv/{VERSION}/json": json.dumps(listed).encode(), "/file": wheel()}
    Pages.asked = []
    yield address, Pages
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def request_(tmp_path, monkeypatch):
    known = {("linux", "x86_64"): (NAME, hashlib.sha256(wheel()).hexdigest())}
    monkeypatch.setattr(module, "HASHES", known)
    return UvRequest(folder=str(tmp_path / "cache"), system="linux", processor="x86_64")


def test_it_is_fetched_once_and_unpacked(index, request_, tmp_path):
    address, pages = index
    found = fetch_uv(request_, index=address)
    assert fetch_uv(request_, index=address) == found
    assert pages.asked == [f"/uv/{VERSION}/json", "/file"]
    program = unpack_uv(tmp_path / "cache" / NAME, tmp_path / "cache")
    assert program == str(program_in(tmp_path / "cache"))
    assert program_in(tmp_path / "cache").stat().st_mode & 0o100


def test_another_file_is_refused(index, request_, tmp_path):
    address, pages = index
    pages.answers["/file"] = b"something else"
    with pytest.raises(UserError) as caught:
        fetch_uv(request_, index=address)
    assert "isn't the file that Hone knows" in caught.value.detail
    assert not (tmp_path / "cache").exists()


def test_what_keeps_it_from_being_fetched_is_told(index, request_):
    address, pages = index
    pages.answers = {}
    with pytest.raises(UserError, match="couldn't be fetched") as caught:
        fetch_uv(request_, index=address)
    assert "404" in caught.value.detail
    with pytest.raises(UserError) as caught:
        fetch_uv(request_, index="http://127.0.0.1:9")
    assert "can't be reached" in caught.value.detail
    with pytest.raises(UserError) as caught:
        fetch_uv(UvRequest(folder="", system="plan9", processor="vax"), index=address)
    assert "None is known for plan9 on vax" in caught.value.detail


def test_a_damaged_wheel_is_told(tmp_path):
    (tmp_path / NAME).write_bytes(wheel()[:40])
    with pytest.raises(OSError, match="damaged"):
        unpack_uv(tmp_path / NAME, tmp_path)
