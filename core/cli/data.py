"""Commands about run files, data and devices: new, options, inspect, devices and gpu."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import tomli_w

from core.base import formats
from core.base.errors import DataError, OptionsError
from core.base.files import new_file, why_missing, write_atomically, writing
from core.base.jobs import gpu_environment, gpu_folder, run_job
from core.base.language import _
from core.cli.output import (
    INTERRUPTED,
    NEW_FILE,
    CommandParsers,
    JobOutput,
    add_flag,
    add_json,
    add_repeated,
    add_set,
    note,
    print_answer,
    refuse,
    say,
)
from core.hosts.install import with_computers
from core.jobs.devices import CHECK_SECONDS, DeviceCheckReport, DeviceCheckRequest, DeviceComparison
from core.jobs.inspect import DataReport, FindingLevel, Lengths, Seen, SeenPart, inspect_request
from core.options import RunOptions, Tree, run_file
from core.options.catalogue import as_markdown, as_text, put
from core.options.choices import Task
from core.options.device_support import (
    ANY_OTHER,
    MORE_THAN,
    DeviceReport,
    MachineReport,
    find_device,
    why_automatic,
)
from core.options.importing import Imported, import_file, import_text
from core.options.method_rules import starting_options
from core.options.presets import changes, find_preset, find_task, presets
from core.options.run_file import absolute, apply_overrides
from core.options.sources import scheme_of
from core.options.validate import read_options, splits
from core.runs.words import fix_text
from core.services import gpu_install
from core.services.columns import chosen_columns, guessed_columns, uses_for

TASKS = tuple(task.value for task in Task)

SHOWN_LABELS, SHOWN_COLUMNS, SHOWN_SAMPLES = 20, 40, 2
SAMPLE_CHARACTERS = 700
WIDEST_CELL = 60
OPENING, CLOSING = "⟦", "⟧"
"""Enclose what a model learns to write."""


def add_commands(commands: CommandParsers) -> None:
    _add_new(commands)
    command = commands.add("options", options, summary=_("explain every option of a run file"), example="")
    add_flag(command, "--markdown", _("print the page docs/options.md"))
    _add_inspect(commands)
    _add_devices(commands)

    command = commands.add(
        "gpu",
        gpu,
        summary=_("show or install PyTorch with CUDA for an NVIDIA card"),
        example="--install",
        details=_(
            "The programs for Windows and Linux come with PyTorch for the CPU. --install downloads the CUDA build, "
            "about 3 GB, into Hone's own folder, and the engine uses it. Ctrl-C ends it; the same command continues."
        ),
    )
    action = command.add_mutually_exclusive_group()
    add_flag(action, "--install", _("install it, or update it for this Hone"))
    add_flag(action, "--remove", _("delete it, and unfinished downloads"))
    add_json(command)


# --- hone new and hone options


def _add_new(commands: CommandParsers) -> None:
    command = commands.add(
        "new",
        new,
        summary=_("write a run file with every option explained"),
        example="--task text-classification --output mine.hone",
        details=_(
            "--from makes it from a script's options: TrainingArguments as JSON or in Python, or a command line such "
            "as that of run_glue.py. It lists what has another name here and what no longer exists."
        ),
    )
    command.add_argument(
        "--task", type=_task_word, choices=TASKS, help=_("what is learned; some presets set it")
    )
    command.add_argument(
        "--preset", metavar="NAME", help=_("options to start with, such as fastest or published-guide")
    )
    command.add_argument(
        "--from", dest="source", metavar="FILE", help=_("a script or its options; - is standard input")
    )
    command.add_argument("--output", "-o", type=Path, metavar="FILE", help=NEW_FILE)


def _task_word(word: str) -> str:
    """Returns the name of a task that a word means; other words as they are, which argparse refuses."""
    try:
        return Task(word).value
    except ValueError:
        return word


def new(arguments: argparse.Namespace) -> int:
    if arguments.source is None:
        task = Task(arguments.task) if arguments.task else None
        print_or_write(run_file.dumps_with_help(_starting_with(task, arguments.preset)), arguments.output)
        return 0
    source = arguments.source
    imported = import_text(sys.stdin.read()) if source == "-" else import_file(Path(source))
    note("\n".join(import_lines(imported)))
    print_or_write(tomli_w.dumps(imported.tree), arguments.output)
    return 1 if imported.problems else 0


def print_or_write(text: str, output: Path | None) -> None:
    """Prints a text, or writes it to `output`, which must be new.

    Raises:
        TargetError: It exists already, or it can't be written there.
        UserError: It can't be written: the disk is full.
    """
    if output is None:
        say(text, end="")
        return
    with writing(new_file(output)):
        write_atomically(output, text.encode("utf-8", "replace"))


def _starting_with(task: Task | None, name: str | None) -> RunOptions:
    preset = find_preset(name) if name else None
    if name and preset is None:
        known = ", ".join(preset.name for preset in presets())
        refuse(_("there is no preset {name}; there are {known}").format(name=name, known=known))
    preset_task = Task(preset.tree["task"]) if preset and "task" in preset.tree else None
    task = task or preset_task
    if task is None:
        refuse(_("choose what the model learns with --task: {tasks}").format(tasks=", ".join(TASKS)))
    if preset_task not in (None, task):
        refuse(
            _("the preset {name} is for {task}, not {other}").format(name=name, task=preset_task, other=task)
        )
    result = starting_options(task)
    if preset is None:
        return result
    tree = run_file.to_tree(result)
    put(tree, changes(tree, preset.tree))
    changed, problems = read_options(tree)
    if changed is None:
        raise OptionsError(problems, _("The preset {name}").format(name=name))
    return changed


def import_lines(imported: Imported) -> list[str]:
    imports = [
        (item.name, ", ".join(f"{path} = {value}" for path, value in item.options.items()), item.note)
        for item in imported.taken
    ]
    skipped = [(item.name, item.reason) for item in imported.left]
    lines = [formats.table((_("Imported"), _("As"), _("Note")), imports)] if imports else []
    lines += ["", formats.table((_("Left out"), _("Because")), skipped)] if skipped else []
    return lines + [_("Problem: {problem}").format(problem=problem) for problem in imported.problems]


def options(arguments: argparse.Namespace) -> int:
    sys.stdout.write(as_markdown() if arguments.markdown else as_text())
    return 0


# --- hone inspect


def _add_inspect(commands: CommandParsers) -> None:
    command = commands.add(
        "inspect",
        inspect,
        summary=_("show what is in data, and what is wrong with it"),
        example="reviews.csv --task text-classification",
        details=_(
            "Shows columns, labels, which row has which problem, and examples as the model gets them. Of a run file it "
            "shows the data. The exit status is 1 if a problem would stop a run."
        ),
    )
    command.add_argument("source", metavar="FILE", help=_("a file, a folder, hub:OWNER/NAME, or a run file"))
    command.add_argument("--task", type=_task_word, choices=TASKS, help=_("default: guessed from the data"))
    add_repeated(command, "--text-column", "NAME", _("the column of texts; twice for pairs of texts"))
    command.add_argument("--label-column", metavar="NAME", help=_("the column of labels"))
    add_set(command)
    add_json(command)


def inspect(arguments: argparse.Namespace) -> int:
    if not arguments.source:
        refuse(_("name a file or folder to inspect"))
    source = absolute(arguments.source, Path.cwd(), must_exist=False)
    if not scheme_of(source) and (missing := why_missing(Path(source))):
        raise DataError(_("There is nothing to inspect"), missing)
    task = Task(arguments.task) if arguments.task else None
    tree: Tree = {
        "task": (task or find_task(source) or Task.TEXT_CLASSIFICATION).value,
        "data": {"train": source},
    }
    if Path(source).suffix.lower() in run_file.ENDINGS:
        tree = msgspec.to_builtins(run_file.read(Path(source)))
        task = task or Task(tree["task"])
        tree["task"] = task.value
        note(_("{file} is a run file. This is its data:").format(file=Path(source).name))
    columns = {"text_columns": ",".join(arguments.text_column), "label_column": arguments.label_column}
    overrides = [f"data.{name}={value}" for name, value in columns.items() if value]
    wrong = apply_overrides(tree, (*overrides, *arguments.overrides), Path.cwd())
    chosen, problems = read_options(tree)
    if chosen is None or wrong or problems:
        raise OptionsError((*wrong, *problems))
    if contradictions := tuple(splits(chosen)):
        raise OptionsError(contradictions)
    with JobOutput(_("Reading and checking")) as output:
        request = inspect_request(chosen, any_task=task is None)
        report = run_job("inspect", request, DataReport, output.show)
    shown = chosen if task else msgspec.structs.replace(chosen, task=report.suits or chosen.task)
    print_answer(report, data_lines(report, shown), as_json=arguments.json)
    return 1 if any(problem_lines(report)) else 0


def data_lines(report: DataReport, options: RunOptions) -> Iterator[str]:
    """Yields the report for a terminal; `options` are those of the request, with the task the report is about."""
    yield report.source
    yield f"  {_summary(report)}"
    yield f"  {_task_text(report, options.task)}"
    if report.splits:
        yield _("  Splits: {splits} (data.train_split, data.eval_split)").format(
            splits=", ".join(report.splits)
        )
    if report.columns:
        yield from ("", *_column_lines(report, options))
    if report.labels:
        rows = [(_shorten(label), f"{count:,}") for label, count in report.labels.items()]
        yield from ("", formats.table((_("Label"), _("Examples")), rows[:SHOWN_LABELS]))
        if (rest := len(rows) - SHOWN_LABELS) > 0:
            yield _("and {rest} more labels").format(rest=rest)
    if report.train_rows is not None or report.lengths:
        yield ""
    if report.train_rows is not None:
        rows_text = formats.counted(report.train_rows, "example")
        if report.eval_rows:
            yield _("Training: {rows} per epoch. Validation: {eval_rows:,}.").format(
                rows=rows_text, eval_rows=report.eval_rows
            )
        else:
            yield _("Training: {rows} per epoch.").format(rows=rows_text)
    if report.lengths:
        yield _length_text(report.lengths)
    if any(seen.parts for seen in report.seen):
        yield ""
        yield from _sample_lines(report)
    yield ""
    yield from _finding_lines(report)


def _summary(report: DataReport) -> str:
    count = formats.counted(report.rows, "text" if report.format == "text" else "example")
    if report.used not in (None, report.rows):
        count = _("{used:,} of {examples}").format(used=report.used, examples=count)
    return formats.in_line(count, report.format, report.shape, *report.reading.values())


def _task_text(report: DataReport, task: Task) -> str:
    text = formats.titled(formats.with_note(task.label, f"--task {task}"), task.help)
    if report.suits is None or report.suits is task:
        return text
    other = _("It looks more like data for {label} (--task {task}).")
    return formats.paragraph(text, other.format(label=report.suits.label, task=report.suits))


def _column_lines(report: DataReport, options: RunOptions) -> Iterator[str]:
    chosen = chosen_columns(options.task, lambda path: getattr(options.data, path.partition(".")[2], None))
    titles = {use.key: use.title for use in uses_for(options.task)}
    uses = {**guessed_columns(options.task, report), **chosen}
    use_of = {name: titles.get(key, key) for key, name in uses.items()}
    rows = [
        (
            _shorten(column.name),
            use_of.get(column.name, ""),
            column.kind.value,
            f"{column.distinct:,}",
            f"{column.empty:,}",
            _shorten(" | ".join(column.examples)),
        )
        for place, column in enumerate(report.columns)
        if place < SHOWN_COLUMNS or column.name in use_of
    ]
    titles_row = (_("Column"), _("Used as"), _("Kind"), _("Different"), _("Empty"), _("Examples"))
    yield formats.table(titles_row, rows)
    if rest := len(report.columns) - len(rows):
        yield _("and {rest:,} more columns").format(rest=rest)


def _length_text(lengths: Lengths) -> str:
    unit = _("tokens") if lengths.unit == "tokens" else _("characters")
    text = _("Half have {median:,} {unit} or fewer, the longest has {longest:,}.").format(
        median=lengths.median, unit=unit, longest=lengths.longest
    )
    if lengths.unit == "characters":
        return formats.paragraph(text, _("In tokens: --set model.source=MODEL."))
    if lengths.limit is None:
        return text
    cut = _("{rows} truncated at {limit:,}.").format(
        rows=formats.counted(lengths.cut, "example"), limit=lengths.limit
    )
    return formats.paragraph(text, cut)


def _sample_lines(report: DataReport) -> Iterator[str]:
    if any(part.trained for seen in report.seen for part in seen.parts):
        yield _(
            "WHAT THE MODEL SEES (trained on: the text in {opening}{closing}; the rest is context)"
        ).format(opening=OPENING, closing=CLOSING)
    else:
        yield _("What the model sees").upper()
    for seen in report.seen[:SHOWN_SAMPLES]:
        yield _sample_title(seen)
        yield _sample_text(seen.parts)
        if seen.rejected:
            yield _("  and the rejected answer:")
            yield _sample_text(seen.rejected)


def _sample_title(seen: Seen) -> str:
    parts = [_("row {row:,}").format(row=seen.row)]
    parts += [] if seen.tokens is None else [formats.counted(seen.tokens, "token")]
    parts += [_("truncated")] if seen.is_cut else []
    parts += [_("answer: {label}").format(label=_shorten(seen.label))] if seen.label else []
    return f"{', '.join(parts)}:"


def _sample_text(parts: Sequence[SeenPart]) -> str:
    text = "".join(f"{OPENING}{part.text}{CLOSING}" if part.trained else part.text for part in parts)
    if len(text) > SAMPLE_CHARACTERS:
        half = SAMPLE_CHARACTERS // 2  # the answer is at the end
        head, tail = text[:half], text[-half:]
        head += CLOSING if head.rfind(OPENING) > head.rfind(CLOSING) else ""
        is_inside = tail.partition(OPENING)[0].count(CLOSING)
        text = f"{head} ... {OPENING if is_inside else ''}{tail}"
    return "\n".join(f"  {line}" for line in text.rstrip().split("\n"))


def problem_lines(report: DataReport) -> Iterator[str]:
    """Yields what would stop a run, with the rows and what to do."""
    for problem in report.problems:
        yield _("Problem: {problem}").format(problem=problem)
        yield from map(fix_text, problem.fixes)
    yield from _of_findings(report, FindingLevel.PROBLEM, _("Problem: {problem}"))


def _of_findings(report: DataReport, level: FindingLevel, template: str) -> Iterator[str]:
    for finding in report.findings:
        if finding.level is level:
            message = formats.with_note(finding.message, finding.where)
            yield template.format(problem=message)
            yield from map(fix_text, finding.fixes)


def _finding_lines(report: DataReport) -> Iterator[str]:
    yield from problem_lines(report)
    yield from _of_findings(report, FindingLevel.WARNING, _("Warning: {problem}"))
    yield from (_("Note: {text}").format(text=text) for text in report.notes)
    if not report.problems and not report.findings:
        yield _("No problems found.")


def _shorten(text: str) -> str:
    """Returns a text on one line, no wider than a column of a table."""
    line = formats.visible(" ".join(text.split()))
    return line if len(line) <= WIDEST_CELL else f"{line[: WIDEST_CELL - 3]}..."


# --- hone devices


def _add_devices(commands: CommandParsers) -> None:
    command = commands.add(
        "devices",
        devices,
        summary=_("show what this computer can train on"),
        example="--check",
        details=_(
            "--check computes the same small models on a device and on the CPU and compares them, half a minute at "
            "most; without an accelerator, one thread with several. It ends with 1 if they differ."
        ),
    )
    add_flag(command, "--check", _("check that a device computes correctly"))
    command.add_argument(
        "--device", default="auto", metavar="NAME", help=_("with --check: a name from `hone devices`")
    )
    add_flag(command, "--short", _("with --check: the main comparisons, a few seconds"))
    add_json(command)


def devices(arguments: argparse.Namespace) -> int:
    if not arguments.check:
        machine = with_computers(run_job("devices", None, MachineReport))
        lines = [*device_lines(machine), *gpu_lines(gpu_install.GpuState(installed=gpu_environment()))]
        print_answer(machine, lines, as_json=arguments.json)
        return 0
    if not arguments.json:
        note(_("Comparing…"))
    request = DeviceCheckRequest(device=arguments.device, short=arguments.short)
    report = run_job("check-device", request, DeviceCheckReport, timeout=CHECK_SECONDS)
    print_answer(report, _check_lines(report), as_json=arguments.json)
    return 0 if report.agrees else 1


def device_lines(report: MachineReport) -> Iterator[str]:
    rows = [(device.name, _device_text(device)) for device in report.devices]
    automatic = [("device.name", report.automatic, why_automatic(report.automatic))]
    if (device := find_device(report, "auto")) is not None:
        automatic += [(path, setting.value, setting.reason) for path, setting in device.automatic.items()]
    yield formats.table((_("Device"), _("What it is")), rows)
    yield ""
    yield formats.table((_("Automatic"), _("Is"), _("Because")), automatic)
    for device in report.devices:
        if device.available and "@" not in device.name and (limits := _limit_rows(device)):
            yield ""
            yield formats.table((_("On {name}").format(name=device.name), _("Why")), limits)
    yield from report.notes
    yield ", ".join(f"{name} {version}" for name, version in report.versions.items())


def _device_text(device: DeviceReport) -> str:
    if not device.available:
        return _("{title}: not available: {reason}").format(title=device.title, reason=device.reason)
    return f"{device.title}, {formats.memory(device.memory_bytes)}" if device.memory_bytes else device.title


def _limit_rows(device: DeviceReport) -> list[tuple[str, str]]:
    """Returns what can't be chosen on a device, and what to know before choosing."""
    return [
        (_limited(path, value), template.format(reason=reason))
        for template, limits in (
            (_("not available: {reason}"), device.refusals),
            (_("note: {reason}"), device.cautions),
        )
        for path, by_value in limits.items()
        for value, reason in by_value.items()
        if reason and (limits is device.refusals or value not in device.refusals.get(path, {}))
    ]


