"""A small model on a Hub on this computer, and what makes this process and those it starts ask there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import keyring
import pytest
from huggingface_hub import constants
from keyring.backends import fail

from tests.fakes.whole_hub import Repo, WholeHub, sha256

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
