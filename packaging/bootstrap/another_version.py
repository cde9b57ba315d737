"""A copy of a Linux bundle that is of another version, to be started beside the bundle: no other one is at hand."""

from __future__ import annotations

import shutil
import struct
import zlib
from pathlib import Path

from bootstrap import debian
from bootstrap.errors import SetupError

MODULE = b"core/base/settings.py"
"""What the byte code of Hone's version names as its source."""

STORED = b"\x78\x01\x01"
"""How zlib begins a piece that is stored as it is, in one block, as the recipe has byte code packed."""


def copy(program: Path, folder: Path, own: str, other: str) -> Path:
    """Copy a bundle, its files as links, with `other` in place of its version; returns the copy's program.

    Args:
        program: The bundle's.
        folder: The copy's, which isn't there yet.
        own: The bundle's version, such as 0.1.0.
        other: A version of as many letters.

    Raises:
        SetupError: The version isn't found where PyInstaller keeps byte code.
    """
    shutil.copytree(program.parent, folder, symlinks=True, copy_function=debian.link)
    twin = folder / program.name
    twin.unlink()
    twin.write_bytes(changed(program.read_bytes(), own.encode(), other.encode()))
    twin.chmod(0o755)
    return twin


def changed(content: bytes, own: bytes, other: bytes) -> bytes:
    """A program's bytes, in which the module of the version says `other`.

    Raises:
        SetupError: That module isn't in there, or not as it is expected.
    """
    begin = content.rfind(STORED, 0, max(content.find(MODULE), 0))
    if begin < 0 or len(own) != len(other):
        raise SetupError("The version's byte code isn't where it is looked for in the program.")
    head = begin + len(STORED)
    (size,) = struct.unpack_from("<H", content, head)
    start = head + 4  # after the size, and the same with each bit turned
    code = content[start : start + size]
    if code.count(own) != 1 or MODULE not in code:
        raise SetupError("The version's byte code isn't where it is looked for in the program.")
    turned = code.replace(own, other)
    end = start + size
    return content[:start] + turned + struct.pack(">I", zlib.adler32(turned)) + content[end + 4 :]
