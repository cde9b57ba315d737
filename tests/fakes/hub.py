"""A Hugging Face Hub on this computer: search, files, whoami and uploads; and a place where Hone is published."""

import base64
import contextlib
import hashlib
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import keyring
import pytest
from huggingface_hub import constants
from keyring.backends import fail

from core.options.hub import RepoKind, page_of


@contextmanager
def served(*handlers: type[BaseHTTPRequestHandler], certificate: Path | None = None) -> Iterator[list[str]]:
    """Serve each handler at a port of its own until the end of the block; gives their addresses.

    Args:
        certificate: With its key; None: without TLS.
    """
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for handler in handlers]
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        for server in servers:
            server.socket = context.wrap_socket(server.socket, server_side=True)
    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}) for server in servers
    ]
    for thread in threads:
        thread.start()
    try:
        scheme = "http" if certificate is None else "https"
        yield [f"{scheme}://127.0.0.1:{server.server_port}" for server in servers]
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


LARGE = (".safetensors", ".gguf", ".onnx")


@dataclass
class Uploads:
    """Repositories that were created, by name: whether they are private, and their files.

    As huggingface_hub 2.4.0 asks: `/api/repos/create`, `/api/validate-yaml`, `/api/models/NAME/preupload/main`,
    `NAME.git/info/lfs/objects/batch` with a PUT for each large file, and `/api/models/NAME/commit/main` in lines of
    JSON. `readers` are tokens that may only read.
    """

    private: dict[str, bool] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    readers: set[str] = field(default_factory=set)
    refuses_commits: bool = False
    large: dict[str, bytes] = field(default_factory=dict)

    def answer(self, path: str, body: bytes, token: str, url: str) -> tuple[int, Any]:
        """Status and JSON for a POST or PUT."""
        if path.startswith("/large/"):
            self.large[hashlib.sha256(body).hexdigest()] = body
            return 200, {}
        if token in self.readers:
            return 403, {"error": "You don't have the rights"}
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if "/commit/" in path:
            return self._commit(path.removeprefix("/api/models/").partition("/commit/")[0], body, url)
        return 200, _modes(body) if "/preupload/" in path else _actions(body, url)

    def _create(self, asked: dict[str, Any]) -> tuple[int, Any]:
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.private:
            return 409, {"error": "You already created this model repo", "url": page_of(name, RepoKind.MODEL)}
        self.private[name] = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.files[name] = {}
        return 200, {"url": page_of(name, RepoKind.MODEL), "name": name}

    def _commit(self, name: str, body: bytes, url: str) -> tuple[int, Any]:
        if self.refuses_commits:
            return 403, {"error": "You don't have the rights"}
        for line in body.splitlines():
            told = json.loads(line)
            value = told["value"]
            if told["key"] == "file":
                self.files[name][value["path"]] = base64.b64decode(value["content"])
            elif told["key"] == "lfsFile":
                self.files[name][value["path"]] = self.large[value["oid"]]
        commit = "a" * 40
        return 200, {"commitUrl": f"{url}/{name}/commit/{commit}", "commitOid": commit, "success": True}


def _modes(body: bytes) -> dict[str, Any]:
    """Which files are to be sent beforehand."""
    files = json.loads(body)["files"]
    modes = {file["path"]: "lfs" if file["path"].endswith(LARGE) else "regular" for file in files}
    return {
        "files": [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]
    }


def _actions(body: bytes, url: str) -> dict[str, Any]:
    """Where each of them is to be sent."""
    objects = json.loads(body)["objects"]
    where = [
        {**one, "actions": {"upload": {"href": f"{url}/large/{one['oid']}", "header": {}}}} for one in objects
    ]
    return {"transfer": "basic", "objects": where}


class Publisher:
    """Answers every GET with `status`, `headers` and what `pages` has at its path, else `body`.

    `asked` are the paths, `told` the headers it was sent.
    """

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = b"{}"
        self.pages: dict[str, bytes] = {}
        self.hangs_up = False
        self.asked: list[str] = []
        self.told: list[dict[str, str]] = []
        self.url = ""

    @contextmanager
    def serving(self, certificate: Path | None = None) -> Iterator["Publisher"]:
        """Answer until the end of the block, at `url`; with TLS where there is a certificate."""

        class Handler(BaseHTTPRequestHandler):
            publisher = self
            log_message = quiet

            def do_GET(self) -> None:
                self.publisher.asked.append(self.path)
                self.publisher.told.append(dict(self.headers))
                if not self.publisher.hangs_up:
                    body = self.publisher.pages.get(self.path, self.publisher.body)
                    send(self, self.publisher.status, body, self.publisher.headers)

        with served(Handler, certificate=certificate) as (self.url,):
            yield self


def quiet(*_: object) -> None:
    """Print no line for a request."""


def send(
    handler: BaseHTTPRequestHandler, status: int, content: bytes, headers: dict[str, str] | None = None
) -> None:
    handler.send_response(status)
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(content)


