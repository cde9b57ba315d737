"""How a text is to be read: it is looked through once before, for its encoding and for what it holds."""

import codecs
from pathlib import Path

from core.base.errors import DataError, Fix
from core.engine.data.text_files import GZIP_MAGIC, Passes, TextFile, no_text, raw_blocks

SNIFFED_BYTES = 4096
UTF16_SHARE = 0.3
"""UTF-16 without its mark is known by so many zero bytes in every other place of its beginning."""


def open_text(path: Path, passes: Passes) -> TextFile:
    """Look a text through and say how to read it: UTF-8, UTF-16 or UTF-32, else Windows-1252.

    Raises:
        DataError: It is no text, or has nothing but white space in it.
    """
    encoding, notes = _encoding(next(raw_blocks(path, None, SNIFFED_BYTES), b""))
    errors = "strict"
    found = _Seen()
    try:
        found.go_through(path, passes, encoding, errors)
    except UnicodeDecodeError as error:
        if encoding != "utf-8-sig":
            what = f"not readable as {encoding.upper()}: {error.reason}"
            raise no_text(path, what, "Save it as text in UTF-8") from error
        encoding, errors, note = _instead(path, found, error)
        notes = (note,)
        found = _Seen()
        try:
            found.go_through(path, passes, encoding, errors)
        except UnicodeDecodeError:  # five bytes are no character of Windows-1252
            encoding, found = "latin-1", _Seen()
            found.go_through(path, passes, encoding, errors)
    if found.is_blank:
        raise DataError(
            f"{path.name} is empty", f"{path} holds only white space.", (Fix("Choose another file"),)
        )
    if found.marks:
        notes = (
            *notes,
            f"{path.name} has a byte order mark inside, in line {found.marks:,}; it is left out.",
        )
    if found.is_packed:
        notes = (*notes, f"{path.name} was unpacked while it was read.")
    newline = "\r" if found.returns and not found.lines else "\n"
    return TextFile(
        path,
        encoding,
        errors,
        found.is_packed,
        found.size,
        found.has_quotes,
        bool(found.marks),
        newline,
        notes,
        passes,
    )


def _encoding(start: bytes) -> tuple[str, tuple[str, ...]]:
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32", ()
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", ()
    zeros = [start[place::2].count(0) / max(1, len(start) // 2) for place in (0, 1)]
    for share, other, order in ((zeros[1], zeros[0], "le"), (zeros[0], zeros[1], "be")):
        if share > UTF16_SHARE and other < UTF16_SHARE / 10:
            return f"utf-16-{order}", (
                "It is in UTF-16 without the mark that says so, and was read as such.",
            )
    return "utf-8-sig", ()


def _instead(path: Path, found: "_Seen", error: UnicodeDecodeError) -> tuple[str, str, str]:
    """How to read what isn't UTF-8 all through; a text with letters of UTF-8 before that is a damaged one."""
    content = bytes(error.object)
    line = found.lines + content.count(b"\n", 0, error.start) + 1
    if found.has_letters or not content[: error.start].isascii():
        note = f"{path.name} is in UTF-8 but for some bytes, the first in line {line:,}; they are read as �."
        return "utf-8-sig", "replace", note
    note = (
        f"{path.name} is not in UTF-8 (line {line:,}); it was read as Windows-1252. "
        "If letters look wrong, save it as UTF-8."
    )
    return "cp1252", "strict", note


class _Seen:
    """What a text turns out to hold on the way through."""

    def __init__(self) -> None:
        self.size = self.lines = self.returns = self.marks = 0
        self.has_quotes = self.has_letters = self.is_packed = False
        self.is_blank = True

    def go_through(self, path: Path, passes: Passes, encoding: str, errors: str) -> None:
        """Decode and look at every block.

        Raises:
            DataError: There is a zero in it.
            UnicodeDecodeError: It isn't in this encoding.
        """
        passes.begin()
        decoder = codecs.getincrementaldecoder(encoding)(errors)
        with path.open("rb") as file:
            self.is_packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        for block in raw_blocks(path, passes):
            self.size += len(block)
            self._look(path, decoder.decode(block))
        self._look(path, decoder.decode(b"", True))

    def _look(self, path: Path, text: str) -> None:
        if "\0" in text:
            line = self.lines + text.count("\n", 0, text.index("\0")) + 1
            what = f"not text: it holds zero bytes, the first in line {line:,}"
            raise no_text(path, what, "Save it as text in UTF-8")
        self.is_blank = self.is_blank and not text.strip()
        self.has_quotes = self.has_quotes or '"' in text
        self.has_letters = self.has_letters or not text.isascii()
        if not self.marks and "\ufeff" in text:
            self.marks = self.lines + text.count("\n", 0, text.index("\ufeff")) + 1
        self.lines += text.count("\n")
        self.returns += text.count("\r")
