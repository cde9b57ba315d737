"""Answer "what is in this data, and what becomes of it?" for every task, with the functions its run uses."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from core.base.errors import DataError, Fix, Problem
from core.engine.data.checks import few_rows, similar, told_of
from core.engine.data.columns import (
    Guess,
    check_columns_are_there,
    check_eval_columns,
    check_label_column,
    check_tag_columns,
    check_text_columns,
    guess_columns,
    guess_tag_columns,
)
from core.engine.data.labelled_texts import read_eval_table, tagged_rows, usable_rows
from core.engine.data.row_checks import Block, Reading
from core.engine.data.scores import (
    check_score_column,
    guess_score_columns,
    large_numbers,
    one_number,
    scored_rows,
)
from core.engine.data.splits import (
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    HeldOut,
    held_out_count,
    held_out_of,
    refuse_single,
    unseen_labels,
)
from core.engine.data.splits import in_order as labels_in_order
from core.engine.data.tables import Table, read_training
from core.engine.inspect import gathering as tables
from core.engine.inspect.gathering import (
    Gathered,
    Sample,
    Stages,
    Tell,
    gather,
    in_both,
    repeats,
    without_repeats,
)
from core.engine.inspect.preview import AtHand, measure, see_texts, see_words, tokenizer_at_hand
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sources import parse_synthetic
from core.services.inspect import DataReport, Finding, FindingLevel, Seen, in_order

# --- Answer "what is in this data, and what becomes of it?" for every task


TO_EVALUATE = ("validation", "test")
"""Splits that are made to evaluate on; of a test set the answers are sometimes kept back."""
READING = 0.4
"""The share of a look that reading the file takes."""


def inspect(options: RunOptions, tell: Tell | None = None, *, any_task: bool = False) -> DataReport:
    """Look into the training data of `options`, and into what it is evaluated on.

    Args:
        options: What is asked; of the model only what shows what it will see is needed.
        tell: Hears how far it is: what is done, and of how much.
        any_task: Answer for the task that the data suits, rather than for the one of `options`.

    Raises:
        DataError: The source can't be read at all. What is wrong with its columns or rows is in the answer.
    """
    from core.engine.inspect.gathering import Suited, find_suiting_task

    stages = Stages(tell)
    suited = Suited(None)  # it is held until the end: its table isn't read a second time
    try:
        with stages.stage(READING) as tell_stage:
            suited = find_suiting_task(options.data, tell_stage)
    except DataError:
        if any_task:
            raise
    task = suited.task if any_task and suited.task else options.task
    try:
        report = _look_for_task(task)(msgspec.structs.replace(options, task=task), stages)
    except DataError as error:
        if suited.task is None or suited.task is task:
            raise
        raise DataError(error.title, error.detail, (_change_task(suited.task), *error.fixes)) from error
    splits = report.splits or _splits(options)
    findings = (*report.findings, *_unused(splits, options.data))
    return msgspec.structs.replace(report, suits=suited.task, splits=splits, findings=findings)


def _unused(splits: tuple[str, ...], data: DataOptions) -> Iterator[Finding]:
    """A warning of a split to evaluate on that isn't asked for."""
    unused = [name for name in TO_EVALUATE if name in splits and name != data.train_split]
    if unused and not data.eval and not data.eval_split:
        kept = (
            "A share of the training data is held out instead."
            if data.eval_fraction
            else "Nothing is evaluated."
        )
        yield Finding(
            code="unused-split",
            level=FindingLevel.WARNING,
            message=f"The split “{unused[0]}” isn't used. {kept}",
            count=1,
            fixes=(Fix(f"Evaluate on “{unused[0]}”", {"data.eval_split": unused[0]}),),
        )


def _change_task(task: Task) -> Fix:
    return Fix(f"Change to “{task.label}”", {"task": task.value})


def _splits(options: RunOptions) -> tuple[str, ...]:
    from core.engine.data.splits import splits_of

    try:
        found = splits_of(options.data.train)
    except DataError:
        return ()
    return found if len(found) > 1 else ()


