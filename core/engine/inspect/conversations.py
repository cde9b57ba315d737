"""Conversations and pairs of answers: every row is read, all or some of them are written as the model sees them."""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from core.base.errors import DataError, ModelError, Problem
from core.engine.data import checks
from core.engine.data.chat_samples import nothing_left
from core.engine.data.chat_tokens import (
    Rendered,
    RenderedPair,
    Renderer,
    render_pairs,
    render_rows,
    set_template,
)
from core.engine.data.checks import Prints64, offered
from core.engine.data.conversation_shapes import (
    SHAPE_TITLES,
    Conversation,
    Pair,
    PlainText,
    Row,
    Shape,
    find_shape,
    fingerprint,
)
from core.engine.data.conversations import of_the_file, read_rows, repeated_rows
from core.engine.data.splits import NOTHING_HELD_OUT, held_out_count, held_out_of, random_split
from core.engine.data.tables import Table, read_held_out, read_training
from core.engine.inspect import report as tables
from core.engine.inspect.preview import (
    CHARACTERS,
    TOKENS,
    characters_of,
    histogram,
    packed_rows,
    seen_rows,
    tokenizer_at_hand,
)
from core.engine.inspect.report import SHOWN, Stages, Tell, evenly_chosen, of_evaluation, of_repeats, of_rows
from core.options import RunOptions
from core.options.choices import ChatTemplate, Task
from core.options.data import DataOptions
from core.services.inspect import ROWS_NAMED, DataReport, Finding, Lengths, Tally, in_order


@dataclass(frozen=True)
class _Measuring(Renderer):
    """A renderer that notes how many tokens each row has before it is cut off."""

    lengths: list[int] = field(default_factory=list)

    def render(self, row: Conversation | PlainText) -> Rendered:
        found = super().render(row)
        self.lengths.append(len(found.input_ids))
        return found

    def render_pair(self, pair: Pair) -> RenderedPair:
        found = super().render_pair(pair)
        self.lengths.append(len(found.prompt_ids) + max(len(found.chosen_ids), len(found.rejected_ids)))
        return found


@dataclass
class _Pass:
    """What going through a table has gathered.

    `kept` has the tokens of each row that is left to learn from, of those that were written out; `lengths` how long
    they were before they were cut off, or how many characters rows have where there is no tokenizer.
    """

    table: Table
    tally: Tally
    drops: bool = False
    usable: int = 0
    written: int = 0
    first: list[Row] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    gone: "array[int]" = field(default_factory=lambda: array("q"))
    prints: Prints64 = field(default_factory=Prints64)
    numbers: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def is_sound(self) -> bool:
        """Whether nothing stops a run."""
        return not self.tally.has_problems and self.usable > 0

    @property
    def is_all_written(self) -> bool:
        """Whether every row was written out, so that what is left of them is known."""
        return self.written == self.usable

    def findings(self) -> list[Finding]:
        """All that was found."""
        found = self.tally.findings()
        return [*(offered(found) if self.usable else found), *of_the_file(self.usable, self.tally)]

    def repeats(self, data: DataOptions) -> Iterator[Finding]:
        """What is said of rows that are the same as an earlier one."""
        for found in repeated_rows(self.prints, self.numbers, self.table.row_word):
            yield of_repeats(found, data)


