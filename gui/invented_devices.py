"""What the processors of invented runs did, and where the time of their steps went."""

import math
import random
from collections.abc import Iterator
from typing import TypedDict

from core.events import DeviceSampled, Source
from core.machine.throttling import Throttle


class Parts(TypedDict, total=False):
    """Fields of `core.events.StepFinished`."""

    data_seconds: float
    forward_seconds: float
    backward_seconds: float
    optimizer_seconds: float


def parts_of(seconds: float, chance: random.Random, *, is_waited_for: bool = True) -> Parts:
    """Parts of a step; of one that nobody waited for, only what the data took."""
    data = seconds * (0.05 + 0.03 * chance.random())
    if not is_waited_for:
        return {"data_seconds": data}
    rest = 0.97 * (seconds - data)
    return {
        "data_seconds": data,
        "forward_seconds": 0.31 * rest,
        "backward_seconds": 0.55 * rest,
        "optimizer_seconds": 0.14 * rest,
    }


def of_processor(name: str, start: float, seconds: float) -> Iterator[DeviceSampled]:
    """A CPU that is nearly always busy, and grows warm."""
    for second in range(int(seconds)):
        yield DeviceSampled(
            time=start + second,
            source=Source.SYSTEM,
            name=name,
            busy=0.94 + 0.05 * math.sin(second / 3) if second > 3 else 0.4,
            temperature=52 + 26 * (1 - math.exp(-second / 40)) + 1.5 * math.sin(second / 5),
            clock=3400 - 250 * (1 - math.exp(-second / 60)) + 60 * math.sin(second / 4),
            clock_limit=3700,
        )


def of_card(start: float, seconds: float) -> Iterator[DeviceSampled]:
    """A graphics card that gets too hot for some minutes."""
    for second in range(int(seconds)):
        is_hot = 0.45 * seconds < second < 0.62 * seconds
        power = 348 if is_hot else 300 + 18 * math.sin(second / 7)
        yield DeviceSampled(
            time=start + second,
            source=Source.NVML,
            name="NVIDIA GeForce RTX 4090",
            busy=0.96 + 0.03 * math.sin(second / 5) if second > 30 else 0.02,
            power=power if second > 30 else 31,
            power_limit=350,
            temperature=88 if is_hot else 38 + 33 * (1 - math.exp(-max(0, second - 30) / 200)),
            clock=(2310 if is_hot else 2640) if second > 30 else 210,
            clock_limit=2760,
            throttled=(Throttle.THERMAL_HARDWARE,) if is_hot else (),
        )


def of_mac(start: float, seconds: float, slow_from: float) -> Iterator[DeviceSampled]:
    """A Mac's GPU: it waits for memory once the run pages, and was hot before."""
    for second in range(int(seconds)):
        is_hot = 0.5 * slow_from < second < 0.7 * slow_from
        yield DeviceSampled(
            time=start + second,
            source=Source.APPLE,
            name="Apple M2 Pro",
            busy=0.02 if second < 31 else 0.2 if second > slow_from else 0.97 - 0.2 * is_hot,
            thermal=2 if is_hot else 0,
        )
