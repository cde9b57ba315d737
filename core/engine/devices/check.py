"""Which comparisons the device check makes, in order of importance, and what counts as agreeing.

Tolerances are shares of a tensor's largest value (see `relative_error`). What they have to tell apart was measured with
torch 2.13 on a CPU, where other kernels and other counts of threads stand for a sound device; nothing was measured on
MPS or CUDA. In fp32, losses and gradients of sound computations differ by 1.1e-5 at most; one term lost from a sum
over 32,776 tokens changes gradients by 1.6e-3 and more, multiplying in bf16 by 4.6e-3 and more. Causal attention
differs from fp32 by 6.5e-3 in bf16 and by 8e-4 in fp16, wherever its softmax is rounded; where three of four tokens see
what comes after them, by 0.5 and more.
"""

import contextlib
import importlib.metadata
import math
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch

from core.base import jobs, settings
from core.base.errors import DeviceError, Fix, UserError
from core.base.files import write_atomically
from core.base.jobs import run_job
from core.engine.devices import probes
from core.engine.devices.capabilities import gather
from core.engine.devices.choose import report
from core.engine.devices.probes import Difference, Probe, Side, difference
from core.engine.reporter import Reporter
from core.options.device_support import DeviceReport, MachineReport, find_device
from core.runs.events import MessageWithdrawn
from core.services.devices import CHECK_SECONDS, Agreement, Comparison, DeviceCheckReport, DeviceCheckRequest

# --- Which comparisons the device check makes, in order of importance


LOSS = 1e-4
FP32 = 1e-3
BF16 = 3e-2
FP16 = 5e-3
REPEATED = 1e-4

FEWER_TOKENS = "Keep batch size times length below 32,768 tokens; accumulate gradients instead."
OTHER_ATTENTION = 'Use fp32, or the attention "eager".'
USE_CPU = "Train on the CPU, or with another version of PyTorch."


@dataclass(frozen=True)
class Check:
    """One comparison to make.

    `name`, `explanation` and `tolerance` as in `core.services.devices.Comparison`; `remedy` says what to do where it
    differs. `is_short`: the short form makes it too. `repeats`: the device is held against itself, not against the
    reference.
    """

    name: str
    explanation: str
    probe: Probe
    tolerance: float
    remedy: str = USE_CPU
    is_short: bool = False
    repeats: bool = False


CHECKS = (
    Check("Loss", "The losses of a small encoder and a small decoder.", probes.loss, LOSS, is_short=True),
    Check(
        "Gradients",
        "The gradient of every weight of the encoder and the decoder.",
        probes.all_gradients,
        FP32,
        is_short=True,
    ),
    Check(
        "More than 32,768 tokens",
        "Gradients of a batch of more than 32,768 tokens, computed after a smaller one.",
        probes.across_the_limit,
        FP32,
        FEWER_TOKENS,
        is_short=True,
    ),
    Check(
        "Large vocabulary",
        "Gradients through an output layer of 50,257 tokens.",
        probes.large_vocabulary,
        FP32,
        "Train language models on the CPU; classifiers have few outputs and are not affected.",
        is_short=True,
    ),
    Check(
        "Optimizer step",
        "What AdamW makes of the weights when it is given the same gradients.",
        probes.optimizer_step,
        FP32,
        "Choose another optimizer, or train on the CPU.",
        is_short=True,
    ),
    Check(
        "Causal mask in bf16",
        "Attention in bf16 in which no token may see those after it, in evaluation and in training.",
        probes.half_precision_causal(torch.bfloat16),
        BF16,
        OTHER_ATTENTION,
    ),
    Check(
        "Causal mask in fp16",
        "Attention in fp16 in which no token may see those after it, in evaluation and in training.",
        probes.half_precision_causal(torch.float16),
        FP16,
        OTHER_ATTENTION,
    ),
    Check(
        "Batch norm, channels last",
        "Loss, gradients and statistics of a small image model whose images are stored pixel by pixel.",
        probes.channels_last_batch_norm,
        FP32,
        "Keep images stored channel by channel, as they are by default.",
    ),
    Check(
        "Layer norm on frozen layers",
        "Gradients of a layer norm above layers that are not trained.",
        probes.norm_on_frozen_input,
        FP32,
        "Train all weights, or use LoRA.",
    ),
    Check(
        "Repeated",
        "The gradients of the encoder and the decoder, computed twice on the same device.",
        probes.all_gradients,
        REPEATED,
        repeats=True,
    ),
    Check(
        "Attention over many tokens",
        "Loss and gradients of an encoder over more than 32,768 tokens, computed after a smaller batch.",
        probes.transformer_across_the_limit,
        FP32,
        FEWER_TOKENS,
    ),
)