class _Looker:
    """Goes through tables of conversations as a run with these options does."""

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.is_pairs = options.task is Task.PREFERENCE
        self.length = options.data.max_length
        self.renderer, self.notes = self._renderer()

    def _renderer(self) -> tuple[_Measuring | None, tuple[str, ...]]:
        at_hand = tokenizer_at_hand(self.options)
        if at_hand is None:
            return None, ()
        asked = self.options.data.chat_template
        template = set_template(at_hand.tokenizer, asked)
        try:
            renderer = _Measuring(at_hand.tokenizer, self.options.data.loss_on)
        except ModelError:
            return None, ()
        self.length = at_hand.length
        is_lent = template is ChatTemplate.CHATML and asked is ChatTemplate.AUTO
        return renderer, (
            ("The model has no chat template of its own: conversations are written in ChatML.",)
            if is_lent
            else ()
        )

    def shape(self, table: Table) -> Shape:
        """The shape of a table; see `find_shape`."""
        return find_shape(table, preference=self.is_pairs, columns=self.options.data.columns)

    def go_through(
        self, table: Table, shape: Shape, tell: Callable[[int], None], *, drops: bool = False
    ) -> _Pass:
        """Read every row, and write out those that are chosen; `drops`: those that repeat an earlier one are left out.

        Raises:
            DataError: `data.roles` maps a name to something that is no role.
        """
        found = _Pass(table, Tally(table.row_word, skip=self.options.data.skip_bad_rows), drops)
        rows = read_rows(table, shape, found.tally, roles=self.options.data.roles, progress=tell)
        chosen = self._chosen(rows, found)
        if self.renderer is None:
            found.lengths = [characters_of(row) for row in chosen]
            return found
        before = len(self.renderer.lengths)
        render: Any = render_pairs if self.is_pairs else render_rows
        for row in render(chosen, self.renderer, found.tally, max_length=self.length, gone=found.gone):
            found.kept.append(0 if self.is_pairs else len(row.input_ids))
        found.lengths = self.renderer.lengths[before:]
        return found

    def _chosen(self, rows: Iterator[Row], found: _Pass) -> Iterator[Row]:
        """Rows evenly chosen, while all of them are counted."""
        count = found.table.rows.num_rows
        chosen = set(found.table.numbers[evenly_chosen(count)].tolist())
        seen: set[int] = set()
        for row in rows:
            print64 = fingerprint(row)
            found.prints.add((print64,), ("",))
            found.numbers.append(row.row)
            if found.drops:
                if print64 in seen:
                    continue
                seen.add(print64)
            found.usable += 1
            if len(found.first) < SHOWN:
                found.first.append(row)
            if row.row in chosen:
                found.written += 1
                yield row

    def lengths(self, found: _Pass) -> Lengths | None:
        """How long the rows are."""
        if self.renderer is None:
            return histogram(found.lengths, CHARACTERS)
        return histogram(found.lengths, TOKENS, self.length)


def inspect_conversations(options: RunOptions, stages: Stages) -> DataReport:
    """Look into conversations, or pairs of answers.

    Raises:
        DataError: The table can't be read at all.
    """
    data, looker = options.data, _Looker(options)
    with stages.stage(0.0) as tell:
        table = read_training(data, tell)
    report = DataReport(source=data.train, **tables.about_table(table))
    notes = (*tables.other_notes(table.notes), *looker.notes)
    findings = list(tables.note_findings(table.notes))
    used = table.first(data.max_train_samples)
    try:
        shape = looker.shape(table)
        with stages.stage(0.6) as tell:
            found = looker.go_through(used, shape, _of(tell, used.rows.num_rows), drops=data.drop_duplicates)
    except DataError as error:
        option = "data.roles" if "data.roles" in error.detail else "data.columns"
        stops = (tables.as_problem(option, error),)
        return msgspec.structs.replace(report, problems=stops, findings=tuple(findings), notes=notes)
    findings += [*found.findings(), *found.repeats(data)]
    problems = tuple(_left_over(found, looker))
    held_out = _look_at_held_out(looker, found)
    counts = _conversation_counts(options, found, held_out, looker)
    return msgspec.structs.replace(
        report,
        columns_by_role={role.value: name for role, name in shape.columns.items()},
        shape=SHAPE_TITLES[shape.kind],
        lengths=looker.lengths(found),
        seen=tuple(seen_rows(looker.renderer, found.first, looker.length)),
        train_rows=counts.train,
        eval_rows=counts.eval,
        problems=(*problems, *held_out.problems),
        findings=in_order([*findings, *held_out.findings]),
        notes=(*notes, *counts.notes),
    )


