"""Commands about run files, data and devices: new, options, inspect, devices and gpu."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec
import tomli_w
from tqdm import tqdm

from core.base import formats
from core.base.errors import DataError, OptionsError, Problem
from core.base.files import new_file, why_missing, write_atomically, writing
from core.base.jobs import GpuEnvironment, JobProgress, gpu_environment, gpu_folder, run_job
from core.base.language import _
from core.base.settings import VERSION
from core.cli.output import INTERRUPTED, add_command, add_json, print_json, say
from core.cli.train import add_set
from core.options import RunOptions, Tree, run_file
from core.options.catalogue import as_markdown, as_text, put
from core.options.choices import Task
from core.options.device_support import ANY_OTHER, DeviceReport, MachineReport, find_device
from core.options.importing import Imported, import_file, import_text
from core.options.method_rules import starting_options
from core.options.presets import differences, find_preset, guess_task, presets
from core.options.run_file import absolute, apply_overrides
from core.options.sources import scheme_of
from core.options.validate import read_options, splits
from core.runs.words import fix_text
from core.services import gpu_install
from core.services.devices import CHECK_SECONDS, Comparison, DeviceCheckReport, DeviceCheckRequest
from core.services.inspect import (
    DataReport,
    FindingLevel,
    Lengths,
    Seen,
    SeenPart,
    chosen_columns,
    guessed_columns,
    inspect_request,
    uses_for,
)

if TYPE_CHECKING:
    from core.cli.output import Commands

TASKS = tuple(task.value for task in Task)

SHOWN_LABELS, SHOWN_COLUMNS, SHOWN_SAMPLES = 20, 40, 2
SAMPLE_CHARACTERS = 700
WIDEST = 60
OPENING, CLOSING = "⟦", "⟧"
LEVELS = {FindingLevel.PROBLEM: "Problem", FindingLevel.WARNING: "Warning"}


def add_commands(commands: "Commands") -> None:
    command = add_command(
        commands,
        "new",
        new,
        summary=_("print a run file to start from"),
        example="--task text-classification --output mine.hone",
        details=(
            "--from makes it from a script's options: TrainingArguments as JSON or in Python, or a "
            "command line such as that of run_glue.py. What has another name here is listed, and what no "
            "longer exists."
        ),
    )
    command.add_argument("--task", choices=TASKS, help="what is learned; a preset may say it")
    command.add_argument(
        "--preset", metavar="NAME", help=_("options to start with, such as fastest or published-guide")
    )
    command.add_argument(
        "--from", dest="source", metavar="FILE", help="a script or its options; - is standard input"
    )
    command.add_argument("--output", "-o", type=Path, metavar="FILE", help="a new file; default: print it")

    command = add_command(
        commands, "options", options, summary=_("explain every option of a run file"), example=""
    )
    command.add_argument("--markdown", action="store_true", help=_("as the page docs/options.md"))

    command = add_command(
        commands,
        "inspect",
        inspect,
        summary=_("show what is in data, and what is wrong with it"),
        example="reviews.csv --task text-classification",
        details=(
            _(
                "Shows columns, labels, which row has which problem, and samples as a model gets them. Ends "
                "with 1 if a problem would stop a run."
            )
        ),
    )
    command.add_argument("source", metavar="FILE", help=_("a file, a folder, or hub:OWNER/NAME"))
    command.add_argument("--task", choices=TASKS, help=_("default: judged by the data"))
    command.add_argument("--text-column", action="append", default=[], metavar="NAME")
    command.add_argument("--label-column", metavar="NAME")
    add_set(command)
    add_json(command)

    command = add_command(
        commands,
        "devices",
        devices,
        summary=_("show what this computer can train on"),
        example="--check",
        details=(
            "--check computes the same small models on a device and on the CPU and compares them, half a "
            "minute at most; without an accelerator, one thread with several. It ends with 1 if they "
            "differ."
        ),
    )
    command.add_argument("--check", action="store_true", help=_("check that a device computes correctly"))
    command.add_argument(
        "--device", default="auto", metavar="NAME", help="with --check: as `hone devices` names it"
    )
    command.add_argument(
        "--short", action="store_true", help="with --check: the main comparisons, a few seconds"
    )
    add_json(command)

    command = add_command(
        commands,
        "gpu",
        gpu,
        summary=_("show or install PyTorch with CUDA for an NVIDIA card"),
        example="--install",
        details=(
            "The programs for Windows and Linux come with PyTorch for the CPU. --install downloads the "
            "CUDA build, about 3 GB, into Hone's own folder, and the engine uses it. Ctrl-C ends it; the "
            "same command continues."
        ),
    )
    action = command.add_mutually_exclusive_group()
    action.add_argument("--install", action="store_true", help=_("install it, or update it for this Hone"))
    action.add_argument("--remove", action="store_true", help=_("delete it, and unfinished downloads"))
    add_json(command)


# --- hone new and hone options


def new(arguments: argparse.Namespace) -> int:
    if arguments.source is not None:
        imported = (
            import_text(sys.stdin.read()) if arguments.source == "-" else import_file(Path(arguments.source))
        )
        say("\n".join(import_lines(imported)), sys.stderr)
        _print_or_write(tomli_w.dumps(imported.tree), arguments.output)
        return 1 if imported.problems else 0
    task = Task(arguments.task) if arguments.task else None
    _print_or_write(run_file.dumps_with_help(_starting_with(task, arguments.preset)), arguments.output)
    return 0


def _print_or_write(text: str, output: Path | None) -> None:
    if output is None:
        say(text, end="")
    else:
        write_new(output, text)


def write_new(output: Path, text: str) -> None:
    """Write a file that must be new.

    Raises:
        TargetError: It is there already, or it can't be written there.
        UserError: It can't be written: the disk is full.
    """
    with writing(new_file(output)):
        write_atomically(output, text.encode("utf-8", "replace"))


def _starting_with(task: Task | None, name: str | None) -> RunOptions:
    preset = find_preset(name) if name else None
    if name and preset is None:
        known = ", ".join(preset.name for preset in presets())
        raise OptionsError((Problem("preset", f"there is no {name}; there are {known}"),))
    own = Task(preset.tree["task"]) if preset and "task" in preset.tree else None
    chosen = task or own
    if chosen is None:
        raise OptionsError((Problem("task", "say which one with --task"),))
    if own not in (None, chosen):
        raise OptionsError(
            (
                Problem(
                    "task", _("{name} is for {own}, got {chosen}").format(name=name, own=own, chosen=chosen)
                ),
            )
        )
    found = starting_options(chosen)
    if preset is None:
        return found
    tree = run_file.to_tree(found)
    put(tree, {change.path: change.after for change in differences(tree, preset)})
    changed, problems = read_options(tree)
    if changed is None:
        raise OptionsError(problems, _("The preset {name}").format(name=name))
    return changed


def import_lines(imported: Imported) -> list[str]:
    """What was taken over and what was not."""
    taken = [
        (found.name, ", ".join(f"{path} = {value}" for path, value in found.options.items()), found.note)
        for found in imported.taken
    ]
    left = [(found.name, found.reason) for found in imported.left]
    lines = [formats.table((_("TAKEN OVER"), "AS", "NOTE"), taken)] if taken else []
    lines += ["", formats.table((_("LEFT OUT"), "BECAUSE"), left)] if left else []
    return [*lines, *(f"Problem: {problem}" for problem in imported.problems)]


def options(arguments: argparse.Namespace) -> int:
    sys.stdout.write(as_markdown() if arguments.markdown else as_text())
    return 0


# --- hone inspect


def inspect(arguments: argparse.Namespace) -> int:
    if not arguments.source:
        raise OptionsError((Problem("", _("name a file or folder to look into")),))
    where = absolute(arguments.source, Path.cwd(), must_exist=False)
    missing = "" if scheme_of(where) else why_missing(Path(where))
    if missing:
        raise DataError(_("There is nothing to look into"), missing)
    task = Task(arguments.task) if arguments.task else None
    columns = {
        "data.text_columns": ",".join(arguments.text_column),
        "data.label_column": arguments.label_column,
    }
    given = [f"{path}={value}" for path, value in columns.items() if value]
    chosen = _options(where, task, (*given, *arguments.overrides))
    bar = _Bar(sys.stderr)
    try:
        request = inspect_request(chosen, any_task=task is None)
        report = run_job("inspect", request, DataReport, bar.show)
    finally:
        bar.close()
    if arguments.json:
        print_json(report)
    else:
        shown = chosen if task else msgspec.structs.replace(chosen, task=report.suits or chosen.task)
        say("\n".join(data_lines(report, shown)))
    stops = any(finding.level is FindingLevel.PROBLEM for finding in report.findings)
    return 1 if report.problems or stops else 0


def _options(source: str, task: Task | None, overrides: tuple[str, ...]) -> RunOptions:
    tree: Tree = {"task": (task or guess_task(source)).value, "data": {"train": source}}
    wrong = apply_overrides(tree, overrides, Path.cwd())
    found, problems = read_options(tree)
    if found is None or wrong or problems:
        raise OptionsError((*wrong, *problems))
    if contradictions := tuple(splits(found)):
        raise OptionsError(contradictions)
    return found


class _Bar:
    """Progress in a terminal; nothing elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: tqdm | None = None

    def show(self, progress: JobProgress) -> None:
        if not self._stream.isatty():
            return
        if self._bar is None:
            tqdm.monitor_interval = 0  # no monitor thread for a bar that is updated ten times a second
            self._bar = tqdm(
                total=100,
                desc=_("Reading and checking"),
                file=self._stream,
                leave=False,
                bar_format="{desc}: {percentage:3.0f} %|{bar}|",
            )
        self._bar.update(round(100 * progress.share) - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def data_lines(report: DataReport, options: RunOptions) -> list[str]:
    """The report for a terminal; `options` are those asked with, and the task it was answered for."""
    lines = [report.source, f"  {_how_read(report)}", f"  {_task_text(report, options.task)}"]
    if report.splits:
        lines.append(
            _("  Splits: {splits} (data.train_split, data.eval_split)").format(
                splits=", ".join(report.splits)
            )
        )
    if report.columns:
        lines += ["", _column_table(report, options)]
    if report.labels:
        rows = [
            (_shorten(label), f"{count:,}") for label, count in list(report.labels.items())[:SHOWN_LABELS]
        ]
        lines += ["", formats.table(("LABEL", "SAMPLES"), rows)]
        rest = len(report.labels) - len(rows)
        lines += [_("and {rest} more labels").format(rest=rest)] if rest else []
    numbers = []
    if report.train_rows is not None:
        held_out = (
            _(", evaluated on {eval_rows:,}").format(eval_rows=report.eval_rows) if report.eval_rows else ""
        )
        numbers.append(
            _("Trained on {rows} an epoch{held_out}.").format(
                rows=formats.counted(report.train_rows, "row"), held_out=held_out
            )
        )
    numbers += [_length_line(report.lengths)] if report.lengths else []
    lines += ["", *numbers] if numbers else []
    if any(seen.parts for seen in report.seen):
        lines += ["", *_sample_lines(report)]
    return [*lines, "", *_finding_lines(report)]


def _how_read(report: DataReport) -> str:
    noun = "text" if report.format == "text" else "row"
    parts = [formats.counted(report.rows, noun), report.format, report.shape]
    parts += [words if name == "encoding" else f"{name} {words}" for name, words in report.reading.items()]
    return " · ".join(part for part in parts if part)


def _task_text(report: DataReport, task: Task) -> str:
    words = f"{task.label} (--task {task}): {task.help}"
    if report.suits is None or report.suits is task:
        return words
    return f"{words} It looks more like data for {report.suits.label} (--task {report.suits})."


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
    table = formats.table(("COLUMN", _("USED AS"), "KIND", "DIFFERENT", "EMPTY", _("SUCH AS")), rows)
    return table + (_("\nand {rest:,} more columns").format(rest=rest) if rest else "")


def _length_line(lengths: Lengths) -> str:
    words = _("Half have {median:,} {unit} or fewer, the longest has {longest:,}").format(
        median=lengths.median, unit=lengths.unit, longest=lengths.longest
    )
    if lengths.unit == "characters":
        return f"{words}. In tokens: --set model.source=MODEL."
    if lengths.limit is None:
        return f"{words}."
    return f"{words}; {formats.counted(lengths.cut, 'row')} cut off at {lengths.limit:,}."


def _sample_lines(report: DataReport) -> Iterator[str]:
    is_part = any(part.trained for seen in report.seen for part in seen.parts)
    yield _("WHAT THE MODEL SEES{value}").format(
        value=f" (what it learns to write is in {OPENING}{CLOSING})" if is_part else ""
    )
    for seen in report.seen[:SHOWN_SAMPLES]:
        yield _("row {row:,}{seen}:").format(row=seen.row, seen=_about(seen))
        yield _indented(_marked(seen.parts))
        if seen.rejected:
            yield _("  and the worse answer:")
            yield _indented(_marked(seen.rejected))


def _about(seen: Seen) -> str:
    words = [] if seen.tokens is None else [formats.counted(seen.tokens, "token")]
    words += [_("cut off at its end")] if seen.is_cut else []
    words += [f"answer: {_shorten(seen.label)}"] if seen.label else []
    return f", {', '.join(words)}" if words else ""


def _marked(parts: Sequence[SeenPart]) -> str:
    text = "".join(f"{OPENING}{part.text}{CLOSING}" if part.trained else part.text for part in parts)
    if len(text) <= SAMPLE_CHARACTERS:
        return text
    half = SAMPLE_CHARACTERS // 2  # the answer stands at the end
    return f"{text[:half]} ... {text[-half:]}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip().split("\n"))


def _finding_lines(report: DataReport) -> Iterator[str]:
    for problem in report.problems:
        yield f"Problem: {problem}"
        yield from map(fix_text, problem.fixes)
    for finding in report.findings:
        where = finding.where
        yield f"{LEVELS[finding.level]}: {finding.message}{f' ({where})' if where else ''}"
        yield from map(fix_text, finding.fixes)
    yield from (f"Note: {note}" for note in report.notes)
    if not report.problems and not report.findings:
        yield _("Nothing is wrong with it.")


def _shorten(text: str) -> str:
    """A text on one line and no wider than a column of a table."""
    line = formats.visible(" ".join(text.split()))
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 3]}..."


# --- hone devices


def devices(arguments: argparse.Namespace) -> int:
    if arguments.check:
        return check_device(arguments)
    report = run_job("devices", None, MachineReport)
    if arguments.json:
        print_json(report)
    else:
        say("\n".join([*device_lines(report), *environment_lines(gpu_environment())]))
    return 0


def device_lines(report: MachineReport) -> list[str]:
    rows = [(device.name, _device_text(device)) for device in report.devices]
    automatic = [("device.name", report.automatic, _("CUDA comes first, then MPS, then the CPU"))]
    if (device := find_device(report, "auto")) is not None:
        automatic += [(path, found.value, found.reason) for path, found in device.automatic.items()]
    lines = [formats.table(("DEVICE", _("WHAT IT IS")), rows), ""]
    lines.append(formats.table(("AUTOMATIC", "IS", "BECAUSE"), automatic))
    for device in report.devices:
        lines += _limit_lines(device)
    lines += report.notes
    return [*lines, ", ".join(f"{name} {version}" for name, version in report.versions.items())]


def _device_text(device: DeviceReport) -> str:
    if not device.available:
        return _("{title}: not available: {reason}").format(title=device.title, reason=device.reason)
    return device.title + (f", {formats.size(device.memory_bytes)}" if device.memory_bytes else "")


