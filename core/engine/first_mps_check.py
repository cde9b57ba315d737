"""The first run on a Mac's GPU holds it against the CPU; what was found is kept and told to every run there.

Apple's MPS has computed wrong numbers without an error (see `core.engine.device_check.probes`), and a person would see
no more of it than a model that learns badly.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from core import jobs, questions, settings
from core.device_check_report import Comparison, DeviceCheckReport, DeviceCheckRequest
from core.engine.device_check.run import software
from core.engine.reporter import Reporter
from core.errors import Fix, UserError
from core.events import MessageWithdrawn
from core.files import write_atomically

MESSAGE = "device-check"
REQUEST = DeviceCheckRequest(device="mps", short=True)
FIXES = (Fix("Train on the CPU", {"device.name": "cpu"}),)
TRIES = 3
"""So often a check that gives no answer is made for one PyTorch and macOS: a moment's trouble is not for ever."""
AGAIN = "`hone check-device` compares again, and more."

Ask = Callable[[DeviceCheckRequest], DeviceCheckReport]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one check gave: a report, or why there was none, after how many tries."""

    report: DeviceCheckReport | None = None
    failure: str = ""
    tries: int = 1


def memory_file() -> Path:
    """Where the answers are kept: a `Found` by what computed (see `software`)."""
    return settings.home() / "device-checks.json"


def warn_of_wrong_numbers(reporter: Reporter, ask: Ask = questions.ask_device_check) -> None:
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
