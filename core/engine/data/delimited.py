"""CSV and its relatives, split by Arrow, and CoNLL; delimiter, quoting and header are detected."""

import csv
import io
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from core.base.errors import DataError, Fix
from core.base.language import _, ngettext
from core.engine.data.text_files import (
    DELIMITER_NAMES,
    ENDINGS,
    NewWriter,
    NoteCode,
    ParsedRows,
    ReadingNote,
    RowWriter,
    TextFile,
    UnreadCode,
    UnreadRows,
    ending,
    listed,
    not_readable,
    refuse_names,
)

# --- The delimiter


DELIMITERS = {",": "CSV", "\t": "TSV", ";": _("CSV with semicolons"), "|": _("CSV with bars")}
SAMPLE_CHARACTERS = 1 << 16
SAMPLE_ROWS = 100
LIKELY = 0.5
CERTAIN = 0.95
"""Shares of rows with the same number of columns; many lines of prose have one comma, too."""


def is_split(text: str) -> bool:
    """Returns whether the lines at the beginning of a text have common columns."""
    delimiter, share = _best_delimiter(text)
    return share > (LIKELY if delimiter == "\t" else CERTAIN)


def _find_delimiter(path: Path, text: str) -> str:
    """Returns the delimiter that splits the first rows most evenly into two columns or more.

    Raises:
        DataError: There is none, and the file name extension isn't that of a table.
    """
    delimiter, share = _best_delimiter(text)
    if ending(path) in ENDINGS:  # a single column, or a file that is refused later, with its first ragged row
        return (delimiter if share else "") or ("\t" if ending(path) in (".tsv", ".tab") else ",")
    if not is_split(text):
        raise not_readable(
            path,
            _("neither CSV, TSV, JSON, JSONL nor Parquet: its lines have no common columns"),
            _("Choose a table with a column of texts and one of labels, or the task that continues a text"),
        )
    return delimiter


def _best_delimiter(text: str) -> tuple[str, float]:
    """Returns the delimiter, and the share of rows with as many columns as the first one."""
    sample = text[:SAMPLE_CHARACTERS]
    shares = {
        delimiter: max(_even_share(sample, delimiter, is_quoted) for is_quoted in (True, False))
        for delimiter in DELIMITERS
    }
    best = max(shares, key=lambda delimiter: shares[delimiter])
    return best, shares[best]


def _even_share(sample: str, delimiter: str, is_quoted: bool) -> float:
    rows = _first_rows(sample, delimiter, is_quoted)
    if not rows or len(rows[0]) < 2:
        return 0.0
    complete = rows[1:-1] or rows[1:] or rows  # the last one may be cut off by the end of the sample
    return sum(len(row) == len(rows[0]) for row in complete) / len(complete)


def _first_rows(text: str, delimiter: str, is_quoted: bool) -> list[list[str]]:
    """Returns the first rows that aren't empty, up to one that is longer than `csv` reads."""
    quoting: Any = csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows += islice(
            filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting)),
            SAMPLE_ROWS,
        )
    return rows


# --- The header


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LABEL_NAMES = _names(
    "label labels class category target quality sentiment answer gold_label intent emotion topic is_duplicate toxic "
    "spam stars rating score y"
)
TEXT_NAMES = _names(
    "text sentence review content comment message tweet body document question title description headline utterance "
    "input"
)
PAIR_NAMES = (
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("query", "passage"),
    ("query", "document"),
)
OTHER_NAMES = _names(
    "id idx index name date time url path file image filename user source instruction output prompt completion "
    "response chosen rejected messages tokens tags split lang language key value type author words word tag"
)
ALL_NAMES = frozenset((*LABEL_NAMES, *TEXT_NAMES, *OTHER_NAMES, *chain.from_iterable(PAIR_NAMES)))

