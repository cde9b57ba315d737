"""The delimiter and the quoting of a file of rows, read off its content."""

import csv
import io
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Literal

from core.engine.data.file_kinds import ENDINGS, ending, mismatch

DELIMITERS = {",": "CSV", "\t": "TSV", ";": "CSV with semicolons", "|": "CSV with bars"}
SAMPLE_CHARACTERS = 1 << 16
SAMPLE_ROWS = 100
LIKELY = 0.5
SURELY = 0.95
"""Shares of rows alike: prose, too, has a comma in many of its lines."""

Quoting = Literal[0, 3]
"""csv.QUOTE_MINIMAL and csv.QUOTE_NONE."""


def find_delimiter(path: Path, text: str) -> str:
    """The delimiter that splits the first rows most evenly into two columns or more.

    Raises:
        DataError: There is none, and the ending doesn't say that it is a table.
    """
    best, share = _best(text)
    is_table = ending(path) in ENDINGS
    if share > (LIKELY if is_table or best == "\t" else SURELY):
        return best
    if is_table:  # a single column, or a file that will be refused with its first ragged row named
        return best or ("\t" if ending(path) in (".tsv", ".tab") else ",")
    raise mismatch(
        path,
        "neither CSV, TSV, JSON, JSONL nor Parquet: its lines have no common columns",
        "Choose a table with a column of texts and one of labels, or the task that continues a text",
    )


def is_split(path: Path, text: str) -> bool:
    """Whether the lines of a file that doesn't say so by its ending have common columns."""
    best, share = _best(text)
    return share > (LIKELY if best == "\t" else SURELY)


def _best(text: str) -> tuple[str, float]:
    sample = text[:SAMPLE_CHARACTERS]
    best, best_share = "", 0.0
    for delimiter in DELIMITERS:
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
            share = _even_share(sample, delimiter, quoting)
            if share > best_share:
                best, best_share = delimiter, share
    return best, best_share


def _even_share(sample: str, delimiter: str, quoting: Quoting) -> float:
    rows = sample_rows(sample, delimiter, quoting)
    if not rows or len(rows[0]) < 2:
        return 0.0
    complete = rows[1:-1] or rows[1:] or rows  # the last one may be cut off by the sample's end
    return sum(len(row) == len(rows[0]) for row in complete) / len(complete)


def sample_rows(sample: str, delimiter: str, quoting: Quoting) -> list[list[str]]:
    """The first rows of a text that aren't empty; none where a field is beyond the limit of csv."""
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, quoting=quoting)
    try:
        return [row for row in islice(reader, SAMPLE_ROWS) if row]
    except csv.Error:
        return []


def badly_quoted_line(blocks: Iterable[bytes], delimiter: str, most: int, newline: str = "\n") -> int | None:
    """The first line in which a field opens with a quote and doesn't close with one, as RFC 4180 has it; None: no such.

    Args:
        blocks: The file, block by block.
        delimiter: What stands between two fields.
        most: No single field is longer than so many bytes.
        newline: What ends lines.
    """
    mark = re.escape(delimiter.encode())
    value = rb'(?:"(?:[^"]|"")*+"|[^"%b\r\n][^%b\r\n]*+|)' % (mark, mark)
    fields = re.compile(rb"(?:%b[%b\r\n])*+" % (value, mark))
    last = re.compile(value)
    rest, line = b"", 1
    for block in blocks:
        text = rest + block
        found = fields.match(text)
        end = found.end() if found else 0
        rest, line = text[end:], line + text.count(newline.encode(), 0, end)
        if len(rest) > most:
            return line
    return None if last.fullmatch(rest) else line
