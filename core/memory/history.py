"""Past runs, forecast and measured: a line per run in `memory.jsonl`, which outlives the runs; the factor learned."""

import contextlib
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from core.base import settings
from core.base.files import write_atomically
from core.base.settings import VERSION
from core.memory.model import Basis
from core.options import RunOptions
from core.options.choices import Backend
from core.options.device_support import DeviceReport, settle

MOST_KEPT = 200
NEWEST = 20
"""The number of newest runs on a device that count: drivers and libraries change."""

FEWEST = 3
"""With fewer runs, nothing is corrected."""

CORRECTION_LIMITS = (0.8, 1.35)
"""A factor beyond these limits would hide a fault of the forecast."""


class PastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast (multiplied by `correction`) and the measured peak of a finished run, in bytes.

    `device` is as in `taught_as`, never "mps": computers may share a folder. `version` is Hone's; other versions' runs
    don't count.
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
        """The forecast's error relative to the measured peak; positive: it was too high."""
        return (self.forecast - self.measured) / self.measured


def remember(run: PastRun) -> None:
    """Appends a run, so that two runs may end at the same time. Failure is ignored."""
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        with _file().open("ab") as file:
            file.write(msgspec.json.encode(run) + b"\n")
        if len(everything := read()) > 2 * MOST_KEPT:
            newest = everything[-MOST_KEPT:]
            write_atomically(_file(), b"".join(msgspec.json.encode(one) + b"\n" for one in newest))


def read() -> tuple[PastRun, ...]:
    """Returns all past runs, oldest first, without damaged lines."""
    runs = []
    with contextlib.suppress(OSError):
        for line in _file().read_bytes().splitlines():
            with contextlib.suppress(msgspec.MsgspecError):
                runs.append(msgspec.json.decode(line, type=PastRun))
    return tuple(run for run in runs if run.measured > 0 and run.forecast > 0 and run.correction > 0)


def correction(device: str, past: Iterable[PastRun] | None = None) -> float:
    """Returns the factor for forecasts on the device titled `device`; 1 until it is known.

    It is the median ratio of measured to uncorrected forecast peaks, within limits. `past` is read if it is None.
    """
    of_device = [one for one in teaching(read() if past is None else past) if one.device == device]
    ratios = [one.measured / (one.forecast / one.correction) for one in of_device[-NEWEST:]]
    if len(ratios) < FEWEST:
        return 1.0
    low, high = CORRECTION_LIMITS
    return min(high, max(low, statistics.median(ratios)))


def taught_as(device: DeviceReport, options: RunOptions) -> str:
    """Returns the name of runs that teach about each other: the device's title such as "Apple M2", and MLX."""
    is_mlx = settle(device, options).device.backend is Backend.MLX
    return f"{device.title}, MLX" if is_mlx else device.title


def typical_error(past: Sequence[PastRun]) -> float | None:
    """Returns the median of the absolute relative errors; None without past runs."""
    errors = [abs(one.error) for one in teaching(past)]
    return statistics.median(errors) if errors else None


def teaching(past: Iterable[PastRun]) -> tuple[PastRun, ...]:
    """Returns the runs that count: forecast by this version, not measured in a dry run."""
    return tuple(one for one in past if one.basis is not Basis.MEASURED and one.version == VERSION)


def _file() -> Path:
    return settings.home() / "memory.jsonl"
