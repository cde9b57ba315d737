"""Which of the reasons for a low clock count."""

import pytest
from msgspec.structs import replace

from core.monitor.apple import SLOWED_FROM, THERMAL_NAMES, Throttle, thermal_name
from core.monitor.system_rules import held_back
from core.runs.events import DeviceSampled, Source

GPU = DeviceSampled(
    time=0.0, source=Source.NVML, busy=0.97, temperature=71, clock=2600, clock_limit=2800, throttled=()
)
MAC = DeviceSampled(time=0.0, source=Source.APPLE, busy=0.9, thermal=0)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (GPU, ()),
        (replace(GPU, throttled=(Throttle.POWER_CAP,)), ()),
        (replace(GPU, throttled=(Throttle.POWER_CAP,), clock=1401), ()),
        (replace(GPU, throttled=(Throttle.POWER_CAP,), clock=1399), ("power cap",)),
        (replace(GPU, throttled=(Throttle.POWER_CAP,), clock=None), ()),
        (replace(GPU, throttled=(Throttle.POWER_CAP, Throttle.POWER_BRAKE)), ("power brake",)),
        (replace(GPU, throttled=("thermal slowdown (hardware)",)), ("thermal slowdown (hardware)",)),
        (replace(GPU, throttled=("a reason of tomorrow",)), ("a reason of tomorrow",)),
        (replace(GPU, throttled=(Throttle.HARDWARE,), busy=0.1), ()),
        (replace(GPU, throttled=(Throttle.HARDWARE,), busy=None), ("hardware slowdown",)),
        (replace(GPU, throttled=None, temperature=90, clock=1900), ("it is hot, and its clock is low",)),
        (replace(GPU, throttled=None, temperature=90, clock=2500), ()),
        (replace(GPU, throttled=None, temperature=90, clock=1900, source=Source.SYSTEM), ()),
        (replace(MAC, thermal=1), ()),
        (replace(MAC, thermal=2), ("thermal pressure",)),
        (replace(MAC, thermal=4, busy=0.0), ("thermal pressure",)),
        (replace(MAC, thermal=None), ()),
    ],
)
def test_what_holds_a_processor_back(sample: DeviceSampled, expected: tuple[str, ...]) -> None:
    assert held_back(sample) == expected


def test_the_levels_of_heat_have_apples_names() -> None:
    assert THERMAL_NAMES[SLOWED_FROM] == "heavy"
    assert [thermal_name(level) for level in (0, 4, 5, -1)] == ["nominal", "sleeping", "5", "-1"]
