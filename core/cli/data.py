"""`hone inspect`: what is in data, what is wrong with it, and what a model will see of it, in the terminal."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core.base import format as figures
from core.base import jobs as places
from core.base.errors import Fix, OptionsError, Problem, UserError
from core.base.files import new_file, write_atomically, writing
from core.base.jobs import Checked, Needs, Pack, Standing, needs
from core.cli.output import print_json, say
from core.cli.train import INTERRUPTED
from core.options import RunOptions, run_file
from core.options.catalogue import as_markdown, as_text, put
from core.options.choices import Task
from core.options.method_rules import starting_options
from core.options.presets import differences, presets
from core.options.presets import find_preset as find
from core.options.validate import read_options
from core.services import gpu_install as builds
from core.services import gpu_install as uv
from core.services import gpu_install as what
from core.services.devices import Comparison, DeviceCheckReport, DeviceCheckRequest
from core.services.gpu_install import (
    Install,
    PackProgress,
    Step,
    archive_name,
    installation,
    remove,
    write_lists,
)
from core.services.hub import Pace
from core.services.questions import ask_device_check

if TYPE_CHECKING:
    from core.cli.output import Commands
from collections.abc import Iterator, Sequence
from typing import TextIO

import msgspec
import tomli_w
from tqdm import tqdm

from core.base.errors import DataError
from core.base.files import why_missing
from core.base.jobs import JobProgress, standing
from core.options import Tree
from core.options.device_support import ANY_OTHER, DeviceReport, MachineReport, find_device
from core.options.importing import Imported, import_file, import_text
from core.options.presets import guess_task
from core.options.run_file import absolute, apply_overrides
from core.options.sources import scheme_of
from core.options.validate import splits
from core.runs.words import fix_text
from core.services.inspect import (
    DataReport,
    Finding,
    FindingLevel,
    Lengths,
    Seen,
    SeenPart,
    chosen_columns,
    guessed_columns,
    inspect_request,
    uses_for,
)
from core.services.questions import ask_devices, ask_inspect

# --- `hone check-device`: whether a device computes what the CPU does


TITLES = ("RESULT", "COMPARED", "WORST ERROR", "ALLOWED", "FOUND IN", "TOOK")


def check_device(device: str, *, short: bool, as_json: bool) -> int:
    """Print how a device compares; 1 where something differs or nothing could be compared.

    Args:
        device: As in `device.name`.
        short: Whether only what matters most is compared.
        as_json: Whether the report is printed as JSON.
    """
    if not as_json:
        say("Comparing ...", sys.stderr)
    report = ask_device_check(DeviceCheckRequest(device=device, short=short))
    if as_json:
        print_json(report)
    else:
        say("\n".join(check_lines(report)))
    return 0 if report.agrees else 1


def check_lines(report: DeviceCheckReport) -> list[str]:
    """The report for a terminal: errors are shares of a tensor's largest value."""
    lines = [f"{report.title}", f"held against {report.reference}", ""]
    lines += [figures.table(TITLES, [_cells(comparison) for comparison in report.comparisons]), ""]
    lines += [f"{told.name}: {told.words}" for told in report.comparisons if told.detail]
    took = f"{report.seconds:.1f} s with {report.software}."
    return [*lines, report.conclusion, took]


def _cells(comparison: Comparison) -> tuple[str, ...]:
    error = comparison.worst_error
    unknown = "no number" if comparison.differs else figures.PLAIN_MISSING
    return (
        comparison.agreement.value,
        comparison.name,
        unknown if error is None else f"{error:.1e}" if error else "0",
        f"{comparison.tolerance:.0e}",
        comparison.worst_tensor or figures.PLAIN_MISSING,
        f"{comparison.seconds:.1f} s",
    )


# --- `hone new` and `hone options`: run files to start from, and what may stand in them


