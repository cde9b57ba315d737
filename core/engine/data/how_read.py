"""How a file was read, in words by words, for the person to check: its encoding, what divides it, its header."""

import codecs
from collections.abc import Mapping

from core.engine.data.text_files import TextFile, first_bytes

Reading = Mapping[str, str]
"""Such as `{"encoding": "UTF-8", "delimiter": "comma", "quoting": "double quotes", "header": "in the first row"}`."""

ENCODINGS = {
    "utf-8-sig": "UTF-8",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "utf-32": "UTF-32",
    "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
}
DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}


def of_text(source: TextFile) -> dict[str, str]:
    """The encoding of a text, and whether it was packed."""
    encoding = ENCODINGS.get(source.encoding, source.encoding)
    if encoding == "UTF-8" and first_bytes(source.path).startswith(codecs.BOM_UTF8):
        encoding = "UTF-8 with a byte order mark"
    return {"encoding": encoding, **({"compression": "gzip"} if source.is_packed else {})}


def of_rows(delimiter: str, *, is_quoted: bool, has_header: bool, columns: int) -> dict[str, str]:
    """How a delimited text was divided."""
    divided = {"delimiter": DELIMITERS[delimiter], "quoting": "double quotes" if is_quoted else "none"}
    return {**(divided if columns > 1 else {}), "header": "in the first row" if has_header else "none"}
