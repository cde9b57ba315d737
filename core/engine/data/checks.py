"""What can be wrong with a table: columns that aren't what was chosen, rows that can't be used, labels out of balance.

A run stops on the first error; a preview keeps all of them as findings.
"""

import difflib
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data.columns import (
    MOST_LABELS,
    Guess,
    counts_rows,
    describe,
    first_cells,
    guess_columns,
    guess_score,
    guess_tag_columns,
    has_decimal_comma,
    is_list,
    is_number,
    kind_of,
    may_be_label,
)
from core.engine.data.splits import HOLD_OUT_INSTEAD
from core.engine.data.tables import Table
from core.engine.data.text_files import listed
from core.services.inspect import Column, ColumnKind, Finding, FindingKind, FindingLevel

# --- What can be found in rows of texts with answers: warnings, and problems that stop a run


_PROBLEM = FindingLevel.PROBLEM
_WARNING = FindingLevel.WARNING

EMPTY = FindingKind("empty", _WARNING, _("{rows} {have} no “{detail}” and {are} left out."))
DUPLICATES = FindingKind("duplicates", _WARNING, _("{rows} {are} the same as an earlier one."))
CONTRADICTIONS = FindingKind(
    "contradictions",
    _WARNING,
    _("{rows} {have} the text of an earlier one and another answer: one of the two must be wrong."),
)
IN_BOTH = FindingKind(
    "in-both",
    _WARNING,
    _("{rows} of the evaluation data {are} trained on, too: the result will look better than it is."),
    _("Remove them from one of the two"),
)
FEW_ROWS = FindingKind(
    "few-rows", _WARNING, "There {are} only {rows} to learn from; a model takes some hundred."
)
LITTLE_TEXT = FindingKind(
    "little-text",
    _WARNING,
    _("{detail}: there is nearly nothing to learn from. A style takes some hundred thousand."),
)
RARE_LABEL = FindingKind("rare-label", _WARNING, _("{detail}: too few to learn it from."))
UNEVEN_LABELS = FindingKind(
    "uneven-labels",
    _WARNING,
    _("{detail}: the model may seldom give the rarer answers. Look at F1, which heeds them."),
)
SIMILAR_LABELS = FindingKind(
    "similar-labels",
    _WARNING,
    _("{detail} differ in capitals or spaces only, and are learned as different labels."),
    _("Write them alike where they mean the same"),
)
TEXTS_CUT = FindingKind("texts-cut", _WARNING, _("{rows} {are} cut off at {detail}."))
LINES_LEFT_OUT = FindingKind("lines-left-out", _WARNING, "{detail}")
OTHER_ENCODING = FindingKind("other-encoding", _WARNING, "{detail}")
NOT_A_NUMBER = FindingKind(
    "not-a-number",
    _PROBLEM,
    _("{rows} {have} something else than a number in “{detail}”."),
    _("Correct the number, or leave it empty: then the row is left out"),
)
TAG_COUNT = FindingKind(
    "tag-count",
    _PROBLEM,
    _("{rows} {have} another number of tags than of words."),
    _("Give each word one tag, or remove the row"),
)
MISSING_VALUE = FindingKind(
    "missing-value",
    _PROBLEM,
    _("{rows} {have} a value missing in “{detail}”: each word needs a tag."),
    _("Give each word one tag, or remove the row"),
)
BROKEN_LIST = FindingKind(
    "broken-list",
    _PROBLEM,
    _("{rows} {have} a list in “{detail}” that can't be read."),
    _('Write it as ["one", "two"], or as words with spaces between them'),
)
NESTED = FindingKind(
    "mixed-kinds",
    _PROBLEM,
    _("{rows} {have} a list or an object in “{detail}”, where a model reads a text."),
    _("Write a text there, or choose another column"),
)

UNSEEN_LABEL = FindingKind(
    "unseen-label",
    _PROBLEM,
    _("{rows} {have} the label “{detail}”, which the training data lacks."),
    _("Remove these rows, or add rows of this label to the training data"),
)

LEAVE_OUT = Fix(_("Leave these rows out"), {"data.skip_bad_rows": True})
DROP_REPEATS = Fix(_("Leave the repeats out"), {"data.drop_duplicates": True})
PROBLEMS_TOLD = 5