def new(task: Task | None, output: Path | None, preset: str | None = None) -> int:
    """Print a run file with every option explained, or write it to `output`.

    Args:
        task: What is to be learned; None: what the preset is for.
        output: A new file.
        preset: The name of one to begin with.

    Raises:
        OptionsError: There is no such preset or it is for another task, or neither it nor a task is given.
        TargetError: There is a file called `output` already, or it can't be written there.
    """
    text = run_file.dumps_with_help(_starting_with(task, preset))
    if output is None:
        sys.stdout.write(text)
    else:
        write_new(output, text)
    return 0


def _starting_with(task: Task | None, name: str | None) -> RunOptions:
    preset = find(name) if name else None
    if name and preset is None:
        known = ", ".join(preset.name for preset in presets())
        raise OptionsError((Problem("preset", f"there is no {name}; there are {known}"),))
    own = Task(preset.tree["task"]) if preset and "task" in preset.tree else None
    chosen = task or own
    if chosen is None:
        raise OptionsError((Problem("task", "say which one with --task"),))
    if own not in (None, chosen):
        raise OptionsError((Problem("task", f"{name} is for {own}, got {chosen}"),))
    options = starting_options(chosen)
    if preset is None:
        return options
    tree = run_file.to_tree(options)
    put(tree, {change.path: change.after for change in differences(tree, preset)})
    changed, problems = read_options(tree)
    if changed is None:
        raise OptionsError(problems, f"The preset {name}")
    return changed


def write_new(output: Path, text: str) -> None:
    """Write a file that isn't there yet, whole or not at all.

    Raises:
        TargetError: It is there already, or it can't be written there.
        UserError: It can't be written: the disk is full.
    """
    with writing(new_file(output)):
        write_atomically(output, text.encode("utf-8", "replace"))


def options(*, as_page: bool) -> int:
    """Explain every option, for a terminal or as the page docs/options.md."""
    sys.stdout.write(as_markdown() if as_page else as_text())
    return 0


# --- `hone gpu-pack`: installing PyTorch with CUDA beside a bundle, removing it


STEPS = {
    Step.PYTHON: "Bringing Python",
    Step.LIBRARIES: "Bringing the libraries",
    Step.CHECK: "Checking that it works",
}

NO_CARD = "No NVIDIA card, or no driver for it, was found here: the pack will compute on the CPU."


def add_gpu_pack(commands: "Commands") -> None:
    """Add `gpu-pack` and its own commands to a command line."""
    group = commands.add_parser(
        "gpu-pack",
        help="PyTorch with CUDA for an NVIDIA card, where Hone was installed without it",
        description="The programs for Windows and Linux carry PyTorch for the CPU. With an NVIDIA card, this installs "
        "the CUDA build into Hone's own folder, and the engine runs from it.",
    )
    inner = group.add_subparsers(title="commands", required=True, metavar="COMMAND")
    installing = inner.add_parser(
        "install",
        help="install or renew it",
        description="Download and install it, about 3 GB, or renew it for this Hone. Ctrl-C pauses, and the same "
        "command goes on.",
    )
    installing.add_argument(
        "--from",
        type=Path,
        dest="wheels",
        metavar="FOLDER",
        help="take all from a folder, and nothing from the internet; `needs` says what has to be in it",
    )
    installing.set_defaults(run=lambda asked: install(asked.wheels))
    removing = inner.add_parser("remove", help="delete it, and what has come of one that isn't done")
    removing.set_defaults(run=lambda _: take_away())
    needing = inner.add_parser(
        "needs",
        help="say what a folder for `install --from` has to hold",
        description="Writes lists of the libraries into a folder, and says how they, uv and Python come there.",
    )
    needing.add_argument("folder", type=Path, metavar="FOLDER")
    needing.add_argument(
        "--build",
        choices=(builds.CUDA_13, builds.CUDA_12),
        help="PyTorch's build (default: the one for this computer's card)",
    )
    needing.set_defaults(run=lambda asked: tell_needs(asked.folder, asked.build))
    standing = inner.add_parser("status", help="say whether it is there, used, or to be had")
    standing.add_argument("--json", action="store_true")
    standing.set_defaults(run=lambda asked: status(as_json=asked.json))