def _limit_lines(device: DeviceReport) -> list[str]:
    """What can't be chosen on a device, and what to know before choosing."""
    if not device.available:
        return []
    rows = [
        (path if value == ANY_OTHER else f"{path}={value}", f"{word}: {why}")
        for word, table in ((_("not available"), device.refusals), ("note", device.cautions))
        for path, by_value in table.items()
        for value, why in by_value.items()
        if table is device.refusals or value not in device.refusals.get(path, {})
    ]
    return ["", formats.table((_("ON {name}").format(name=device.name.upper()), "WHY"), rows)] if rows else []


def check_device(arguments: argparse.Namespace) -> int:
    """Print how a device compares with the CPU; returns 1 if something differs or nothing could be compared."""
    if not arguments.json:
        say("Comparing ...", sys.stderr)
    request = DeviceCheckRequest(device=arguments.device, short=arguments.short)
    report = run_job("check-device", request, DeviceCheckReport, timeout=CHECK_SECONDS)
    if arguments.json:
        print_json(report)
    else:
        titles = ("RESULT", "COMPARED", _("WORST ERROR"), "ALLOWED", _("FOUND IN"), "TOOK")
        say(_("{title}\ncompared with {reference}\n").format(title=report.title, reference=report.reference))
        say(formats.table(titles, [_comparison_row(found) for found in report.comparisons]) + "\n")
        for found in report.comparisons:
            if found.detail:
                say(f"{found.name}: {found.words}")
        say(
            _("{conclusion}\n{seconds:.1f} s with {software}.").format(
                conclusion=report.conclusion, seconds=report.seconds, software=report.software
            )
        )
    return 0 if report.agrees else 1


