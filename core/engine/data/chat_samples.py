"""Conversations, or pairs of answers, as data sets of tokens: read, checked, rendered, cut, a part held out.

What the preview shows is what stands here: both render with `Renderer`.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.errors import DataError, Fix
from core.engine.data.chat_tokens import (
    Rendered,
    RenderedPair,
    Renderer,
    render_pairs,
    render_rows,
    set_template,
)
from core.engine.data.checks import refuse_problems, repeats
from core.engine.data.conversation_shapes import Unrepeated, find_shape
from core.engine.data.conversations import read_rows
from core.engine.data.splits import NOTHING_HELD_OUT, HeldOut, held_out_of, random_split
from core.engine.data.tables import Table, read_held_out, read_training
from core.engine.data.token_cache import CHOSEN, NO_LABEL, PROMPT, REJECTED, TOKENS
from core.options import RunOptions
from core.options.choices import ChatTemplate, Task
from core.services.inspect import Finding, Tally

if TYPE_CHECKING:
    from datasets import Dataset


# --- Which row of conversations gets the most tokens, found without rendering all of them


CANDIDATES = 128
"""So many rows with the most bytes are rendered."""


@dataclass(frozen=True)
class LongestConversation:
    """Tokens of the longest row, 0 where none can be used; and bytes of all texts."""

    tokens: int
    text_bytes: int


def longest_conversation(options: RunOptions, tokenizer: Any, most: int) -> LongestConversation:
    """Look for the longest row, cut off at `most` tokens.

    Args:
        options: What is asked.
        tokenizer: The model's, which gets the template that is asked for; None: only bytes are told.
        most: The most tokens of a row.

    Raises:
        DataError: The data can't be read.
    """
    data, is_pairs = options.data, options.task is Task.PREFERENCE
    table = read_training(data).first(data.max_train_samples)
    shape = find_shape(table, preference=is_pairs, columns=data.columns)
    sizes = sum(
        (_bytes_of(table.rows[name]) for name in shape.columns.values()), np.zeros(table.rows.num_rows)
    )
    total = int(sizes.sum())
    if tokenizer is None:
        return LongestConversation(0, total)
    set_template(tokenizer, ChatTemplate(data.chat_template))
    tally = Tally(table.row_word)
    rows: Any = read_rows(_with_most(table, sizes), shape, tally, roles=data.roles)
    renderer = Renderer(tokenizer, data.loss_on)
    lengths: Iterable[int]
    if is_pairs:
        pairs = render_pairs(rows, renderer, tally, max_length=most)
        lengths = (len(p.prompt_ids) + max(len(p.chosen_ids), len(p.rejected_ids)) for p in pairs)
    else:
        lengths = (len(row.input_ids) for row in render_rows(rows, renderer, tally, max_length=most))
    return LongestConversation(max(lengths, default=0), total)


def _with_most(table: Table, sizes: Any) -> Table:
    places = np.sort(np.argsort(-sizes, kind="stable")[:CANDIDATES])
    return replace(table, rows=table.rows.take(pa.array(places)), numbers=np.asarray(table.numbers)[places])


def _bytes_of(column: Any) -> Any:
    """Bytes of the texts in each cell, also of texts within lists of objects."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(float)
    found = np.zeros(len(column))
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            found += _bytes_of(pc.struct_field(column, index))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        owners = pc.list_parent_indices(joined).to_numpy()
        np.add.at(found, owners, _bytes_of(pc.list_flatten(joined)))
    return found


# --- Conversations, or pairs of answers, as data sets of tokens: read, checked, rendered, cut


IDS = pa.list_(pa.int32())
ROWS_AT_ONCE = 1000
STEP = 64
"""A length that is proposed is a multiple of it."""

Sample = dict[str, list[int]]


@dataclass(frozen=True)
class Conversations:
    """Data sets of `input_ids` and `labels`, or of `prompt_ids`, `chosen_ids` and `rejected_ids`.

    `eval` is None where nothing is held out. `findings` are warnings about the data, those about evaluation data last.
    `turn_end` is the token that most answers end with; None: there is no such.
    """

    train: "Dataset"
    eval: "Dataset | None"
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    turn_end: int | None = None


def load_conversations(
    options: RunOptions, renderer: Renderer, length: int, progress: Callable[[int], None] | None = None
) -> Conversations:
    """Read, check, render and split what a run asks for.

    Args:
        options: What is asked.
        renderer: The tokenizer with its template, and what is learned.
        length: Tokens of the longest row; what is beyond is cut off.
        progress: Told how many rows of a file were looked at, now and then.

    Raises:
        DataError: Something in the data stops the run, or nothing of it is left to learn; the rows are named.
    """
    data = options.data
    read = _Reading(options, renderer, length, progress)
    table = read_training(data).first(data.max_train_samples)
    repeated = Unrepeated() if data.drop_duplicates else None
    samples, findings = read.samples(table, repeated)
    notes = (*table.notes, *repeats(repeated.count if repeated else 0, table.row_word))
    apart = held_out_of(data)
    if apart:
        held_out, more = read.evaluation(apart)
        return Conversations(samples, held_out, (*findings, *more), notes, read.turn_end)
    train, rest = random_split(len(samples), data.eval_fraction, options.training.seed)
    rest = rest[: data.max_eval_samples]
    if data.eval_fraction and not rest:
        notes = (*notes, NOTHING_HELD_OUT)
    eval_set = samples.select(rest) if rest else None
    return Conversations(samples.select(train) if rest else samples, eval_set, findings, notes, read.turn_end)


