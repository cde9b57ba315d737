"""Memory of control groups, and where a full GPU goes on in the computer's memory."""

import ctypes
import os
import sys
from pathlib import Path

import pytest

from core.base.system import GroupMemory, RusageInfo, gpu_memory_spills, group_memory, physical_footprint

GB = 1 << 30


def belongs_to(root: Path, groups: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)


def group(folder: Path, limit: str, used: int, inactive: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\nactive_file 7\n")


def test_the_tightest_of_the_groups_counts(tmp_path):
    belongs_to(tmp_path, "0::/outer/inner\n")
    groups = tmp_path / "sys/fs/cgroup"
    group(groups / "outer", str(4 * GB), 3 * GB)
    group(groups / "outer/inner", "max", 2 * GB)
    assert group_memory(tmp_path) == GroupMemory(limit=4 * GB, used=3 * GB)
    group(groups / "outer/inner", str(2 * GB), 2 * GB, inactive=GB // 2)
    assert group_memory(tmp_path) == GroupMemory(limit=2 * GB, used=2 * GB - GB // 2)


def test_the_older_groups_are_read_too(tmp_path):
    belongs_to(tmp_path, "11:cpu,cpuacct:/job\n5:memory:/job\n")
    folder = tmp_path / "sys/fs/cgroup/memory/job"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text(f"{3 * GB}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{GB}\n")
    (folder / "memory.stat").write_text("total_inactive_file 1024\n")
    assert group_memory(tmp_path) == GroupMemory(limit=3 * GB, used=GB - 1024)
    (folder / "memory.limit_in_bytes").write_text("9223372036854771712\n")  # no limit
    assert group_memory(tmp_path) is None


def test_elsewhere_there_are_no_groups(tmp_path):
    assert group_memory(tmp_path) is None


@pytest.mark.parametrize(
    ("platform", "kernel", "gpu_of_wsl", "spills"),
    [
        ("win32", "11", "/none", True),
        ("linux", "5.15.167.4-microsoft-standard-WSL2", "/none", True),
        ("linux", "4.4.0-19041-Microsoft", "/none", True),
        ("linux", "6.6.36.3-own-kernel", __file__, True),
        ("linux", "6.8.0-45-generic", "/none", False),
        ("darwin", "24.1.0", "/none", False),
    ],
)
def test_the_driver_of_windows_goes_on_in_the_computers_memory(
    platform, kernel, gpu_of_wsl, spills, monkeypatch
):
    monkeypatch.setattr(sys, "platform", platform)
    assert gpu_memory_spills(kernel, Path(gpu_of_wsl)) is spills


class MacLibrary:
    """macOS's library with `proc_pid_rusage`."""

    def __init__(self, footprint: int, status: int = 0) -> None:
        self.footprint, self.status = footprint, status

    def proc_pid_rusage(self, pid, flavor, buffer):
        assert (pid, flavor) == (os.getpid(), 0)
        buffer._obj.phys_footprint = self.footprint
        return self.status


def test_what_macos_counts_of_this_process():
    assert physical_footprint(MacLibrary(5 * GB)) == 5 * GB
    assert physical_footprint(MacLibrary(5 * GB, status=-1)) is None
    assert (ctypes.sizeof(RusageInfo), RusageInfo.phys_footprint.offset) == (96, 72)


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac counts")
def test_other_systems_count_no_footprint():
    assert physical_footprint() is None
