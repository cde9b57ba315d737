"""Commands about memory: forecast, measure and fit. MB are 1024 x 1024 bytes."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from core.base import formats
from core.base.errors import ModelError, OptionsError, UserError
from core.base.files import new_file, writing
from core.base.jobs import EngineCrashed, run_job
from core.base.language import _
from core.cli.data import problem_lines
from core.cli.output import (
    OFFLINE_HELP,
    SEND_HELP,
    TOO_LARGE,
    CommandParsers,
    add_flag,
    add_json,
    add_set,
    ask_to_send,
    named_in,
    note,
    print_answer,
)
from core.hosts.install import with_computers
from core.jobs.hub import ConfigFetched, ConfigRequest
from core.jobs.inspect import DataReport, inspect_request
from core.memory import estimate, model
from core.memory.estimate import corrected
from core.memory.explain import NO_GRADIENTS
from core.memory.history import correction, taught_as
from core.memory.model import (
    PART_TITLES,
    Basis,
    FitVerdict,
    Forecast,
    Measurement,
    ModelReport,
    Room,
    options_request,
)
from core.memory.remedies import Remedy, ladder
from core.monitor.device_memory import room_of
from core.options import RunOptions, hub, run_file
from core.options.catalogue import with_changes
from core.options.device_support import (
    DeviceReport,
    MachineReport,
    find_device,
    machine_problems,
    without_mlx,
)
from core.options.sources import Scheme, scheme_of
from core.runs.words import changes_text, error_text
from core.services.autofit import Fitting, Try
from core.services.memory import DryRun

SUFFIX = ".fits.hone"
FETCH_SECONDS = 60.0
"""Timeout for downloading a config.json of a few KB."""

METHODS = {
    Basis.FORMULA: _("Estimate for {device}."),
    Basis.MEASURED: _("Measured on {device} in a few real steps."),
}
VERDICTS = {
    FitVerdict.FITS: _("It fits."),
    FitVerdict.TIGHT: _("It fits tightly, with less than 10 % to spare."),
    FitVerdict.TOO_LARGE: _("It doesn't fit."),
    FitVerdict.UNKNOWN: _("How much memory this device has isn't known."),
}
SHORT_VERDICTS = {
    FitVerdict.FITS: _("fits"),
    FitVerdict.TIGHT: _("too tight"),
    FitVerdict.TOO_LARGE: _("too large"),
}
ENOUGH = {FitVerdict.FITS: _("yes"), FitVerdict.TIGHT: _("barely")}


def add_commands(commands: CommandParsers) -> None:
    forecasting = commands.add(
        "forecast",
        forecast,
        summary=_("estimate how much memory a run takes"),
        example="mine.hone --set memory.batch_size=32",
        details=_(
            "Nothing is trained. For a model on the Hugging Face Hub that isn't on this computer, only its config.json "
            "is downloaded. If memory is short, it lists what to change. The exit status is 3 if the run doesn't fit, "
            "and 1 if it would stop at its data."
        ),
    )
    measuring = commands.add(
        "measure",
        measure,
        summary=_("run a few real steps to measure memory and time"),
        example="mine.hone",
        details=_(
            "Uses your data (of texts the longest), in a separate process. Nothing is saved. The exit status is 3 if "
            "the run doesn't fit."
        ),
    )
    fitting = commands.add(
        "fit",
        fit,
        summary=_("test lighter settings until a run fits"),
        example="mine.hone --output smaller.hone",
        details=_(
            "Tests your settings, then lighter ones (smaller batches, half precision, …) in at most 6 short runs, "
            "and writes the fastest that fits with 10 % to spare to a new run file. Settings that may change the "
            "result come last. A run that already fits is written only with --output. The exit status is 3 if nothing "
            "fits."
        ),
    )
    for command in (forecasting, measuring, fitting):
        command.add_argument("file", type=Path, metavar="RUN.hone")
        add_set(command)
        add_json(command)
    add_flag(
        forecasting, "--quick", _("don't read the data: assume that all examples have the maximum length")
    )
    add_flag(forecasting, "--offline", OFFLINE_HELP)
    for command in (measuring, fitting):
        add_flag(command, "--yes", SEND_HELP)
    output_help = _("a new file; default: NAME.fits.hone beside RUN.hone")
    fitting.add_argument("--output", "-o", type=Path, metavar="FILE", help=output_help)


@dataclass(frozen=True)
class _Request:
    """A run file with the device, its free memory and the model."""

    options: RunOptions
    device: DeviceReport
    room: Room | None
    model: ModelReport

    @property
    def correction(self) -> float:
        return correction(taught_as(self.device, self.options))

    def remedies(self, forecast: Forecast, verdict: FitVerdict) -> tuple[Remedy, ...]:
        """Returns changes that need less memory, with the formula scaled to this forecast."""
        if verdict is FitVerdict.FITS or self.model.shape is None:
            return ()
        length, total = forecast.unpadded_length, forecast.parts.total
        if (
            verdict is FitVerdict.TOO_LARGE and self.room is not None
        ):  # memory may have run out before the peak
            total = max(total, self.room.free)
        formula = estimate.forecast(self.options, self.model.shape, self.device, length=length)
        factor = formula.correction_to(total)
        return ladder(self.options, self.model, self.device, self.room, length=length, correction=factor)

    def forecast(self, *, with_data: bool = True) -> Forecast:
        """Returns the forecast for the longest row of the data, or the longest allowed if the data can't be read."""
        if with_data:
            try:
                result = run_job("forecast", options_request(self.options), Forecast)
                return corrected(msgspec.structs.replace(result, room=self.room), self.correction)
            except (UserError, EngineCrashed) as error:
                _note_unread(error)
        assert self.model.shape is not None, "checked before"
        return estimate.forecast(
            self.options, self.model.shape, self.device, room=self.room, correction=self.correction
        )


