"""Making the comparisons of the device check within their time, and saying what came of them."""

import importlib.metadata
import math
import platform
import sys
import time
from collections.abc import Callable, Sequence

import msgspec
import torch

from core.capabilities import find_device
from core.device_check_report import Agreement, Comparison, DeviceCheckReport, DeviceCheckRequest
from core.engine.device_check.checks import CHECKS, Check
from core.engine.device_check.compare import Difference, Side, difference
from core.engine.devices import report
from core.engine.machine_facts import gather
from core.errors import DeviceError
from core.reports import DeviceReport, MachineReport

FULL_SECONDS = 25.0
SHORT_SECONDS = 5.0
"""After this long no further comparison is begun: the last may take a few seconds more, 30 in all."""

LONGEST_REASON = 300

PROBE_ERRORS = (RuntimeError, TypeError, ValueError, MemoryError)
"""What torch raises where it can't compute something: out of memory and NotImplementedError are RuntimeErrors."""


def check_device(request: DeviceCheckRequest) -> DeviceCheckReport:
    """Hold a device against the CPU; on a computer without an accelerator, one thread against several.

    Raises:
        DeviceError: The device is not to be had here.
    """
    reference, candidate = sides(report(gather()), request.device, torch.get_num_threads())
    checks = [check for check in CHECKS if check.is_short or not request.short]
    begun = time.monotonic()
    comparisons = run_checks(checks, reference, candidate, SHORT_SECONDS if request.short else FULL_SECONDS)
    return DeviceCheckReport(
        device=candidate.device,
        title=candidate.title,
        reference=reference.title,
        software=software(),
        conclusion=conclusion(comparisons, reference, candidate),
        comparisons=comparisons,
        seconds=time.monotonic() - begun,
        short=request.short,
    )


def software() -> str:
    """What computes, as in `DeviceCheckReport`."""
    torch_version = f"PyTorch {importlib.metadata.version('torch')}"
    macos = platform.mac_ver()[0]
    return f"{torch_version}, macOS {macos}" if macos else torch_version


def sides(machine: MachineReport, name: str, threads: int) -> tuple[Side, Side]:
    """The reference and the candidate.

    Args:
        machine: What is here.
        name: The device as in `device.name`.
        threads: How many threads of the CPU torch uses.

    Raises:
        DeviceError: The device is not to be had here.
    """
    device, cpu = find_device(machine, name), find_device(machine, "cpu")
    assert cpu is not None, "every computer has one"
    if device is None or not device.available:
        why = device.reason if device else "`hone devices` lists the devices of this computer."
        raise DeviceError(f"{name} is not available here", why)
    if device.name != "cpu":
        return _cpu_side(cpu, threads, is_reference=True), Side(device.name, device.title, threads)
    return _cpu_side(cpu, max(threads, 2), is_reference=True), _cpu_side(cpu, 1)


def _cpu_side(cpu: DeviceReport, threads: int, *, is_reference: bool = False) -> Side:
    words = f"{cpu.title}, {threads} {'thread' if threads == 1 else 'threads'}"
    return Side("cpu", words, threads, is_reference)


def run_checks(
    checks: Sequence[Check],
    reference: Side,
    candidate: Side,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Comparison, ...]:
    """Make the comparisons one after another; those that are not begun within `seconds` are not run."""
    deadline = clock() + seconds
    found = []
    for check in checks:
        begun = clock()
        if begun >= deadline:
            found.append(_not_run(check, f"No comparison is begun after {seconds:.0f} s."))
            continue
        print(f"Device check: {check.name}", file=sys.stderr, flush=True)  # a crash's report ends with it
        try:
            worst = _worst(check, reference, candidate)
        except PROBE_ERRORS as error:
            comparison = _not_run(check, _reason(error))
        else:
            comparison = _compared(check, worst)
        found.append(msgspec.structs.replace(comparison, seconds=clock() - begun))
    return tuple(found)


def _worst(check: Check, reference: Side, candidate: Side) -> Difference:
    first = (candidate if check.repeats else reference).compute(check.probe)
    return difference(first, candidate.compute(check.probe))


def _compared(check: Check, worst: Difference) -> Comparison:
    agrees = worst.error <= check.tolerance
    return Comparison(
        name=check.name,
        explanation=check.explanation,
        agreement=Agreement.AGREES if agrees else Agreement.DIFFERS,
        worst_error=worst.error if math.isfinite(worst.error) else None,
        worst_tensor=worst.tensor if worst.error else "",
        tolerance=check.tolerance,
        detail=" ".join(_details(check, worst)),
    )


def _details(check: Check, worst: Difference) -> list[str]:
    said = []
    if not math.isfinite(worst.error):
        said.append("It holds values that are infinite or no numbers.")
    elif check.repeats:
        said.append("Bit for bit the same." if worst.error == 0 else "Not bit for bit the same.")
    if worst.error > check.tolerance:
        said.append(check.remedy)
    return said


def _not_run(check: Check, why: str) -> Comparison:
    return Comparison(
        name=check.name,
        explanation=check.explanation,
        agreement=Agreement.NOT_RUN,
        tolerance=check.tolerance,
        detail=why,
    )


def _reason(error: BaseException) -> str:
    """The first line of an error; torch's go on with where in its source it was raised."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:LONGEST_REASON]


def conclusion(comparisons: Sequence[Comparison], reference: Side, candidate: Side) -> str:
    """What to think of a device, in a sentence or two."""
    differing = [comparison.name for comparison in comparisons if comparison.differs]
    agreeing = sum(comparison.agrees for comparison in comparisons)
    not_run = len(comparisons) - agreeing - len(differing)
    rest = f" {_counted(not_run)} not run." if not_run else ""
    pair = f"{candidate.title} and {reference.title}"
    if differing:
        return (
            f"{pair} differ in: {'; '.join(differing)}. Runs that need this may learn something wrong.{rest}"
        )
    if not agreeing:
        return f"Nothing could be compared between {pair}."
    return f"{pair} agree in {'all ' if not not_run else ''}{agreeing} comparisons.{rest}"


def _counted(count: int) -> str:
    return "1 comparison was" if count == 1 else f"{count} comparisons were"
