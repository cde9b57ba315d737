"""How processes ended; and keeping the computer awake, with wakepy set to succeed or to fail."""

import signal
import subprocess
import sys

import pytest

from core.base import processes, settings
from core.base.processes import OUT_OF_MEMORY, awake, describe, log_tail, out_of_memory_kills, signal_name
from core.base.settings import Settings


@pytest.mark.parametrize(
    ("code", "name", "text"),
    [
        (0, None, "by itself"),
        (3, None, "exit status 3"),
        (-signal.SIGTERM, "SIGTERM", "asked to end"),
        (-9, "SIGKILL", "killed by another process"),
        (-11, "SIGSEGV", "native code"),
        (-250, "signal 250", "signal 250"),
        (0xC0000005, None, "native"),
    ],
)
def test_every_ending_has_its_signal_and_a_description(code, name, text):
    assert signal_name(code) == name
    assert text in describe(code)
    assert (describe(code, out_of_memory=True) == OUT_OF_MEMORY) is (name == "SIGKILL")


METAL = "[METAL] Impacting Interactivity (0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)"


def test_work_of_the_gpu_that_macos_stopped_is_named_whatever_signal_followed():
    assert "held up the display" in describe(-signal.SIGABRT, log=f"step 3\n{METAL}\n")
    assert "held up the display" not in describe(-signal.SIGABRT, log="step 3\n")
    assert describe(-9, out_of_memory=True, log=METAL) == OUT_OF_MEMORY


def test_the_tail_of_a_log_is_its_last_lines_without_redrawn_bars(tmp_path):
    log = tmp_path / "log.txt"
    assert log_tail(log) == ""
    log.write_bytes(b"first\n" * 50 + b"10%\r50%\r100%\r\nlast \xff\n")
    tail = log_tail(log).split("\n")
    assert (len(tail), tail[-2:]) == (40, ["100%", "last \ufffd"])
    log.write_bytes(b"x" * 5_000_000 + b"\nend")
    assert len(log_tail(log)) < 40_000
    assert log_tail(log).endswith("\nend")


REPORTS = "Library/Logs/DiagnosticReports"
VMSTAT = {"proc/vmstat": "nr_free_pages 81\noom_kill 7\n"}
EVENTS = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"
CONTROL = {"sys/fs/cgroup/memory/docker/c/memory.oom_control": "oom_kill_disable 0\noom_kill 4\n"}


def group(line: str) -> dict[str, str]:
    return {"proc/self/cgroup": line, **VMSTAT}


@pytest.mark.parametrize(
    ("files", "count"),
    [
        (group("0::/a/b\n") | {"sys/fs/cgroup/a/b/memory.events": EVENTS}, 2),
        (group("6:cpu,cpuacct:/x\n5:memory:/docker/c\n0::/\n") | CONTROL, 4),  # cgroups v1
        (group("0::/\n") | {"sys/fs/cgroup/memory.events": EVENTS}, 7),
        (group("0::/a\n") | {"sys/fs/cgroup/a/memory.events": "oom 3\n"}, 7),  # an old kernel
        (group("0::/gone\n"), 7),
        (VMSTAT, 7),
        ({f"{REPORTS}/JetsamEvent-2026-11-21-103000.ips": "", f"{REPORTS}/Hone-2026.ips": ""}, 1),  # a Mac
        ({"proc/vmstat": "nr_free_pages 81\n"}, None),
        ({}, None),
    ],
)
def test_kills_for_lack_of_memory_are_counted_for_the_group_else_for_the_machine(files, count, tmp_path):
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert out_of_memory_kills(tmp_path) == count


@pytest.fixture
def desktop(tmp_path, monkeypatch):
    """A desktop that keeps the computer awake on request."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    monkeypatch.setenv("WAKEPY_FAKE_SUCCESS", "yes")


@pytest.mark.usefixtures("desktop")
def test_a_computer_is_kept_awake_unless_the_settings_say_otherwise(tmp_path):
    with awake() as is_kept:
        assert is_kept
    settings.save(Settings(keep_awake=False))
    with awake() as is_kept:
        assert not is_kept
    (tmp_path / "settings.json").unlink()
    (tmp_path / "settings.json").mkdir()  # can't be read
    with awake() as is_kept:
        assert is_kept
    with pytest.raises(ZeroDivisionError), awake():
        raise ZeroDivisionError


@pytest.mark.usefixtures("desktop")
def test_a_desktop_that_can_not_do_it_costs_one_line_and_none_at_all_costs_nothing(monkeypatch, capsys):
    monkeypatch.delenv("WAKEPY_FAKE_SUCCESS")
    monkeypatch.setenv("WAKEPY_FORCE_FAILURE", "yes")
    with awake() as is_kept:
        assert not is_kept
    assert capsys.readouterr().err == "This desktop has no way to keep the computer awake.\n"
    if sys.platform not in ("win32", "darwin"):  # these need no D-Bus
        monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS")
        with awake() as is_kept:
            assert not is_kept
        assert capsys.readouterr().err == ""


def test_the_keeper_imports_wakepy_only_to_keep_the_computer_awake():
    code = "import sys, core.monitor.keeper; sys.exit('wakepy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_two_hones_of_the_same_source_have_the_same_digest(tmp_path, monkeypatch):
    digests = []
    for name, text in (("first", "1"), ("second", "1"), ("third", "2")):
        root = tmp_path / name
        (root / "core" / "__pycache__").mkdir(parents=True)
        (root / "core" / "a.py").write_text(text)
        (root / "core" / "__pycache__" / "a.pyc").write_text(name)
        (root / "tests.py").write_text(name)
        monkeypatch.setattr(processes, "SOURCE_ROOT", root)
        digests.append(processes.source_digest.__wrapped__())
    assert digests[0] == digests[1] != digests[2]
