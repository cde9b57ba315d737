"""The pace of a download, and how far it is, in words."""

import time
from collections import deque
from collections.abc import Callable

from core.base import formats
from core.base.jobs import JobProgress
from core.base.language import _

SPEED_SECONDS = 5.0
"""The period over which the speed is measured."""


class DownloadPace:
    """Speed and remaining time of a download; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()

    def add(self, progress: JobProgress) -> None:
        now = self._clock()
        self._marks.append((now, progress.done))
        while len(self._marks) > 2 and now - self._marks[1][0] >= SPEED_SECONDS:
            self._marks.popleft()

    @property
    def speed(self) -> float | None:
        """Bytes per second; None if not known yet."""
        if len(self._marks) < 2:
            return None
        (begin, before), (end, after) = self._marks[0], self._marks[-1]
        return (after - before) / (end - begin) if end > begin else None

    def left(self, progress: JobProgress) -> float | None:
        """Returns the seconds until the end; None if not known yet."""
        speed = self.speed
        return (progress.total - progress.done) / speed if speed else None


def progress_text(progress: JobProgress, pace: DownloadPace) -> str:
    """Returns how far a download is: `120 MB of 268 MB · 12.1 MB/s · 12 s left`."""
    done, total = formats.memory(progress.done), formats.memory(progress.total)
    parts = [_("{done} of {total}").format(done=done, total=total)]
    speed, left = pace.speed, pace.left(progress)
    if speed:
        parts.append(_("{speed}/s").format(speed=formats.memory(speed)))
    if left is not None:
        parts.append(_("{time} left").format(time=formats.duration(left)))
    return formats.in_line(*parts)
