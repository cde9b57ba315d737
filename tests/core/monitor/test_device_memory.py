"""How much memory a device has, and how much of it is free."""

import pytest

from core.base.system import GroupMemory, SystemMemory
from core.monitor import device_memory
from core.monitor.nvidia import find_gpu
from core.options.device_support import DeviceReport
from tests.fakes.machines import FakeNvml

GB = 1 << 30


def device(name: str, gb: float = 0) -> DeviceReport:
    return DeviceReport(name=name, title=name, available=True, memory_bytes=int(gb * GB) or None)


@pytest.fixture
def room(monkeypatch):
    """What a device has on a computer with 16 GB, as (free, ceiling) in GB; `group` is its control group in GB."""

    def room_of(found: DeviceReport, *, used: float = 6, group=None, **more) -> tuple[float, float] | None:
        limits = GroupMemory(limit=group[0] * GB, used=group[1] * GB) if group else None
        monkeypatch.setattr(device_memory, "system_memory", lambda: SystemMemory(used * GB, 16 * GB, 0))
        monkeypatch.setattr(device_memory, "group_memory", lambda: limits)
        result = device_memory.room_of(found, **more)
        return result and (result.free / GB, result.ceiling / GB)

    return room_of


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (None, (10, 16)),
        ((8, 1), (7, 8)),
        ((12, 1), (10, 12)),  # others of the computer have the rest
        ((1, 2), (0, 1)),
        ((64, 1), (10, 16)),
    ],
)
def test_a_cpu_has_what_the_computer_or_its_control_group_has_left(group, expected, room):
    assert room(device("cpu", 16), group=group) == expected


def test_an_nvidia_gpu_has_its_own_or_shares_the_computers(room, monkeypatch):
    assert room(device("cuda:0", 8), gpu=find_gpu("0", FakeNvml())) == (4, 7)  # 3 in use, 1 reserved, of 8
    assert room(device("cuda:0", 12), gpu=find_gpu("0", FakeNvml(total=0))) == (10, 12)
    monkeypatch.setattr(device_memory, "gpu_of", lambda _name: None)
    assert room(device("cuda:0", 8)) is None, "no driver's library"


@pytest.mark.parametrize(
    ("recommended", "limit", "used", "expected"),
    [
        (11, 1.0, 6, (10, 11)),
        (11, 0.5, 6, (5.5, 5.5)),
        (11, 1.0, 2, (11, 11)),
        (11, 1.2, 2, (13.2, 13.2)),
        (11, 1.7, 2, (14, 14)),  # an eighth is left to macOS
        (11, 0.0, 6, (10, 14)),
        (0, 1.7, 2, (14, 16)),  # nothing is recommended
    ],
)
def test_a_mac_has_what_macos_recommends_or_what_is_wanted_within_its_memory(
    recommended, limit, used, expected, room
):
    assert room(device("mps", recommended), used=used, mps_limit=limit) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("installed", "recommended", "ceilings"),
    [(8, 5.3, (5.3, 6, 6)), (16, 10.7, (10.7, 14, 14)), (36, 27, (27, 31.5, 31.5)), (64, 48, (48, 56, 56))],
)
def test_no_limit_goes_beyond_the_memory_of_the_mac(installed, recommended, ceilings, monkeypatch):
    monkeypatch.setattr(device_memory, "system_memory", lambda: SystemMemory(0, installed * GB, 0))
    found = [device_memory.mps_ceiling(device("mps", recommended), limit) / GB for limit in (1.0, 1.7, 0.0)]
    assert found == pytest.approx(ceilings)
    assert device_memory.mps_ceiling(device("mps")) is None
