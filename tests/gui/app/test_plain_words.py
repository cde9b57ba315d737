"""Words where no window can be: printed, and in a box of the system's for who has no terminal."""

import io
import os
import sys

import pytest

from core.base.processes import foreign_environment
from gui import __main__
from gui.__main__ import box, tell

LINUX = {"DISPLAY": ":0"}


def having(*programs):
    return lambda name: f"/usr/bin/{name}" if name in programs else None


@pytest.mark.parametrize("program", ["zenity", "kdialog", "xmessage", "notify-send"])
def test_each_desktop_s_own_box_is_found(program):
    command = box("Too old", "linux", LINUX, having(program))
    assert (command[0], command[-1]) == (program, "Too old")


def test_without_a_screen_or_such_a_program_there_is_no_box():
    assert box("Too old", "linux", {}, having("zenity")) is None
    assert box("Too old", "linux", LINUX, having()) is None


def test_xmessage_gets_short_lines_and_plain_quotes():
    said = f"Hone doesn’t understand “{'word ' * 30}” …\n  sudo apt-get install libegl1"
    shown = box(said, "linux", LINUX, having("xmessage"))[-1]
    assert shown.isascii()
    assert max(map(len, shown.splitlines())) <= 72
    assert shown.endswith("\n  sudo apt-get install libegl1")
    assert box(said, "linux", LINUX, having("zenity"))[-1] == said


def test_a_mac_gets_the_words_as_words_and_not_as_a_script():
    command = box('" & (do shell script "true") & "', "darwin", {})
    assert command[-1] == '" & (do shell script "true") & "'
    assert not any("true" in part for part in command[:-1])


@pytest.mark.skipif(sys.platform != "linux", reason="starts a stand-in for a Linux desktop's program")
def test_who_has_no_terminal_gets_a_box(tmp_path, monkeypatch, qtbot):
    told, stand_in = tmp_path / "told", tmp_path / "zenity"
    stand_in.write_text(
        f'#!/bin/sh\nfor last; do :; done\nprintf %s "$last" > "{told}.part"\nmv "{told}.part" "{told}"\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":0")
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, io.StringIO())
    tell("Do this\nand that")
    assert sys.stderr.getvalue() == "Do this\nand that\n"
    qtbot.waitUntil(told.exists)
    assert told.read_text() == "Do this\nand that"


@pytest.mark.parametrize("watched", ["stdout", "stderr"])
def test_who_reads_the_terminal_gets_no_box(monkeypatch, watched):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys, watched, Terminal())
    monkeypatch.setattr(__main__, "_show", lambda command: pytest.fail("a box beside the terminal"))
    tell("Too old")
    assert sys.stderr.getvalue() == "Too old\n"


def test_other_programs_get_none_of_a_bundle_s_library_paths(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/hone/_internal")
    monkeypatch.setenv("LD_LIBRARY_PATH_ORIG", "/own")
    monkeypatch.setenv("QT_PLUGIN_PATH", "/opt/hone/_internal/PySide6")
    monkeypatch.setenv("_PYI_ARCHIVE_FILE", "/opt/hone/hone")
    assert foreign_environment()["LD_LIBRARY_PATH"] == "/opt/hone/_internal"
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    given = foreign_environment()
    assert given["LD_LIBRARY_PATH"] == "/own"
    assert not {"LD_LIBRARY_PATH_ORIG", "QT_PLUGIN_PATH", "_PYI_ARCHIVE_FILE"} & set(given)
