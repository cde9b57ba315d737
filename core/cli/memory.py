"""Commands about memory: forecast, measure and fit."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from core.base import formats
from core.base.errors import ModelError, OptionsError, UserError
from core.base.files import new_file, writing
from core.base.jobs import EngineCrashed, run_job
from core.base.language import _
from core.cli.output import TOO_LARGE, add_command, add_json, print_json, say
from core.cli.train import add_set
from core.memory import estimate
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
    options_request,
)
from core.memory.remedies import Remedy, ladder
from core.options import RunOptions, run_file
from core.options.catalogue import with_changes
from core.options.device_support import DeviceReport, MachineReport, find_device, machine_problems
from core.runs.words import changes_text
from core.services import hub
from core.services.autofit import Fitting, Try
from core.services.hub import ConfigFetched, ConfigRequest
from core.services.memory import DryRun, room_of

if TYPE_CHECKING:
    from core.cli.output import Commands

SUFFIX = ".fits.hone"
MEGABYTE = 1 << 20
FETCH_SECONDS = 60.0
"""Timeout for downloading a config.json of a few KB."""

METHODS = {
    Basis.FORMULA: "forecast",
    Basis.MEASURED: _("measured by a dry run on the longest batch"),
}
VERDICTS = {
    Verdict.FITS: _("It fits."),
    Verdict.TIGHT: _("It fits, with less than a tenth to spare."),
    Verdict.TOO_LARGE: _("It doesn't fit."),
    Verdict.UNKNOWN: _("How much memory this device has isn't known."),
}

FindModel = Callable[[RunOptions, Path], ModelReport]


def add_commands(commands: "Commands") -> None:
    command = add_command(
        commands,
        "forecast",
        forecast,
        summary=_("show how much memory a run will take"),
        example="mine.hone --set memory.batch_size=32",
        details=(
            _(
                "Nothing is trained. For a model on the Hugging Face Hub that isn't on this computer, its "
                "config.json is downloaded, and no weights. Ends with 3 when the run doesn't fit, and lists "
                "what to do."
            )
        ),
    )
    _add_run_file(command)
    command.add_argument(
        "--quick", action="store_true", help=_("without reading the data: rows as long as is allowed")
    )
    command.add_argument(
        "--offline", action="store_true", help="download nothing; the same as HF_HUB_OFFLINE=1"
    )

    command = add_command(
        commands,
        "measure",
        measure,
        summary=_("train a few steps to measure memory and time"),
        example="mine.hone",
        details=(
            _(
                "Runs in a process of its own, the longest batch of the data first. Nothing is kept. Ends "
                "with 3 when the run doesn't fit."
            )
        ),
    )
    _add_run_file(command)

    command = add_command(
        commands,
        "fit",
        fit,
        summary=_("find by trying what makes a run fit"),
        example="mine.hone --output smaller.hone",
        details=(
            "Measures one combination of smaller batches, half precision and the like after another, "
            "until one fits with 10 % to spare, and writes it to a new run file: the fastest of those "
            "that keep the result, else of those that lose least. A run that fits as it is is written "
            "only with --output. Ends with 3 when nothing fits."
        ),
    )
    _add_run_file(command)
    command.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help="a new file; default: NAME.fits.hone beside RUN.hone",
    )


def _add_run_file(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="RUN.hone")
    add_set(command)
    add_json(command)


class ForecastAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What `hone forecast --json` prints. In bytes; `fits` is null where the memory isn't known."""

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

    `changes` is null where nothing fits, which `reason` explains; `file` also where nothing had to be written.
    """

    tries: tuple[Try, ...]
    changes: dict[str, Any] | None
    file: str | None
    reason: str


@dataclass(frozen=True)
class _Situation:
    """A run file with the device, its free memory and the model."""

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

    def forecast_without_data(self) -> Forecast:
        assert self.model.shape is not None, "checked before"
        return estimate.forecast(
            self.options, self.model.shape, self.device, room=self.room, correction=self.correction
        )

    def forecast(self) -> Forecast:
        """The forecast with the longest row of the data; without the data where it can't be read, which is said."""
        try:
            found = run_job("forecast", options_request(self.options), Forecast)
        except (UserError, EngineCrashed) as error:
            note = _("the data could not be read, so this is for rows as long as is allowed")
            say(f"Note: {note}. {error}", sys.stderr)
            return self.forecast_without_data()
        return corrected(msgspec.structs.replace(found, room=self.room), self.correction)


def _look(arguments: argparse.Namespace, find_model: FindModel) -> _Situation:
    options = run_file.read(arguments.file, tuple(arguments.overrides))
    machine = run_job("devices", None, MachineReport)
    problems = tuple(machine_problems(machine, options))
    if problems:
        raise OptionsError(problems, str(arguments.file))
    device = find_device(machine, options.device.name)
    assert device is not None, "machine_problems has looked"
    room = room_of(device, mps_limit=options.device.mps_memory_limit)
    return _Situation(options, device, room, find_model(options, arguments.file))