def offered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings with the fix that leaves out the rows which stop a run; for where others are left."""
    return tuple(
        msgspec.structs.replace(finding, fixes=(*finding.fixes, LEAVE_OUT))
        if finding.level is FindingLevel.PROBLEM and LEAVE_OUT not in finding.fixes
        else finding
        for finding in findings
    )


def refuse_problems(table: Table, findings: Iterable[Finding], usable: int) -> None:
    """Stop where rows can't be used.

    Raises:
        DataError: There are problems among the findings; all of them, with their rows and remedies.
    """
    problems = [finding for finding in findings if finding.level is FindingLevel.PROBLEM]
    if not problems:
        return
    problems = list(offered(problems)) if usable else problems
    told = [f"{problem.message} ({problem.where})" for problem in problems[:PROBLEMS_TOLD]]
    if len(problems) > PROBLEMS_TOLD:
        told.append(_("And {problems} more kinds of problem.").format(problems=len(problems) - PROBLEMS_TOLD))
    fixes: list[Fix] = []
    for problem in problems:
        fixes += [fix for fix in problem.fixes if fix not in fixes]
    count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
    raise DataError(
        _("{name} has {count}").format(name=table.path.name, count=count),
        f"{table.path}: " + "\n".join(told),
        tuple(fixes),
    )


def noted(findings: Iterable[Finding]) -> tuple[str, ...]:
    """What a run says of rows that it leaves out."""
    return tuple(
        f"{finding.message} ({finding.where})"
        for finding in findings
        if finding.level is FindingLevel.WARNING
    )


def repeats(count: int, row_word: str) -> tuple[str, ...]:
    """The note of repeated rows that were left out; none where there were none."""
    rows = f"1 {row_word}" if count == 1 else f"{count:,} {row_word}s"
    return (_("Left out as asked: {rows} the same as an earlier one.").format(rows=rows),) if count else ()


# --- Whether the columns are what was chosen


CLASSIFY = Fix(_("Learn the labels as classes"), {"task": "text-classification"})
DECIMAL_POINT = _(" Decimals need a point, not a comma.")
LARGE = 100.0
"""Numbers beyond this are learned slowly: the last layer begins near 0, and the usual rates move it in small steps."""


def check_text_columns(table: Table, guess: Guess) -> None:
    """Stop where the texts can't be what was chosen.

    Raises:
        DataError: A column is missing, or holds numbers or something else than text.
    """
    if not guess.text:
        raise DataError(
            _("{name} has no column of texts").format(name=table.path.name),
            f"{table.path} has the columns {listed(table.columns)}; none of them holds texts.",
            (Fix(_("Choose a file with a column of texts")),),
        )
    for name in guess.text:
        if name not in table.columns:
            likely = guess_columns(table).text
            raise missing_column(table, name, "data.text_columns", guess.text, next(iter(likely), None))
        kind = kind_of(table.rows[name])
        if kind is not ColumnKind.TEXT:
            likely = guess_columns(table).text
            raise _no_text(table, name, kind, (_use_texts(likely),) if likely else ())


def check_label_column(table: Table, guess: Guess) -> None:
    """Stop where the labels can't be what was chosen.

    Raises:
        DataError: The column is missing, empty, or has nearly as many values as there are rows.
    """
    if guess.label is None:
        raise DataError(
            _("{name} has no column that looks like a label").format(name=table.path.name),
            _("{path} has the columns {columns}. A label column has a few values that repeat.").format(
                path=table.path, columns=listed(table.columns)
            ),
            (Fix(_("Choose the label column yourself, or another file")),),
        )
    if guess.label not in table.columns:
        likely = guess_columns(table).label
        raise missing_column(table, guess.label, "data.label_column", (guess.label,), likely)
    column = next(column for column in describe(table) if column.name == guess.label)
    if column.distinct == 0:
        raise DataError(
            _("Label column “{label}” is empty").format(label=guess.label),
            _("{path}: none of the {num_rows:,} rows has a value in it.").format(
                path=table.path, num_rows=table.rows.num_rows
            ),
            _other_label(table, guess),
        )
    if column.distinct > 1 and not may_be_label(column, table.rows.num_rows):
        raise _too_many_labels(table, guess, column)


def check_eval_columns(table: Table, columns: Guess, instead: Fix = HOLD_OUT_INSTEAD) -> None:
    """Stop where an evaluation file lacks a column of the training file, or has something else in it.

    Raises:
        DataError: It does.
    """
    check_columns_are_there(table, columns, instead)
    for name in columns.text:
        kind = kind_of(table.rows[name])
        if kind is not ColumnKind.TEXT:
            raise _no_text(table, name, kind, (instead,))


def check_columns_are_there(table: Table, columns: Guess, instead: Fix = HOLD_OUT_INSTEAD) -> None:
    """Stop where an evaluation file lacks a column of the training file.

    Raises:
        DataError: It does.
    """
    for name in (*columns.text, columns.label):
        if name is not None and name not in table.columns:
            raise DataError(
                _("{name} has no column “{name_2}”").format(name=table.path.name, name_2=name),
                _(
                    "The evaluation data needs the columns of the training data. {path} has the columns "
                    "{columns}."
                ).format(path=table.path, columns=listed(table.columns)),
                (Fix(_("Rename its column to “{name}”").format(name=name)), instead),
            )


def missing_column(
    table: Table, name: str, path: str, chosen: tuple[str, ...], likely: str | None
) -> DataError:
    """The error for a chosen column that isn't there.

    Args:
        table: Where it isn't.
        name: Its name.
        path: The option that names it.
        chosen: All columns of that option.
        likely: What else it could be, where no column is called nearly the same.
    """
    by_lower = {column.lower(): column for column in table.columns}
    close = [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)]
    if not close and likely:
        close = [likely]
    fixes = []
    for match in close:
        replaced = [match if column == name else column for column in chosen]
        fixes.append(
            Fix(
                _("Use “{match}”").format(match=match),
                {path: match if path == "data.label_column" else replaced},
            )
        )
    return DataError(
        _("{name} has no column “{name_2}”").format(name=table.path.name, name_2=name),
        _("{path} has the columns {columns}.").format(path=table.path, columns=listed(table.columns)),
        tuple(fixes),
    )


def _use_texts(names: tuple[str, ...]) -> Fix:
    return Fix(_("Use {names}").format(names=listed(names)), {"data.text_columns": list(names)})


def _no_text(table: Table, name: str, kind: ColumnKind, fixes: tuple[Fix, ...]) -> DataError:
    column = next(column for column in describe(table) if column.name == name)
    what = "numbers" if kind is ColumnKind.NUMBER else _("something else than text")
    return DataError(
        _("Text column “{name}” of {name_2} holds {what}").format(
            name=name, name_2=table.path.name, what=what
        ),
        _("{path}, {partition} and on: {examples}. A text model learns from words.").format(
            path=table.path,
            partition=table.where(0).partition(" of ")[0],
            examples=", ".join(column.examples),
        ),
        fixes,
    )


def _too_many_labels(table: Table, guess: Guess, column: Column) -> DataError:
    rows = table.rows.num_rows
    return DataError(
        _("Column “{name}” has too many different values to be a label").format(name=column.name),
        _(
            "{path}: {distinct:,} different values in {rows:,} rows ({examples}, ...). "
            "A label repeats from row to row, and there are at most {most_labels:,} of them."
        ).format(
            path=table.path,
            distinct=column.distinct,
            rows=rows,
            examples=", ".join(column.examples),
            most_labels=MOST_LABELS,
        ),
        _other_label(table, guess),
    )


def _other_label(table: Table, guess: Guess) -> tuple[Fix, ...]:
    columns = [
        column
        for column in describe(table)
        if column.name not in (*guess.text, guess.label) and may_be_label(column, table.rows.num_rows)
    ]
    best = min(columns, key=lambda column: column.distinct, default=None)
    if best is None:
        return (Fix(_("Choose another label column")),)
    return (Fix(_("Use “{name}”").format(name=best.name), {"data.label_column": best.name}),)


def check_tag_columns(table: Table, guess: Guess) -> None:
    """Stop where words or tags can't be what was chosen.

    Raises:
        DataError: A column is missing, two of them are to hold the words, or what is in one is no list.
    """
    if len(guess.text) > 1:
        raise DataError(
            _("Words stand in one column"),
            f"{listed(guess.text)} were chosen; labelling words reads one column of words and one of tags.",
            (Fix(_("Use “{text}”").format(text=guess.text[0]), {"data.text_columns": [guess.text[0]]}),),
        )
    if not guess.text or guess.label is None:
        what = "words" if not guess.text else "tags"
        raise DataError(
            _("{name} has no column of {what}").format(name=table.path.name, what=what),
            f"{table.path} has the columns {listed(table.columns)}. Labelling words needs two columns with a list in "
            "each row: words such as tokens, and as many tags such as ner_tags; or a CoNLL file.",
            (Fix(_("Choose the columns yourself, or another file")),),
        )
    likely = guess_tag_columns(table)
    if guess.text[0] not in table.columns:
        raise missing_column(
            table, guess.text[0], "data.text_columns", guess.text, next(iter(likely.text), None)
        )
    if guess.label not in table.columns:
        raise missing_column(table, guess.label, "data.label_column", (guess.label,), likely.label)
    for name in (guess.text[0], guess.label):
        kind = table.rows.schema.field(name).type
        if not is_list(kind) and not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
            what = "words" if name == guess.text[0] else "tags"
            raise DataError(
                _("Column “{name}” of {name_2} holds no lists of {what}").format(
                    name=name, name_2=table.path.name, what=what
                ),
                _(
                    "{path}: labelling words needs a list of words and a list of as many tags in each row."
                ).format(path=table.path),
                (Fix(_("Choose the columns yourself, or another file")),),
            )


def check_score_column(table: Table, guess: Guess) -> None:
    """Stop where the numbers can't be what was chosen.

    Raises:
        DataError: The column is missing, empty, or holds no numbers at all.
    """
    if guess.label is None:
        raise DataError(
            _("{name} has no column of numbers").format(name=table.path.name),
            f"{table.path} has the columns {listed(table.columns)}; none of them holds a number to learn.",
            (Fix(_("Choose the column yourself, or another file")), CLASSIFY),
        )
    if guess.label not in table.columns:
        likely = guess_score(table, guess.text)
        raise missing_column(table, guess.label, "data.label_column", (guess.label,), likely)
    column = next(column for column in describe(table) if column.name == guess.label)
    if column.distinct == 0:
        raise DataError(
            _("Column “{label}” is empty").format(label=guess.label),
            _("{path}: none of the {num_rows:,} rows has a number in it.").format(
                path=table.path, num_rows=table.rows.num_rows
            ),
            other_score(table, guess),
        )
    if column.kind is not ColumnKind.NUMBER and not any(map(is_number, first_cells(table, guess.label))):
        comma = DECIMAL_POINT if has_decimal_comma(column.examples) else ""
        raise DataError(
            _("Column “{label}” of {name} holds no numbers").format(label=guess.label, name=table.path.name),
            _("{path}, {partition} and on: {examples}. Text regression learns a number.{comma}").format(
                path=table.path,
                partition=table.where(0).partition(" of ")[0],
                examples=", ".join(column.examples),
                comma=comma,
            ),
            (*other_score(table, guess), CLASSIFY),
        )


def other_score(table: Table, guess: Guess) -> tuple[Fix, ...]:
    """Another column of numbers that could be meant."""
    others = [
        column.name
        for column in describe(table)
        if column.kind is ColumnKind.NUMBER
        and column.name not in (*guess.text, guess.label)
        and column.distinct > 1
        and not counts_rows(column, table.rows.num_rows)
    ]
    return tuple(Fix(_("Use “{name}”").format(name=name), {"data.label_column": name}) for name in others[:1])


def refuse_constant(
    table: Table, guess: Guess, least: float, most: float, fixes: tuple[Fix, ...] = ()
) -> None:
    """Stop where every row has the same number.

    Raises:
        DataError: It has.
    """
    if least == most:
        raise DataError(
            _("Column “{label}” of {name} has the same number in every row").format(
                label=guess.label, name=table.path.name
            ),
            _("It is {most:g} in every row: there is nothing to learn.").format(most=most),
            (*fixes, *other_score(table, guess)),
        )


def large_numbers(largest: float, guess: Guess) -> tuple[str, ...]:
    """What to know of numbers that go so far from 0."""
    if largest <= LARGE:
        return ()
    return (
        _(
            "“{label}” goes up to {largest:,g}. Numbers of a few units are learned faster: "
            "divide them "
            "beforehand, or train longer at a higher learning rate."
        ).format(label=guess.label, largest=largest),
    )


def check_eval_tags(table: Table, columns: Guess, instead: Fix = HOLD_OUT_INSTEAD) -> None:
    check_columns_are_there(table, columns, instead)
    check_tag_columns(table, columns)


# --- Rows of the same content, found by 64 bits of each: 12 bytes a row are kept


Prints = np.ndarray[Any, np.dtype[np.int64]]
Places = np.ndarray[Any, np.dtype[np.intp]]

_ANSWER_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Repeated:
    """Places of rows that repeat an earlier one: text and answer, or the text with an answer that is new to it."""

    same: Places
    other: Places


class Prints64:
    """What is kept of rows as they go by: a number for what is read, and one for the answer.

    Numbers are Python's hashes, which differ from process to process: they are compared in this one only.
    """

    def __init__(self) -> None:
        self._read = array("q")
        self._answers = array("I")

    def add(self, read: Iterable[Hashable], answers: Iterable[Hashable]) -> None:
        """Take further rows in."""
        self._read.extend(map(hash, read))
        self._answers.extend(hash(answer) & _ANSWER_BITS for answer in answers)

    @property
    def prints(self) -> Prints:
        """What was read, a number a row."""
        return np.frombuffer(self._read, np.int64)

    def repeated(self) -> Repeated:
        """The rows whose text an earlier one has."""
        prints = self.prints
        suspects = np.flatnonzero(_are_among(prints, _shared(prints)))
        prints, answers = prints[suspects], np.frombuffer(self._answers, np.uint32)[suspects]
        _rest, first, group = np.unique(prints, return_index=True, return_inverse=True)
        is_later = np.arange(len(prints)) != first[group]
        _rest2, first_of_both = np.unique((group << 32) | answers, return_index=True)
        is_new: Any = np.zeros(len(prints), dtype=bool)
        is_new[first_of_both] = True
        return Repeated(suspects[~is_new], suspects[is_later & is_new])

    def also_in(self, other: "Prints64") -> Places:
        """Places of the rows whose text the other rows have, too."""
        return np.flatnonzero(_are_among(self.prints, np.sort(other.prints)))


def first_of_equals(read: Iterable[Hashable], answers: Iterable[Hashable]) -> Places:
    """Places of the rows that repeat no earlier one, given what is read of each and its answer."""
    prints = Prints64()
    prints.add(read, answers)
    return np.setdiff1d(np.arange(len(prints.prints)), prints.repeated().same, assume_unique=True)


def _are_among(prints: Prints, ordered: Prints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which numbers are among others, which are in order; `np.isin` would take five times the memory."""
    if not len(ordered):
        return np.zeros(len(prints), dtype=bool)
    places: Any = np.searchsorted(ordered, prints)
    places[places == len(ordered)] = 0
    return ordered[places] == prints


