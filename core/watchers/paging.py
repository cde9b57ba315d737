"""Notices that a run pages: memory is full, so its parts go out and come back, and steps take many times as long.

A Mac with too large a model doesn't fail, it pages; so do Linux and Windows where there is swap, and Windows drivers
with the memory of a GPU. Nothing says so but the clock: `PagingWatch` holds the steps against those before them, and
looks for memory at its ceiling or swap that grows before it calls a slow step paging.
"""

import statistics
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from core import figures
from core.errors import Fix
from core.events import (
    Event,
    Level,
    MemoryForecast,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    Phase,
    PhaseChanged,
    Pressure,
    RunFinished,
    RunStarted,
    Source,
    StepFinished,
)
from core.memory.shortage import what_was_told
from core.watchers import thresholds as limits
from core.watchers import words
from core.watchers.offers import STOP

MESSAGE = "paging"
"""The id of the message."""

_OWNERS = {
    Source.SYSTEM: "the memory",
    Source.TORCH: "what the GPU may have",
    Source.NVML: "the GPU's memory",
}


@dataclass(frozen=True)
class _Look:
    """Memory at one moment: bytes of `swap`, and in words what is `full` (empty: nothing)."""

    time: float
    swap: int | None
    full: str


class PagingWatch:
    """Takes in the events of a run, its engine's and its keeper's in the order of time, and gives the messages.

    Steps are judged when the next sample of the computer's memory has come: it tells what memory did meanwhile. They
    are wall time as `step_finished` has it, so evaluations and checkpoints, which lie between steps, and compiling
    are left out; the step under way counts only while the phase is training.

    Args:
        fixes: What to offer; those of a `memory_forecast` event take their place.
    """

    def __init__(self, fixes: tuple[Fix, ...] = ()) -> None:
        self._fixes = fixes
        self._told: MemoryForecast | None = None
        self._restart()

    def _restart(self) -> None:
        self._full: dict[Source, str] = {}
        self._looks: deque[_Look] = deque()
        self._known: deque[float] = deque(maxlen=limits.PAGING_STEPS_KNOWN)
        self._waiting: list[StepFinished] = []
        self._begun: float | None = None
        self._is_warm = self._is_raised = False
        self._slow_in_a_row = self._calm_in_a_row = 0

    def apply(self, event: Event) -> list[Event]:
        """Take in one event; returns the messages to write."""
        match event:
            case RunStarted():
                self._restart()
            case RunFinished():
                self._begun = None
            case PhaseChanged():
                self._begun = event.time if event.phase is Phase.TRAINING else None
            case StepFinished():
                self._waiting.append(event)
                self._begun = event.time if self._begun is not None else None
            case MemoryForecast():
                self._fixes, self._told = event.fixes or self._fixes, event
            case MemorySampled():
                self._full[event.source] = _full_words(event)
                if event.source is Source.SYSTEM:
                    self._looks.append(
                        _Look(event.time, event.swap, ", ".join(filter(None, self._full.values())))
                    )
                    return list(self._judge(event.time))
        return []

    @property
    def _usual(self) -> float | None:
        """Median seconds of the steps so far; None before there are enough."""
        return statistics.median(self._known) if len(self._known) >= limits.PAGING_STEPS_BEFORE else None

    def _judge(self, now: float) -> Iterator[Event]:
        for step in self._waiting:
            if step.compile_seconds or not self._is_warm:
                self._is_warm = True
            elif self._is_raised:
                yield from self._look_for_calm(step)
            else:
                yield from self._look_for_paging(step)
        self._waiting.clear()
        yield from self._look_at_unfinished(now)
        self._forget_looks(self._begun if self._begun is not None else now)

    def _look_for_paging(self, step: StepFinished) -> Iterator[Event]:
        usual = self._usual
        is_slow = usual is not None and step.seconds >= limits.PAGING_SLOWER * usual
        cause = self._cause(step.time - step.seconds) if is_slow else ""
        if usual is None or not cause:
            self._slow_in_a_row = 0
            self._known.append(step.seconds)
            return
        self._slow_in_a_row += 1
        if self._slow_in_a_row >= limits.PAGING_SLOW_STEPS or step.seconds >= limits.PAGING_ALONE_SECONDS:
            yield self._raise(step.seconds, usual, cause, is_over=True)

    def _look_at_unfinished(self, now: float) -> Iterator[Event]:
        usual = self._usual
        if self._is_raised or usual is None or self._begun is None:
            return
        lasted = now - self._begun
        if lasted >= max(limits.PAGING_SLOWER * usual, limits.PAGING_ALONE_SECONDS) and (
            cause := self._cause(self._begun)
        ):
            yield self._raise(lasted, usual, cause, is_over=False)

    def _look_for_calm(self, step: StepFinished) -> Iterator[Event]:
        usual = self._usual
        is_calm = usual is not None and step.seconds < limits.PAGING_CALM * usual
        self._calm_in_a_row = self._calm_in_a_row + 1 if is_calm else 0
        if self._calm_in_a_row >= limits.PAGING_CALM_STEPS:
            self._is_raised = False
            self._slow_in_a_row = 0
            yield MessageWithdrawn(id=MESSAGE)

    def _cause(self, begun: float) -> str:
        """What memory has done since `begun` that makes a run page, in words; empty: nothing."""
        looks = self._looks_since(begun)
        swaps = [look.swap for look in looks if look.swap is not None]
        grown = max(swaps) - swaps[0] if swaps else 0
        full = next((look.full for look in reversed(looks) if look.full), "")
        swapped = f"swap grew by {figures.size(grown)}" if grown > limits.PAGING_SWAP_GROWTH else ""
        return " and ".join(filter(None, (full, swapped)))

    def _looks_since(self, begun: float) -> list[_Look]:
        """The looks from the last one before `begun` on."""
        later = [look for look in self._looks if look.time > begun]
        before = len(self._looks) - len(later)
        return [*([self._looks[before - 1]] if before else []), *later]

    def _forget_looks(self, begun: float) -> None:
        while len(self._looks) > 1 and self._looks[1].time <= begun:
            self._looks.popleft()

    def _raise(self, seconds: float, usual: float, cause: str, *, is_over: bool) -> MessageRaised:
        self._is_raised = True
        self._calm_in_a_row = 0
        lasted = f"A step {'took' if is_over else 'has taken'} {words.seconds(seconds)}{'' if is_over else ' so far'}"
        return MessageRaised(
            id=MESSAGE,
            level=Level.WARNING,
            title=f"The run is paging: a step takes {seconds / usual:.0f} times as long as before",
            detail=" ".join(
                (
                    f"{lasted}, those before took {words.seconds(usual)}. Meanwhile {cause}. What doesn't fit is "
                    "moved out of memory and back, and so it goes on at this pace. Close other programs, or end this "
                    "run and start one that takes less.",
                    *what_was_told(self._told),
                )
            ),
            fixes=(*self._fixes, STOP),
        )


def _owner(sample: MemorySampled) -> str | None:
    """Whose memory it is that pages when it is full; a graphics card's own does so under Windows' drivers only."""
    if sample.source is Source.TORCH and not sample.unified:
        return None
    if sample.source is Source.NVML and sys.platform != "win32":
        return None
    return _OWNERS.get(sample.source)


def _full_words(sample: MemorySampled) -> str:
    """That a memory is full, in words; empty where it isn't, or that isn't known."""
    owner, ceiling = _owner(sample), sample.ceiling
    held = max(sample.bytes, sample.reserved or 0)
    if owner and ceiling and held >= limits.PAGING_FULL * ceiling:
        return f"{100 * held / ceiling:.0f} % of {owner} ({figures.size(ceiling)}) was in use"
    return "the system was critically short of memory" if sample.pressure is Pressure.CRITICAL else ""