LONG_TEXT = 40
"""Characters; column names are hardly ever longer."""
FEWEST_ROWS = 3
"""With fewer rows below it, the first row is taken for the header."""

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?%?\s*")


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Returns whether the first row names the columns.

    It does unless something in it looks like the rows below, such as a number among numbers or a label that comes
    again, and nothing in it looks like a name.
    """
    first = [value.strip() for value in rows[0]]
    below = [[value.strip() for value in row] for row in rows[1:] if len(row) == len(first)]
    below = [row for row in below if row != first]
    if len(below) < FEWEST_ROWS or any(value.lower() in ALL_NAMES for value in first):
        return True
    signs = [_name_sign(value, column) for value, column in zip(first, zip(*below, strict=True), strict=True)]
    return max(signs) == 1 or min(signs) == 0


def _name_sign(first: str, below: Sequence[str]) -> int:
    """Returns 1 if a column's first value looks like its name, -1 if it looks like the values below, else 0."""
    filled = [value for value in below if value]
    if not first or not filled:
        return 0
    if all(map(_NUMBER.fullmatch, filled)):
        return -1 if _NUMBER.fullmatch(first) else 1
    distinct = set(filled)
    if len(distinct) <= len(filled) / 2:
        return -1 if first in distinct else 0
    return -1 if len(first) > LONG_TEXT and sum(map(len, filled)) / len(filled) > LONG_TEXT else 0


# --- Reading with quotes as marks, or as plain characters


BLOCK_BYTES = 16 * 2**20
"""No single row may be longer."""
RAGGED_SHARE, DOUBTFUL_SHARE = 0.5, 0.01
"""Beyond this share of rows with another number of columns a file is refused, as it was split the wrong way; already
beyond the smaller one if a quote isn't closed somewhere."""
TEXTS_KEPT = 1000
"""Beginnings of ragged rows are kept of so many: the first of each kind is shown."""
LINES_IN_CELL = 5
"""A cell with so many line breaks or more, whose lines nearly all look like rows, has likely swallowed rows."""
NOT_CLOSED = _("a text begins with a quote and doesn't end with one")

_LEAD = re.compile(r'[\r\n]*(?:"?sep=([^\r\n"])"?(?:\r\n|\r|\n))?[\r\n]*', re.IGNORECASE)
"""Empty lines, and the line by which Excel names the delimiter."""


@dataclass(frozen=True)
class _Layout:
    """How a file is split. Before the first row there are `skip` characters in `lines_before` lines."""

    delimiter: str
    has_header: bool
    columns: tuple[str, ...]
    skip: int
    lines_before: int


@dataclass
class _Reading:
    """A file split one way.

    Rows with another number of columns than the first one are skipped: `skipped` has their numbers, `ragged` numbers
    and columns of those that aren't blank, `texts` how the first of these begin. `swallowed` counts lines inside cells
    that look like rows; the first of them are in row `swallower`.
    """

    rows: RowWriter
    is_quoted: bool
    count: int = 0
    skipped: "array[int]" = field(default_factory=lambda: array("q"))
    ragged: list[tuple[int, int]] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    swallowed: int = 0
    swallower: int = 0

    def skip(self, row: Any) -> str:
        """Skips a row that Arrow can't fit in."""
        self.skipped.append(row.number)
        if row.text.strip(',;|" \t\r\n'):
            self.ragged.append((row.number, row.actual_columns))
            if len(self.texts) < TEXTS_KEPT:
                self.texts[row.number] = row.text.strip()[:80]
        return "skip"