def _note_unread(error: Exception) -> None:
    text = _("Note: the data could not be read, so this is for examples of the maximum length. {error}")
    note(text.format(error=error))


def _read_request(arguments: argparse.Namespace, *, needs_weights: bool) -> _Request:
    options = run_file.read(arguments.file, tuple(arguments.overrides))
    machine = with_computers(run_job("devices", None, MachineReport))
    if problems := tuple(machine_problems(machine, options)):
        raise OptionsError(problems, str(arguments.file))
    if needs_weights:
        # its first steps run there
        ask_to_send([options], is_agreed=arguments.yes, chosen=named_in(arguments.overrides))
    offline = getattr(arguments, "offline", False)
    model = _find_model(options, arguments.file, needs_weights=needs_weights, offline=offline)
    device = find_device(without_mlx(machine, options, model.why_not_mlx), options.device.name)
    assert device is not None, "machine_problems has checked it"
    room = room_of(device, mps_limit=options.device.mps_memory_limit)
    return _Request(options, device, room, model)


def _find_model(options: RunOptions, file: Path, *, needs_weights: bool, offline: bool) -> ModelReport:
    """Finds the model of a run file. Unless weights are needed, downloads a missing config.json and prints a note."""
    source = options.model.source
    report = _check_model(options)
    if not needs_weights and report == ModelReport() and hub.may_be_there(options):
        if offline or hub.is_forbidden():
            raise hub.not_here(source, "--offline" if offline else "")
        note(
            _("Downloading {config} (a few KB) of {source} from {host}…").format(
                config=hub.CONFIG, source=source, host=hub.host()
            )
        )
        run_job("fetch-config", ConfigRequest(source=source), ConfigFetched, timeout=FETCH_SECONDS)
        report = _check_model(options)
    if report.problems:
        raise OptionsError(report.problems, str(file))
    if report.shape is None and report.architecture:
        raise ModelError(
            _("The memory of {source} is known only once it runs").format(source=source),
            _("Hone doesn't know how {architecture} is built.").format(architecture=report.architecture),
        )
    if report.shape is None or (needs_weights and not hub.is_complete(options)):
        raise ModelError(
            _("{source} isn't on this computer yet").format(source=source),
            _(
                "A run downloads it; so does `hf download {source}`. `hone forecast` needs only its {config}."
            ).format(source=source, config=hub.CONFIG),
        )
    return report


