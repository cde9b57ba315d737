"""Answer "what is in this data, and what becomes of it?" for every task, with the functions its run uses."""

from collections.abc import Callable, Iterator

import msgspec

from core.choices import Task
from core.data_report import DataReport
from core.engine.inspecting.progress import Stages, Tell
from core.errors import DataError, Fix
from core.findings import Finding, FindingLevel
from core.options import DataOptions, RunOptions
from core.sources import parse_synthetic

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
    from core.engine.inspecting.suits import Suited, find_suiting_task

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
        report = _look(task)(msgspec.structs.replace(options, task=task), stages)
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


def _look(task: Task) -> Callable[[RunOptions, Stages], DataReport]:
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
            from core.engine.inspecting.conversations import inspect_conversations

            return inspect_conversations(options, stages)
        if task is Task.CAUSAL_LM:
            from core.engine.inspecting.running import inspect_running_text

            return inspect_running_text(options, stages)
        from core.engine.inspecting.texts import inspect_texts

        return inspect_texts(options, stages)

    return look


def _images(options: RunOptions, stages: Stages) -> DataReport:
    from core.engine.data.image_report import report_on_images

    with stages.stage(1.0) as tell:
        return report_on_images(options, tell)