def _look_for_task(task: Task) -> Callable[[RunOptions, Stages], DataReport]:
    """What looks into data for a task; only its libraries are loaded."""
    if task.reads_images:
        return _images
    return _made_up_or(task)


def _made_up_or(task: Task) -> Callable[[RunOptions, Stages], DataReport]:
    def look(options: RunOptions, stages: Stages) -> DataReport:
        made_up = parse_synthetic(options.data.train)
        if made_up:
            return DataReport(
                source=options.data.train, format="synthetic", rows=made_up[0], train_rows=made_up[0]
            )
        if task.reads_conversations:
            from core.engine.inspect.conversations import inspect_conversations

            return inspect_conversations(options, stages)
        if task is Task.CAUSAL_LM:
            from core.engine.inspect.running_text import inspect_running_text

            return inspect_running_text(options, stages)

        return inspect_texts(options, stages)

    return look


def _images(options: RunOptions, stages: Stages) -> DataReport:
    from core.engine.data.image_checks import report_on_images

    with stages.stage(1.0) as tell:
        return report_on_images(options, tell)


# --- Texts with an answer each: a label, a number, or a label for each word


MOST_LABELS_SHOWN = 200
Check = Callable[[Table, Guess], None]


@dataclass(frozen=True)
class _Kind:
    """How the rows of a task are found, checked, gone through and shown: with the functions its run uses."""

    guess: Callable[[Table, tuple[str, ...], str | None], Guess]
    checks: tuple[tuple[str, Check], ...]
    check_eval: Callable[[Table, Guess, Fix], None]
    blocks: Callable[[Reading], Iterator[Block]]
    refuse_empty: Callable[..., object]
    see: Callable[[Sequence[Sample], AtHand | None], Iterator[Seen]]
    sample: str = "sample"


def _check_eval_tags(table: Table, columns: Guess, instead: Fix) -> None:
    check_columns_are_there(table, columns, instead)
    check_tag_columns(table, columns)


_TEXTS: tuple[str, Check] = ("data.text_columns", check_text_columns)
_KINDS = {
    Task.TEXT_CLASSIFICATION: _Kind(
        guess_columns,
        (_TEXTS, ("data.label_column", check_label_column)),
        check_eval_columns,
        Reading.texts,
        usable_rows,
        see_texts,
    ),
    Task.TEXT_REGRESSION: _Kind(
        guess_score_columns,
        (_TEXTS, ("data.label_column", check_score_column)),
        check_eval_columns,
        Reading.scores,
        scored_rows,
        see_texts,
    ),
    Task.TOKEN_CLASSIFICATION: _Kind(
        guess_tag_columns,
        (("data.text_columns", check_tag_columns),),
        _check_eval_tags,
        Reading.words,
        tagged_rows,
        see_words,
        "word",
    ),
}