# --- Making the comparisons of the device check within their time, and saying what came of them


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


# --- The first run on a Mac's GPU holds it against the CPU


MESSAGE = "device-check"
REQUEST = DeviceCheckRequest(device="mps", short=True)
FIXES = (Fix("Train on the CPU", {"device.name": "cpu"}),)
TRIES = 3
"""So often a check that gives no answer is made for one PyTorch and macOS: a moment's trouble is not for ever."""
AGAIN = "`hone devices --check` compares again, and more."

Ask = Callable[[DeviceCheckRequest], DeviceCheckReport]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one check gave: a report, or why there was none, after how many tries."""

    report: DeviceCheckReport | None = None
    failure: str = ""
    tries: int = 1


def memory_file() -> Path:
    """Where the answers are kept: a `Found` by what computed (see `software`)."""
    return settings.home() / "device-checks.json"


def ask_device_check(request: DeviceCheckRequest) -> DeviceCheckReport:
    return run_job("check-device", request, DeviceCheckReport, timeout=CHECK_SECONDS)


def warn_of_wrong_numbers(reporter: Reporter, ask: Ask = ask_device_check) -> None:
    """Check the GPU where that wasn't done with this PyTorch and macOS, and warn where it is known to differ.

    An update of either brings other kernels. The check is another process: what it computes leaves no trace in the run,
    and a fault of Metal ends it alone.
    """
    key = software()
    remembered = recall()
    earlier = remembered.get(key)
    if earlier is None or (earlier.failure and earlier.tries < TRIES):
        reporter.note(
            MESSAGE, "Comparing this Mac's GPU with its CPU", "A few seconds. What is found is remembered."
        )
        remembered[key] = _found(ask, tries=earlier.tries + 1 if earlier else 1)
        remember(remembered)
        reporter.write(MessageWithdrawn(id=MESSAGE))
    found = remembered[key]
    if found.failure:
        reporter.warn(MESSAGE, "This Mac's GPU could not be checked", f"{found.failure}\n{AGAIN}", FIXES)
    elif found.report is not None and any(comparison.differs for comparison in found.report.comparisons):
        reporter.warn(MESSAGE, "This Mac's GPU computes wrong numbers", _words(found.report), FIXES)


def recall() -> dict[str, Found]:
    """What is kept; nothing where the file is damaged or of another Hone: the check is then made again."""
    try:
        return msgspec.json.decode(memory_file().read_bytes(), type=dict[str, Found])
    except (OSError, msgspec.MsgspecError):
        return {}


def remember(found: dict[str, Found]) -> None:
    """Keep it. Where it can't be written, the next run makes the check again; this one needn't fail for it."""
    with contextlib.suppress(OSError):
        settings.home().mkdir(parents=True, exist_ok=True)
        write_atomically(memory_file(), msgspec.json.format(msgspec.json.encode(found)))


def _found(ask: Ask, tries: int) -> Found:
    try:
        return Found(report=ask(REQUEST), tries=tries)
    except (UserError, jobs.EngineCrashed, OSError) as error:
        return Found(failure=str(error), tries=tries)


def _words(report: DeviceCheckReport) -> str:
    lines = [_line(comparison) for comparison in report.comparisons if comparison.differs]
    return "\n".join([*lines, f"Found with {report.software}. {AGAIN}"])


def _line(comparison: Comparison) -> str:
    error = comparison.worst_error
    size = "no numbers" if error is None else f"an error of {error:.1g}"
    return f"{comparison.name}: {size} in the {comparison.worst_tensor}. {comparison.detail}"
