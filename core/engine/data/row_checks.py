"""Rows of texts and their answers, block by block, as a run takes them; what is wrong or left out is counted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from core.base.errors import DataError
from core.engine.data import checks as kinds
from core.engine.data.columns import (
    Guess,
    is_blank,
    is_mixed,
    nested_places,
    nested_values,
    read_lists,
    tag_names,
    text_reader,
)
from core.engine.data.labelled_texts import missing_value, named, no_list, uneven
from core.engine.data.scores import SHOWN_CELLS, as_number, not_numbers
from core.engine.data.tables import Table
from core.services.inspect import ROWS_NAMED, Finding, FindingLevel, Tally

BLOCK_ROWS = 2000


@dataclass(frozen=True)
class Block:
    """Usable rows: the index of each in the table, what the model reads of it, and the answer (of words: one each)."""

    places: list[int]
    inputs: list[tuple[str, ...]]
    answers: list[Any]


@dataclass
class Wrong:
    """Rows that stop a run for one reason: how many, the first of their numbers, and what tells about the first."""

    code: str
    error: Callable[[int, Any, int], DataError]
    """Makes the error that a run stops with: of the first index, what was noted of it, and the count."""
    count: int = 0
    first: tuple[int, Any] = (0, None)
    rows: list[int] = field(default_factory=list)

    def add(self, table: Table, index: int, about: Any = None) -> None:
        """Count one more."""
        if not self.count:
            self.first = (index, about)
        self.count += 1
        if len(self.rows) < ROWS_NAMED:
            self.rows.append(int(table.numbers[index]))

    def finding(self, row_word: str, *, is_left_out: bool) -> Finding:
        """The error as a finding, in its words; a warning where the rows are left out."""
        error = self.error(*self.first, self.count)
        left_out = f" {'It is' if self.count == 1 else 'They are'} left out." if is_left_out else ""
        return Finding(
            code=self.code,
            level=FindingLevel.WARNING if is_left_out else FindingLevel.PROBLEM,
            message=f"{error.title}. {error.detail}{left_out}",
            count=self.count,
            rows=tuple(self.rows),
            row_word=row_word,
            fixes=() if is_left_out else error.fixes,
        )


class Reading:
    """Goes through a table once; `tally` has what lets a run pass, `problems` what stops it, when all blocks are read.

    Args:
        table: The rows.
        columns: Those of texts and of answers, which are there.
        progress: Told the number of rows gone through.
        skip: Whether rows that would stop a run are left out, and no more than a warning.
    """

    def __init__(
        self,
        table: Table,
        columns: Guess,
        progress: Callable[[int], None] = lambda _rows: None,
        *,
        skip: bool = False,
    ) -> None:
        self.table = table
        self.columns = columns
        self.tally = Tally(table.row_word)
        self._progress = progress
        self._skip = skip
        self._wrong: dict[str, Wrong] = {}
        self._no_numbers: list[str] = []

    def problems(self) -> list[Finding]:
        """What stops a run, or would if it weren't left out."""
        word = self.table.row_word
        return [wrong.finding(word, is_left_out=self._skip) for wrong in self._wrong.values()]

    def texts(self) -> Iterator[Block]:
        """Rows of one text or two, and the label as it is written."""
        names = [*self.columns.text, *filter(None, (self.columns.label,))]
        readers = {name: text_reader(self.table.rows[name]) for name in names}
        mixed = [name for name in self.columns.text if is_mixed(self.table, name)]
        for start, batch in self._batches(names):
            values = [readers[name](batch[name]) for name in names]
            keep = np.ones(batch.num_rows, dtype=bool)
            for name, texts in zip(names, values, strict=True):
                blank = is_blank(texts).to_numpy()
                for place in np.flatnonzero(blank):
                    self.tally.add(kinds.EMPTY, int(self.table.numbers[start + place]), detail=name)
                keep &= ~blank
                if name in mixed:
                    keep[self._note_nested(name, start, texts)] = False
            kept = pa.array(keep)
            rows = [texts.filter(kept).to_pylist() for texts in values]
            answers = (
                [answer.strip() for answer in rows.pop()] if self.columns.label else [""] * int(keep.sum())
            )
            yield Block((start + np.flatnonzero(keep)).tolist(), list(zip(*rows, strict=True)), answers)

    def scores(self) -> Iterator[Block]:
        """Rows of one text or two, and a number."""
        for block in self.texts():
            numbers = [as_number(answer) for answer in block.answers]
            wrong = np.isnan(numbers)
            for place in np.flatnonzero(wrong):
                if len(self._no_numbers) < SHOWN_CELLS:
                    self._no_numbers.append(block.answers[place])
                self._note("not-a-number", self._no_number, block.places[place])
            if not wrong.any():
                yield Block(block.places, block.inputs, numbers)
                continue
            kept = np.flatnonzero(~wrong).tolist()
            yield Block(
                [block.places[place] for place in kept],
                [block.inputs[place] for place in kept],
                [numbers[place] for place in kept],
            )

    def words(self) -> Iterator[Block]:
        """Rows of words, and a tag for each."""
        text, tag = self.columns.text[0], self.columns.label or ""
        names = tag_names(self.table, tag)
        for start, batch in self._batches([text, tag]):
            words = self._lists(text, start, batch)
            tags = self._lists(tag, start, batch)
            rows = zip(words.to_pylist(), named(tags, names).to_pylist(), strict=True)
            block = Block([], [], [])
            for index, (said, labels) in enumerate(rows, start):
                if self._fits(index, said, labels):
                    block.places.append(index)
                    block.inputs.append(tuple(said))
                    block.answers.append(tuple(labels))
            yield block

    def _fits(self, index: int, words: Sequence[str | None], tags: Sequence[str | None]) -> bool:
        """Whether words and tags go together; where not, that is noted."""
        if len(words) != len(tags):
            self._note("tag-count", self._uneven, index, (len(words), len(tags)))
            return False
        if not words:
            self.tally.add(kinds.EMPTY, int(self.table.numbers[index]), detail=self.columns.text[0])
            return False
        for name, values in ((self.columns.text[0], words), (self.columns.label or "", tags)):
            if None in values:
                self._note(f"missing-value {name}", self._missing(name), index)
                return False
        return True

    def _batches(self, names: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        start = 0
        for batch in self.table.rows.select(list(dict.fromkeys(names))).to_batches(max_chunksize=BLOCK_ROWS):
            yield start, batch
            start += batch.num_rows
            self._progress(start)

    def _lists(self, name: str, start: int, batch: pa.RecordBatch) -> pa.ListArray:
        lists, bad = read_lists(pa.chunked_array([batch[name]]))
        for error in bad:
            self._note(f"broken-list {name}", self._no_list(name), start + error.index, error.text)
        return lists

    def _note(
        self, code: str, error: Callable[[int, Any, int], DataError], index: int, about: Any = None
    ) -> None:
        wrong = self._wrong.setdefault(code, Wrong(code.partition(" ")[0], error))
        wrong.add(self.table, index, about)

    def _note_nested(self, name: str, start: int, texts: pa.ChunkedArray) -> list[int]:
        """Count lists and objects among texts; where they are."""
        found = list(nested_places(texts))
        for place in found:
            self._note(f"mixed-kinds {name}", self._nested(name), start + place)
        return found

    def _no_number(self, index: int, _: Any, count: int) -> DataError:
        cells = list(zip(self._wrong["not-a-number"].rows, self._no_numbers, strict=False))
        return not_numbers(self.table, self.columns, self.table.where(index), cells, count)

    def _uneven(self, index: int, counts: tuple[int, int], count: int) -> DataError:
        return uneven(self.table, self.columns, index, counts, count)

    def _no_list(self, name: str) -> Callable[[int, Any, int], DataError]:
        return lambda index, text, count: no_list(self.table, name, index, text, count)

    def _missing(self, name: str) -> Callable[[int, Any, int], DataError]:
        return lambda index, _, count: missing_value(self.table, name, self.table.where(index), count)

    def _nested(self, name: str) -> Callable[[int, Any, int], DataError]:
        return lambda index, _, count: nested_values(self.table, name, index, count)
