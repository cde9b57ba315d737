"""A translation is found by the person's language."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


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


@pytest.mark.parametrize(("language", "expected"), [("de", "keine Zahl"), ("en", "not a number")])
def test_a_catalogue_of_the_persons_language_is_used(tmp_path, language, expected):
    shutil.copytree(ROOT / "core" / "base", tmp_path / "core" / "base")
    shutil.copy(ROOT / "core" / "__init__.py", tmp_path / "core")
    folder = tmp_path / "resources" / "locale" / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "hone.mo").write_bytes(catalogue({"not a number": "keine Zahl"}))
    code = "from core.base.formats import number; print(number(float('nan')))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"LANGUAGE": language, "PYTHONPATH": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected
