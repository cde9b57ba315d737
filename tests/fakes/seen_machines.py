"""What machines that nobody of us has at hand would show at one moment, at the time 0."""

from dataclasses import replace
from typing import Any

import msgspec

from core.monitor.sampler import MachinePicture
from core.runs.events import BatterySampled, DeviceSampled, MemorySampled, Pressure, Source

GB = 1 << 30


def memory(used: float, total: float, **more: Any) -> MemorySampled:
    return MemorySampled(
        time=0.0, source=Source.SYSTEM, bytes=int(used * GB), ceiling=int(total * GB), **more
    )


def processor(busy: float) -> DeviceSampled:
    return DeviceSampled(time=0.0, source=Source.SYSTEM, name="CPU", busy=busy)


PC = MachinePicture(
    memory=memory(11.2, 32.0, swap=0, pressure=Pressure.NORMAL),
    processor=processor(0.38),
)
CARD = MachinePicture(
    memory=memory(14.0, 64.0, swap=0, pressure=Pressure.NORMAL),
    card=MemorySampled(time=0.0, source=Source.NVML, bytes=int(18.3 * GB), ceiling=int(23.6 * GB)),
    gpu=DeviceSampled(
        time=0.0,
        source=Source.NVML,
        name="NVIDIA GeForce RTX 4090",
        busy=0.97,
        power=320.0,
        power_limit=450.0,
        temperature=71.0,
        clock=2520.0,
        clock_limit=3105.0,
        throttled=("power cap",),
    ),
    processor=processor(0.12),
)
MAC = MachinePicture(
    memory=memory(33.1, 36.0, swap=int(3.4 * GB), compressed=5 * GB, pressure=Pressure.WARN),
    gpu=DeviceSampled(time=0.0, source=Source.APPLE, name="Apple M3 Max", busy=0.91, power=28.0, thermal=2),
    processor=processor(0.2),
    battery=BatterySampled(time=0.0, share=0.43, is_plugged=False),
)


def changed(picture: MachinePicture, **parts: Any) -> MachinePicture:
    """A picture with other figures: a dict changes those of a part, anything else takes its place."""
    made: dict[str, Any] = {}
    for name, part in parts.items():
        before = getattr(picture, name)
        made[name] = msgspec.structs.replace(before, **part) if isinstance(part, dict) else part
    return replace(picture, **made)