def _shared(prints: Prints) -> Prints:
    """The numbers that more than one row has."""
    ordered = np.sort(prints)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


# --- Whether there is hardly anything to learn from


FEWEST_ROWS = 10


def few_rows(usable: int, row_word: str) -> Iterator[Finding]:
    """A warning where there is hardly anything to learn from."""
    if 0 < usable < FEWEST_ROWS:
        yield FEW_ROWS.finding(usable, row_word)


# --- What the counts of labels tell: some too few to be learned, some far fewer than others


FEWEST = 8
"""Rows of a label from which something can be learned of it."""
IMBALANCE = 20
"""The largest label has at most so many times the rows of another before that is told."""
NAMED = 5


def told_of(labels: Mapping[str, int], noun: str = "row") -> Iterator[Finding]:
    """Warnings about how often labels come."""
    counts = Counter(labels).most_common()
    if len(counts) < 2:
        return  # stops a run
    most, largest = counts[0]
    rarest = counts[::-1]
    few = [(name, count) for name, count in rarest if count < FEWEST]
    if few:
        yield _finding(RARE_LABEL, few, noun)
    uneven = [(name, count) for name, count in rarest if count >= FEWEST and count * IMBALANCE < largest]
    if uneven:
        yield _finding(UNEVEN_LABELS, [(most, largest), *uneven], noun)


