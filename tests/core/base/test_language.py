"""Sentences are written so that they can be translated, and a translation is found."""

import ast
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = [path for folder in ("core", "gui") for path in (ROOT / folder).rglob("*.py")]


def calls(path: Path) -> list[ast.Call]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("_", "ngettext")
    ]


@pytest.mark.parametrize("folder", ["core", "gui"])
def test_what_is_translated_is_a_literal(folder):
    """Xgettext finds literals alone; an f-string would be looked up with its values in it."""
    texts = {"_": 1, "ngettext": 2}
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in FILES
        if path.is_relative_to(ROOT / folder)
        for call in calls(path)
        for text in call.args[: texts[call.func.id]]
        if not (isinstance(text, ast.Constant) and isinstance(text.value, str))
    ]
    assert wrong == []


def catalogue(words: dict[str, str]) -> bytes:
    """A .mo file, as https://www.gnu.org/software/gettext/manual/html_node/MO-Files.html has it."""
    pairs = sorted({"": "Content-Type: text/plain; charset=UTF-8\n", **words}.items())
    tables, data, start = [], b"", 28 + 16 * len(pairs)
    for texts in zip(*pairs, strict=True):
        for text in texts:
            encoded = text.encode()
            tables.append(struct.pack("<II", len(encoded), start + len(data)))
            data += encoded + b"\0"
    places = (28, 28 + 8 * len(pairs))
    return struct.pack("<7I", 0x950412DE, 0, len(pairs), *places, 0, 0) + b"".join(tables) + data


def test_a_catalogue_of_the_persons_language_is_used(tmp_path):
    shutil.copytree(ROOT / "core" / "base", tmp_path / "core" / "base")
    shutil.copy(ROOT / "core" / "__init__.py", tmp_path / "core")
    folder = tmp_path / "resources" / "locale" / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "hone.mo").write_bytes(catalogue({"not a number": "keine Zahl"}))
    code = "from core.base.formats import number; print(number(float('nan')))"
    for language, expected in (("de", "keine Zahl"), ("en", "not a number")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={"LANGUAGE": language, "PYTHONPATH": str(tmp_path), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected
