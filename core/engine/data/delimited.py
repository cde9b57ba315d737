"""CSV and its relatives, split by Arrow; the delimiter, the quoting and the header are read off the content."""

import csv
import io
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data.text_files import (
    DELIMITER_NAMES,
    ENDINGS,
    NewWriter,
    Numbers,
    ParsedRows,
    RowWriter,
    TextFile,
    ending,
    listed,
    mismatch,
    refuse_repeated,
)

# --- The delimiter and the quoting of a file of rows, read off its content


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

DELIMITERS = {",": "CSV", "\t": "TSV", ";": _("CSV with semicolons"), "|": _("CSV with bars")}
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
        _("neither CSV, TSV, JSON, JSONL nor Parquet: its lines have no common columns"),
        _("Choose a table with a column of texts and one of labels, or the task that continues a text"),
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


# --- Whether a delimited file names its columns in its first row, or begins with data at once


LONG_TEXT = 40
"""Characters that a column's name hardly ever has."""
FEWEST_BELOW = 3
"""Below the first one; with fewer, the first row counts as the header."""

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?%?\s*")


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns.

    It does unless something in it looks like the rows below, such as a number where there are numbers or a label that
    comes again, and nothing in it looks like a name.
    """
    first = [value.strip() for value in rows[0]]
    below = [[value.strip() for value in row] for row in rows[1:] if len(row) == len(first)]
    below = [row for row in below if row != first]
    if len(below) < FEWEST_BELOW or any(value.lower() in ALL_NAMES for value in first):
        return True
    signs = [_sign(value, [row[place] for row in below]) for place, value in enumerate(first)]
    return max(signs) == 1 or min(signs) == 0


def _sign(first: str, below: list[str]) -> int:
    """1 where the first value of a column looks like its name, -1 where it looks like those below, else 0."""
    filled = [value for value in below if value]
    if not first or not filled:
        return 0
    if all(map(_NUMBER.fullmatch, filled)):
        return -1 if _NUMBER.fullmatch(first) else 1
    distinct = set(filled)
    if len(distinct) <= len(filled) / 2:
        return -1 if first in distinct else 0
    return -1 if len(first) > LONG_TEXT and sum(map(len, filled)) / len(filled) > LONG_TEXT else 0


def named(header: Sequence[str]) -> list[str]:
    """The columns' names; those without one are called "column 3"."""
    return [name or f"column {number}" for number, name in enumerate(header, 1)]


# --- CSV and its relatives, split by Arrow; the delimiter


BLOCK_BYTES = 16 * 2**20
"""No single row may be longer."""
RAGGED_SHARE = 0.01
"""Up to this share, lines of rows that don't fit the header are left out with a note; beyond, the file is refused."""
NOT_CLOSED = _("a quote that opens isn't closed")
MANY_LINES = 10
"""A cell of more, or cells with more in all, most of which look like rows, were likely not meant to be cells."""

_LEAD = re.compile(r'[\r\n]*(?:"?sep=[^\r\n"]"?(?:\r\n|\r|\n))?[\r\n]*', re.IGNORECASE)
"""Empty lines, and the line by which Excel tells the delimiter."""


@dataclass(frozen=True)
class _Form:
    """How a file is split: `lead` is text before the first row, `lines_before` its lines."""

    source: TextFile
    delimiter: str
    header: bool
    columns: tuple[str, ...]
    lead: str

    @property
    def lines_before(self) -> int:
        """Lines before the first row."""
        return len(self.lead.splitlines())

    @property
    def fitting(self) -> str:
        """What rows must fit."""
        return "header" if self.header else _("first row")


@dataclass
class _Ragged:
    """Rows that don't fit: all their numbers, their lines, and what the first one of them is that isn't blank."""

    newline: str
    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    blank: int = 0
    lines: int = 0
    first: int = 0
    columns: int = 0
    text: str = ""

    @property
    def count(self) -> int:
        """How many there are, without those that hold nothing but delimiters and white space."""
        return len(self.numbers) - self.blank

    def take(self, row: Any) -> str:
        """Note a row that Arrow can't fit in."""
        self.numbers.append(row.number)
        if not row.text.strip(',;|" \t\r\n'):
            self.blank += 1
            return "skip"
        self.lines += 1 + row.text.rstrip().count(self.newline)
        if not self.first:
            self.first, self.columns, self.text = row.number, row.actual_columns, row.text[:80]
        return "skip"


