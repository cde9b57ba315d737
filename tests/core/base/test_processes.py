"""How processes ended, in words; and keeping the computer awake, with wakepy told to succeed or to fail."""

import signal
import subprocess
import sys

import pytest

from core.base import settings
from core.base.processes import OUT_OF_MEMORY, awake, describe, log_tail, out_of_memory_kills, signal_name
from core.base.settings import Settings


def test_signals_have_their_names():
    assert signal_name(-signal.SIGTERM) == "SIGTERM"
    assert signal_name(-250) == "signal 250"
    assert signal_name(1) is None
    assert signal_name(None) is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "by itself"),
        (3, "exit status 3"),
        (-9, "killed by another process"),
        (-11, "native code"),
        (0xC0000005, "native"),
    ],
)
def test_every_ending_is_described(code, words):
    assert words in describe(code)


def test_the_out_of_memory_killer_is_named_for_a_kill_only():
    assert describe(-9, out_of_memory=True) == OUT_OF_MEMORY
    assert describe(1, out_of_memory=True) != OUT_OF_MEMORY


def test_the_tail_is_the_last_lines_without_redrawn_bars(tmp_path):
    log = tmp_path / "log.txt"
    log.write_bytes(b"first\n" * 50 + b"10%\r50%\r100%\r\nlast \xff\n")
    tail = log_tail(log).split("\n")
    assert len(tail) == 40
    assert tail[-2:] == ["100%", "last \ufffd"]


def test_the_tail_of_a_huge_log_or_of_none(tmp_path):
    log = tmp_path / "log.txt"
    assert log_tail(log) == ""
    log.write_bytes(b"x" * 5_000_000 + b"\nend")
    assert len(log_tail(log)) < 40_000
    assert log_tail(log).endswith("\nend")


REPORTS = "Library/Logs/DiagnosticReports"
VMSTAT = {"proc/vmstat": "nr_free_pages 81\noom_kill 7\n"}
EVENTS = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.events": EVENTS} | VMSTAT, 2),
        (
            {
                "proc/self/cgroup": "6:cpu,cpuacct:/x\n5:memory:/docker/c\n0::/\n",
                "sys/fs/cgroup/memory/docker/c/memory.oom_control": CONTROL,
            }
            | VMSTAT,
            4,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": EVENTS} | VMSTAT, 7),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.events": "oom 3\n"} | VMSTAT, 7),
        ({"proc/self/cgroup": "0::/gone\n"} | VMSTAT, 7),
        (VMSTAT, 7),
        ({f"{REPORTS}/JetsamEvent-2026-11-21-103000.ips": "", f"{REPORTS}/Hone-2026.ips": ""}, 1),
        ({"proc/vmstat": "nr_free_pages 81\n"}, None),
        ({}, None),
    ],
    ids=[
        "own group",
        "v1 group",
        "the root group",
        "an old kernel",
        "no such group",
        "no groups",
        "a Mac",
        "untold",
        "no Linux",
    ],
)
def test_kills_are_counted_for_the_group_else_for_the_machine(files, count, tmp_path):
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert out_of_memory_kills(tmp_path) == count


@pytest.fixture
def desktop(tmp_path, monkeypatch):
    """A desktop that keeps the computer awake when asked."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    monkeypatch.setenv("WAKEPY_FAKE_SUCCESS", "yes")


@pytest.mark.usefixtures("desktop")
def test_who_does_not_want_it_is_let_be():
    settings.save(Settings(keep_awake=False))
    with awake() as is_kept:
        assert not is_kept


@pytest.mark.usefixtures("desktop")
def test_a_computer_is_kept_awake_also_where_settings_cannot_be_read(tmp_path):
    for _ in range(2):
        with awake() as is_kept:
            assert is_kept
        if not (tmp_path / "settings.json").exists():
            (tmp_path / "settings.json").mkdir()


@pytest.mark.usefixtures("desktop")
def test_a_desktop_without_a_way_costs_one_line(monkeypatch, capsys):
    monkeypatch.delenv("WAKEPY_FAKE_SUCCESS")
    monkeypatch.setenv("WAKEPY_FORCE_FAILURE", "yes")
    with awake() as is_kept:
        assert not is_kept
    assert capsys.readouterr().err == "This desktop has no way to keep the computer awake.\n"


@pytest.mark.usefixtures("desktop")
@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these need no D-Bus")
def test_without_a_desktop_nobody_is_asked(monkeypatch, capsys):
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS")
    with awake() as is_kept:
        assert not is_kept
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("desktop")
def test_a_bug_meanwhile_comes_through():
    with pytest.raises(ZeroDivisionError), awake():
        raise ZeroDivisionError


def test_the_keeper_brings_the_library_only_when_it_asks():
    code = "import sys, core.monitor.keeper; sys.exit('wakepy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
