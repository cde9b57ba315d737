"""`hone devices` and `hone inspect`: short questions to the engine, answered in the terminal."""

from pathlib import Path

from core import figures
from core.capabilities import ANY_OTHER, find_device
from core.choices import Task
from core.commands.output import print_json
from core.commands.run_text import fix_text
from core.errors import DataError, OptionsError, Problem
from core.files import why_missing
from core.jobs import ask_devices, ask_inspect
from core.reports import DataReport, DeviceReport, InspectRequest, MachineReport
from core.run_file import absolute
from core.sources import Scheme, scheme_of

SHOWN_LABELS = 20
WIDEST = 60


def devices(*, as_json: bool) -> int:
    """Print what this computer can train on."""
    report = ask_devices()
    if as_json:
        print_json(report)
    else:
        print("\n".join(device_lines(report)))
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


def inspect(
    source: str, task: Task | None, text_columns: tuple[str, ...], label_column: str | None, *, as_json: bool
) -> int:
    """Print what is in a data file or folder; 1 if a problem in it would stop a run.

    Args:
        source: As `data.train` takes it, relative to the working folder.
        task: What it is for; None: judged by the source.
        text_columns: The columns of text; none: guessed.
        label_column: The column of labels; None: guessed.
        as_json: Whether the report is printed as JSON.

    Raises:
        OptionsError: `source` is empty.
        DataError: There is nothing at `source`.
    """
    if not source:
        raise OptionsError((Problem("", "name a file or folder to look into"),))
    where = absolute(source, Path.cwd(), must_exist=False)
    missing = "" if scheme_of(where) else why_missing(Path(where))
    if missing:
        raise DataError("There is nothing to look into", missing)
    report = ask_inspect(
        InspectRequest(
            task=task or guess_task(where), source=where, text_columns=text_columns, label_column=label_column
        )
    )
    if as_json:
        print_json(report)
    else:
        print("\n".join(data_lines(report)))
    return 1 if report.problems else 0


def guess_task(source: str) -> Task:
    """Folders, IDX files and the built-in digits are images, all else is text."""
    name = Path(source).name.removesuffix(".gz")
    is_images = (
        scheme_of(source) is Scheme.BUILTIN
        or Path(source).is_dir()
        or name.endswith("ubyte")
        or ".idx" in name
    )
    return Task.IMAGE_CLASSIFICATION if is_images else Task.TEXT_CLASSIFICATION


def data_lines(report: DataReport) -> list[str]:
    """The report for a terminal."""
    lines = [f"{report.source}: {report.format}, {report.rows:,} rows"]
    if report.columns:
        rows = [
            (
                _shorten(column.name),
                column.kind.value,
                f"{column.distinct:,}",
                f"{column.empty:,}",
                _shorten(" | ".join(column.examples)),
            )
            for column in report.columns
        ]
        lines += ["", figures.table(("COLUMN", "KIND", "DIFFERENT", "EMPTY", "SUCH AS"), rows)]
    if report.text_columns:
        lines += ["", f"text: {', '.join(report.text_columns)}; label: {report.label_column or 'none found'}"]
    if report.labels:
        lines += ["", *_label_lines(report.labels)]
    lines += [f"Note: {note}" for note in report.notes]
    for problem in report.problems:
        lines += [f"Problem: {problem}", *map(fix_text, problem.fixes)]
    return lines


def _label_lines(labels: dict[str, int]) -> list[str]:
    rows = [(_shorten(label), f"{count:,}") for label, count in list(labels.items())[:SHOWN_LABELS]]
    rest = len(labels) - len(rows)
    return [figures.table(("LABEL", "SAMPLES"), rows), *([f"and {rest} more labels"] if rest > 0 else [])]


def _shorten(text: str) -> str:
    """A text on one line and no wider than a column of a table."""
    line = " ".join(text.split())
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 3]}..."
