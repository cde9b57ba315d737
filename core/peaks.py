"""The most memory that a run's attempts have held, as sampled and as told at their ends."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Peak:
    """Of one attempt, in bytes: the most that samples saw, and what the engine itself told at its end.

    `device` is what torch's allocator held on a GPU, `process` what the processes held of the computer's memory.
    """

    sampled_device: int | None = None
    sampled_process: int | None = None
    told_device: int | None = None
    told_process: int | None = None

    @property
    def device(self) -> int | None:
        """What was told, else what was sampled."""
        return self.sampled_device if self.told_device is None else self.told_device

    @property
    def process(self) -> int | None:
        """What was told, else what was sampled."""
        return self.sampled_process if self.told_process is None else self.told_process


def most(peaks: Collection[Peak]) -> int | None:
    """The largest of all attempts: on the GPU where any of them computed there; None: nobody knows."""
    devices = [peak.device for peak in peaks if peak.device is not None]
    processes = [peak.process for peak in peaks if peak.process is not None]
    return max(devices or processes, default=None)
