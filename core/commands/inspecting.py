"""`hone inspect`: what is in data, what is wrong with it, and what a model will see of it, in the terminal."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import msgspec
from tqdm import tqdm

from core import figures
from core.checks import read_options
from core.choices import Task
from core.column_roles import chosen_columns, guessed_columns, uses_for
from core.commands.output import print_json, say
from core.commands.run_text import fix_text
from core.data_report import DataReport, Lengths, Seen, SeenPart, inspect_request
from core.errors import DataError, OptionsError, Problem
from core.files import why_missing
from core.findings import Finding, FindingLevel
from core.jobs import JobProgress
from core.options import RunOptions, Tree
from core.questions import ask_inspect
from core.run_file import absolute, apply_overrides
from core.sources import scheme_of
from core.split_rules import splits
from core.task_guess import guess_task

SHOWN_LABELS = 20
SHOWN_COLUMNS = 40
SHOWN_SEEN = 2
SEEN_CHARACTERS = 700
WIDEST = 60
OPENING, CLOSING = "⟦", "⟧"
LEVELS = {FindingLevel.PROBLEM: "Problem", FindingLevel.WARNING: "Warning"}


def inspect(source: str, task: Task | None, overrides: tuple[str, ...], *, as_json: bool) -> int:
    """Print what is in a data file or folder; 1 if a problem in it would stop a run.

    Args:
        source: As `data.train` takes it, relative to the working folder.
        task: What it is for; None: judged by the data.
        overrides: Options of a run that change what is seen, as `--set` takes them.
        as_json: Whether the report is printed as JSON.

    Raises:
        OptionsError: `source` is empty, or an option is wrong.
        DataError: There is nothing at `source`.
    """
    if not source:
        raise OptionsError((Problem("", "name a file or folder to look into"),))
    where = absolute(source, Path.cwd(), must_exist=False)
    missing = "" if scheme_of(where) else why_missing(Path(where))
    if missing:
        raise DataError("There is nothing to look into", missing)
    options = _options(where, task, overrides)
    bar = _Bar(sys.stderr)
    try:
        report = ask_inspect(inspect_request(options, any_task=task is None), bar.show)
    finally:
        bar.close()
    if as_json:
        print_json(report)
    else:
        shown = options if task else msgspec.structs.replace(options, task=report.suits or options.task)
        say("\n".join(data_lines(report, shown)))
    return 1 if report.problems or any(_stops(finding) for finding in report.findings) else 0


def _options(source: str, task: Task | None, overrides: tuple[str, ...]) -> RunOptions:
    tree: Tree = {"task": (task or guess_task(source)).value, "data": {"train": source}}
    wrong = apply_overrides(tree, overrides, Path.cwd())
    options, problems = read_options(tree)
    if options is None or wrong or problems:
        raise OptionsError((*wrong, *problems))
    said_twice = tuple(splits(options))
    if said_twice:
        raise OptionsError(said_twice)
    return options


class _Bar:
    """How far the look is, as a line on a terminal; nothing where there is none."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: tqdm | None = None

    def show(self, progress: JobProgress) -> None:
        """Show how far it is."""
        if not self._stream.isatty():
            return
        if self._bar is None:
            tqdm.monitor_interval = 0  # no watching thread for a line that is fed ten times a second
            self._bar = tqdm(
                total=100,
                desc="Reading and checking",
                file=self._stream,
                leave=False,
                bar_format="{desc}: {percentage:3.0f} %|{bar}|",
            )
        self._bar.update(round(100 * progress.share) - self._bar.n)

    def close(self) -> None:
        """Take the line away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def data_lines(report: DataReport, options: RunOptions) -> list[str]:
    """The report for a terminal.

    Args:
        report: The answer.
        options: What was asked, with the task it was answered for.
    """
    lines = [report.source, f"  {_how_read(report)}", f"  {_task_words(report, options.task)}"]
    if report.splits:
        lines.append(f"  Splits: {', '.join(report.splits)} (data.train_split, data.eval_split)")
    if report.columns:
        lines += ["", _column_table(report, options)]
    if report.labels:
        lines += ["", *_label_lines(report.labels)]
    numbers = [*_count_lines(report), *([_length_line(report.lengths)] if report.lengths else [])]
    lines += ["", *numbers] if numbers else []
    if any(seen.parts for seen in report.seen):
        lines += ["", *_seen_lines(report)]
    lines += ["", *_findings(report)]
    return lines


def _stops(finding: Finding) -> bool:
    return finding.level is FindingLevel.PROBLEM


def _how_read(report: DataReport) -> str:
    noun = "text" if report.format == "text" else "row"
    parts = [figures.counted(report.rows, noun), report.format, report.shape]
    parts += [words if name == "encoding" else f"{name} {words}" for name, words in report.reading.items()]
    return " · ".join(part for part in parts if part)


def _task_words(report: DataReport, task: Task) -> str:
    told = f"{task.label} (--task {task}): {task.help}"
    if report.suits is None or report.suits is task:
        return told
    return f"{told} It looks more like data for {report.suits.label} (--task {report.suits})."


def _column_table(report: DataReport, options: RunOptions) -> str:
    chosen = chosen_columns(options.task, lambda path: getattr(options.data, path.partition(".")[2], None))
    uses = {**guessed_columns(options.task, report), **chosen}
    titles = {use.key: use.title for use in uses_for(options.task)}
    is_of = {name: titles.get(key, key) for key, name in uses.items()}
    rows = [
        (
            _shorten(column.name),
            is_of.get(column.name, ""),
            column.kind.value,
            f"{column.distinct:,}",
            f"{column.empty:,}",
            _shorten(" | ".join(column.examples)),
        )
        for place, column in enumerate(report.columns)
        if place < SHOWN_COLUMNS or column.name in is_of
    ]
    rest = len(report.columns) - len(rows)
    table = figures.table(("COLUMN", "USED AS", "KIND", "DIFFERENT", "EMPTY", "SUCH AS"), rows)
    return table + (f"\nand {rest:,} more columns" if rest else "")


def _label_lines(labels: dict[str, int]) -> list[str]:
    rows = [(_shorten(label), f"{count:,}") for label, count in list(labels.items())[:SHOWN_LABELS]]
    rest = len(labels) - len(rows)
    return [figures.table(("LABEL", "SAMPLES"), rows), *([f"and {rest} more labels"] if rest > 0 else [])]


def _count_lines(report: DataReport) -> Iterator[str]:
    if report.train_rows is not None:
        held_out = f", evaluated on {report.eval_rows:,}" if report.eval_rows else ""
        yield f"Trained on {figures.counted(report.train_rows, 'row')} an epoch{held_out}."


def _length_line(lengths: Lengths) -> str:
    words = f"Half have {lengths.median:,} {lengths.unit} or fewer, the longest has {lengths.longest:,}"
    if lengths.unit == "characters":
        return f"{words}. In tokens: --set model.source=MODEL."
    if lengths.limit is None:
        return f"{words}."
    return f"{words}; {figures.counted(lengths.cut, 'row')} cut off at {lengths.limit:,}."


def _seen_lines(report: DataReport) -> Iterator[str]:
    is_part = any(part.trained for seen in report.seen for part in seen.parts)
    yield f"WHAT THE MODEL SEES{f' (what it learns to say stands in {OPENING}{CLOSING})' if is_part else ''}"
    for seen in report.seen[:SHOWN_SEEN]:
        yield f"row {seen.row:,}{_about(seen)}:"
        yield _indented(_marked(seen.parts))
        if seen.rejected:
            yield "  and the worse answer:"
            yield _indented(_marked(seen.rejected))


def _about(seen: Seen) -> str:
    words = [] if seen.tokens is None else [figures.counted(seen.tokens, "token")]
    words += ["cut off at its end"] if seen.is_cut else []
    words += [f"answer: {_shorten(seen.label)}"] if seen.label else []
    return f", {', '.join(words)}" if words else ""


def _marked(parts: Sequence[SeenPart]) -> str:
    text = "".join(f"{OPENING}{part.text}{CLOSING}" if part.trained else part.text for part in parts)
    if len(text) <= SEEN_CHARACTERS:
        return text
    half = SEEN_CHARACTERS // 2  # the answer stands at the end
    return f"{text[:half]} ... {text[-half:]}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip().split("\n"))


def _findings(report: DataReport) -> Iterator[str]:
    for problem in report.problems:
        yield f"Problem: {problem}"
        yield from map(fix_text, problem.fixes)
    for finding in report.findings:
        where = finding.where
        yield f"{LEVELS[finding.level]}: {finding.message}{f' ({where})' if where else ''}"
        yield from map(fix_text, finding.fixes)
    yield from (f"Note: {note}" for note in report.notes)
    if not report.problems and not report.findings:
        yield "Nothing is wrong with it."


def _shorten(text: str) -> str:
    """A text on one line and no wider than a column of a table."""
    line = figures.visible(" ".join(text.split()))
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 3]}..."