def forecast(arguments: argparse.Namespace) -> int:
    if not arguments.json:
        say(_("Looking at the model and this computer ..."), sys.stderr)
    looked = _look(arguments, partial(described_model, offline=arguments.offline))
    found = looked.forecast_without_data() if arguments.quick else looked.forecast()
    remedies = looked.ladder(found.unpadded_length) if found.verdict is not Verdict.FITS else ()
    if arguments.json:
        print_json(_as_answer(found, remedies))
    else:
        say("\n".join((*forecast_lines(found), *ladder_lines(remedies))))
    return TOO_LARGE if found.verdict is Verdict.TOO_LARGE else 0


def measure(arguments: argparse.Namespace) -> int:
    looked = _look(arguments, weighable_model)
    if not arguments.json:
        say(_("Measuring: some steps on the longest batch of the data ..."), sys.stderr)
    # what "automatic" means here: the guard has to know whose memory it looks at
    found = DryRun(with_changes(looked.options, {"device.name": looked.device.name}), looked.room).run()
    verdict = Verdict.TOO_LARGE if found.out_of_memory else found.forecast.verdict
    remedies = looked.ladder(found.forecast.unpadded_length) if verdict is not Verdict.FITS else ()
    if arguments.json:
        print_json(MeasureAnswer(measurement=found, verdict=verdict, ladder=remedies))
    else:
        say("\n".join((*measurement_lines(found), *ladder_lines(remedies))))
    return TOO_LARGE if verdict is Verdict.TOO_LARGE else 0


def fit(arguments: argparse.Namespace) -> int:
    """Returns 3 where nothing fits, and 1 where dry runs fail for another reason than memory."""
    target = arguments.output or arguments.file.with_name(arguments.file.stem + SUFFIX)
    new_file(target)  # refused now, not after minutes of dry runs
    looked = _look(arguments, weighable_model)
    fitting = Fitting(
        looked.options,
        looked.model,
        looked.device,
        looked.room,
        DryRun,
        length=looked.forecast().unpadded_length if looked.options.task.reads_text else None,
        correction=looked.correction,
    )
    tries: list[Try] = []
    fitting.heed(
        lambda title: say(_("Try {tries}: {title}").format(tries=len(tries) + 1, title=title), sys.stderr)
    )
    for done in fitting.tries():
        tries.append(done)
        say(try_line(done), sys.stderr)
    changes = fitting.changes
    words = (
        _("It fits with {changes}.").format(changes=changes_text(changes))
        if changes
        else _("It fits as it is.")
    )
    written = None
    if fitting.result is not None and (changes or arguments.output is not None):
        with writing(target):
            run_file.write(
                fitting.result,
                target,
                _("Made by `hone fit` of {file}. {words}").format(file=arguments.file, words=words),
            )
        written = str(target)
    if arguments.json:
        print_json(FitAnswer(tries=tuple(tries), changes=changes, file=written, reason=fitting.reason))
    elif changes is None:
        say(_("Nothing was found. {reason}").format(reason=fitting.reason), sys.stderr)
    else:
        say(f"{words}\n{'Nothing was written.' if written is None else f'The run file is {written}'}")
    if fitting.result is not None:
        return 0
    return TOO_LARGE if fitting.is_too_large else 1


# --- The model that a run file asks for


def weighable_model(options: RunOptions, file: Path) -> ModelReport:
    """A model that is whole on this computer; nothing is downloaded.

    Raises:
        OptionsError: The model can't be trained so.
        ModelError: Not all of it is on this computer, or its architecture is unknown.
    """
    found = _checked(_look_at_model(options), options, file)
    if not hub.is_complete(options):
        raise _not_here(options)
    return found


def described_model(options: RunOptions, file: Path, *, offline: bool) -> ModelReport:
    """The same; for a model on the Hub that isn't here, its config.json is downloaded, which is said.

    Raises:
        OptionsError: The model can't be trained so.
        ModelError: Its config.json can't or must not be downloaded, or it doesn't tell the size.
    """
    source = options.model.source
    report = _look_at_model(options)
    if report == ModelReport() and hub.may_be_there(options):
        if offline or hub.is_forbidden():
            raise hub.not_here(source, "--offline" if offline else "")
        say(
            _("Fetching what describes {source} ({config}, a few KB) from {host} ...").format(
                source=source, config=hub.CONFIG, host=hub.host()
            ),
            sys.stderr,
        )
        run_job("fetch-config", ConfigRequest(source=source), ConfigFetched, timeout=FETCH_SECONDS)
        report = _look_at_model(options)
    return _checked(report, options, file)


def _look_at_model(options: RunOptions) -> ModelReport:
    question = hub.question_about(options)
    return run_job("check-model", question, ModelReport) if question is not None else ModelReport()


def _checked(report: ModelReport, options: RunOptions, file: Path) -> ModelReport:
    if report.problems:
        raise OptionsError(report.problems, str(file))
    if report.shape is None and report.architecture:
        raise ModelError(
            _("What {source} takes can't be told before it runs").format(source=options.model.source),
            _("Hone doesn't know how {architecture} is built.").format(architecture=report.architecture),
        )
    if report.shape is None:
        raise _not_here(options)
    return report


