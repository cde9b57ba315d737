"""Words with a tag each, as files of the CoNLL tasks have them: a token a line, an empty line after a sentence."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from core.engine.data.file_kinds import ending
from core.engine.data.parsed_rows import ParsedRows, Shelf
from core.engine.data.text_files import TextFile
from core.errors import DataError, Fix

HEAD_CHARACTERS = 1 << 16
BLOCK_SENTENCES = 20_000
DOCUMENT = "-DOCSTART-"
UNIVERSAL_COLUMNS = 10
"""Of CoNLL-U, which has the word in its second column, its part of speech in the fourth, and no tag in the last."""

_TAG = re.compile(r"O|[BIELSUM]-\S+")
_OPEN_ENDINGS = (".txt", ".tsv", ".tab", ".data", ".train", ".dev", ".test", "")
"""Of files that may be of this form, beside those that must."""


def looks_like_conll(path: Path, head: str) -> bool:
    """Whether a file is of this form: by its ending, or each line ends in a tag such as B-PER or O."""
    if ending(path) not in _OPEN_ENDINGS:
        return False
    lines = head[:HEAD_CHARACTERS].splitlines()
    lines = lines[:-1] if len(head) > HEAD_CHARACTERS else lines
    rows = [fields for line in lines if line.strip() and not _is_apart(fields := _split(line))]
    if not rows or len(rows[0]) < 2 or not any(fields[-1][:2] in ("B-", "I-", "S-", "U-") for fields in rows):
        return False
    fitting = sum(len(fields) == len(rows[0]) and _TAG.fullmatch(fields[-1]) is not None for fields in rows)
    return fitting / len(rows) > 0.9


@dataclass
class _Sentences:
    """Sentences on their way to the shelf: their lines, and each column's values."""

    numbers: list[int] = field(default_factory=list)
    columns: list[list[list[str]]] = field(default_factory=list)


def parse(source: TextFile, shelf: Shelf) -> ParsedRows:
    """Read sentences: the columns `tokens`, `tags` (the last one), and what stands between them as `column 2` and on.

    Raises:
        DataError: A line has another number of columns than the first one, or there are no tags.
    """
    width, first = _width(source)
    names = ["tokens", *(f"column {number}" for number in range(2, width)), "tags"]
    if width == UNIVERSAL_COLUMNS:
        names = ["tokens", "tags"]
    schema = pa.schema([(name, pa.list_(pa.string())) for name in names])
    writer = shelf.writer(schema)
    count = 0
    for block in _blocks(source, width, first):
        arrays = [pa.array(values, pa.list_(pa.string())) for values in block.columns]
        writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema), np.asarray(block.numbers, np.int64))
        count += len(block.numbers)
    if not count:
        raise DataError(
            f"{source.path.name} has no rows",
            f"{source.path}: there is no sentence in it.",
            (Fix("Choose another file"),),
        )
    return ParsedRows(writer, "CoNLL", "line")


def _width(source: TextFile) -> tuple[int, int]:
    """How many columns the first line with a token has, and its number."""
    for first, lines in source.lines():
        for number, line in enumerate(lines, first):
            fields = _split(line)
            if line.strip() and not line.startswith("#") and fields[0] != DOCUMENT:
                if len(fields) < 2:
                    raise _no_tag(source.path, number, line)
                return len(fields), number
    return 2, 1


def _blocks(source: TextFile, width: int, first_line: int) -> Iterator[_Sentences]:
    """The sentences, many at a time."""
    block, sentence, start = _Sentences(), list[list[str]](), 0
    for first, lines in source.lines():
        for number, line in enumerate(lines, first):
            fields = _split(line)
            if not line.strip() or fields[0] == DOCUMENT:
                _add(block, sentence, start)
                sentence = []
            elif len(fields) == width and not _is_remark(fields):
                start = start if sentence else number
                sentence.append(fields)
            elif not line.startswith("#"):
                raise _other_width(source.path, number, line, f"line {first_line:,} has {width}")
        if len(block.numbers) >= BLOCK_SENTENCES:
            yield block
            block = _Sentences()
    _add(block, sentence, start)
    if block.numbers:
        yield block


def _add(block: _Sentences, sentence: list[list[str]], start: int) -> None:
    columns = [list(values) for values in zip(*sentence, strict=True)]
    if len(columns) == UNIVERSAL_COLUMNS:
        words = [
            row for row in sentence if row[0].isdecimal()
        ]  # 1-2 and 1.1 stand for no word of the sentence
        columns = [[row[1] for row in words], [row[3] for row in words]]
    if not columns or not columns[0]:
        return
    block.numbers.append(start)
    block.columns = block.columns or [[] for _ in columns]
    for kept, values in zip(block.columns, columns, strict=True):
        kept.append(values)


def _split(line: str) -> list[str]:
    line = line.rstrip("\r\n ")
    return line.split("\t") if "\t" in line else line.split()


def _is_apart(fields: list[str]) -> bool:
    """Whether a line is a comment or the beginning of a document."""
    return fields[0].startswith("#") or fields[0] == DOCUMENT


def _is_remark(fields: list[str]) -> bool:
    """Whether a line that could be a token is a comment such as "# id = 7"."""
    return fields[0] == "#" and "=" in fields[1:3]


def _no_tag(path: Path, number: int, line: str) -> DataError:
    return DataError(
        f"{path.name}, line {number:,} has a token and no tag",
        f"{path}: each line reads: a token, a tab or a space, its tag, such as “Paris B-LOC”. Line {number:,} is: "
        f"{line[:80]}",
        (Fix("Choose a file with a tag in every line"),),
    )


def _other_width(path: Path, number: int, line: str, others: str) -> DataError:
    count = len(_split(line))
    has = "1 column" if count == 1 else f"{count} columns"
    return DataError(
        f"{path.name}, line {number:,} has {has}, {others}",
        f"{path}: each line reads: a token, a tab or a space, its tag; an empty line ends a sentence. "
        f"Line {number:,} is: {line[:80]}",
        (Fix(f"Mend line {number:,} in a text editor"),),
    )