def _comparison_row(found: Comparison) -> tuple[str, ...]:
    """Errors are relative to a tensor's largest value."""
    error = found.worst_error
    unknown = _("no number") if found.differs else formats.PLAIN_MISSING
    return (
        found.agreement.value,
        found.name,
        unknown if error is None else f"{error:.1e}" if error else "0",
        f"{found.tolerance:.0e}",
        found.worst_tensor or formats.PLAIN_MISSING,
        f"{found.seconds:.1f} s",
    )


# --- hone gpu


def gpu(arguments: argparse.Namespace) -> int:
    if arguments.install:
        return install_gpu()
    if arguments.remove:
        say(f"{formats.size(gpu_install.remove())} freed")
    elif arguments.json:
        print_json(gpu_install.look())
    else:
        say("\n".join(gpu_lines(gpu_install.look())))
    return 0


def install_gpu() -> int:
    """Install PyTorch with CUDA, printing each step and every tenth of the download."""
    installing = gpu_install.installation()
    shown = ("", -1)

    def tell(progress: JobProgress) -> None:
        nonlocal shown
        if (now := (progress.what, int(10 * progress.share))) != shown:
            shown = now
            size = _(", about {done} of {total}").format(
                done=formats.size(progress.done), total=formats.size(progress.total)
            )
            say(f"{progress.what}{size if progress.total else ''}", sys.stderr)

    try:
        found = installing.run(tell)
    except KeyboardInterrupt:
        say(
            "Stopped. The same command continues; `hone gpu --remove` deletes what was downloaded.",
            sys.stderr,
        )
        return INTERRUPTED
    say("\n".join(environment_lines(found)))
    return 0