def parse(source: TextFile, new_writer: NewWriter, header: bool | None = None) -> ParsedRows:
    """Splits a text into rows and columns; every value stays text.

    Quotes are marks if every field that begins with one ends with one. Otherwise they are plain characters if all rows
    then have the same number of columns; if not, the reading in which more rows do counts.

    Args:
        header: Whether the first row names the columns; None finds out.

    Raises:
        DataError: There are no rows below the header, column names repeat, or too many rows are ragged.
    """
    layout = _find_layout(source, header)
    refuse_names(source.path, layout.columns)
    bad_quote = None
    if source.has_quotes:
        bad_quote = _badly_quoted_line(
            _without_lead(source, layout), layout.delimiter, BLOCK_BYTES, source.newline
        )
        bad_quote = bad_quote and bad_quote + layout.lines_before
    reading = _read(source, layout, new_writer, is_quoted=source.has_quotes and bad_quote is None)
    if bad_quote and reading.ragged:
        with suppress(DataError):  # a row too long: an open quote swallows the rest of the file
            quoted = _read(source, layout, new_writer, is_quoted=True)
            reading, other = (quoted, reading) if quoted.count > reading.count else (reading, quoted)
            other.rows.discard()
    if layout.delimiter == "\t" and not reading.is_quoted:
        bad_quote = None  # among tabs, quotes are mostly plain text
    if not reading.count and not reading.ragged:
        raise DataError(
            _("{name} has a header but no rows").format(name=source.path.name),
            _("{path}: the only row names the columns {columns}.").format(
                path=source.path, columns=listed(layout.columns)
            ),
            (Fix(_("Choose a file with rows below its header")),),
        )
    share = DOUBTFUL_SHARE if bad_quote else RAGGED_SHARE
    if len(reading.ragged) > share * (reading.count + len(reading.ragged)):
        raise _too_ragged(source, layout, reading, bad_quote)
    how = {"header": _("header in the first row") if layout.has_header else _("no header")}
    if len(layout.columns) > 1:
        quoting = _("double quotes") if reading.is_quoted else _("no quoting")
        how = {"delimiter": DELIMITER_NAMES[layout.delimiter], "quoting": quoting, **how}
    notes = tuple(_notes(source.path.name, layout, reading, bad_quote))
    unread = tuple(_unread(source, layout, reading))
    return ParsedRows(reading.rows, DELIMITERS[layout.delimiter], "row", notes, how, unread)


def _find_layout(source: TextFile, header: bool | None) -> _Layout:
    head = source.head(BLOCK_BYTES)
    lead = _LEAD.match(head)
    skip, named = (lead.end(), lead[1]) if lead else (0, None)
    text = head[skip:]
    delimiter = named if named in DELIMITERS else _find_delimiter(source.path, text)
    sample = text[:SAMPLE_CHARACTERS]
    is_quoted = _even_share(sample, delimiter, True) >= _even_share(sample, delimiter, False)
    rows = _first_rows(text, delimiter, is_quoted)
    if not rows:
        raise _too_long(source.path, _("the first row"))
    has_names = has_header(rows) if header is None else header
    columns = [value.strip() for value in rows[0]] if has_names else [""] * len(rows[0])
    return _Layout(delimiter, has_names, tuple(columns), skip, len(head[:skip].splitlines()))


def _badly_quoted_line(
    blocks: Iterable[bytes], delimiter: str, longest: int, newline: str = "\n"
) -> int | None:
    """Returns the first line in which a field opens with a quote and doesn't close with one, as RFC 4180 has it.

    Args:
        longest: The most bytes that a field may have.

    Returns:
        None if all quotes are closed.
    """
    mark = re.escape(delimiter.encode())
    value = rb'(?:"(?:[^"]|"")*+"|[^"%b\r\n][^%b\r\n]*+|)' % (mark, mark)
    fields = re.compile(rb"(?:%b[%b\r\n])*+" % (value, mark))
    rest, line = b"", 1
    for block in blocks:
        text = rest + block
        match = fields.match(text)
        end = match.end() if match else 0
        rest, line = text[end:], line + text.count(newline.encode(), 0, end)
        if len(rest) > longest:
            return line
    return None if re.fullmatch(value, rest) else line


