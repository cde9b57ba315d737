"""How good the forecasts of memory have been on this computer, and the one factor a device that they teach.

A line a run in `memory.jsonl` in Hone's folder, so that it is read in no time and outlives the runs. Bytes are bytes.
"""

import contextlib
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from core.base import settings
from core.base.files import write_atomically
from core.base.settings import VERSION
from core.memory.model import Basis, Forecast, Parts

MOST_KEPT = 200
NEWEST = 20
"""So many of the newest runs on a device are learned from: drivers and libraries change."""

FEWEST = 3
"""Fewer teach nothing: the first may have been odd."""

CORRECTION_LIMITS = (0.8, 1.35)
"""A factor beyond these tells of a fault in the forecast, which hiding would not mend."""


class PastRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run that ended well: the memory it was told to take, by which factor that was corrected, and what it took.

    `device` is the device's title, such as "Apple M2", which tells computers apart that share a folder. `version` is
    Hone's: another one forecasts otherwise, so that nothing is learned from it.
    """

    device: str
    basis: Basis
    forecast: int
    measured: int
    correction: float = 1.0
    version: str = VERSION
    time: float = msgspec.field(default_factory=time.time)

    @property
    def error(self) -> float:
        """By which share of what was measured the forecast was off; positive: it was too high."""
        return (self.forecast - self.measured) / self.measured


def remember(run: PastRun) -> None:
    """Add a run; a folder that can't be written to costs the lesson, not the run.

    A line is added rather than the file written anew, so that of two runs that end together none is lost.
    """
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        with _file().open("ab") as file:
            file.write(msgspec.json.encode(run) + b"\n")
        if len(everything := read()) > 2 * MOST_KEPT:
            newest = everything[-MOST_KEPT:]
            write_atomically(_file(), b"".join(msgspec.json.encode(one) + b"\n" for one in newest))


def read() -> tuple[PastRun, ...]:
    """All that is remembered, oldest first; damaged lines are left out."""
    found = []
    with contextlib.suppress(OSError):
        for line in _file().read_bytes().splitlines():
            with contextlib.suppress(msgspec.MsgspecError):
                found.append(msgspec.json.decode(line, type=PastRun))
    return tuple(run for run in found if run.measured > 0 and run.forecast > 0 and run.correction > 0)


def correction(device: str, past: Iterable[PastRun] | None = None) -> float:
    """The factor that forecasts on the device titled `device` are multiplied by; 1 until it is known.

    It is the median of what was measured over what was forecast uncorrected, over the newest runs.

    Args:
        device: The device's title.
        past: What is remembered; None: read it.
    """
    of_device = [one for one in teaching(read() if past is None else past) if one.device == device]
    ratios = [one.measured / (one.forecast / one.correction) for one in of_device[-NEWEST:]]
    if len(ratios) < FEWEST:
        return 1.0
    low, high = CORRECTION_LIMITS
    return min(high, max(low, statistics.median(ratios)))


def typical_error(past: Sequence[PastRun]) -> float | None:
    """The median of how far forecasts were off, as a share, without its sign; None where there is none."""
    errors = [abs(one.error) for one in teaching(past)]
    return statistics.median(errors) if errors else None


def corrected(forecast: Forecast, factor: float) -> Forecast:
    """`forecast` corrected by `factor`, in place of the correction that is in it; what was measured stays."""
    change = factor / forecast.correction
    if forecast.basis is Basis.MEASURED or change == 1.0:
        return forecast
    parts = {name: round(getattr(forecast.parts, name) * change) for name in Parts.__struct_fields__}
    return msgspec.structs.replace(forecast, parts=Parts(**parts), correction=factor)


def teaching(past: Iterable[PastRun]) -> tuple[PastRun, ...]:
    """Those that this Hone has forecast: a dry run's figure is no forecast."""
    return tuple(one for one in past if one.basis is not Basis.MEASURED and one.version == VERSION)


def _file() -> Path:
    return settings.home() / "memory.jsonl"
