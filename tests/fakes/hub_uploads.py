"""What a Hub does with uploads: makes a repository, says which files are large, takes these, and commits.

As huggingface_hub 2.4.0 asks: `/api/repos/create`, `/api/validate-yaml`, `/api/models/NAME/preupload/main`,
`NAME.git/info/lfs/objects/batch` with a PUT for each large file, and `/api/models/NAME/commit/main` in lines of JSON.
"""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from core.engine.hub.account import page_of
from core.services.hub import Kind

LARGE = (".safetensors", ".gguf", ".onnx")


@dataclass
class Uploads:
    """Repositories that were made, by name: whether they are private, and their files.

    Attributes:
        readers: Tokens that may only read.
        refuses_commits: Whether a commit is refused, as where leave to write was taken back.
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
            return 409, {"error": "You already created this model repo", "url": page_of(name, Kind.MODEL)}
        self.private[name] = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.files[name] = {}
        return 200, {"url": page_of(name, Kind.MODEL), "name": name}

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
