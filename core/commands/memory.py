"""`hone forecast`, `hone measure` and `hone fit`: how much memory a run takes, and what to do if that is too much."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from core import jobs, model_lookup, run_file
from core.capabilities import find_device, machine_problems
from core.commands.memory_text import forecast_lines, ladder_lines, measurement_lines, try_line
from core.commands.output import print_json
from core.commands.run_text import changes_text
from core.errors import ModelError, OptionsError, Problem, UserError
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

SUFFIX = ".fits.hone"


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
    """What `hone fit --json` prints. `changes` and `file` are missing where nothing fits, which `reason` explains."""

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


def forecast(file: Path, overrides: tuple[str, ...], *, quick: bool, as_json: bool) -> int:
    """Print how much memory a run takes, and what to do where that is too much.

    Args:
        file: The run file.
        overrides: `section.option=value` pairs that go before what the file says.
        quick: Whether the formulas will do; otherwise the run is traced, which takes seconds.
        as_json: Whether the answer is printed as JSON.

    Returns:
        0, or 1 where it doesn't fit.

    Raises:
        OptionsError: The request is wrong.
        ModelError: The model isn't on this computer.
    """
    if not as_json:
        print("Looking at the model and this computer ...", file=sys.stderr)
    looked = _look(file, overrides)
    found = _formula(looked) if quick else _trace(looked)
    remedies = looked.ladder(found.unpadded_length) if found.verdict is not Verdict.FITS else ()
    if as_json:
        print_json(_as_answer(found, remedies))
    else:
        print("\n".join((*forecast_lines(found), *ladder_lines(remedies))))
    return 1 if found.verdict is Verdict.TOO_LARGE else 0


def measure(file: Path, overrides: tuple[str, ...], *, as_json: bool, dry_run: MakeDryRun = DryRun) -> int:
    """Make a dry run and print what it took; 1 where memory ran out or the run doesn't fit.

    Raises:
        OptionsError: The request is wrong.
        UserError: The run can't be made.
    """
    looked = _look(file, overrides)
    if not as_json:
        print("Measuring: some steps on the longest batch of the data ...", file=sys.stderr)
    found = dry_run(_on_device(looked), looked.room).run()
    too_large = bool(found.out_of_memory)
    verdict = Verdict.TOO_LARGE if too_large else found.forecast.verdict
    remedies = looked.ladder(found.forecast.unpadded_length) if verdict is not Verdict.FITS else ()
    if as_json:
        print_json(MeasureAnswer(measurement=found, verdict=verdict, ladder=remedies))
    else:
        print("\n".join((*measurement_lines(found), *ladder_lines(remedies))))
    return 1 if verdict is Verdict.TOO_LARGE else 0


def fit(
    file: Path,
    overrides: tuple[str, ...],
    output: Path | None,
    *,
    as_json: bool,
    dry_run: MakeDryRun = DryRun,
) -> int:
    """Find by dry runs what fits, and write it to a new run file; 1 where nothing does.

    Args:
        file: The run file, which is left as it is.
        overrides: `section.option=value` pairs that go before what the file says.
        output: The file to write, which must be new; None: beside the run file, as `NAME.fits.hone`.
        as_json: Whether the answer is printed as JSON.
        dry_run: What measures.

    Raises:
        OptionsError: The request is wrong, or the file to write is there already.
    """
    target = output or file.with_name(file.stem + SUFFIX)
    if target.exists():  # said now, not after minutes of dry runs
        raise OptionsError((Problem("", f"{target} is there already; choose another name"),))
    looked = _look(file, overrides)
    fitting = Fitting(
        looked.options, looked.model, looked.device, looked.room, dry_run, correction=looked.correction
    )
    tries: list[Try] = []
    fitting.heed(lambda title: print(f"Try {len(tries) + 1}: {title}", file=sys.stderr, flush=True))
    for done in fitting.tries():
        tries.append(done)
        print(try_line(done), file=sys.stderr)
    if fitting.result is not None:
        run_file.write(fitting.result, target)
    _tell_fit(fitting, tuple(tries), target, as_json=as_json)
    return 0 if fitting.result is not None else 1


def _tell_fit(fitting: Fitting, tries: tuple[Try, ...], target: Path, *, as_json: bool) -> None:
    found = fitting.changes
    if as_json:
        file = None if found is None else str(target)
        print_json(FitAnswer(tries=tries, changes=found, file=file, reason=fitting.reason))
    elif found is None:
        print(f"Nothing was found. {fitting.reason}", file=sys.stderr)
    else:
        print("It fits as it is." if not found else f"It fits with {changes_text(found)}.")
        print(f"The run file is {target}")


def _look(file: Path, overrides: tuple[str, ...]) -> _Looked:
    options = run_file.read(file, overrides)
    machine = jobs.ask_devices()
    problems = tuple(machine_problems(machine, options))
    if problems:
        raise OptionsError(problems, str(file))
    device = find_device(machine, options.device.name)
    assert device is not None, "machine_problems has looked"
    room = room_of(device, mps_limit=options.device.mps_memory_limit)
    return _Looked(options, device, room, _model(options, file))


def _model(options: RunOptions, file: Path) -> ModelReport:
    question = model_lookup.question_about(options)
    report = jobs.ask_check_model(question) if question is not None else ModelReport()
    if report.problems:
        raise OptionsError(report.problems, str(file))
    if report.shape is None:
        raise ModelError(
            f"{options.model.source} isn't on this computer yet",
            "Its memory is told from its config. A run fetches it; so does `hf download` of huggingface_hub.",
        )
    return report


def _formula(looked: _Looked) -> Forecast:
    assert looked.model.shape is not None, "looked at before"
    return anatomy.forecast(
        looked.options, looked.model.shape, looked.device, room=looked.room, correction=looked.correction
    )


def _trace(looked: _Looked) -> Forecast:
    """The trace; the formula where there is none to be had, which is said."""
    try:
        traced = jobs.ask_forecast(forecast_request(looked.options))
    except (UserError, EngineCrashed) as error:
        print(f"Note: the run could not be traced, so this is by formula. {error}", file=sys.stderr)
        return _formula(looked)
    return corrected(msgspec.structs.replace(traced, room=looked.room), looked.correction)


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