def _not_here(options: RunOptions) -> ModelError:
    source = options.model.source
    return ModelError(
        _("{source} isn't on this computer yet").format(source=source),
        f"A run fetches it; so does `hf download {source}`. To tell its memory by a forecast, `hone forecast` fetches "
        f"no more than its {hub.CONFIG}.",
    )


# --- Answers in words; MB are 1024 x 1024 bytes


def forecast_lines(found: Forecast) -> list[str]:
    """A forecast for a terminal, in MB of 1024 x 1024 bytes."""
    lines = [
        *_part_lines(found.parts, found.room),
        "",
        _("On {device}, {methods}.").format(device=found.device, methods=METHODS[found.basis]),
    ]
    if found.length is not None:
        is_padded = found.longest_text is not None and found.longest_text < found.length
        padding = f", padding counted; the longest text has {found.longest_text:,}" if is_padded else ""
        lines.append(
            _("The longest row has {length:,} tokens{padding}.").format(length=found.length, padding=padding)
        )
    if found.correction != 1.0:
        lines.append(
            _("Corrected by {correction:.2f}, as past runs on this device have taught.").format(
                correction=found.correction
            )
        )
    return [*lines, *found.notes, VERDICTS[found.verdict]]


def _part_lines(parts: Parts, room: Room | None) -> list[str]:
    rows = [(title, _megabytes(getattr(parts, name))) for name, title in PART_TITLES.items()]
    rows.append(("Total", _megabytes(parts.total)))
    if room is not None:
        rows += [(_("Free now"), _megabytes(room.free)), ("Ceiling", _megabytes(room.ceiling))]
    width = max(len(count) for _rest, count in rows)
    return [
        formats.table(("PART", "MB".rjust(width)), [(title, count.rjust(width)) for title, count in rows])
    ]


def _megabytes(count: int) -> str:
    return f"{count / MEGABYTE:,.0f}"


def measurement_lines(found: Measurement) -> list[str]:
    """A dry run's answer for a terminal."""
    if found.out_of_memory:
        return [_("Memory ran out."), found.out_of_memory]
    lines = forecast_lines(found.forecast)
    if found.longest_step_seconds is not None:
        lines.append(
            _("A step on the longest batch takes {longest_step_seconds} s.").format(
                longest_step_seconds=formats.number(found.longest_step_seconds)
            )
        )
    if found.step_seconds is not None:
        lines.append(
            _("An ordinary step takes {step_seconds} s.").format(
                step_seconds=formats.number(found.step_seconds)
            )
        )
    if found.was_disturbed:
        lines.append(
            _(
                "It can't take longer than the longest: other programs were busy. Measure again for "
                "true times."
            )
        )
    if found.compile_seconds:
        lines.append(
            _("Compiling took {compile_seconds}.").format(
                compile_seconds=formats.plain_duration(found.compile_seconds)
            )
        )
    if found.run_seconds is not None and found.total_steps is not None:
        steps = formats.counted(found.total_steps, "step")
        lines.append(
            _("{steps} take about {run_seconds}, without evaluation.").format(
                steps=steps, run_seconds=formats.plain_duration(found.run_seconds)
            )
        )
    return lines


def ladder_lines(remedies: tuple[Remedy, ...]) -> list[str]:
    """What to do, a line a remedy, the one that loses least first."""
    rows = [
        (
            remedy.title,
            f"{_megabytes(remedy.saves)} MB" if remedy.changes else formats.PLAIN_MISSING,
            f"x {remedy.slower:.2f}" if remedy.changes else formats.PLAIN_MISSING,
            _enough(remedy),
            changes_text(remedy.changes) if remedy.changes else remedy.help,
        )
        for remedy in remedies
    ]
    return ["", formats.table((_("WHAT TO DO"), "SAVES", "TIME", "ENOUGH", "SET"), rows)] if rows else []


def _enough(remedy: Remedy) -> str:
    """Whether a remedy makes the run fit by itself, with a tenth to spare."""
    if not remedy.changes:
        return formats.PLAIN_MISSING
    return {Verdict.FITS: "yes", Verdict.TIGHT: "barely"}.get(remedy.forecast.verdict, "no")


def try_line(done: Try) -> str:
    """What came of one try of `hone fit`; which one it is has been said as it began."""
    found = done.measurement
    if found is None:
        return _("  It failed: {problem}").format(problem=done.problem)
    if found.out_of_memory:
        return _("  Too large: {out_of_memory}").format(out_of_memory=found.out_of_memory)
    step = formats.number(found.step_seconds) if found.step_seconds is not None else formats.PLAIN_MISSING
    words = {Verdict.FITS: "fits", Verdict.TIGHT: _("too tight"), Verdict.TOO_LARGE: _("too large")}
    return _("  {peak} at most, {step} s a step: {words}").format(
        peak=formats.size(found.peak), step=step, words=words[done.verdict]
    )


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
