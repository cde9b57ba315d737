"""The form's values are kept as they are, and nothing that is kept wrongly does any harm."""

from pathlib import Path

import pytest

from core.base import settings
from core.options import presets

TREE = {
    "schema": 1,
    "task": "image-classification",
    "data": {"train": "some/folder"},
    "training": {"epochs": "three"},
}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return settings.home()


def test_what_is_kept_is_found_as_it_was_typed() -> None:
    assert presets.find_last_form() is None
    presets.keep(TREE)
    assert presets.find_last_form() == TREE


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"task = ",
        b"\xff\xfe\x00",
        b'schema = 2\ntask = "image-classification"',
        b'schema = 1\ntask = "knitting"',
        b"schema = 1\ntask = []",
        b"schema = " + b"9" * 5000,
    ],
)
def test_a_broken_file_is_ignored(home: Path, content: bytes) -> None:
    home.mkdir()
    (home / "new-run.toml").write_bytes(content)
    assert presets.find_last_form() is None


def test_what_can_t_be_kept_is_lost_and_ends_nothing(home: Path) -> None:
    presets.keep({**TREE, "data": {"train": "half a character \udcff"}})
    assert presets.find_last_form() is None
    home.write_text("a file where the folder should be")
    presets.keep(TREE)
    assert presets.find_last_form() is None
