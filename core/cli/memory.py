"""`hone forecast`, `hone measure` and `hone fit`: how much memory a run takes, and what to do if that is too much."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from core.base import format as figures
from core.base.errors import ModelError, OptionsError, UserError
from core.base.files import new_file, writing
from core.base.jobs import EngineCrashed
from core.cli.output import print_json, say
from core.cli.train import TOO_LARGE
from core.memory import estimate as anatomy
from core.memory.history import corrected, correction
from core.memory.model import (
    PART_TITLES,
    Basis,
    Forecast,
    Measurement,
    ModelReport,
    Parts,
    Room,
    Verdict,
    forecast_request,
    with_changes,
)
from core.memory.remedies import Remedy, ladder
from core.options import RunOptions, run_file
from core.options.device_support import DeviceReport, find_device, machine_problems
from core.runs.words import changes_text
from core.services import hub, questions
from core.services import hub as model_lookup
from core.services.autofit import Fitting, MakeDryRun, Try
from core.services.memory import DryRun, room_of

# --- The model that a run file asks for, looked at before its memory is told


def model_here(options: RunOptions, file: Path) -> ModelReport:
    """What a model on this computer is; the network is not used.

    Args:
        options: What is asked.
        file: The run file it stands in.

    Raises:
        OptionsError: The model can't be trained so.
        ModelError: It isn't on this computer, or nobody knows how it is built.
    """
    return _checked(_looked_at(options), options, file)


def described_model(options: RunOptions, file: Path, *, offline: bool) -> ModelReport:
    """The same; of a model on the Hub that isn't here, its config.json is fetched, which is said on standard error.

    Args:
        options: What is asked.
        file: The run file it stands in.
        offline: Whether this command must not fetch anything; `HF_HUB_OFFLINE` forbids it to all programs.

    Raises:
        OptionsError: The model can't be trained so.
        ModelError: Its config.json can't be had, the person has forbidden to fetch it, or it doesn't tell the size.
    """
    source = options.model.source
    report = _looked_at(options)
    if report == ModelReport() and hub.may_be_there(options):
        if offline or hub.is_forbidden():
            raise hub.forbidden(source, "--offline" if offline else hub.forbidden_by())
        say(
            f"Fetching what describes {source} ({hub.CONFIG}, a few KB) from {hub.host()} ...",
            sys.stderr,
        )
        questions.ask_fetch_config(source)
        report = _looked_at(options)
    return _checked(report, options, file)


def refuse_incomplete(options: RunOptions) -> None:
    """Stop where a dry run would find no weights: it trains the model itself, and fetches nothing.

    Raises:
        ModelError: Not all of the model is on this computer.
    """
    if not model_lookup.is_complete(options):
        raise _not_here(options)


def _looked_at(options: RunOptions) -> ModelReport:
    question = model_lookup.question_about(options)
    return questions.ask_check_model(question) if question is not None else ModelReport()


def _checked(report: ModelReport, options: RunOptions, file: Path) -> ModelReport:
    if report.problems:
        raise OptionsError(report.problems, str(file))
    if report.shape is None and report.architecture:
        raise ModelError(
            f"What {options.model.source} takes can't be told before it runs",
            f"Hone doesn't know how {report.architecture} is built.",
        )
    if report.shape is None:
        raise _not_here(options)
    return report


def _not_here(options: RunOptions) -> ModelError:
    source = options.model.source
    return ModelError(
        f"{source} isn't on this computer yet",
        f"A run fetches it; so does `hf download {source}`. To tell its memory by a forecast, `hone forecast` fetches "
        f"no more than its {hub.CONFIG}.",
    )


# --- How much memory a run takes, and what to do about it, in plain text for a terminal


MEGABYTE = 1 << 20

METHODS = {
    Basis.FORMULA: "forecast",
    Basis.MEASURED: "measured by a dry run on the longest batch",
}
VERDICTS = {
    Verdict.FITS: "It fits.",
    Verdict.TIGHT: "It fits, with less than a tenth to spare.",
    Verdict.TOO_LARGE: "It doesn't fit.",
    Verdict.UNKNOWN: "How much memory this device has isn't known.",
}


def forecast_lines(found: Forecast) -> list[str]:
    """A forecast for a terminal, in MB of 1024 x 1024 bytes."""
    lines = [*_part_lines(found.parts, found.room), "", f"On {found.device}, {METHODS[found.basis]}."]
    if found.length is not None:
        is_padded = found.longest_text is not None and found.longest_text < found.length
        padding = f", padding counted; the longest text has {found.longest_text:,}" if is_padded else ""
        lines.append(f"The longest row has {found.length:,} tokens{padding}.")
    if found.correction != 1.0:
        lines.append(f"Corrected by {found.correction:.2f}, as past runs on this device have taught.")
    return [*lines, *found.notes, VERDICTS[found.verdict]]


def _part_lines(parts: Parts, room: Room | None) -> list[str]:
    rows = [(title, _megabytes(getattr(parts, name))) for name, title in PART_TITLES.items()]
    rows.append(("Total", _megabytes(parts.total)))
    if room is not None:
        rows += [("Free now", _megabytes(room.free)), ("Ceiling", _megabytes(room.ceiling))]
    width = max(len(count) for _, count in rows)
    return [
        figures.table(("PART", "MB".rjust(width)), [(title, count.rjust(width)) for title, count in rows])
    ]


def _megabytes(count: int) -> str:
    return f"{count / MEGABYTE:,.0f}"


def measurement_lines(found: Measurement) -> list[str]:
    """A dry run's answer for a terminal."""
    if found.out_of_memory:
        return ["Memory ran out.", found.out_of_memory]
    lines = forecast_lines(found.forecast)
    if found.longest_step_seconds is not None:
        lines.append(f"A step on the longest batch takes {figures.number(found.longest_step_seconds)} s.")
    if found.step_seconds is not None:
        lines.append(f"An ordinary step takes {figures.number(found.step_seconds)} s.")
    if found.was_disturbed:
        lines.append(
            "It can't take longer than the longest: other programs were busy. Measure again for true times."
        )
    if found.compile_seconds:
        lines.append(f"Compiling took {figures.plain_duration(found.compile_seconds)}.")
    if found.run_seconds is not None and found.total_steps is not None:
        steps = figures.counted(found.total_steps, "step")
        lines.append(f"{steps} take about {figures.plain_duration(found.run_seconds)}, without evaluation.")
    return lines