class _Reading:
    """Makes samples of tables; `turn_end` is what is known so far of the token that answers end with."""

    def __init__(
        self, options: RunOptions, renderer: Renderer, length: int, progress: Callable[[int], None] | None
    ) -> None:
        self._options = options
        self._renderer = renderer
        self._length = length
        self._progress = progress
        self._ends: Counter[int] = Counter()
        self._gone = array("q")

    @property
    def turn_end(self) -> int | None:
        """The token most answers end with; None where there is no such."""
        found = self._ends.most_common(1)  # none where every answer is cut off
        return next((token for token, count in found if 2 * count > self._ends.total()), None)

    def evaluation(self, apart: HeldOut) -> "tuple[Dataset, tuple[Finding, ...]]":
        """The samples of a file of its own, or of another split."""
        try:
            return self.samples(read_held_out(apart).first(self._options.data.max_eval_samples))
        except DataError as error:
            raise type(error)(error.title, error.detail, (*error.fixes, apart.instead)) from error

    def samples(
        self, table: Table, repeated: Unrepeated | None = None
    ) -> "tuple[Dataset, tuple[Finding, ...]]":
        """The samples of a table, and what is to be said of it; where given, `repeated` leaves out equal ones.

        Raises:
            DataError: A problem was found, or nothing is left.
        """
        tally = Tally(table.row_word, skip=self._options.data.skip_bad_rows)
        made = _as_dataset(self._rendered(table, tally, repeated))
        findings = tally.findings()
        refuse_problems(table, findings, len(made))
        if not len(made):
            is_asked = self._length == self._options.data.max_length
            raise nothing_left(table, findings, self._gone, is_asked=is_asked)
        return made, findings

    def _rendered(self, table: Table, tally: Tally, repeated: Unrepeated | None) -> Iterator[Sample]:
        data, is_pairs = self._options.data, self._options.task is Task.PREFERENCE
        shape = find_shape(table, preference=is_pairs, columns=data.columns)
        rows: Any = read_rows(table, shape, tally, roles=data.roles, progress=self._progress)
        rows = repeated.of(rows) if repeated else rows
        render: Any = render_pairs if is_pairs else render_rows
        self._gone = array("q")
        for row in render(rows, self._renderer, tally, max_length=self._length, gone=self._gone):
            yield self._pair(row) if is_pairs else self._conversation(row)

    def _conversation(self, row: Rendered) -> Sample:
        """A row; its first token is never learned, as nothing comes before it."""
        if not row.cut:
            self._ends[next(token for token, is_learned in _backwards(row) if is_learned)] += 1
        return {TOKENS: row.input_ids, "labels": [NO_LABEL, *row.labels[1:]]}

    def _pair(self, row: RenderedPair) -> Sample:
        self._ends.update(answer[-1] for answer in (row.chosen_ids, row.rejected_ids))
        return {PROMPT: row.prompt_ids, CHOSEN: row.chosen_ids, REJECTED: row.rejected_ids}


def _backwards(row: Rendered) -> Iterator[tuple[int, bool]]:
    return zip(reversed(row.input_ids), reversed(row.trained), strict=True)


def _as_dataset(samples: Iterable[Sample]) -> "Dataset":
    """The samples in Arrow's memory, which takes 4 bytes a number; as Python's lists they would take ten times that."""
    from datasets import Dataset
    from datasets.table import InMemoryTable

    pieces, rest = [], iter(samples)
    while some := list(islice(rest, ROWS_AT_ONCE)):
        columns = {name: pa.array([sample[name] for sample in some], type=IDS) for name in some[0]}
        pieces.append(pa.table(columns))
    return Dataset(InMemoryTable(pa.concat_tables(pieces))) if pieces else Dataset.from_dict({})


def nothing_left(
    table: Table, findings: tuple[Finding, ...], gone: Sequence[int], *, is_asked: bool = True
) -> DataError:
    """The error for a table of which every row was left out.

    Args:
        table: Its rows.
        findings: What was found in them.
        gone: Tokens of the rows that are cut off before any answer.
        is_asked: Whether they are cut off where it was asked for; otherwise the model sees no more.
    """
    told = " ".join(finding.message for finding in findings) or "It has no rows."
    fix = Fix("Choose another file")
    if gone:
        enough = -(-sorted(gone)[len(gone) // 2] // STEP) * STEP
        longer = Fix(f"Allow {enough:,} tokens", {"data.max_length": enough})
        fix = longer if is_asked else Fix("Choose a model that sees more")
    return DataError(f"Nothing in {table.path.name} is left to learn from", f"{table.path}: {told}", (fix,))