def install(wheels: Path | None, make: "Install | None" = None) -> int:
    """Install the pack, telling how far it is."""
    if wheels is not None and what.find_card() is None:
        say(NO_CARD, sys.stderr)
    installing = make or installation(wheels)
    teller = _Teller()
    try:
        pack = installing.run(teller.tell)
    except KeyboardInterrupt:
        installing.kill()
        say("Paused. The same command goes on; `hone gpu-pack remove` deletes what has come.", sys.stderr)
        return INTERRUPTED
    say("\n".join(pack_lines(pack)))
    return 0


def take_away() -> int:
    """Delete the pack."""
    say(f"{figures.size(remove())} freed")
    return 0


def tell_needs(folder: Path, build: str | None) -> int:
    """Write down what a folder that the pack is made of has to hold, and print how it comes there."""
    found = what.look().offer
    if build is None and not found.stands:
        raise UserError(
            "Which build of PyTorch is needed isn't known here",
            found.refusal,
            (Fix(f"Name it: --build {builds.CUDA_13}, or {builds.CUDA_12} for cards before Turing"),),
        )
    wanted = needs(build or found.build)
    folder.mkdir(parents=True, exist_ok=True)
    write_lists(folder.absolute(), wanted)
    say("\n".join(needs_lines(folder.absolute(), wanted)))
    return 0


def needs_lines(folder: Path, wanted: Needs) -> list[str]:
    """How a folder is filled, on a computer with the internet and pip."""
    return [
        f"{folder} holds lists of the libraries now. With Python {wanted.python}, on a computer with the same system "
        "and the internet, in that folder:",
        "  python -m pip download --only-binary :all: --requirement requirements.txt --constraint constraints.txt "
        f"--extra-index-url {builds.index_of(wanted.build)} uv=={uv.VERSION}",
        f"Put Python there as well: an archive {archive_name(wanted)} for that system, from "
        "https://github.com/astral-sh/python-build-standalone/releases",
        "Then, on the computer with the card: hone gpu-pack install --from FOLDER",
    ]


def status(*, as_json: bool) -> int:
    """Print how it stands."""
    found = what.look()
    if as_json:
        print_json(found)
    else:
        say("\n".join(status_lines(found)))
    return 0


def status_lines(found: what.Situation) -> list[str]:
    """How it stands, for a terminal."""
    lines = standing_lines(found.standing) or ["There is no GPU pack on this computer."]
    offer = found.offer
    if found.begun:
        lines.append(f"{figures.size(found.begun)} of one that isn't done lie in {places.cache_folder()}.")
    if offer.refusal:
        return [*lines, offer.refusal]
    if not found.standing.is_used and offer.card is not None:
        free = f", {figures.size(found.free)} are free" if found.free is not None else ""
        lines.append(
            f"{offer.card.name}: `hone gpu-pack install` brings PyTorch's {offer.build} build, about "
            f"{figures.size(offer.download)} of downloads; it takes {figures.size(offer.room)} of room{free}."
        )
    return lines


def standing_lines(standing: Standing) -> list[str]:
    """The pack that is there; nothing where there is none."""
    lines = [] if standing.pack is None else pack_lines(standing.pack)
    return [*lines, *([standing.refusal] if standing.refusal else [])]


def pack_lines(pack: Pack) -> list[str]:
    """What a pack is, and whether it reaches a card."""
    lines = [
        f"GPU pack: PyTorch {pack.checked.torch}, {_cuda_words(pack.checked)}, {figures.size(pack.size)} in "
        f"{places.pack_folder()}"
    ]
    if pack.checked.cuda and not pack.checked.device:
        why = pack.checked.problem or "its driver may be too old"
        lines.append(f"When it was installed, PyTorch reached no NVIDIA card: {why}.")
    return lines


def _cuda_words(checked: Checked) -> str:
    return f"CUDA {checked.cuda}" if checked.cuda else "without CUDA"