COMMIT = "0123456789abcdef0123456789abcdef01234567"
SLOW_SECONDS = 0.01
STORED_APART = (".safetensors", ".bin", ".parquet")


@dataclass
class Repo:
    """A model or data set; `facts` are what the API tells besides (`downloads`, `tags`, `safetensors`, ...)."""

    files: dict[str, bytes]
    facts: dict[str, Any] = field(default_factory=dict)
    gated: bool = False
    private: bool = False


@dataclass(frozen=True)
class Asked:
    """A request that came in."""

    host: str
    way: str
    path: str
    query: dict[str, list[str]]
    range: str
    token: str


class WholeHub:
    """Answers as the Hub does.

    Attributes:
        repos: By kind and id, such as `("models", "org/tiny")`.
        people: Whose token it is, by token. All of them have accepted all terms.
        moods: Taken one for each request for a file's content: a status to refuse with, or after how many bytes the
            connection breaks off. None: no mood.
        api_moods: A status for each question to the API, likewise.
        gate: Where it is not set, a large file comes byte by byte from its middle on, until it is.
        is_silent: Where the gate is not set, no byte of it comes at all.
        knows_ranges: False: every answer begins at the beginning.
        refusals: Status and `X-Error-Code` for a file of a repository, by its id.
        listed: What the list says of a file, in place of the truth: name to (size, hash).
        asked: All requests.
        uploads: What was sent here.
    """

    def __init__(self) -> None:
        self.repos: dict[tuple[str, str], Repo] = {}
        self.people: dict[str, str] = {}
        self.moods: list[int | None] = []
        self.api_moods: list[tuple[int, dict[str, str]]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.is_silent = False
        self.knows_ranges = True
        self.is_the_hub = True
        self.refusals: dict[str, tuple[int, str]] = {}
        self.listed: dict[str, tuple[int, str]] = {}
        self.asked: list[Asked] = []
        self.uploads = Uploads()
        self.url = self.elsewhere = ""

    @contextmanager
    def serving(self) -> Iterator["WholeHub"]:
        """Answer until the end of the block, at `url`; large files come from `elsewhere`."""
        handlers = [type("Handler", (_Handler,), {"hub": self, "host": host}) for host in ("hub", "cdn")]
        with served(*handlers) as (self.url, self.elsewhere):
            try:
                yield self
            finally:
                self.gate.set()

    def contents(self) -> list[Asked]:
        """The requests for a large file's content."""
        return [asked for asked in self.asked if asked.host == "cdn"]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: WholeHub
    host: str

    log_message = quiet

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # whoever asked may be gone, ended by a test
            super().handle()

    def _receive(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(Asked(self.host, self.command, path, {}, "", token))
        if token and token not in self.hub.people:
            self._deny("Invalid credentials in Authorization header")
            return
        status, answer = self.hub.uploads.answer(path, body, token, self.hub.url)
        self._send(status, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    do_POST = do_PUT = _receive  # noqa: N815 - names of http.server

    def _answer(self) -> None:
        split = urlsplit(self.path)
        self.token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        asked = Asked(
            host=self.host,
            way=self.command,
            path=unquote(split.path),
            query=parse_qs(split.query),
            range=self.headers.get("Range", ""),
            token=self.token,
        )
        self.hub.asked.append(asked)
        if not self.hub.is_the_hub:
            self._send(200, b"<html>Log in to this network</html>")
        elif asked.path.startswith("/api/"):
            self._api(asked)
        elif "/resolve/" in asked.path:
            self._file(asked)
        else:
            self._refuse(404, "")

    do_GET = do_HEAD = _answer  # noqa: N815 - likewise

    def _api(self, asked: Asked) -> None:
        if self.hub.api_moods:
            status, headers = self.hub.api_moods.pop(0)
            self._send(status, b"{}", headers)
        elif self.token and self.token not in self.hub.people:
            self._deny(f"Invalid credentials in Authorization header: {self.token}")
        elif asked.path == "/api/whoami-v2":
            self._json({"type": "user", "name": self.hub.people.get(self.token, "")})
        else:
            kind, _, name = asked.path.removeprefix("/api/").partition("/")
            self._one(kind, name) if name else self._search(kind, asked)

    def _search(self, kind: str, asked: Asked) -> None:
        words = asked.query.get("search", [""])[0].lower()
        found = [
            self._record(kind, name)
            for (of, name), repo in self.hub.repos.items()
            if of == kind and words in name.lower() and not repo.private
        ]
        found.sort(key=lambda record: -record.get("downloads", 0))
        self._json(found[: int(asked.query["limit"][0])])

    def _one(self, kind: str, name: str) -> None:
        repo = self.hub.repos.get((kind, name))
        if repo is None or (repo.private and not self.token):
            self._refuse(404 if self.token else 401, "RepoNotFound")
        else:
            self._json(self._record(kind, name))

    def _record(self, kind: str, name: str) -> dict[str, Any]:
        repo = self.hub.repos[kind, name]
        return {
            "id": name,
            "sha": COMMIT,
            "private": repo.private,
            "gated": "auto" if repo.gated else False,
            "siblings": [self._listed(file, content) for file, content in repo.files.items()],
            **repo.facts,
        }

    def _listed(self, name: str, content: bytes) -> dict[str, Any]:
        size, digest = self.hub.listed.get(name, (len(content), sha256(content)))
        git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        large = (
            {"lfs": {"sha256": digest, "size": size, "pointerSize": 134}}
            if name.endswith(STORED_APART)
            else {}
        )
        return {"rfilename": name, "size": size, "blobId": git, **large}

    def _file(self, asked: Asked) -> None:
        path = asked.path.removeprefix("/")
        kind = "datasets" if path.startswith("datasets/") else "models"
        name, _, rest = path.removeprefix("datasets/").partition("/resolve/")
        repo = self.hub.repos.get((kind, name))
        file = rest.partition("/")[2]
        if name in self.hub.refusals:
            self._refuse(*self.hub.refusals[name])
        elif repo is None:
            self._refuse(401 if not self.token else 404, "RepoNotFound")
        elif repo.gated and self.host == "hub" and not self.token:
            self._refuse(401, "GatedRepo")
        elif file not in repo.files:
            self._refuse(404, "EntryNotFound")
        elif file.endswith(STORED_APART) and self.host == "hub":
            self._send(302, b"", {"Location": self.hub.elsewhere + self.path, "X-Repo-Commit": COMMIT})
        else:
            self._content(repo.files[file], asked)

    def _content(self, content: bytes, asked: Asked) -> None:
        mood = self.hub.moods.pop(0) if self.hub.moods else None
        if mood is not None and 400 <= mood < 600:
            self._send(mood, b"no", {"Retry-After": "7"} if mood == 429 else {})
            return
        begin = (
            int(asked.range.removeprefix("bytes=").rstrip("-"))
            if asked.range and self.hub.knows_ranges
            else 0
        )
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - begin))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{sha256(content)}"')
        self.end_headers()
        if self.command == "HEAD":
            return
        self._pour(content[begin:] if mood is None else content[begin:][:mood])
        self.close_connection = mood is not None

    def _pour(self, content: bytes) -> None:
        is_slow = self.host == "cdn" and not self.hub.gate.is_set()
        if is_slow and self.hub.is_silent:
            self.hub.gate.wait()
        half = len(content) // 2 if is_slow else 0
        self.wfile.write(content[:half])
        while half and not self.hub.gate.wait(SLOW_SECONDS) and half < len(content):
            half += 1
            self.wfile.write(content[half - 1 : half])
        self.wfile.write(content[half:])

    def _json(self, content: object) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _deny(self, reason: str) -> None:
        self._send(401, b'{"error":"no"}', {"X-Error-Message": reason})

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b'{"error":"refused"}', {"X-Error-Code": code} if code else {})

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        send(self, status, content, headers)