def _of(tell: Tell, rows: int) -> Callable[[int], None]:
    return lambda done: tell(done, rows)


def _left_over(found: _Pass, looker: _Looker) -> Iterator[Problem]:
    """What stops a run where every row was left out once it was written."""
    lost_all = found.is_sound and looker.renderer is not None and not found.kept and found.is_all_written
    if lost_all:
        is_asked = looker.length == looker.options.data.max_length
        error = nothing_left(found.table, found.tally.findings(), found.gone, is_asked=is_asked)
        yield tables.as_problem("data.max_length", error)


@dataclass(frozen=True)
class _HeldOut:
    """The rows to evaluate on, where they are apart, and what would stop a run there."""

    is_apart: bool = False
    found: _Pass | None = None
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()


def _look_at_held_out(looker: _Looker, train: _Pass) -> _HeldOut:
    apart = held_out_of(looker.options.data)
    if apart is None:
        return _HeldOut()
    try:
        table = read_held_out(apart).first(looker.options.data.max_eval_samples)
        found = looker.go_through(table, looker.shape(table), lambda _rows: None)
    except DataError as error:
        error.fixes = (*error.fixes, apart.instead)
        return _HeldOut(True, problems=(tables.as_problem(apart.option, error),))
    told = of_evaluation(found.findings(), apart)
    places = found.prints.also_in(train.prints)
    if len(places):
        rows = [found.numbers[place] for place in places[:ROWS_NAMED]]
        both = of_rows(checks.IN_BOTH, rows, len(places), table.row_word)
        told.append(msgspec.structs.replace(both, in_eval=True))
    return _HeldOut(True, found, tuple(_left_over(found, looker)), tuple(told))


@dataclass(frozen=True)
class _ConversationCounts:
    """Rows of an epoch and rows evaluated on, None where that isn't known; and what is to be said of it."""

    train: int | None = None
    eval: int | None = None
    notes: tuple[str, ...] = ()


def _conversation_counts(
    options: RunOptions, found: _Pass, held_out: _HeldOut, looker: _Looker
) -> _ConversationCounts:
    if not found.is_sound:
        return _ConversationCounts()
    counts = _ConversationCounts(_rows_left(found, looker))
    if not found.is_all_written:
        note = (
            f"Of {found.usable:,} rows {found.written:,}, evenly chosen, were written as the model sees them: lengths, "
            "and what is said of cut-off answers and of the chat template, are of these."
        )
        counts = replace(counts, notes=(note,))
    if counts.train is None:
        return counts
    if held_out.is_apart:
        other = held_out.found
        evaluated = _rows_left(other, looker) if other is not None and other.is_sound else None
        return replace(counts, train=_packed(options, found, looker, range(counts.train)), eval=evaluated)
    fraction, seed, most = options.data.eval_fraction, options.training.seed, options.data.max_eval_samples
    apart = held_out_count([counts.train], fraction)
    notes = (*counts.notes, NOTHING_HELD_OUT) if fraction and not apart else counts.notes
    return _ConversationCounts(
        _packed(options, found, looker, random_split(counts.train, fraction, seed)[0]),
        apart if most is None else min(apart, most),
        notes,
    )


def _rows_left(found: _Pass, looker: _Looker) -> int | None:
    """The rows left to learn from; None where some of them were lost, and not all were written out."""
    if looker.renderer is None:
        return found.usable
    if found.is_all_written:
        return len(found.kept)
    return found.usable if len(found.kept) == found.written else None


def _packed(options: RunOptions, found: _Pass, looker: _Looker, train: Any) -> int | None:
    """Rows of an epoch once several conversations share one, where that is asked for."""
    if not (options.data.packing and options.task is Task.CHAT):
        return len(train)
    if looker.renderer is None or not found.is_all_written:
        return None
    return packed_rows([found.kept[place] for place in train], looker.length)