@dataclass
class _LongCells:
    """Cells of three lines or more: how many, their lines, and those of cells whose lines look like rows.

    `found` are the lines and the first row of all that do, `large` of those with more than `MANY_LINES`.
    """

    form: _Form
    rows: int = 0
    count: int = 0
    lines: int = 0
    found: tuple[int, int] = (0, 0)
    large: tuple[int, int] = (0, 0)

    def take(self, column: Any, numbers: Numbers) -> int:
        """Look through the cells of a column, the rows of which have these numbers; returns how many lines they add."""
        newline, delimiter, others = self.form.source.newline, self.form.delimiter, len(self.form.columns) - 1
        breaks = pc.count_substring(column, newline).to_numpy()
        (at,) = np.nonzero(breaks > 1)
        self.rows += len(breaks)
        self.count += len(at)
        self.lines += int(breaks[at].sum()) + len(at)
        delimiters = pc.count_substring(column.take(at), delimiter).to_numpy()
        for row in at[(breaks[at] > MANY_LINES) | (delimiters == breaks[at] * others)]:
            first, *inner, last = column[row].as_py().split(newline)
            alike = sum(line.count(delimiter) == others for line in (*inner, last + first))
            if alike >= SURELY * int(breaks[row]):
                added, number = int(breaks[row]), int(numbers[row]) + self.form.lines_before
                self.found = (self.found[0] + added, self.found[1] or number)
                if added > MANY_LINES and others:
                    self.large = (self.large[0] + added, self.large[1] or number)
        return int(breaks.sum())

    def swallowed(self, lines: int) -> tuple[int, int]:
        """Lines in cells that were likely not meant to be there, and the first row with some; `lines` are the file's.

        Where there is one column, texts of many lines look the same: few rows must then hold most lines.
        """
        if len(self.form.columns) == 1:
            is_likely = self.found[0] > LIKELY * lines and self.count < LIKELY * self.rows
        else:
            is_likely = self.found[0] > LIKELY * self.lines
        is_much = self.found[0] > max(MANY_LINES, RAGGED_SHARE * lines)
        return self.found if is_likely and is_much else self.large


@dataclass(frozen=True)
class _Reading:
    """A file split one way: the rows that fit and their lines, and the rows that don't.

    `swallowed` are lines in cells that look like rows, the first of them in row `swallower`. `bad_quote` is the first
    line in which a quote opens and isn't closed; `took_lines` whether with quotes as marks it takes further lines.
    """

    rows: RowWriter
    ragged: _Ragged
    lines: int
    is_quoted: bool
    swallowed: int = 0
    swallower: int = 0
    bad_quote: int | None = None
    took_lines: bool = False

    @property
    def lost(self) -> int:
        """Lines that aren't trained on as what they are."""
        return self.ragged.lines + (self.swallowed if self.bad_quote else 0)


def parse(source: TextFile, new_writer: NewWriter, header: bool | None = None) -> ParsedRows:
    """Split a text into rows and columns; every value stays a text.

    Args:
        source: The file.
        new_writer: Where its rows go.
        header: Whether the first row names the columns; None finds out.

    Raises:
        DataError: There are no rows below the header, column names repeat, or rows don't fit the header.
    """
    form = _form(source, header)
    if form.header:
        refuse_repeated(source.path, form.columns)
    reading = _read_best(form, new_writer)
    if not reading.lines and not reading.ragged.count:
        raise DataError(
            _("{name} has a header but no rows").format(name=source.path.name),
            _("{path}: the only row names the columns {columns}.").format(
                path=source.path, columns=listed(form.columns)
            ),
            (Fix(_("Choose a file with rows below its header")),),
        )
    _refuse_ragged(form, reading)
    how = {"header": _("in the first row") if form.header else "none"}
    if len(form.columns) > 1:
        quoting = _("double quotes") if reading.is_quoted else "none"
        how = {"delimiter": DELIMITER_NAMES[form.delimiter], "quoting": quoting, **how}
    return ParsedRows(reading.rows, DELIMITERS[form.delimiter], "row", tuple(_notes(form, reading)), how)


def _form(source: TextFile, header: bool | None) -> _Form:
    head = source.head(BLOCK_BYTES)
    found = _LEAD.match(head)
    lead = found.group() if found else ""
    head = head[len(lead) :]
    said = re.search(r"sep=(.)", lead, re.IGNORECASE)
    delimiter = said[1] if said and said[1] in DELIMITERS else find_delimiter(source.path, head)
    first = [value.strip() for value in _first_row(source, head, delimiter)]
    rows = sample_rows(head[:SAMPLE_CHARACTERS], delimiter, _quoting(head[:SAMPLE_CHARACTERS], delimiter))
    complete = rows[:-1] if len(head) > SAMPLE_CHARACTERS else rows
    has_names = has_header(complete) if header is None and complete else header is not False
    columns = first if has_names else [""] * len(first)
    return _Form(source, delimiter, has_names, tuple(columns), lead)


def _quoting(sample: str, delimiter: str) -> Quoting:
    """Whether quotes are marks, as the first line has it, or all of the sample where a name goes over two lines."""
    pieces = (sample.partition("\n")[0].rstrip("\r"), sample.rpartition("\n")[0])
    is_quoted = any(
        badly_quoted_line((piece.encode(),), delimiter, len(sample) * 4) is None for piece in pieces if piece
    )
    return csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE


def _first_row(source: TextFile, head: str, delimiter: str) -> list[str]:
    quoting = _quoting(head[:SAMPLE_CHARACTERS], delimiter)
    try:
        return next(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter, quoting=quoting))
    except csv.Error as error:
        raise _too_long(source, str(error)) from error


def _read_best(form: _Form, new_writer: NewWriter) -> _Reading:
    """Read with quotes as marks where they are used as such throughout, else as plain characters.

    Where neither holds, as when a few rows of a quoted file are broken, the reading that loses fewer lines counts.

    Raises:
        DataError: A row is too long to be one.
    """
    if not form.source.has_quotes:
        return _read(form, new_writer, csv.QUOTE_NONE)
    bad = badly_quoted_line(_without_lead(form), form.delimiter, BLOCK_BYTES, form.source.newline)
    if bad is None:
        return _read(form, new_writer, csv.QUOTE_MINIMAL)
    bad += form.lines_before
    plain = replace(_read(form, new_writer, csv.QUOTE_NONE), bad_quote=bad)
    if not plain.ragged.count:
        return plain
    try:
        quoted = replace(_read(form, new_writer, csv.QUOTE_MINIMAL), bad_quote=bad)
    except DataError:  # a quote that is never closed swallows the rest of the file
        return replace(plain, took_lines=True)
    best, other = (quoted, plain) if quoted.lost < plain.lost else (plain, quoted)
    other.rows.discard()
    return replace(best, took_lines=quoted.lost > quoted.ragged.count)


def _read(form: _Form, new_writer: NewWriter, quoting: Quoting) -> _Reading:
    """Split the rows: in small blocks, which takes less memory, or in large ones where a row doesn't fit.

    Raises:
        DataError: A row is too long for the large ones, too.
    """
    try:
        return _read_in_blocks(form, new_writer, quoting, BLOCK_BYTES // 8)
    except (csv.Error, pa.ArrowInvalid):
        pass
    try:
        return _read_in_blocks(form, new_writer, quoting, BLOCK_BYTES)
    except (csv.Error, pa.ArrowInvalid) as error:
        raise _too_long(form.source, str(error)) from error


def _read_in_blocks(form: _Form, new_writer: NewWriter, quoting: Quoting, size: int) -> _Reading:
    """Split the rows; every value stays the text it is in the file."""
    schema = pa.schema([(name, pa.string()) for name in named(form.columns)])
    rows, ragged = new_writer(schema), _Ragged(form.source.newline)
    kept, place, cells = 0, 2 if form.header else 1, _LongCells(form)
    is_quoted = quoting == csv.QUOTE_MINIMAL
    try:
        for batch in _batches(form, quoting, ragged, size):
            numbers, place = _numbers(place, batch.num_rows, ragged)
            rows.add(pa.RecordBatch.from_arrays(batch.columns, schema=schema), numbers + form.lines_before)
            kept += batch.num_rows
            for column in batch.columns if is_quoted else ():
                kept += cells.take(column, numbers)
    except BaseException:
        rows.discard()
        raise
    return _Reading(rows, ragged, kept, is_quoted, *cells.swallowed(kept))


def _batches(form: _Form, quoting: Quoting, ragged: _Ragged, size: int) -> Iterator[pa.RecordBatch]:
    is_quoted = quoting == csv.QUOTE_MINIMAL
    keys = [str(number) for number in range(len(form.columns))]
    with arrow_csv.open_csv(
        _Bytes(_without_lead(form)),
        read_options=arrow_csv.ReadOptions(
            use_threads=False,
            block_size=size,
            column_names=keys,
            skip_rows_after_names=int(form.header),
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=form.delimiter,
            quote_char='"' if is_quoted else False,
            newlines_in_values=is_quoted,
            ignore_empty_lines=False,
            invalid_row_handler=ragged.take,
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(keys, pa.string()), strings_can_be_null=False
        ),
    ) as reader:
        yield from reader


def _numbers(place: int, count: int, ragged: _Ragged) -> tuple[Numbers, int]:
    """The numbers of the next `count` rows that fit, from row `place` on, and the place after them."""
    skipped = np.frombuffer(ragged.numbers, np.int64) if ragged.numbers else np.zeros(0, np.int64)
    skipped = skipped[np.searchsorted(skipped, place) :].copy()  # a view would keep the list from growing
    end = place + count
    while True:
        inside = int(np.searchsorted(skipped, end))
        if end == place + count + inside:
            break
        end = place + count + inside
    numbers = np.setdiff1d(np.arange(place, end), skipped[:inside], assume_unique=True)
    return numbers, end


def _without_lead(form: _Form) -> Iterator[bytes]:
    left = len(form.lead)
    for block in form.source.blocks():  # nothing but ASCII leads
        yield block[left:]
        left = max(0, left - len(block))


class _Bytes(io.RawIOBase):
    """Blocks as a file for Arrow to read."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks, self._left = filter(None, blocks), memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, which is one block to Arrow, unless the end comes before."""
        done = 0
        while done < len(buffer):
            self._left = self._left or memoryview(next(self._blocks, b""))
            if not self._left:
                break
            size = min(len(buffer) - done, len(self._left))
            buffer[done : done + size] = self._left[:size]
            self._left, done = self._left[size:], done + size
        return done


def _too_long(source: TextFile, error: str) -> DataError:
    return DataError(
        _("{name} can't be split into rows").format(name=source.path.name),
        f"{source.path}: a row seems to be longer than {BLOCK_BYTES >> 20} MiB; a quote may be left open ({error}).",
        (Fix(_('Close every text that begins with a " by another one')),),
    )


def _refuse_ragged(form: _Form, reading: _Reading) -> None:
    path, ragged, bad = form.source.path, reading.ragged, reading.bad_quote
    if reading.lost <= RAGGED_SHARE * (reading.lines + ragged.lines):
        return
    if bad and reading.took_lines:
        raise DataError(
            _("{name}, line {bad:,}: {not_closed}").format(name=path.name, bad=bad, not_closed=NOT_CLOSED),
            _(
                "{path}: a text that begins with a double quote must end with one. At least {lost:,} "
                "lines "
                "would be lost, whichever way the quotes are read."
            ).format(path=path, lost=reading.lost),
            (Fix(_("Close the quote in line {bad:,} in a text editor").format(bad=bad)),),
        )
    number = ragged.first + form.lines_before
    rows = _("1 row doesn't") if ragged.count == 1 else _("{count:,} rows don't").format(count=ragged.count)
    named_columns = f" ({listed(form.columns)})" if form.header else ""
    raise DataError(
        _("{name}, row {number:,} has {columns}, the {fitting} {columns_2}").format(
            name=path.name,
            number=number,
            columns=_columns(ragged.columns),
            fitting=form.fitting,
            columns_2=len(form.columns),
        ),
        _(
            "{path}: {rows} fit the {fitting}{named_columns}. A text that contains the delimiter "
            "must "
            "stand in double quotes. Row {number:,} begins: {text}"
        ).format(
            path=path,
            rows=rows,
            fitting=form.fitting,
            named_columns=named_columns,
            number=number,
            text=ragged.text,
        ),
        (Fix(_("Correct row {number:,} in a spreadsheet or a text editor").format(number=number)),),
    )


def _notes(form: _Form, reading: _Reading) -> Iterator[str]:
    name, ragged = form.source.path.name, reading.ragged
    if not form.header:
        called = (
            "“column 1”"
            if len(form.columns) == 1
            else _("“column 1” to “column {columns}”").format(columns=len(form.columns))
        )
        yield _("{name} has no header: its first row is data. Its columns are called {called}.").format(
            name=name, called=called
        )
    else:
        for number, column in enumerate(form.columns, 1):
            if not column:
                yield f"Column {number} has no name; it is called “column {number}”."
    if len(form.columns) == 1:
        yield _("{name} has one column only: no comma, tab, semicolon or bar divides its lines.").format(
            name=name
        )
    if ragged.count:
        rows = _("1 row was") if ragged.count == 1 else _("{count:,} rows were").format(count=ragged.count)
        yield (
            f"{rows} left out of {name} for a number of columns other than the {form.fitting}'s; "
            f"the first is row {ragged.first + form.lines_before:,}."
        )
    if reading.swallower:
        yield (
            _(
                "{swallowed:,} lines that look like rows are inside of cells, first in row "
                "{swallower:,} "
                "of {name}: {not_closed}?"
            ).format(
                swallowed=reading.swallowed, swallower=reading.swallower, name=name, not_closed=NOT_CLOSED
            )
        )
    if reading.took_lines:
        yield _("Line {bad_quote:,} of {name}: {not_closed}. Close it in a text editor.").format(
            bad_quote=reading.bad_quote, name=name, not_closed=NOT_CLOSED
        )
    elif reading.bad_quote and not reading.is_quoted and form.delimiter != "\t":  # beside tabs that is usual
        yield _(
            "Quotes are read as part of the text: the one that opens in line {bad_quote:,} isn't closed."
        ).format(bad_quote=reading.bad_quote)


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


# --- Words with a tag each, as files of the CoNLL tasks have them: a token a line


CONLL_CHARACTERS = 1 << 16
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
    lines = head[:CONLL_CHARACTERS].splitlines()
    lines = lines[:-1] if len(head) > CONLL_CHARACTERS else lines
    rows = [fields for line in lines if line.strip() and not _is_apart(fields := _fields(line))]
    if not rows or len(rows[0]) < 2 or not any(fields[-1][:2] in ("B-", "I-", "S-", "U-") for fields in rows):
        return False
    fitting = sum(len(fields) == len(rows[0]) and _TAG.fullmatch(fields[-1]) is not None for fields in rows)
    return fitting / len(rows) > 0.9


def parse_conll(source: TextFile, new_writer: NewWriter) -> ParsedRows:
    """Read sentences: the columns `tokens`, `tags` (the last one), and what stands between them as `column 2` and on.

    Raises:
        DataError: A line has another number of columns than the first one, or there are no tags.
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
        arrays = [
            pa.array([columns[place] for _rest2, columns in block], pa.list_(pa.string()))
            for place in range(len(names))
        ]
        numbers = np.array([number for number, _rest in block], np.int64)
        writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema), numbers)
    return ParsedRows(writer, "CoNLL", "line")


def _sentences(source: TextFile) -> Iterator[tuple[int, list[list[str]]]]:
    """The number of each sentence's first line, and its columns."""
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
                if width < 2:
                    raise _no_tag(source.path, number, line)
            if len(fields) == width and not (fields[0] == "#" and "=" in fields[1:3]):  # such as "# id = 7"
                start = start if sentence else number
                sentence.append(fields)
            elif not line.startswith("#"):
                raise _other_width(
                    source.path,
                    number,
                    line,
                    _("line {first_line:,} has {width}").format(first_line=first_line, width=width),
                )
    if columns := _columns_of(sentence):
        yield start, columns


def _columns_of(sentence: list[list[str]]) -> list[list[str]]:
    """The columns of a sentence; of CoNLL-U words and their parts of speech, as 1-2 and 1.1 stand for no word."""
    if sentence and len(sentence[0]) == UNIVERSAL_COLUMNS:
        sentence = [[fields[1], fields[3]] for fields in sentence if fields[0].isdecimal()]
    return list(map(list, zip(*sentence, strict=True)))


def _fields(line: str) -> list[str]:
    line = line.rstrip("\r\n ")
    return line.split("\t") if "\t" in line else line.split()


def _is_apart(fields: list[str]) -> bool:
    """Whether a line is a comment or the beginning of a document."""
    return fields[0].startswith("#") or fields[0] == DOCUMENT


def _no_tag(path: Path, number: int, line: str) -> DataError:
    return DataError(
        _("{name}, line {number:,} has a token and no tag").format(name=path.name, number=number),
        _(
            "{path}: each line reads: a token, a tab or a space, its tag, such as “Paris B-LOC”. "
            "Line {number:,} is: "
            "{line}"
        ).format(path=path, number=number, line=line[:80]),
        (Fix(_("Choose a file with a tag in every line")),),
    )


def _other_width(path: Path, number: int, line: str, others: str) -> DataError:
    count = len(_fields(line))
    has = "1 column" if count == 1 else f"{count} columns"
    return DataError(
        _("{name}, line {number:,} has {has}, {others}").format(
            name=path.name, number=number, has=has, others=others
        ),
        f"{path}: each line reads: a token, a tab or a space, its tag; an empty line ends a sentence. "
        f"Line {number:,} is: {line[:80]}",
        (Fix(_("Correct line {number:,} in a text editor").format(number=number)),),
    )
