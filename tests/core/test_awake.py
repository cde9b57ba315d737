"""Keeping the computer awake, with wakepy told to succeed or to fail: no test may hold on to the real computer."""

import subprocess
import sys

import pytest

from core.base import settings
from core.base.processes import awake
from core.base.settings import Settings


@pytest.fixture(autouse=True)
def desktop(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A desktop that keeps the computer awake when asked."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    monkeypatch.setenv("WAKEPY_FAKE_SUCCESS", "yes")


def test_a_computer_is_kept_awake() -> None:
    with awake() as is_kept:
        assert is_kept


def test_who_does_not_want_it_is_let_be() -> None:
    settings.save(Settings(keep_awake=False))
    with awake() as is_kept:
        assert not is_kept


def test_settings_that_cannot_be_read_change_nothing(tmp_path) -> None:
    (tmp_path / "settings.json").mkdir()
    with awake() as is_kept:
        assert is_kept


def test_a_desktop_without_a_way_costs_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WAKEPY_FAKE_SUCCESS")
    monkeypatch.setenv("WAKEPY_FORCE_FAILURE", "yes")
    with awake() as is_kept:
        assert not is_kept
    assert capsys.readouterr().err == "This desktop has no way to keep the computer awake.\n"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these need no D-Bus")
def test_without_a_desktop_nobody_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS")
    with awake() as is_kept:
        assert not is_kept
    assert capsys.readouterr().err == ""


def test_a_bug_meanwhile_comes_through() -> None:
    with pytest.raises(ZeroDivisionError), awake():
        raise ZeroDivisionError


def test_the_keeper_brings_the_library_only_when_it_asks() -> None:
    code = "import sys, core.monitor.keeper; sys.exit('wakepy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