def _check_model(options: RunOptions) -> ModelReport:
    question = model.question_about(options)
    return run_job("check-model", question, ModelReport) if question is not None else ModelReport()


# --- hone forecast


def forecast(arguments: argparse.Namespace) -> int:
    if not arguments.json:
        note(_("Checking the model and this computer…"))
    request = _read_request(arguments, needs_weights=False)
    problems, is_read = list[str](), not arguments.quick
    if is_read and scheme_of(request.options.data.train) in (
        None,
        Scheme.HUB,
    ):  # others are made by Hone itself
        try:
            report = run_job("inspect", inspect_request(request.options), DataReport)
            problems += problem_lines(report)
        except UserError as error:
            problems, is_read = [error_text(error)], False
        except EngineCrashed as error:
            is_read = False
            _note_unread(error)
    found = request.forecast(with_data=is_read)
    remedies = request.remedies(found, found.verdict)
    room, verdict = found.room, found.verdict
    answer = {
        "method": found.basis,
        "device": found.device,
        "parts": found.parts,
        "total": found.parts.total,
        "free": room.free if room else None,
        "ceiling": room.ceiling if room else None,
        "fits": None if verdict is FitVerdict.UNKNOWN else verdict is not FitVerdict.TOO_LARGE,
        "verdict": verdict,
        "correction": found.correction,
        "length": found.length,
        "longest_text": found.longest_text,
        "notes": found.notes,
        "problems": problems,
        "ladder": remedies,
    }
    also = _("The run would also stop at its data:")
    stop = also if verdict is FitVerdict.TOO_LARGE else _("But the run would stop at its data:")
    stops = [stop, *problems] if problems else []
    lines = [*forecast_lines(found), *stops, *remedy_lines(remedies)]
    print_answer(answer, lines, as_json=arguments.json)
    return TOO_LARGE if verdict is FitVerdict.TOO_LARGE else min(1, len(problems))


def forecast_lines(found: Forecast) -> Iterator[str]:
    rows = [(title, formats.memory(getattr(found.parts, name))) for name, title in PART_TITLES.items()]
    rows.append((_("Total"), formats.memory(found.parts.total)))
    if found.room is not None:
        rows += [] if "@" in found.device else [(_("Free now"), formats.memory(found.room.free))]
        rows.append((_("Total memory"), formats.memory(found.room.ceiling)))
    width = max(len(text) for _title, text in rows)
    yield formats.table(
        (_("Part"), _("Memory").rjust(width)), [(title, text.rjust(width)) for title, text in rows]
    )
    yield ""
    yield METHODS[found.basis].format(device=found.device)
    if found.basis is Basis.FORMULA and found.parts.activations and not found.parts.gradients:
        yield NO_GRADIENTS
    if found.length is not None and found.longest_text is not None and found.longest_text < found.length:
        yield _("Examples are padded to {length:,} tokens; the longest has {longest:,}.").format(
            length=found.length, longest=found.longest_text
        )
    elif found.length is not None and found.longest_text is None:
        yield _("Examples have at most {length:,} tokens.").format(length=found.length)
    elif found.length is not None:
        yield _("The longest example has {length:,} tokens.").format(length=found.length)
    if found.correction != 1.0:
        yield _("Multiplied by {factor:.2f}, as past runs on this device took.").format(
            factor=found.correction
        )
    yield from found.notes
    yield VERDICTS[found.verdict]


def remedy_lines(remedies: tuple[Remedy, ...]) -> list[str]:
    """Returns what to do, a line for each remedy, the one that loses least first."""
    rows = []
    for remedy in remedies:
        cells: tuple[str, ...] = (*[formats.MISSING] * 3, remedy.help)
        if remedy.changes:
            enough = ENOUGH.get(remedy.forecast.verdict, _("no"))
            cells = (
                formats.memory(remedy.saves),
                f"x {remedy.slower:.2f}",
                enough,
                changes_text(remedy.changes),
            )
        rows.append((remedy.title, *cells))
    titles = (_("How to reduce it"), _("Saves"), _("Step time"), _("Fits then"), _("Set"))
    return ["", formats.table(titles, rows)] if rows else []


# --- hone measure