def _read(source: TextFile, layout: _Layout, new_writer: NewWriter, *, is_quoted: bool) -> _Reading:
    """Splits a file with Arrow: in small blocks, which take less memory, or in large ones if a row doesn't fit.

    Raises:
        DataError: A row doesn't fit into a large one either.
    """
    schema = pa.schema(
        [(name or f"column {number}", pa.string()) for number, name in enumerate(layout.columns, 1)]
    )
    reason = ""
    for size in (BLOCK_BYTES // 8, BLOCK_BYTES):
        reading = _Reading(new_writer(schema), is_quoted)
        try:
            _add_rows(reading, source, layout, schema, size)
        except pa.ArrowInvalid as error:
            reading.rows.discard()
            reason = str(error)
        else:
            return reading
    raise _too_long(source.path, reason)


def _add_rows(reading: _Reading, source: TextFile, layout: _Layout, schema: pa.Schema, size: int) -> None:
    """Adds all rows, read in blocks of `size` bytes, with their numbers."""
    keys = [str(number) for number in range(len(layout.columns))]
    place = 2 if layout.has_header else 1
    with arrow_csv.open_csv(
        _Bytes(_without_lead(source, layout)),
        read_options=arrow_csv.ReadOptions(
            use_threads=False,
            block_size=size,
            column_names=keys,
            skip_rows_after_names=int(layout.has_header),
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=layout.delimiter,
            quote_char='"' if reading.is_quoted else False,
            newlines_in_values=reading.is_quoted,
            ignore_empty_lines=False,
            invalid_row_handler=reading.skip,
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(keys, pa.string()), strings_can_be_null=False
        ),
    ) as batches:
        for batch in batches:
            if not batch.num_rows:
                continue
            skipped = np.array(reading.skipped, np.int64)
            skipped = skipped[np.searchsorted(skipped, place) :]
            candidates = np.arange(place, place + batch.num_rows + len(skipped))
            numbers = candidates[~np.isin(candidates, skipped)][: batch.num_rows]
            place = int(numbers[-1]) + 1
            numbers += layout.lines_before
            reading.rows.add(pa.RecordBatch.from_arrays(batch.columns, schema=schema), numbers)
            reading.count += batch.num_rows
            for column in batch.columns if reading.is_quoted else ():
                _count_swallowed(reading, column, numbers, source.newline, layout)


def _count_swallowed(reading: _Reading, column: Any, numbers: Any, newline: str, layout: _Layout) -> None:
    """Counts the lines in the cells of a column that look like rows."""
    others = len(layout.columns) - 1
    breaks = pc.count_substring(column, newline).to_numpy()
    (large,) = np.nonzero(breaks >= LINES_IN_CELL)
    for row in large if others else ():
        inside = column[row].as_py().split(newline)[1:-1]
        if sum(line.count(layout.delimiter) == others for line in inside) >= CERTAIN * len(inside):
            reading.swallowed += int(breaks[row])
            reading.swallower = reading.swallower or int(numbers[row])


def _without_lead(source: TextFile, layout: _Layout) -> Iterator[bytes]:
    left = layout.skip
    for block in source.blocks():  # what is left out is ASCII
        yield block[left:]
        left = max(0, left - len(block))


class _Bytes(io.RawIOBase):
    """Blocks as a file for Arrow to read."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks, self._left = filter(None, blocks), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer unless the end comes before: Arrow takes it for one block."""
        done = 0
        while done < len(buffer):
            self._left = self._left or memoryview(next(self._blocks, b""))
            if not self._left:
                break
            size = min(len(buffer) - done, len(self._left))
            buffer[done : done + size] = self._left[:size]
            self._left, done = self._left[size:], done + size
        return done


def _too_long(path: Path, error: str) -> DataError:
    return DataError(
        _("{name} can't be split into rows").format(name=path.name),
        _("{path}: a row seems to be longer than {size} MiB; a quote may be left open ({error}).").format(
            path=path, size=BLOCK_BYTES >> 20, error=error
        ),
        (Fix(_('Close every text that begins with a " by another one')),),
    )


def _too_ragged(source: TextFile, layout: _Layout, reading: _Reading, bad_quote: int | None) -> DataError:
    path = source.path
    if bad_quote:
        return DataError(
            _("{name}, line {line:,}: {not_closed}").format(
                name=path.name, line=bad_quote, not_closed=NOT_CLOSED
            ),
            _("{path}: a text that begins with a double quote must end with one.").format(path=path),
            (Fix(_("Close the quote in line {line:,} in a text editor").format(line=bad_quote)),),
        )
    first, columns = reading.ragged[0]
    number = first + layout.lines_before
    return DataError(
        ngettext(
            "{name}, row {number:,} has {columns} column instead of {expected}",
            "{name}, row {number:,} has {columns} columns instead of {expected}",
            columns,
        ).format(name=path.name, number=number, columns=columns, expected=len(layout.columns)),
        _(
            "{path}: {count:,} of {rows:,} rows have another number of columns than the first. {rule} Row {number:,} "
            "begins: {text}"
        ).format(
            path=path,
            count=len(reading.ragged),
            rows=reading.count + len(reading.ragged),
            rule=_quoting_rule(source, reading),
            number=number,
            text=reading.texts[first],
        ),
        (Fix(_("Correct row {number:,} in a spreadsheet or a text editor").format(number=number)),),
    )


def _quoting_rule(source: TextFile, reading: _Reading) -> str:
    if source.has_quotes and not reading.is_quoted:
        return _(
            "Double quotes are plain text in this file, so that no text can contain a tab or a line break."
        )
    return _("A text that contains the delimiter must stand in double quotes.")


def _unread(source: TextFile, layout: _Layout, reading: _Reading) -> Iterator[UnreadRows]:
    """Yields the ragged rows: pieces of one that a line break has cut, and others."""
    pieces, width = set[int](), len(layout.columns)
    run: list[tuple[int, int]] = []
    for number, columns in reading.ragged:
        run = [*run, (number, columns)] if run and run[-1][0] == number - 1 else [(number, columns)]
        if len(run) > 1 and sum(one for _number, one in run) - len(run) + 1 == width:
            pieces |= {one for one, _columns in run}
            run = []
    before, widths = layout.lines_before, dict(reading.ragged)

    def of(code: UnreadCode, numbers: list[int], says: str, advice: str) -> Iterator[UnreadRows]:
        if numbers:
            example = says.format(
                columns=widths[numbers[0]], expected=width, text=reading.texts.get(numbers[0], "")
            )
            yield UnreadRows(code, tuple(number + before for number in numbers), example, advice)

    cut = [number for number in widths if number in pieces]
    yield from of(UnreadCode.LINE_BREAK, cut, _("“{text}”."), _("Write each of these texts in one line"))
    others = [number for number in widths if number not in pieces]
    columns = widths[others[0]] if others else 0
    says = ngettext(
        "{columns} column instead of {expected}: “{text}”.",
        "{columns} columns instead of {expected}: “{text}”.",
        columns,
    )
    yield from of(UnreadCode.WIDTH, others, says, _quoting_rule(source, reading))


def _notes(name: str, layout: _Layout, reading: _Reading, bad_quote: int | None) -> Iterator[ReadingNote]:
    if not layout.has_header:
        sentence = _(
            "{name} has no header: its first row is data. Its columns are called “column 1” and so on."
        )
        yield ReadingNote(sentence.format(name=name))
    elif "" in layout.columns:
        sentence = _("Column {number} has no name; it is called “column {number}”.")
        yield ReadingNote(sentence.format(number=layout.columns.index("") + 1))
    if len(layout.columns) == 1:
        sentence = _("{name} has one column only: no comma, tab, semicolon or bar divides its lines.")
        yield ReadingNote(sentence.format(name=name))
    if reading.swallower:
        sentence = _(
            "{count:,} lines that look like rows are inside cells, first in row {row:,} of {name}: {not_closed}?"
        )
        count, row = reading.swallowed, reading.swallower
        message = sentence.format(count=count, row=row, name=name, not_closed=NOT_CLOSED)
        yield ReadingNote(message, NoteCode.LINES_LEFT_OUT)
    if bad_quote and reading.is_quoted:
        sentence = _("Line {line:,} of {name}: {not_closed}. Correct it in a text editor.")
        message = sentence.format(line=bad_quote, name=name, not_closed=NOT_CLOSED)
        yield ReadingNote(message, NoteCode.LINES_LEFT_OUT)
    elif bad_quote:
        sentence = _("Quotes are read as part of the text: in line {line:,} {not_closed}.")
        yield ReadingNote(sentence.format(line=bad_quote, not_closed=NOT_CLOSED))


# --- CoNLL: a token with its tag on each line, an empty line after each sentence


CONLL_CHARACTERS = 1 << 16
BLOCK_SENTENCES = 20_000
DOCUMENT = "-DOCSTART-"
UNIVERSAL_COLUMNS = 10
"""Columns of CoNLL-U: the word is in the second, its part of speech in the fourth, and there is no tag in the last."""

_TAG = re.compile(r"O|[BIELSUM]-\S+")
_OPEN_ENDINGS = (".txt", ".tsv", ".tab", ".data", ".train", ".dev", ".test", "")
"""Extensions that CoNLL files have besides their own."""


def looks_like_conll(path: Path, head: str) -> bool:
    """Returns whether a file may be CoNLL by its extension, and its lines end in tags such as B-PER or O."""
    if ending(path) not in _OPEN_ENDINGS:
        return False
    lines = head[:CONLL_CHARACTERS].splitlines()
    lines = lines[:-1] if len(head) > CONLL_CHARACTERS else lines
    rows = [_fields(line) for line in lines if line.strip() and not line.startswith(("#", DOCUMENT))]
    if not rows or len(rows[0]) < 2 or not any(fields[-1][:2] in ("B-", "I-", "S-", "U-") for fields in rows):
        return False
    fitting = sum(len(fields) == len(rows[0]) and _TAG.fullmatch(fields[-1]) is not None for fields in rows)
    return fitting / len(rows) > 0.9


def parse_conll(source: TextFile, new_writer: NewWriter) -> ParsedRows:
    """Reads sentences into the columns `tokens`, `tags` (the last one), and between them `column 2` and so on.

    Raises:
        DataError: A line has no tag, or another number of columns than the first one; or there are no sentences.
    """
    sentences = _sentences(source)
    first = next(sentences, None)
    if first is None:
        raise DataError(
            _("{name} has no rows").format(name=source.path.name),
            _("{path}: there is no sentence in it.").format(path=source.path),
            (Fix(_("Choose another file")),),
        )
    names = ["tokens", *(f"column {number}" for number in range(2, len(first[1]))), "tags"]
    schema = pa.schema([(name, pa.list_(pa.string())) for name in names])
    writer, sentences = new_writer(schema), chain([first], sentences)
    while block := list(islice(sentences, BLOCK_SENTENCES)):
        numbers, columns = zip(*block, strict=True)
        arrays = [pa.array(values, pa.list_(pa.string())) for values in zip(*columns, strict=True)]
        writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema), np.array(numbers, np.int64))
    return ParsedRows(writer, "CoNLL", "line")


