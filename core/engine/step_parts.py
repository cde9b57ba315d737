"""Where the time of an optimizer step goes: waiting for data, forward, backward, optimizer.

A CPU has done its work when a call returns, so every step is taken apart by the clock. CUDA and MPS queue what they are
told and work it off later: to see the parts, Hone has to wait for the device between them, which costs the overlap of
the two. So only one step in N is taken apart there, and N follows what that cost (`Sampling`).

MPS is waited for with `torch.mps.synchronize` and timed by the computer's clock: MPS events can hang in torch 2.13.
"""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import torch

SHARE = 0.01
"""Taking steps apart may cost this share of the training time."""

LEAST = 10
"""At most one step in so many is taken apart where that costs anything, and the first so many never are."""

PLAIN_STEPS = 50
SAMPLED_STEPS = 5
"""Steps remembered, to tell by their medians what sampling costs: one step that others held up must not decide."""

Wait = Callable[[], None]


class Part(Enum):
    """A part of an optimizer step. Accumulated batches add up.

    - `DATA`: fetching its batches.
    - `FORWARD`: moving them to the device, the model, the loss.
    - `BACKWARD`: the gradients; with DeepSpeed the new weights, too, which it computes in the same call.
    - `OPTIMIZER`: clipping, the new weights, the learning rate's schedule, emptying the gradients.
    """

    DATA = auto()
    FORWARD = auto()
    BACKWARD = auto()
    OPTIMIZER = auto()


@dataclass(frozen=True)
class StepTimes:
    """The parts of one step in seconds; None: not measured. They never add up to more than the step."""

    data: float | None = None
    forward: float | None = None
    backward: float | None = None
    optimizer: float | None = None


def wait_for(kind: str) -> Wait | None:
    """What waits until a device of this kind (`cuda`, `mps`, `cpu`) has done all it was given; None: nothing has to."""
    if kind == "cuda":
        return torch.cuda.synchronize
    return torch.mps.synchronize if kind == "mps" else None


class Sampling:
    """Which steps are taken apart: one in `every`, so that it costs at most `SHARE` of the training time."""

    def __init__(self) -> None:
        self.every = LEAST
        self._plain: deque[float] = deque(maxlen=PLAIN_STEPS)
        self._costs: deque[float] = deque(maxlen=SAMPLED_STEPS)

    def add_plain(self, seconds: float) -> None:
        """Learn how long a step takes that isn't taken apart."""
        self._plain.append(seconds)

    def add_sampled(self, seconds: float, waits: float) -> None:
        """Learn how long a step took that was.

        Args:
            seconds: The step.
            waits: What it costs to ask the device whether it is done, in seconds: as often as was asked for this step.
        """
        usual = statistics.median(self._plain) if self._plain else 0.0
        if usual <= 0.0:
            return
        self._costs.append(max(0.0, seconds - usual) + waits)
        self.every = max(LEAST, math.ceil(statistics.median(self._costs) / (SHARE * usual)))


class StepParts:
    """Adds up the parts of the step that is under way.

    Call `begin` before a step (again, where something else came between), `skip` where a part begins, `lap` where it
    ends and `end` after the step. Before `begin`, nothing is waited for.

    Args:
        wait: Waits for the device, as `wait_for` says.
        clock: Seconds from any beginning.
    """

    def __init__(self, wait: Wait | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.sampling = Sampling()
        self._wait = wait
        self._clock = clock
        self._steps_since = 0
        self._is_sampled = False
        self._mark = 0.0
        self._spent = dict.fromkeys(Part, 0.0)
        self._fetched: float | None = None
        self._laps = 0

    @property
    def is_due(self) -> bool:
        """Whether the next step will be taken apart although that costs something: let the device be idle before it."""
        return self._wait is not None and self._steps_since >= self.sampling.every

    @property
    def is_asynchronous(self) -> bool:
        """Whether the device works on after it was told to."""
        return self._wait is not None

    def begin(self) -> None:
        """A step begins; what was measured since the last one ended belongs to none."""
        self._is_sampled = self.is_due
        self._spent = dict.fromkeys(Part, 0.0)
        self._fetched = None
        self._laps = 0
        self.skip()

    def skip(self) -> None:
        """The time since the last part ended belongs to no part."""
        self._mark = self._clock()

    def lap(self, part: Part) -> None:
        """The time since the last part ended, or since `skip`, belongs to `part`."""
        if self._is_sampled and self._wait is not None:
            self._wait()
            self._laps += 1
        now = self._clock()
        self._spent[part] += now - self._mark
        self._mark = now

    def end(self) -> StepTimes:
        """The step is over; returns its parts."""
        self._steps_since = 0 if self._is_sampled else self._steps_since + 1
        if self._wait is None or self._is_sampled:
            return StepTimes(*(self._spent[part] for part in Part))
        return StepTimes(data=self._fetched)

    def price(self) -> float:
        """What asking the device has cost in this step, in seconds, the device being done; 0 where it wasn't asked."""
        if not self._laps or self._wait is None:
            return 0.0
        begun = self._clock()
        self._wait()
        return (self._clock() - begun) * (self._laps + 1)

    def timed(self, loader: Any) -> None:
        """Time what `loader`, torch's own, is waited for.

        Only where the device works on: there the time until Trainer has its batches says little, because copying them
        to the device may have to wait until that has worked off all steps before.
        """
        if self._wait is not None:
            iterate = loader.__iter__
            loader.__iter__ = lambda: self._fetch(iterate)  # accelerate's loader calls it by this name

    def _fetch(self, iterate: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        begun = self._clock()
        batches = iterate()  # starts the workers
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self._fetched = (self._fetched or 0.0) + self._clock() - begun
            yield batch
            begun = self._clock()