@dataclass(frozen=True)
class _Looked:
    """What was found in one table, and what would stop a run there."""

    gathered: Gathered | None = None
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether nothing stops a run."""
        return not self.problems and all(found.level is FindingLevel.WARNING for found in self.findings)

    @property
    def rows(self) -> int:
        """How many rows can be used."""
        return self.gathered.usable if self.gathered else 0


def inspect_texts(options: RunOptions, stages: Stages) -> DataReport:
    """Look into the data of a task that gives texts an answer.

    Raises:
        DataError: The table can't be read at all.
    """
    kind, data = _KINDS[options.task], options.data
    with stages.stage(0.0) as tell:
        table = read_training(data, tell)
    columns = kind.guess(table, data.text_columns, data.label_column)
    used = table.first(data.max_train_samples)
    with stages.stage(0.4) as tell:
        looked = _look_at_texts(options, kind, used, columns, tell)
    apart, held_out = held_out_of(data), _Looked()
    if apart and looked.gathered:
        held_out = _look_at_held_out(options, kind, apart, columns, looked.gathered)
    seen = _Seen()
    if looked.gathered:
        with stages.stage(0.2) as tell:
            seen = _see(options, kind, looked.gathered, tell)
    train_rows, eval_rows, note = _counts(options, looked, held_out, apart=apart is not None)
    labels = looked.gathered.labels.most_common(MOST_LABELS_SHOWN) if looked.gathered else ()
    return DataReport(
        source=data.train,
        **tables.about_table(table),
        text_columns=columns.text,
        label_column=columns.label,
        labels=dict(labels),
        lengths=seen.lengths,
        seen=seen.seen,
        train_rows=train_rows,
        eval_rows=eval_rows,
        problems=(*looked.problems, *held_out.problems),
        findings=in_order([*looked.findings, *held_out.findings, *seen.findings]),
        notes=tuple(dict.fromkeys((*looked.notes, *held_out.notes, *seen.notes, *note))),
    )


def _look_at_texts(options: RunOptions, kind: _Kind, table: Table, columns: Guess, tell: Tell) -> _Looked:
    """Look at the rows that would be trained on."""
    notes = tables.other_notes(table.notes)
    found = list(tables.note_findings(table.notes))
    problems = [
        problem
        for path, check in kind.checks
        for problem in tables.problem_of(path, lambda check=check: check(table, columns))  # type: ignore[misc]
    ]
    if problems:
        return _Looked(problems=tuple(problems), findings=tuple(found), notes=notes)
    skip = options.data.skip_bad_rows
    reading = Reading(table, columns, lambda rows: tell(rows, table.rows.num_rows), skip=skip)
    gathered = gather(table, kind.blocks(reading))
    found += [*reading.problems(), *reading.tally.findings()]
    if not gathered.usable and (skip or not reading.problems()):
        problems = tables.problem_of("data.train", lambda: kind.refuse_empty(table, columns, skip=skip))
    elif gathered.usable:
        found += repeats(gathered, options.data)
        if options.data.drop_duplicates:
            gathered = without_repeats(gathered, lambda: kind.blocks(Reading(table, columns, skip=skip)))
        problems = _nothing_to_learn(options, table, columns, gathered)
        found += [*similar(gathered.labels), *told_of(gathered.labels, _noun(kind, table))]
        found += few_rows(gathered.usable, table.row_word)
    if options.task is Task.TEXT_REGRESSION and gathered.usable:
        notes = (*notes, *large_numbers(max(abs(gathered.least), abs(gathered.most)), columns))
    return _Looked(gathered, tuple(problems), tuple(found), notes)


def _noun(kind: _Kind, table: Table) -> str:
    return kind.sample if kind.sample == "word" else table.row_word


def _nothing_to_learn(options: RunOptions, table: Table, columns: Guess, found: Gathered) -> list[Problem]:
    """One label only, or one number."""
    fixes = (USE_ALL_SAMPLES,) if options.data.max_train_samples else ()
    if options.task is Task.TEXT_REGRESSION:
        if found.least < found.most:
            return []
        error = one_number(table, columns, found.most, found.usable, fixes)
        return [tables.as_problem("data.label_column", error)]
    where = f"Column “{columns.label}” of {table.path.name}"
    labels = labels_in_order(found.labels)
    return tables.problem_of("data.label_column", lambda: refuse_single(labels, where, fixes))


def _look_at_held_out(
    options: RunOptions, kind: _Kind, apart: HeldOut, columns: Guess, train: Gathered
) -> _Looked:
    """Look at the rows to evaluate on, and compare them with those trained on."""
    try:
        table = read_eval_table(apart)
        kind.check_eval(table, columns, apart.instead)
    except DataError as error:
        return _Looked(problems=(tables.as_problem(apart.option, error),))
    table = table.first(options.data.max_eval_samples)
    skip = options.data.skip_bad_rows
    reading = Reading(table, columns, skip=skip)
    gathered = gather(table, kind.blocks(reading), train.labels.keys())
    found = [_of_evaluation(finding, apart) for finding in (*reading.problems(), *reading.tally.findings())]
    found += [*_unseen(kind, gathered, train, apart), *in_both(train, gathered)]
    found += tables.note_findings(table.notes)
    problems: list[Problem] = []
    if not gathered.usable and (skip or not reading.problems()):
        problems = tables.problem_of(apart.option, lambda: kind.refuse_empty(table, columns, skip=skip))
    return _Looked(gathered, tuple(problems), tuple(found), tables.other_notes(table.notes))


def _of_evaluation(finding: Finding, apart: HeldOut) -> Finding:
    """A finding about rows of the evaluation data, which says so."""
    fixes = finding.fixes
    if finding.level is FindingLevel.PROBLEM:
        fixes = (*finding.fixes[:2], apart.instead)
    return msgspec.structs.replace(
        finding, message=f"Evaluation data: {finding.message}", fixes=fixes, in_eval=True
    )


def _unseen(kind: _Kind, found: Gathered, train: Gathered, apart: HeldOut) -> Iterator[Finding]:
    """Labels that are evaluated on and never trained on, all of them."""
    foreign = found.foreign
    if not foreign.count:
        return
    error = unseen_labels(
        list(foreign.names),
        foreign.count,
        labels_in_order(train.labels),
        found.table.where(foreign.first),
        fixes=(apart.instead,),
        sample=kind.sample,
    )
    yield Finding(
        code="unseen-label",
        level=FindingLevel.PROBLEM,
        message=f"{error.title}. {error.detail}",
        count=foreign.count,
        rows=tuple(foreign.rows),
        row_word=found.table.row_word,
        fixes=error.fixes,
        in_eval=True,
    )


@dataclass(frozen=True)
class _Seen:
    """What the model sees."""

    lengths: Any = None
    seen: tuple[Seen, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def _see(options: RunOptions, kind: _Kind, found: Gathered, tell: Tell) -> _Seen:
    at_hand = tokenizer_at_hand(options, lambda: _texts_of(found, words=kind.sample == "word"))
    sampled, reading = found.sampled, Reading(found.table, Guess((), None))
    lengths = measure(
        sampled.evenly,
        at_hand,
        reading.tally,
        tell,
        words=options.task is Task.TOKEN_CLASSIFICATION,
        of_all=sampled.is_all,
    )
    notes = at_hand.notes if at_hand else ()
    seen = _Seen(lengths, tuple(kind.see(sampled.first, at_hand)), reading.tally.findings(), notes)
    if sampled.is_all:
        return seen
    note = f"Lengths are those of {len(sampled.evenly):,} rows, evenly chosen out of {found.usable:,}."
    return replace(seen, notes=(*notes, note))


def _texts_of(found: Gathered, *, words: bool) -> list[str]:
    """Texts that a tokenizer is trained on."""
    samples = found.sampled.evenly
    if words:
        return [" ".join(sample.inputs) for sample in samples]
    return [text for sample in samples for text in sample.inputs]


def _counts(
    options: RunOptions, looked: _Looked, held_out: _Looked, *, apart: bool
) -> tuple[int | None, int | None, tuple[str, ...]]:
    """The rows an epoch has, those evaluated on, and what is to be said of that; as a run counts them."""
    data = options.data
    if not looked.gathered or not looked.is_sound:
        return None, None, ()
    if apart:
        return looked.rows, held_out.rows if held_out.is_sound else None, ()
    sizes = [looked.rows]
    if options.task is Task.TEXT_CLASSIFICATION:
        labels = looked.gathered.labels
        sizes = [labels[label] for label in labels_in_order(labels)]
    count = held_out_count(sizes, data.eval_fraction)
    notes = (NOTHING_HELD_OUT,) if data.eval_fraction and not count else ()
    evaluated = count if data.max_eval_samples is None else min(count, data.max_eval_samples)
    return looked.rows - count, evaluated, notes