def _sentences(source: TextFile) -> Iterator[tuple[int, list[list[str]]]]:
    """Yields the line number of the start of each sentence, and its columns."""
    sentence, start, width, first_line = list[list[str]](), 0, 0, 0
    for first, lines in source.lines():
        for number, line in enumerate(lines, first):
            fields = _fields(line)
            if not line.strip() or fields[0] == DOCUMENT:
                if columns := _columns_of(sentence):
                    yield start, columns
                sentence = []
                continue
            if not width and not line.startswith("#"):
                width, first_line = len(fields), number
            is_comment = fields[0] == "#" and "=" in fields[1:3]  # such as "# id = 7"
            if len(fields) == width > 1 and not is_comment:
                start = start if sentence else number
                sentence.append(fields)
            elif not line.startswith("#"):
                raise _bad_line(source.path, number, line, first_line)
    if columns := _columns_of(sentence):
        yield start, columns


def _columns_of(sentence: list[list[str]]) -> list[list[str]]:
    """Returns the columns of a sentence; for CoNLL-U, words and parts of speech, without 1-2 and 1.1 (no words)."""
    if sentence and len(sentence[0]) == UNIVERSAL_COLUMNS:
        sentence = [[fields[1], fields[3]] for fields in sentence if fields[0].isdecimal()]
    return list(map(list, zip(*sentence, strict=True)))


def _fields(line: str) -> list[str]:
    line = line.rstrip("\r\n ")
    return line.split("\t") if "\t" in line else line.split()


def _bad_line(path: Path, number: int, line: str, first: int) -> DataError:
    return DataError(
        _("{name}: line {number:,} is not a token and its tag").format(name=path.name, number=number),
        _(
            "{path}: each line has a token, a tab or a space, and its tag, such as “Paris B-LOC”, in as many columns "
            "as line {first:,}. Line {number:,} is: {line}"
        ).format(path=path, first=first, number=number, line=line[:80]),
        (Fix(_("Correct line {number:,} in a text editor").format(number=number)),),
    )