WEIGHTS = bytes(range(256)) * 4096
CONFIG = b'{"model_type": "bert"}'
TINY = {
    "config.json": CONFIG,
    "model.safetensors": WEIGHTS,
    "tokenizer.json": b'{"version": "1.0"}',
    "README.md": b"# Tiny",
    "pytorch_model.bin": b"pickled",
    "modeling_tiny.py": b"print('never run')",
    "onnx/model.onnx": b"onnx",
}
FACTS = {
    "downloads": 500,
    "likes": 7,
    "pipeline_tag": "fill-mask",
    "tags": ["transformers", "license:mit"],
    "safetensors": {"parameters": {"F32": 1000, "F16": 10}, "total": 1010},
    "config": {"model_type": "bert"},
}


@contextmanager
def a_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WholeHub]:
    """A Hub with `org/tiny`, an empty cache in `folder / "hub"`, nobody logged in, and no keychain."""
    with WholeHub().serving() as serving:
        serving.repos["models", "org/tiny"] = Repo(dict(TINY), dict(FACTS))
        found = {
            "HF_ENDPOINT": serving.url,
            "HF_HUB_CACHE": str(folder / "hub"),
            "HF_HOME": str(folder),
            "HONE_HOME": str(folder / "hone"),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }
        for name, value in found.items():
            monkeypatch.setenv(name, value)
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        point_at(serving.url, monkeypatch)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "hub"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(folder / "token"))
        before = keyring.get_keyring()
        keyring.set_keyring(fail.Keyring())
        try:
            yield serving
        finally:
            keyring.set_keyring(before)


def point_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process's huggingface_hub, which was imported long ago, ask there."""
    values = {
        "HUGGINGFACE_CO_URL_TEMPLATE": f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
        "ENDPOINT": url,
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_TELEMETRY": True,
    }
    for name, value in values.items():
        monkeypatch.setattr(constants, name, value)


def partials(cache: Path) -> list[Path]:
    """Files that haven't come to their end."""
    return list(cache.rglob("*.incomplete"))


def blob(cache: Path, content: bytes) -> Path:
    """Where unfinished weights of org/tiny gather."""
    return cache / "models--org--tiny" / "blobs" / f"{sha256(content)}.hone.incomplete"
