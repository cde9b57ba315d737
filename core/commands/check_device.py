"""`hone check-device`: whether a device computes what the CPU does."""

import sys

from core import figures
from core.commands.output import print_json, say
from core.device_check_report import Comparison, DeviceCheckReport, DeviceCheckRequest
from core.questions import ask_device_check

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
    unknown = "no number" if comparison.differs else figures.MISSING
    return (
        comparison.agreement.value,
        comparison.name,
        unknown if error is None else f"{error:.1e}" if error else "0",
        f"{comparison.tolerance:.0e}",
        comparison.worst_tensor or figures.MISSING,
        f"{comparison.seconds:.1f} s",
    )