class _Teller:
    """Says each step once, and every tenth of what comes."""

    def __init__(self) -> None:
        self._step: Step | None = None
        self._tenth = 0
        self._pace = Pace()

    def tell(self, progress: PackProgress) -> None:
        """Hear how far it is."""
        if progress.step is not self._step:
            self._step = progress.step
            say(f"{STEPS[progress.step]} …", sys.stderr)
        if not progress.total:
            return
        self._pace.add(progress)
        tenth = 10 * progress.done // progress.total
        if tenth > self._tenth:
            self._tenth = tenth
            left = self._pace.left(progress)
            words = f", {figures.plain_duration(left)} left" if left else ""
            say(f"about {figures.size(progress.done)} of {figures.size(progress.total)}{words}", sys.stderr)


# --- `hone inspect`: what is in data, what is wrong with it, and what a model will see of it


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


# --- `hone import`: a run file out of TrainingArguments or a command line of run_glue.py


def import_options(source: str, output: Path | None) -> int:
    """Print the run file that `source` comes to, and on standard error what was taken over and what was not.

    Args:
        source: A file, or `-` for standard input.
        output: A new file to write to; None: standard output.

    Returns:
        0, or 1 where something in it can't be asked for like that.

    Raises:
        OptionsError: There are no options in it.
    """
    imported = import_text(sys.stdin.read()) if source == "-" else import_file(Path(source))
    say("\n".join(import_lines(imported)), sys.stderr)
    text = tomli_w.dumps(imported.tree)
    if output is None:
        say(text, end="")
    else:
        write_new(output, text)
    return 1 if imported.problems else 0


def import_lines(imported: Imported) -> list[str]:
    """What was taken over and what was not, for a terminal."""
    taken = [
        (found.name, ", ".join(f"{path} = {value}" for path, value in found.options.items()), found.note)
        for found in imported.taken
    ]
    left = [(found.name, found.reason) for found in imported.left]
    lines = [figures.table(("TAKEN OVER", "AS", "NOTE"), taken)] if taken else []
    lines += ["", figures.table(("LEFT OUT", "BECAUSE"), left)] if left else []
    return [*lines, *(f"Problem: {problem}" for problem in imported.problems)]


# --- `hone devices`: what this computer can train on, in the terminal


def devices(*, as_json: bool) -> int:
    """Print what this computer can train on."""
    report = ask_devices()
    if as_json:
        print_json(report)
    else:
        say("\n".join([*device_lines(report), *standing_lines(standing())]))
    return 0


def device_lines(report: MachineReport) -> list[str]:
    """The report for a terminal."""
    rows = [(device.name, _device_words(device)) for device in report.devices]
    lines = [figures.table(("DEVICE", "WHAT IT IS"), rows)]
    lines += ["", *_automatic_lines(report)]
    for device in report.devices:
        lines += _limit_lines(device)
    lines += report.notes
    lines.append(", ".join(f"{name} {version}" for name, version in report.versions.items()))
    return lines


def _device_words(device: DeviceReport) -> str:
    if not device.available:
        return f"{device.title}: not available: {device.reason}"
    memory = f", {figures.size(device.memory_bytes)}" if device.memory_bytes else ""
    return f"{device.title}{memory}"


def _automatic_lines(report: MachineReport) -> list[str]:
    """What "automatic" comes to here, a line an option with its reason."""
    device = find_device(report, "auto")
    settled = device.automatic if device else {}
    rows = [("device.name", report.automatic, "CUDA comes first, then MPS, then the CPU")]
    rows += [(path, found.value, found.reason) for path, found in settled.items()]
    return [figures.table(("AUTOMATIC", "IS", "BECAUSE"), rows)]


def _limit_lines(device: DeviceReport) -> list[str]:
    """What can't be chosen on a device, and what to know before choosing."""
    if not device.available:
        return []
    tables = (("not available", device.refusals), ("note", device.cautions))
    rows = [
        (path if value == ANY_OTHER else f"{path}={value}", f"{word}: {told}")
        for word, table in tables
        for path, by_value in table.items()
        for value, told in by_value.items()
        if table is device.refusals or value not in device.refusals.get(path, {})
    ]
    return ["", figures.table((f"ON {device.name.upper()}", "WHY"), rows)] if rows else []