def _limited(path: str, value: str) -> str:
    if value == ANY_OTHER:
        return path
    return f"{path}{value}" if value.startswith(MORE_THAN) else f"{path}={value}"


def _check_lines(report: DeviceCheckReport) -> Iterator[str]:
    titles = (_("Result"), _("Compared"), _("Worst error"), _("Allowed"), _("Found in"), _("Took"))
    yield report.title
    yield _("compared with {reference}").format(reference=report.reference)
    yield ""
    yield formats.table(titles, list(map(_comparison_row, report.comparisons)))
    yield ""
    yield from (formats.titled(found.name, found.words) for found in report.comparisons if found.detail)
    yield report.conclusion
    yield _("{seconds:.1f} s with {software}.").format(seconds=report.seconds, software=report.software)


def _comparison_row(comparison: DeviceComparison) -> tuple[str, ...]:
    """Returns a row of the table; errors are relative to a tensor's largest value."""
    error = comparison.worst_error
    unknown = _("no number") if comparison.differs else formats.MISSING
    return (
        comparison.agreement.value,
        comparison.name,
        unknown if error is None else f"{error:.1e}" if error else "0",
        f"{comparison.tolerance:.0e}",
        comparison.worst_tensor or formats.MISSING,
        f"{comparison.seconds:.1f} s",
    )


# --- hone gpu


def gpu(arguments: argparse.Namespace) -> int:
    if arguments.remove:
        say(_("{size} freed").format(size=formats.memory(gpu_install.remove())))
    elif not arguments.install:
        state = gpu_install.look()
        print_answer(state, gpu_lines(state), as_json=arguments.json)
    else:
        try:
            with JobOutput(is_download=True) as output:
                environment = gpu_install.installation().run(output.show)
        except KeyboardInterrupt:
            note(_("Stopped. The same command continues; `hone gpu --remove` deletes what was downloaded."))
            return INTERRUPTED
        say("\n".join(gpu_lines(gpu_install.GpuState(installed=environment))))
    return 0


def gpu_lines(state: gpu_install.GpuState) -> Iterator[str]:
    """Yields what is installed or can be, and how; nothing if there is neither."""
    if text := gpu_install.state_text(state):
        yield text
    if held := state.installed.size if state.installed else state.begun:
        yield _("{size} in {folder}").format(size=formats.memory(held), folder=gpu_folder())
    if not state.is_used and (state.installed or (state.card and not state.refusal)):
        yield _("`hone gpu --install` installs it.")