def measure(arguments: argparse.Namespace) -> int:
    request = _read_request(arguments, needs_weights=True)
    if not arguments.json:
        note(_("Running a few steps on your data…"))
    # a device by name instead of "auto": the memory guard has to know whose memory it watches
    options = with_changes(request.options, {"device.name": request.device.name})
    measurement = DryRun(options, request.room).run()
    verdict = FitVerdict.TOO_LARGE if measurement.out_of_memory else measurement.forecast.verdict
    remedies = request.remedies(measurement.forecast, verdict)
    answer = {"measurement": measurement, "verdict": verdict, "ladder": remedies}
    lines = [*measurement_lines(measurement), *remedy_lines(remedies)]
    print_answer(answer, lines, as_json=arguments.json)
    return TOO_LARGE if verdict is FitVerdict.TOO_LARGE else 0


def measurement_lines(found: Measurement) -> Iterator[str]:
    if found.out_of_memory:
        yield from (_("Memory ran out."), found.out_of_memory)
        return
    yield from forecast_lines(found.forecast)
    if found.longest_step_seconds is not None and found.longest is not None:  # images have no length
        seconds = formats.number(found.longest_step_seconds)
        yield _("A step on the longest batch takes {seconds} s.").format(seconds=seconds)
    if found.step_seconds is not None:
        seconds = formats.number(found.step_seconds)
        yield _("An ordinary step takes {seconds} s.").format(seconds=seconds)
    if found.was_disturbed:
        yield _("Other programs slowed the measurement. Measure again for true times.")
    if found.compile_seconds:
        yield _("Compiling took {time}.").format(time=formats.duration(found.compile_seconds))
    if found.run_seconds is not None and found.total_steps is not None:
        yield _("{steps} take about {time}, without evaluation.").format(
            steps=formats.counted(found.total_steps, "step"), time=formats.duration(found.run_seconds)
        )


# --- hone fit


def fit(arguments: argparse.Namespace) -> int:
    """Returns 3 if nothing fits, and 1 if dry runs fail for another reason than memory."""
    target = arguments.output or arguments.file.with_name(arguments.file.stem + SUFFIX)
    new_file(target)  # refused now, not after minutes of dry runs
    request = _read_request(arguments, needs_weights=True)
    fitting = Fitting(
        request.options,
        request.model,
        request.device,
        request.room,
        DryRun,
        length=request.forecast().unpadded_length if request.options.task.reads_text else None,
        correction=request.correction,
    )
    tries: list[Try] = []
    text = _("Try {number} of at most {most}: {title}")
    fitting.on_begin(
        lambda begun: note(text.format(number=begun.number, most=begun.most, title=begun.plan[0]))
    )
    for done in fitting.tries():
        tries.append(done)
        note(f"  {try_text(done)}")
    changes, result = fitting.changes, fitting.result
    found = (
        _("It fits with {changes}.").format(changes=changes_text(changes))
        if changes
        else _("It fits as it is.")
    )
    is_written = result is not None and bool(changes or arguments.output)
    if result is not None and is_written:
        with writing(target):
            comment = _("Made by `hone fit` of {file}.").format(file=arguments.file)
            run_file.write(result, target, formats.paragraph(comment, found))
    if arguments.json or changes is not None:
        where = _("The run file is {file}").format(file=target) if is_written else _("Nothing was written.")
        file = str(target) if is_written else None
        answer = {"tries": tries, "changes": changes, "file": file, "reason": fitting.reason}
        print_answer(answer, [found, where], as_json=arguments.json)
    else:
        note(_("No settings were found that fit. {reason}").format(reason=fitting.reason))
    if result is not None:
        return 0
    return TOO_LARGE if fitting.is_too_large else 1


def try_text(done: Try) -> str:
    measurement = done.measurement
    if measurement is None:
        return _("It failed: {problem}").format(problem=done.problem)
    if measurement.out_of_memory:
        return _("Too large: {reason}").format(reason=measurement.out_of_memory)
    seconds = measurement.step_seconds
    return _("{peak} at most, {step} s a step: {verdict}").format(
        peak=formats.memory(measurement.peak),
        step=formats.MISSING if seconds is None else formats.number(seconds),
        verdict=SHORT_VERDICTS[done.verdict],
    )