def similar(labels: Mapping[str, int]) -> Iterator[Finding]:
    """A warning about labels that are the same but for capitals and spaces."""
    groups: dict[str, list[str]] = {}
    for name in labels:
        groups.setdefault(" ".join(name.split()).casefold(), []).append(name)
    alike = [names for names in groups.values() if len(names) > 1]
    if not alike:
        return
    kind, counts = SIMILAR_LABELS, sum(labels[name] for names in alike for name in names)
    shown = "; ".join(" and ".join(f"“{name}”" for name in names) for names in alike[:NAMED])
    more = _(" (and {alike:,} more such)").format(alike=len(alike) - NAMED) if len(alike) > NAMED else ""
    message = kind.message(counts, detail=_("The labels {shown}{more}").format(shown=shown, more=more))
    yield Finding(code=kind.code, level=kind.level, message=message, count=len(alike), fixes=kind.fixes)


def _finding(kind: FindingKind, counts: list[tuple[str, int]], noun: str) -> Finding:
    parts = [
        _("“{name}” has {count}").format(name=name, count=_counted(count, noun))
        for name, count in islice(counts, NAMED)
    ]
    more = _(" and {counts:,} labels more").format(counts=len(counts) - NAMED) if len(counts) > NAMED else ""
    return Finding(
        code=kind.code,
        level=kind.level,
        message=kind.message(len(counts), noun, f"{', '.join(parts)}{more}"),
        count=len(counts),
        fixes=kind.fixes,
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