def gpu_lines(state: gpu_install.GpuState) -> list[str]:
    lines = environment_lines(state.installed)
    if state.begun:
        lines.append(
            _("{begun} of an unfinished installation are in {gpu_folder}.").format(
                begun=formats.size(state.begun), gpu_folder=gpu_folder()
            )
        )
    if state.refusal:
        return [*lines, state.refusal]
    if not state.is_used and state.card is not None:
        size, needed = formats.size(gpu_install.DOWNLOAD), formats.size(gpu_install.FREE_NEEDED)
        free = _(", {free} are free").format(free=formats.size(state.free)) if state.free is not None else ""
        lines.append(
            f"{state.card.name}: `hone gpu --install` downloads about {size} and needs {needed}{free}."
        )
    return lines


def environment_lines(found: GpuEnvironment | None) -> list[str]:
    """PyTorch with CUDA that is installed; nothing where there is none."""
    if found is None:
        return []
    lines = [
        _("PyTorch {torch}, CUDA {cuda}, {size} in {gpu_folder}").format(
            torch=found.torch, cuda=found.cuda, size=formats.size(found.size), gpu_folder=gpu_folder()
        )
    ]
    if found.hone != VERSION:
        lines.append(f"It is unused: Hone {found.hone} installed it. Update it: hone gpu --install")
    elif not found.device:
        lines.append(
            _("PyTorch reached no GPU: {problem}.").format(
                problem=found.problem or "its driver may be too old"
            )
        )
    return lines
