"""What can be wrong with a table: columns that aren't what was chosen, rows that can't be used, rare labels.

A run stops on the first error; a preview shows all of them as findings.
"""

import contextlib
import difflib
import math
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from core.base import formats
from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data.columns import (
    MOST_LABELS,
    SPARSE,
    Guess,
    counts_rows,
    describe,
    find_column,
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
from core.engine.data.conversations import EMPTY_ROW, ShapeKind, change_to, find_shape
from core.engine.data.findings import SKIP_PROBLEMS, FindingKind, Tally, leave_out
from core.engine.data.splits import HeldOut, refuse_labels
from core.engine.data.tables import Table
from core.engine.data.text_files import UnreadCode, is_text, listed
from core.jobs.inspect import DataColumnKind, DataFinding, FindingLevel
from core.options import catalogue
from core.options.choices import Task

# --- Findings about rows


_PROBLEM = FindingLevel.PROBLEM
_WARNING = FindingLevel.WARNING

EMPTY = FindingKind(
    "empty", _PROBLEM, _("{rows}: “{detail}” is empty."), _("Fill it in, or choose another column")
)
DUPLICATES = FindingKind("duplicates", _WARNING, _("{rows}: the same as an earlier one."))
CONTRADICTIONS = FindingKind(
    "contradictions",
    _WARNING,
    _("{rows}: the same as an earlier one, but with another label. The model can't learn both answers."),
    _("Correct the label in the file if it is wrong; where opinions differ, it may stay"),
)
IN_BOTH = FindingKind(
    "in-both",
    _WARNING,
    _("{rows}: in both validation and training data. The score will look better than it is."),
    _("Remove them from one of the two"),
)
FEW_ROWS = FindingKind("few-rows", _WARNING, _("{rows}: too few to learn from. A model needs a few hundred."))
LITTLE_TEXT = FindingKind(
    "little-text",
    _WARNING,
    _(
        "{detail}: there is almost nothing to learn from. Learning a style takes some hundred thousand "
        "characters."
    ),
)
RARE_LABEL = FindingKind("rare-label", _WARNING, _("{detail}: too few examples to learn from."))
UNEVEN_LABELS = FindingKind(
    "uneven-labels",
    _WARNING,
    _("{detail}: the model may seldom give the rarer answers. Look at F1, which weighs all labels alike."),
)
SIMILAR_LABELS = FindingKind(
    "similar-labels",
    _WARNING,
    _("{detail} differ only in case or spaces, and are learned as different labels."),
    _("Write them the same way if they mean the same"),
)
SMALL_VOCABULARY = FindingKind(
    "small-vocabulary",
    _WARNING,
    _("A vocabulary of {detail} is small for this data: many of its characters would be split into pieces."),
)
LARGE_VOCABULARY = FindingKind(
    "large-vocabulary",
    _WARNING,
    _("A vocabulary of {detail} is large for this data: many of its tokens would hardly occur."),
)
TEXTS_CUT = FindingKind("texts-cut", _WARNING, _("{rows}: truncated at {detail}."))
NOT_A_NUMBER = FindingKind(
    "not-a-number",
    _PROBLEM,
    _("{rows}: not a number in “{detail}”."),
    _("Correct the number"),
)
TAG_COUNT = FindingKind(
    "tag-count",
    _PROBLEM,
    _("{rows}: different numbers of labels and words."),
    _("Give each word one label, or remove the example"),
)
MISSING_VALUE = FindingKind(
    "missing-value",
    _PROBLEM,
    _("{rows}: a missing value in “{detail}”. Each word needs a label."),
    _("Give each word one label, or remove the example"),
)
BROKEN_LIST = FindingKind(
    "broken-list",
    _PROBLEM,
    _("{rows}: a list in “{detail}” that can't be read."),
    _('Write it as ["one", "two"], or as words with spaces between them'),
)
NESTED = FindingKind(
    "mixed-kinds",
    _PROBLEM,
    _("{rows}: a list or an object in “{detail}” instead of text."),
    _("Write a text there, or choose another column"),
)
UNSEEN_LABEL = FindingKind(
    "unseen-label",
    _PROBLEM,
    _("{rows}: the label “{detail}”, which the training data lacks."),
    _("Remove these examples, or add examples of this label to the training data"),
)

UNREAD = {
    UnreadCode.JSON: FindingKind(UnreadCode.JSON, _PROBLEM, _("{rows}: not JSON."), noun="line"),
    UnreadCode.LINE_BREAK: FindingKind(
        UnreadCode.LINE_BREAK,
        _PROBLEM,
        _("{rows}: pieces of longer rows, split at a line break in a text."),
        noun="row",
    ),
    UnreadCode.WIDTH: FindingKind(
        UnreadCode.WIDTH, _PROBLEM, _("{rows}: more or fewer columns than the first row."), noun="row"
    ),
}

DROP_REPEATS = Fix(_("Remove duplicates"), {"data.drop_duplicates": True})
MOST_OFFERED = 4
MOST_PROBLEMS = 5
"""How many kinds of problems an error describes."""


Flags = np.ndarray[Any, np.dtype[np.bool_]]


def tally_of(table: Table, *, skip: bool) -> Tally:
    """Returns a tally of the rows of a table, with those that could not be read; `skip` as for `Tally`."""
    tally = Tally(table.row_word, skip=skip)
    for unread in table.unread:
        for number in unread.numbers:
            advice = (Fix(unread.advice),)
            tally.add(UNREAD[unread.code], number, example=unread.example, fixes=advice)
    return tally


def complete_rows(tally: Tally, numbers: Any, blanks: Mapping[str, Flags]) -> Flags:
    """Returns which rows have a value in every column; counts those that lack some, and those that have none.

    Args:
        numbers: Of the rows, in the file.
        blanks: Which rows have no value, by column.
    """
    has_none: Flags = np.logical_and.reduce([*blanks.values()])
    for number in numbers[has_none]:
        tally.add(EMPTY_ROW, int(number))
    for name, blank in blanks.items():
        for number in numbers[blank & ~has_none]:
            tally.add(EMPTY, int(number), detail=name)
    return ~np.logical_or.reduce([*blanks.values()])


def offered(findings: Iterable[DataFinding]) -> tuple[DataFinding, ...]:
    """Returns the findings with the fix that leaves out all rows that would stop a run."""
    findings = tuple(findings)
    problems = [finding for finding in findings if finding.level is FindingLevel.PROBLEM]
    fix = Fix(_("Leave out all examples that can't be used"), SKIP_PROBLEMS)
    if len(problems) == 1:
        fix = leave_out(problems[0].count)
    return tuple(
        msgspec.structs.replace(finding, fixes=(*finding.fixes, fix)) if finding in problems else finding
        for finding in findings
    )


def refuse_problems(path: Path, findings: Iterable[DataFinding], usable: int) -> None:
    """Raises DataError with all problems among the findings, with rows and remedies; `usable` counts the other rows."""
    problems = [finding for finding in findings if finding.level is FindingLevel.PROBLEM]
    if not problems:
        return
    if usable:
        problems = list(offered(problems))
    messages = [formats.with_note(problem.message, problem.where) for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        messages.append(_("Further kinds of problems: {count}.").format(count=len(problems) - MOST_PROBLEMS))
    fixes: list[Fix] = []
    for problem in problems:
        fixes += [fix for fix in problem.fixes if fix not in fixes]
    raise DataError(
        _("{name} has examples that can't be used").format(name=path.name),
        f"{path}: " + "\n".join(messages),
        tuple(fixes),
    )


def noted(findings: Iterable[DataFinding]) -> tuple[str, ...]:
    """Returns the notes of a run about rows that it leaves out."""
    return tuple(
        formats.with_note(finding.message, finding.where)
        for finding in findings
        if finding.level is FindingLevel.WARNING
    )


def repeats(count: int) -> tuple[str, ...]:
    """Returns the note about repeated rows that were left out; none if there were none."""
    if not count:
        return ()
    rows = formats.counted(count, "example")
    return (_("Duplicates removed: {rows}.").format(rows=rows),)


# --- Whether the columns are what was chosen


TEXTS, ANSWER = "data.text_columns", "data.label_column"
CLASSIFY = Fix(_("Learn the labels as classes"), {"task": "text-classification"})
CHOOSE = Fix(_("Choose the columns yourself, or another file"))
DECIMAL_POINT = _(" Decimals need a point, not a comma.")
LARGE = 100.0
"""Numbers beyond this are learned slowly: the last layer begins near 0, and the usual rates move it in small steps."""


def check_text_columns(table: Table, guess: Guess) -> None:
    """Raises DataError if a column of texts is missing, or holds something else."""
    if not guess.text:
        raise _no_column(table, _("texts"), _("None of them contains text."))
    likely = guess_columns(table).text
    for name in guess.text:
        refuse_missing(table, name, TEXTS, likely[:1], guess.text)
        fixes = (use(TEXTS, list(likely)),) if likely and likely != guess.text else ()
        refuse_sparse(table, name, TEXTS, fixes)
        if kind_of(table.rows[name]) is not DataColumnKind.TEXT:
            raise _wrong_values(table, name, _("text"), _("A text model learns from words."), fixes)


def check_label_column(table: Table, guess: Guess) -> None:
    """Raises DataError if the column of labels is missing, empty, or has nearly as many values as there are rows."""
    if guess.label is None:
        raise _no_column(table, _("labels"), _("A label column has a few values that repeat."))
    likely = guess_columns(table).label
    refuse_missing(table, guess.label, ANSWER, (likely,) if likely else ())
    column, fixes = find_column(table, guess.label), other_label(table, guess)
    refuse_sparse(table, guess.label, ANSWER, fixes)
    if column.distinct > 1 and not may_be_label(column, table.rows.num_rows):
        raise DataError(
            _("Column “{name}” has too many different values to be a label").format(name=column.name),
            _(
                "{path}: {distinct:,} different values in {examples:,} examples ({values}, …). "
                "A label repeats from example to example, and there are at most {most:,} of them."
            ).format(
                path=table.path,
                distinct=column.distinct,
                examples=table.rows.num_rows - column.empty,
                values=", ".join(column.examples),
                most=MOST_LABELS,
            ),
            fixes,
        )


def other_label(table: Table, guess: Guess) -> tuple[Fix, ...]:
    """Returns remedies if the labels can't be learned: another column that may be meant, and another task."""
    others = (other for other in describe(table) if other.name not in (*guess.text, guess.label))
    likely = [other for other in others if may_be_label(other, table.rows.num_rows)]
    best = min(likely, key=lambda other: other.distinct, default=None)
    column = use(ANSWER, best.name) if best else Fix(_("Choose another label column"))
    return column, change_to(Task.CAUSAL_LM)


def refuse_labels_of(
    table: Table, guess: Guess, counts: Mapping[str, int], fixes: tuple[Fix, ...] = ()
) -> None:
    """Raises DataError if the labels of the usable examples, or of their words, can't be learned."""
    where = _("Column “{label}” of {name}").format(label=guess.label, name=table.path.name)
    refuse_labels(counts, where, (*fixes, *other_label(table, guess)))


def check_score_column(table: Table, guess: Guess) -> None:
    """Raises DataError if the column of numbers is missing, empty, or holds no numbers at all."""
    if guess.label is None:
        error = _no_column(table, _("numbers"), _("None of them contains a number to learn."))
        raise DataError(error.title, error.detail, (*error.fixes, CLASSIFY))
    likely = guess_score(table, guess.text)
    refuse_missing(table, guess.label, ANSWER, (likely,) if likely else ())
    column, fixes = find_column(table, guess.label), other_score(table, guess)
    refuse_sparse(table, guess.label, ANSWER, fixes)
    if column.kind is not DataColumnKind.NUMBER and not any(map(is_number, first_cells(table, guess.label))):
        needed = _("Text regression learns a number.")
        needed += DECIMAL_POINT if has_decimal_comma(column.examples) else ""
        raise _wrong_values(table, guess.label, _("numbers"), needed, (*fixes, CLASSIFY))


def check_tag_columns(table: Table, guess: Guess) -> None:
    """Raises DataError if a column of words or tags is missing, there are two of words, or one holds no lists."""
    needed = _(
        "Token classification needs a list of words and a list of as many labels in each example, or a CoNLL file."
    )
    if len(guess.text) > 1:
        raise DataError(
            _("Only one column can hold the words"),
            _("{columns} were chosen. {needed}").format(columns=listed(guess.text), needed=needed),
            (use(TEXTS, [guess.text[0]]),),
        )
    if not guess.text or guess.label is None:
        raise _no_column(table, _("tags") if guess.text else _("words"), needed)
    likely = guess_tag_columns(table)
    refuse_missing(table, guess.text[0], TEXTS, likely.text, guess.text)
    refuse_missing(table, guess.label, ANSWER, (likely.label,) if likely.label else ())
    for name, what in ((guess.text[0], _("lists of words")), (guess.label, _("lists of labels"))):
        kind = table.rows.schema.field(name).type
        if not is_list(kind) and not is_text(kind):
            raise _wrong_values(table, name, what, needed, (CHOOSE,))


def check_eval_columns(table: Table, columns: Guess, held_out: HeldOut) -> None:
    """Raises DataError if evaluation data lacks a column of the training data, or one of texts holds something else."""
    _check_eval_names(table, columns, held_out)
    for name in columns.text:
        if kind_of(table.rows[name]) is not DataColumnKind.TEXT:
            raise _wrong_values(
                table, name, _("text"), _("A text model learns from words."), held_out.instead
            )


def check_eval_tags(table: Table, columns: Guess, held_out: HeldOut) -> None:
    """Raises DataError if evaluation data lacks the words or tags of the training data."""
    _check_eval_names(table, columns, held_out)
    check_tag_columns(table, columns)


def _check_eval_names(table: Table, columns: Guess, held_out: HeldOut) -> None:
    missing = [name for name in (*columns.text, columns.label) if name not in (None, *table.columns)]
    if not missing:
        return
    name, title = missing[0], _("{file} has no column “{name}”")
    needed = _(
        "The validation data needs the columns of the training data. {path} has the columns {columns}."
    )
    advice = [_("Rename its column to “{name}”")]
    if held_out.is_test:
        needed = _("A test needs the columns of the training data. {path} has the columns {columns}.")
    if held_out.is_test and name == columns.label:
        title = _("A test needs labels: {file} has no column “{name}”")
        needed = _("Answers are compared with those in the file. {path} has the columns {columns}.")
        advice = [
            _("Name the column with the labels “{name}”, as the training data does"),
            _("Use Try it, or `hone try RUN --file FILE`, to get answers for texts without labels"),
        ]
    raise DataError(
        title.format(file=table.path.name, name=name),
        needed.format(path=table.path, columns=listed(table.columns)),
        (*(Fix(each.format(name=name)) for each in advice), *held_out.instead),
    )


def _no_column(table: Table, what: str, needed: str) -> DataError:
    return DataError(
        _("{name} has no column of {what}").format(name=table.path.name, what=what),
        _("{path} has the columns {columns}. {needed}").format(
            path=table.path, columns=listed(table.columns), needed=needed
        ),
        (*_as_chat(table), CHOOSE),
    )


def _as_chat(table: Table) -> tuple[Fix, ...]:
    with contextlib.suppress(DataError):
        return () if find_shape(table).kind is ShapeKind.TEXT else (change_to(Task.CHAT),)
    return ()


def refuse_missing(
    table: Table, name: str, option: str, likely: Sequence[str] = (), chosen: tuple[str, ...] = ()
) -> None:
    """Raises DataError if a chosen column isn't there.

    Args:
        likely: What else it may be if no column has nearly the same name.
        chosen: All columns of the option, if it takes several.
    """
    if name in table.columns:
        return
    by_lower = {column.lower(): column for column in table.columns}
    close = [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)]
    raise DataError(
        _("{file} has no column “{name}”").format(file=table.path.name, name=name),
        _("{path} has the columns {columns}.").format(path=table.path, columns=listed(table.columns)),
        tuple(
            use(option, [match if one == name else one for one in chosen] if chosen else match, match)
            for match in (close or likely)[:MOST_OFFERED]
        ),
    )


def use(option: str, value: str | list[str], name: str = "") -> Fix:
    """Returns the fix that gives an option of columns this value; it says `name`, or else the value."""
    names = [name] if name else [value] if isinstance(value, str) else value
    return catalogue.use(option, value, listed(names))


def _wrong_values(table: Table, name: str, what: str, needed: str, fixes: tuple[Fix, ...]) -> DataError:
    """Returns the error for a column that holds something else than it should."""
    return DataError(
        _("Column “{name}” of {file} doesn't hold {what}").format(name=name, file=table.path.name, what=what),
        _("{path}, {row} and on: {examples}. {needed}").format(
            path=table.path,
            row=formats.places(table.row_word, table.numbers[:1].tolist()),
            examples=", ".join(find_column(table, name).examples),
            needed=needed,
        ),
        fixes,
    )


def refuse_sparse(table: Table, name: str, option: str, fixes: tuple[Fix, ...] = ()) -> None:
    """Raises DataError if (almost) all of a column that `option` names is empty."""
    column, rows = find_column(table, name), table.rows.num_rows
    if column.empty < rows * SPARSE:
        return
    title = _("Column “{name}” is almost empty") if column.distinct else _("Column “{name}” is empty")
    texts = (other.name for other in describe(table) if other.kind is DataColumnKind.TEXT and not other.empty)
    if option == TEXTS and not fixes:
        fixes = tuple(use(TEXTS, [other]) for other in islice(texts, 2))
    raise DataError(
        title.format(name=name),
        _("{path}: {empty:,} of {rows:,} examples have no value in it.").format(
            path=table.path, empty=column.empty, rows=rows
        ),
        fixes or (CHOOSE,),
    )


def other_score(table: Table, guess: Guess) -> tuple[Fix, ...]:
    """Offers another column of numbers that may be meant."""
    others = (
        column.name
        for column in describe(table)
        if column.kind is DataColumnKind.NUMBER
        and column.name not in (*guess.text, guess.label)
        and column.distinct > 1
        and not counts_rows(column, table.rows.num_rows)
    )
    return tuple(use(ANSWER, name) for name in islice(others, 1))


def refuse_constant(
    table: Table, guess: Guess, least: float, most: float, fixes: tuple[Fix, ...] = ()
) -> None:
    """Raises DataError if every row has the same number."""
    if least == most:
        raise DataError(
            _("Column “{label}” of {name} has the same number in every example").format(
                label=guess.label, name=table.path.name
            ),
            _("It is always {most:g}, so there is nothing to learn.").format(most=most),
            (*fixes, *other_score(table, guess)),
        )


def large_numbers(largest: float, guess: Guess) -> tuple[str, ...]:
    """Returns a note about numbers far from 0."""
    if largest <= LARGE:
        return ()
    return (
        _(
            "“{label}” goes up to {largest:,g}. Small numbers are learned faster: scale them down "
            "beforehand, or train longer at a higher learning rate."
        ).format(label=guess.label, largest=largest),
    )


# --- Rows of the same content, found by a hash of 64 bits of each: 12 bytes per row are stored


Hashes = np.ndarray[Any, np.dtype[np.int64]]
Places = np.ndarray[Any, np.dtype[np.intp]]

_ANSWER_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Repeated:
    """Places of rows that repeat the text of an earlier one: with its answer, or with an answer new to that text."""

    same: Places
    other: Places


class RowHashes:
    """Hashes of the texts and the answers of rows, in order.

    They are Python's hashes, which differ from process to process.
    """

    def __init__(self) -> None:
        self._texts = array("q")
        self._answers = array("I")

    def add(self, texts: Iterable[Hashable], answers: Iterable[Hashable]) -> None:
        self._texts.extend(map(hash, texts))
        self._answers.extend(hash(answer) & _ANSWER_BITS for answer in answers)

    @property
    def texts(self) -> Hashes:
        return np.frombuffer(self._texts, np.int64)

    def repeated(self) -> Repeated:
        """Returns the rows whose text an earlier one has."""
        ordered = np.sort(self.texts)
        shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        suspects = np.flatnonzero(_are_among(self.texts, shared))
        texts, answers = self.texts[suspects], np.frombuffer(self._answers, np.uint32)[suspects]
        _distinct, first, group = np.unique(texts, return_index=True, return_inverse=True)
        is_later = np.arange(len(texts)) != first[group]
        _pairs, first_of_both = np.unique((group << 32) | answers, return_index=True)
        is_new: Any = np.zeros(len(texts), dtype=bool)
        is_new[first_of_both] = True
        return Repeated(suspects[~is_new], suspects[is_later & is_new])

    def also_in(self, other: "RowHashes") -> Places:
        """Returns places of the rows whose text the other rows have, too."""
        return np.flatnonzero(_are_among(self.texts, np.sort(other.texts)))


def first_of_equals(texts: Iterable[Hashable], answers: Iterable[Hashable]) -> Places:
    """Returns places of the rows that repeat no earlier one."""
    hashes = RowHashes()
    hashes.add(texts, answers)
    return np.setdiff1d(np.arange(len(hashes.texts)), hashes.repeated().same, assume_unique=True)


def _are_among(hashes: Hashes, ordered: Hashes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns which numbers are among others, which are sorted; `np.isin` would take five times the memory."""
    if not len(ordered):
        return np.zeros(len(hashes), dtype=bool)
    places: Any = np.searchsorted(ordered, hashes)
    places[places == len(ordered)] = 0
    return ordered[places] == hashes


# --- Few rows, rare labels, and labels that are nearly the same


FEWEST_ROWS = 10
FEWEST_OF_LABEL = 8
"""Rows of a label from which something can be learned of it."""
IMBALANCE = 20
"""A label with so many times fewer rows than the largest one is reported."""
NAMED = 5


def few_rows(usable: int, row_word: str) -> Iterator[DataFinding]:
    """Yields a warning if there is hardly anything to learn from."""
    if 0 < usable < FEWEST_ROWS:
        yield FEW_ROWS.finding(usable, row_word)


def check_labels(labels: Mapping[str, int], noun: str = "example") -> Iterator[DataFinding]:
    """Yields warnings about the names and counts of labels; `noun` is what has a label."""
    groups: dict[str, list[str]] = {}
    for name in labels:
        groups.setdefault(" ".join(name.split()).casefold(), []).append(name)
    alike = ["/".join(f"“{name}”" for name in names) for names in groups.values() if len(names) > 1]
    if alike:
        yield _labels_finding(SIMILAR_LABELS, alike)
    counts = Counter(labels).most_common()
    if len(counts) < 2:
        return  # stops a run
    shown = {
        name: _("“{name}” has {count}").format(name=name, count=formats.counted(count, noun))
        for name, count in counts
    }
    rarest = counts[::-1]
    if few := [shown[name] for name, count in rarest if count < FEWEST_OF_LABEL]:
        yield _labels_finding(RARE_LABEL, few)
    largest, most = counts[0]
    if uneven := [shown[name] for name, count in rarest if FEWEST_OF_LABEL <= count < most / IMBALANCE]:
        yield _labels_finding(UNEVEN_LABELS, [shown[largest], *uneven])


def _labels_finding(kind: FindingKind, labels: list[str]) -> DataFinding:
    detail = ", ".join(labels[:NAMED])
    if len(labels) > NAMED:
        detail = _("{labels} and {count:,} more").format(labels=detail, count=len(labels) - NAMED)
    message = kind.message(len(labels), detail=detail)
    return DataFinding(code=kind.code, level=kind.level, message=message, count=len(labels), fixes=kind.fixes)


USUAL_LENGTHS = tuple(2**power for power in range(6, 15))


def longer(lengths: Sequence[int], length: int, longest: int) -> tuple[Fix, ...]:
    """Offers a maximum length that holds 99 % of `lengths`, rounded to a usual one, or the model's `longest`.

    Empty if the maximum `length` is as large already.
    """
    needed = sorted(lengths)[math.ceil(0.99 * len(lengths)) - 1] if lengths else 0
    most = min(longest, next((usual for usual in USUAL_LENGTHS if usual >= needed), USUAL_LENGTHS[-1]))
    if most <= length:
        return ()
    return (Fix(_("Use {count:,} tokens").format(count=most), {"data.max_length": most}),)
