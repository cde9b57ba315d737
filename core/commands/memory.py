"""`hone forecast`, `hone measure` and `hone fit`: how much memory a run takes, and what to do if that is too much."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from core import questions, run_file
from core.capabilities import find_device, machine_problems
from core.commands.asked_model import described_model, model_here, refuse_incomplete
from core.commands.attendance import TOO_LARGE
from core.commands.memory_text import forecast_lines, ladder_lines, measurement_lines, try_line
from core.commands.output import print_json, say
from core.commands.run_text import changes_text
from core.errors import OptionsError, UserError
from core.jobs import EngineCrashed
from core.memory import anatomy
from core.memory.changes import with_changes
from core.memory.fitting import Fitting, MakeDryRun, Try
from core.memory.forecast import Basis, Forecast, Measurement, Parts, Room, Verdict, forecast_request
from core.memory.ladder import Remedy, ladder
from core.memory.measuring import DryRun
from core.memory.record import corrected, correction
from core.memory.room import room_of
from core.model_report import ModelReport
from core.options import RunOptions
from core.reports import DeviceReport
from core.targets import new_file, writing

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
        quick: Whether the formulas will do; otherwise the run is traced, which takes seconds.
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
    found = _formula(looked) if quick else _trace(looked)
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


def _formula(looked: _Looked) -> Forecast:
    assert looked.model.shape is not None, "looked at before"
    return anatomy.forecast(
        looked.options, looked.model.shape, looked.device, room=looked.room, correction=looked.correction
    )


def _trace(looked: _Looked) -> Forecast:
    """The trace; the formula where there is none to be had, which is said."""
    try:
        traced = questions.ask_forecast(forecast_request(looked.options))
    except (UserError, EngineCrashed) as error:
        say(f"Note: the run could not be traced, so this is by formula. {error}", sys.stderr)
        return _formula(looked)
    return corrected(msgspec.structs.replace(traced, room=looked.room), looked.correction)


def _longest_text(looked: _Looked) -> int | None:
    """Tokens of the longest text, which takes a trace to know; None: there are no texts."""
    return _trace(looked).unpadded_length if looked.options.task.reads_text else None


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