def ladder_lines(remedies: tuple[Remedy, ...]) -> list[str]:
    """What to do, a line a remedy, the one that loses least first."""
    rows = [
        (
            remedy.title,
            f"{_megabytes(remedy.saves)} MB" if remedy.changes else figures.PLAIN_MISSING,
            f"x {remedy.slower:.2f}" if remedy.changes else figures.PLAIN_MISSING,
            _enough(remedy),
            changes_text(remedy.changes) if remedy.changes else remedy.help,
        )
        for remedy in remedies
    ]
    return ["", figures.table(("WHAT TO DO", "SAVES", "TIME", "ENOUGH", "SET"), rows)] if rows else []


def _enough(remedy: Remedy) -> str:
    """Whether a remedy makes the run fit by itself, with a tenth to spare."""
    if not remedy.changes:
        return figures.PLAIN_MISSING
    return {Verdict.FITS: "yes", Verdict.TIGHT: "barely"}.get(remedy.forecast.verdict, "no")


def try_line(done: Try) -> str:
    """What came of one try of `hone fit`; which one it is has been said as it began."""
    found = done.measurement
    if found is None:
        return f"  It failed: {done.problem}"
    if found.out_of_memory:
        return f"  Too large: {found.out_of_memory}"
    step = figures.number(found.step_seconds) if found.step_seconds is not None else figures.PLAIN_MISSING
    words = {Verdict.FITS: "fits", Verdict.TIGHT: "too tight", Verdict.TOO_LARGE: "too large"}
    return f"  {figures.size(found.peak)} at most, {step} s a step: {words[done.verdict]}"


# --- `hone forecast`, `hone measure` and `hone fit`: how much memory a run takes


SUFFIX = ".fits.hone"

FindModel = Callable[[RunOptions, Path], ModelReport]


class ForecastAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What `hone forecast --json` prints. Bytes; `fits` is missing where the memory isn't known."""

    method: Basis
    device: str
    parts: Parts
    total: int
    free: int | None
    ceiling: int | None
    fits: bool | None
    verdict: Verdict
    correction: float
    length: int | None
    longest_text: int | None
    notes: tuple[str, ...]
    ladder: tuple[Remedy, ...]


class MeasureAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What `hone measure --json` prints."""

    measurement: Measurement
    verdict: Verdict
    ladder: tuple[Remedy, ...]


class FitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What `hone fit --json` prints.

    `changes` is missing where nothing fits, which `reason` explains; `file` also where nothing had to be written.
    """

    tries: tuple[Try, ...]
    changes: dict[str, Any] | None
    file: str | None
    reason: str


@dataclass(frozen=True)
class _Looked:
    """A run file, and all there is to know before its memory can be told."""

    options: RunOptions
    device: DeviceReport
    room: Room | None
    model: ModelReport

    @property
    def correction(self) -> float:
        return correction(self.device.title)

    def ladder(self, length: int | None) -> tuple[Remedy, ...]:
        return ladder(
            self.options, self.model, self.device, self.room, length=length, correction=self.correction
        )


def forecast(
    file: Path, overrides: tuple[str, ...], *, quick: bool, as_json: bool, offline: bool = False
) -> int:
    """Print how much memory a run takes, and what to do where that is too much.

    Args:
        file: The run file.
        overrides: `section.option=value` pairs that go before what the file says.
        quick: Whether to leave the data unread: every row is taken to be as long as is allowed.
        as_json: Whether the answer is printed as JSON.
        offline: Whether nothing may be fetched: not even the config.json of a model that isn't on this computer.

    Returns:
        0, or 3 where it doesn't fit.

    Raises:
        OptionsError: The request is wrong.
        UserError: The model isn't on this computer, and its config.json can't be fetched.
    """
    if not as_json:
        say("Looking at the model and this computer ...", sys.stderr)
    looked = _look(file, overrides, partial(described_model, offline=offline))
    found = _without_data(looked) if quick else _forecast(looked)
    remedies = looked.ladder(found.unpadded_length) if found.verdict is not Verdict.FITS else ()
    if as_json:
        print_json(_as_answer(found, remedies))
    else:
        say("\n".join((*forecast_lines(found), *ladder_lines(remedies))))
    return TOO_LARGE if found.verdict is Verdict.TOO_LARGE else 0


def measure(file: Path, overrides: tuple[str, ...], *, as_json: bool, dry_run: MakeDryRun = DryRun) -> int:
    """Make a dry run and print what it took; 3 where memory ran out or the run doesn't fit.

    Raises:
        OptionsError: The request is wrong.
        UserError: The run can't be made.
    """
    looked = _look(file, overrides)
    refuse_incomplete(looked.options)
    if not as_json:
        say("Measuring: some steps on the longest batch of the data ...", sys.stderr)
    found = dry_run(_on_device(looked), looked.room).run()
    too_large = bool(found.out_of_memory)
    verdict = Verdict.TOO_LARGE if too_large else found.forecast.verdict
    remedies = looked.ladder(found.forecast.unpadded_length) if verdict is not Verdict.FITS else ()
    if as_json:
        print_json(MeasureAnswer(measurement=found, verdict=verdict, ladder=remedies))
    else:
        say("\n".join((*measurement_lines(found), *ladder_lines(remedies))))
    return TOO_LARGE if verdict is Verdict.TOO_LARGE else 0


