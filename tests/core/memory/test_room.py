"""How much memory there is: the computer's, a control group's, a GPU's, and what macOS recommends for a Mac's."""

from pathlib import Path
from typing import Any

import pytest

from core.base.system import GroupMemory, SystemMemory, group_memory
from core.memory.model import Room
from core.monitor.nvidia import find_gpu
from core.options.device_support import DeviceReport
from core.services import memory as services_memory
from tests.fakes.nvml import FakeNvml

GB = 1 << 30
SYSTEM = SystemMemory(used=6 * GB, total=16 * GB, swap=0)


@pytest.fixture(autouse=True)
def computer(monkeypatch):
    monkeypatch.setattr(services_memory, "system_memory", lambda: SYSTEM)
    monkeypatch.setattr(services_memory, "group_memory", lambda: None)


def device(name: str, memory: int | None = None) -> DeviceReport:
    return DeviceReport(name=name, title=name, available=True, memory_bytes=memory)


def gpu(**facts: Any) -> Any:
    return find_gpu("0", FakeNvml(**facts))


def room(free: float, ceiling: float) -> Room:
    return Room(free=int(free * GB), ceiling=int(ceiling * GB))


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (None, room(10, 16)),
        (GroupMemory(limit=8 * GB, used=GB), room(7, 8)),
        (GroupMemory(limit=12 * GB, used=GB), room(10, 12)),  # others of the computer have the rest
        (GroupMemory(limit=GB, used=2 * GB), room(0, 1)),
        (GroupMemory(limit=64 * GB, used=GB), room(10, 16)),
    ],
)
def test_a_cpu_has_what_the_computer_or_its_control_group_has_left(monkeypatch, group, expected):
    monkeypatch.setattr(services_memory, "group_memory", lambda: group)
    assert services_memory.room_of(device("cpu", 16 * GB)) == expected


def test_an_nvidia_gpu_has_its_own_or_shares_the_computers(monkeypatch):
    own = services_memory.room_of(device("cuda:0", 8 * GB), gpu=gpu())
    assert own == room(4, 7)  # 3 in use, 1 reserved, of 8
    assert services_memory.room_of(device("cuda:0", 12 * GB), gpu=gpu(total=0)) == room(10, 12)
    monkeypatch.setattr(services_memory, "gpu_of", lambda _name: None)
    assert services_memory.room_of(device("cuda:0", 8 * GB)) is None, "no driver's library"


@pytest.mark.parametrize(
    ("recommended", "limit", "used", "expected"),
    [
        (11, 1.7, 6, room(10, 11)),
        (11, 1.0, 6, room(10, 11)),
        (11, 0.5, 6, room(5.5, 5.5)),
        (11, 0.0, 6, room(10, 11)),
        (11, 1.7, 2, room(11, 11)),
        (0, 1.7, 2, room(14, 16)),  # nothing is recommended
    ],
)
def test_a_mac_has_what_macos_recommends_or_less_where_that_is_asked(
    monkeypatch, recommended, limit, used, expected
):
    system = SystemMemory(used=used * GB, total=16 * GB, swap=0)
    monkeypatch.setattr(services_memory, "system_memory", lambda: system)
    mac = device("mps", recommended * GB or None)
    assert services_memory.room_of(mac, mps_limit=limit) == expected


def group(folder: Path, limit: str, used: int, inactive: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\nactive_file 7\n")


def test_the_tightest_of_the_groups_counts(tmp_path):
    own = tmp_path / "own"
    own.write_text("0::/outer/inner\n")
    group(tmp_path / "outer", str(4 * GB), 3 * GB)
    group(tmp_path / "outer/inner", "max", 2 * GB)
    assert group_memory(tmp_path, own) == GroupMemory(limit=4 * GB, used=3 * GB)
    group(tmp_path / "outer/inner", str(2 * GB), 2 * GB, inactive=GB // 2)
    assert group_memory(tmp_path, own) == GroupMemory(limit=2 * GB, used=2 * GB - GB // 2)


def test_the_older_groups_are_read_too(tmp_path):
    own = tmp_path / "own"
    own.write_text("11:cpu,cpuacct:/job\n5:memory:/job\n")
    folder = tmp_path / "memory/job"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text(f"{3 * GB}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{GB}\n")
    (folder / "memory.stat").write_text("total_inactive_file 1024\n")
    assert group_memory(tmp_path, own) == GroupMemory(limit=3 * GB, used=GB - 1024)
    (folder / "memory.limit_in_bytes").write_text("9223372036854771712\n")  # no limit
    assert group_memory(tmp_path, own) is None


def test_elsewhere_there_are_no_groups(tmp_path):
    assert group_memory(tmp_path, tmp_path / "absent") is None