def fit(
    file: Path,
    overrides: tuple[str, ...],
    output: Path | None,
    *,
    as_json: bool,
    dry_run: MakeDryRun = DryRun,
) -> int:
    """Find by dry runs what fits, and write it to a new run file.

    A run that fits as it is needs no other file: one is written only where it was asked for by name.

    Args:
        file: The run file, which is left as it is.
        overrides: `section.option=value` pairs that go before what the file says.
        output: The file to write, which must be new; None: beside the run file, as `NAME.fits.hone`.
        as_json: Whether the answer is printed as JSON.
        dry_run: What measures.

    Returns:
        0; 3 where nothing fits, and 1 where dry runs fail for another reason than memory.

    Raises:
        OptionsError: The request is wrong.
        TargetError: The file to write is there already, or it can't be written there.
    """
    target = output or file.with_name(file.stem + SUFFIX)
    new_file(target)  # said now, not after minutes of dry runs
    looked = _look(file, overrides)
    refuse_incomplete(looked.options)
    fitting = Fitting(
        looked.options,
        looked.model,
        looked.device,
        looked.room,
        dry_run,
        length=_longest_text(looked),
        correction=looked.correction,
    )
    tries: list[Try] = []
    fitting.heed(lambda title: say(f"Try {len(tries) + 1}: {title}", sys.stderr))
    for done in fitting.tries():
        tries.append(done)
        say(try_line(done), sys.stderr)
    written = _write(fitting, file, target, is_asked_for=output is not None)
    _tell_fit(fitting, tuple(tries), written, as_json=as_json)
    if fitting.result is not None:
        return 0
    return TOO_LARGE if fitting.is_too_large else 1


def _write(fitting: Fitting, file: Path, target: Path, *, is_asked_for: bool) -> Path | None:
    """Write what was found; None: nothing was, or it fits as it is and nobody has asked for a file."""
    if fitting.result is None or not (fitting.changes or is_asked_for):
        return None
    with writing(target):
        run_file.write(
            fitting.result, target, f"Made by `hone fit` of {file}. {_fits_words(fitting.changes)}"
        )
    return target


def _tell_fit(fitting: Fitting, tries: tuple[Try, ...], written: Path | None, *, as_json: bool) -> None:
    found = fitting.changes
    if as_json:
        name = None if written is None else str(written)
        print_json(FitAnswer(tries=tries, changes=found, file=name, reason=fitting.reason))
    elif found is None:
        say(f"Nothing was found. {fitting.reason}", sys.stderr)
    else:
        say(_fits_words(found))
        say("Nothing was written." if written is None else f"The run file is {written}")


def _fits_words(changes: dict[str, Any] | None) -> str:
    return f"It fits with {changes_text(changes)}." if changes else "It fits as it is."


def _look(file: Path, overrides: tuple[str, ...], find: FindModel = model_here) -> _Looked:
    options = run_file.read(file, overrides)
    machine = questions.ask_devices()
    problems = tuple(machine_problems(machine, options))
    if problems:
        raise OptionsError(problems, str(file))
    device = find_device(machine, options.device.name)
    assert device is not None, "machine_problems has looked"
    room = room_of(device, mps_limit=options.device.mps_memory_limit)
    return _Looked(options, device, room, find(options, file))


def _without_data(looked: _Looked) -> Forecast:
    assert looked.model.shape is not None, "looked at before"
    return anatomy.forecast(
        looked.options, looked.model.shape, looked.device, room=looked.room, correction=looked.correction
    )


def _forecast(looked: _Looked) -> Forecast:
    """The forecast with the longest row of the data; without the data where the engine can't answer, which is said."""
    try:
        found = questions.ask_forecast(forecast_request(looked.options))
    except (UserError, EngineCrashed) as error:
        say(
            f"Note: the data could not be read, so this is for rows as long as is allowed. {error}",
            sys.stderr,
        )
        return _without_data(looked)
    return corrected(msgspec.structs.replace(found, room=looked.room), looked.correction)


def _longest_text(looked: _Looked) -> int | None:
    """Tokens of the longest text; None: there are no texts."""
    return _forecast(looked).unpadded_length if looked.options.task.reads_text else None


def _on_device(looked: _Looked) -> RunOptions:
    """The options with the device that "automatic" came to: the guard has to know whose memory it looks at."""
    return with_changes(looked.options, {"device.name": looked.device.name})


def _as_answer(found: Forecast, remedies: tuple[Remedy, ...]) -> ForecastAnswer:
    room, verdict = found.room, found.verdict
    return ForecastAnswer(
        method=found.basis,
        device=found.device,
        parts=found.parts,
        total=found.parts.total,
        free=room.free if room else None,
        ceiling=room.ceiling if room else None,
        fits=None if verdict is Verdict.UNKNOWN else verdict is not Verdict.TOO_LARGE,
        verdict=verdict,
        correction=found.correction,
        length=found.length,
        longest_text=found.longest_text,
        notes=found.notes,
        ladder=remedies,
    )
