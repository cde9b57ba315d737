"""Where Hone begins, and what it says where it can't: an old system, no screen, no library, no folder of its own."""

import gc
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import about
from bootstrap import old_systems as at_set_up
from bootstrap import system_libraries
from core.base.processes import foreign_environment
from core.base.settings import Settings
from gui import __main__ as program
from gui.__main__ import (
    ALWAYS,
    ON_WAYLAND,
    ON_X11,
    SCREENS,
    System,
    box,
    has_screen,
    qt_plugins,
    tell,
    this_system,
    what_is_missing,
    why_no_answer,
    why_too_old,
)
from gui.app import application
from gui.app.application import open_home

ROOT = Path(__file__).resolve().parents[3]
LINUX_ONLY = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asked on Linux only")
X11, WAYLAND = {"DISPLAY": ":3"}, {"WAYLAND_DISPLAY": "wayland-0"}
OFFSCREEN = {"QT_QPA_PLATFORM": "offscreen"}


def start(home, *arguments, **variables):
    """Run Python in a process of its own, with no other screen than those in `variables`."""
    environment = {name: value for name, value in os.environ.items() if name not in SCREENS}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**environment, "PYTHONPATH": str(ROOT), "HONE_HOME": str(home), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


# --- Old systems


@pytest.mark.parametrize(
    ("system", "words"),
    [
        (System("linux"), ""),
        (System("darwin", (14, 0), "arm64"), ""),
        (System("darwin", (26, 1), "arm64"), ""),
        (System("darwin", (), "arm64"), ""),
        (System("win32", (17763,), "AMD64"), ""),
        (System("win32", (14393,), "AMD64"), "version 1809"),
        (System("darwin", (13, 7, 1), "arm64"), "has macOS 13.7.1, and Hone needs macOS 14 (Sonoma)"),
        (System("darwin", (15, 1), "x86_64"), "Rosetta"),
        (this_system(), ""),
    ],
)
def test_a_system_that_is_too_old_is_told_so(system, words):
    reason = why_too_old(system)
    assert words in reason
    assert bool(words) == bool(reason)


@pytest.mark.parametrize(
    ("system", "mac", "libc", "words"),
    [
        ("linux", "", "glibc 2.31", "glibc 2.31"),
        ("linux", "", "glibc 2.17", "Ubuntu 22.04"),
        ("linux", "", "glibc 2.34", ""),
        ("linux", "", "", "musl"),
        ("darwin", "13.6", "", "macOS 13.6"),
        ("darwin", "14.0", "", ""),
        ("win32", "", "", ""),
    ],
)
def test_the_set_up_says_so_before_it_downloads(system, mac, libc, words):
    reason = at_set_up.why_not(system, mac, libc)
    assert words in reason
    assert bool(words) == bool(reason)


def test_the_set_up_and_the_window_ask_for_the_same():
    assert at_set_up.why_not() == ""
    assert ".".join(map(str, program.OLDEST_MACOS)) == about.OLDEST_MACOS
    assert at_set_up.OLDEST_MACOS == program.OLDEST_MACOS
    libraries = system_libraries.ALWAYS, system_libraries.ON_X11, system_libraries.ON_WAYLAND
    assert libraries == (ALWAYS, ON_X11, ON_WAYLAND)


# --- Words in a terminal or a box


def having(*programs):
    return lambda name: f"/usr/bin/{name}" if name in programs else None


@pytest.mark.parametrize("name", ["zenity", "kdialog", "xmessage", "notify-send"])
def test_each_desktops_own_box_is_found(name):
    command = box("Too old", "linux", X11, having(name))
    assert (command[0], command[-1]) == (name, "Too old")
    assert box("Too old", "linux", {}, having(name)) is None
    assert box("Too old", "linux", X11, having()) is None


def test_xmessage_gets_short_lines_and_plain_quotes():
    words = f"Hone doesn’t understand “{'word ' * 30}” …\n  sudo apt-get install libegl1"
    shown = box(words, "linux", X11, having("xmessage"))[-1]
    assert shown.isascii()
    assert max(map(len, shown.splitlines())) <= 72
    assert shown.endswith("\n  sudo apt-get install libegl1")
    assert box(words, "linux", X11, having("zenity"))[-1] == words


def test_a_mac_gets_the_words_as_words_and_not_as_a_script():
    command = box('" & (do shell script "true") & "', "darwin", {})
    assert command[-1] == '" & (do shell script "true") & "'
    assert not any("true" in part for part in command[:-1])


@LINUX_ONLY
def test_who_has_no_terminal_gets_a_box(tmp_path, monkeypatch, qtbot):
    shown, stand_in = tmp_path / "shown", tmp_path / "zenity"
    stand_in.write_text(
        f'#!/bin/sh\nfor last; do :; done\nprintf %s "$last" > "{shown}.part"\nmv "{shown}.part" "{shown}"\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":0")
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, io.StringIO())
    tell("Do this\nand that")
    assert sys.stderr.getvalue() == "Do this\nand that\n"
    qtbot.waitUntil(shown.exists)
    assert shown.read_text() == "Do this\nand that"


@pytest.mark.parametrize("watched", ["stdout", "stderr"])
def test_who_reads_the_terminal_gets_no_box(monkeypatch, watched):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys, watched, Terminal())
    monkeypatch.setattr(program, "_show", lambda command: pytest.fail("a box beside the terminal"))
    tell("Too old")
    assert sys.stderr.getvalue() == "Too old\n"


def test_other_programs_get_none_of_a_bundles_library_paths(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/hone/_internal")
    monkeypatch.setenv("LD_LIBRARY_PATH_ORIG", "/own")
    monkeypatch.setenv("QT_PLUGIN_PATH", "/opt/hone/_internal/PySide6")
    monkeypatch.setenv("_PYI_ARCHIVE_FILE", "/opt/hone/hone")
    assert foreign_environment()["LD_LIBRARY_PATH"] == "/opt/hone/_internal"
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    given = foreign_environment()
    assert given["LD_LIBRARY_PATH"] == "/own"
    assert not {"LD_LIBRARY_PATH_ORIG", "QT_PLUGIN_PATH", "_PYI_ARCHIVE_FILE"} & set(given)


# --- Libraries and screens on Linux


def without(*names):
    """Loads all libraries but these."""

    def load(name):
        if name in names:
            raise OSError(f"{name}: cannot open shared object file")

    return load


@LINUX_ONLY
@pytest.mark.parametrize(
    ("environment", "lacking", "words"),
    [
        (X11, ("libxcb-cursor.so.0", "libxcb-icccm.so.4"), "install libxcb-cursor0 libxcb-icccm4\n"),
        ({**X11, **WAYLAND, "QT_QPA_PLATFORM": "xcb"}, ("libxcb-cursor.so.0",), "install libxcb-cursor0\n"),
        (X11, ("libGL.so.1",), "OpenGL"),
        (X11, (), ""),
        (OFFSCREEN, tuple(ON_X11), ""),
        ({**X11, **WAYLAND}, tuple(ON_X11), ""),
        ({"QT_QPA_PLATFORM": "wayland"}, tuple(ON_X11), ""),
        ({"QT_QPA_PLATFORM": "wayland"}, ("libEGL.so.1",), "libegl1"),
        (WAYLAND, ("libwayland-cursor.so.0",), "libwayland-cursor0"),
        ({**WAYLAND, "QT_QPA_PLATFORM": "xcb"}, (), "QT_QPA_PLATFORM=wayland"),
        ({**X11, "QT_QPA_PLATFORM": "foo"}, (), "QT_QPA_PLATFORM=foo names no platform"),
        ({**X11, "QT_QPA_PLATFORM": "foo;bar:1"}, (), "QT_QPA_PLATFORM=foo;bar:1 names no platform"),
        ({"QT_QPA_PLATFORM": "foo", "QT_PLUGIN_PATH": "/own"}, (), ""),
        ({**X11, "QT_QPA_PLATFORM": "foo;offscreen"}, (), ""),
        ({**X11, "QT_QPA_PLATFORM": "wayland-egl"}, (), ""),
        ({**X11, "QT_QPA_PLATFORM": "VNC:size=800x600"}, (), ""),
    ],
)
def test_what_qt_lacks_is_named(environment, lacking, words):
    reason = what_is_missing(environment, without(*lacking))
    assert words in reason
    assert bool(words) == bool(reason)


@LINUX_ONLY
def test_wayland_without_xwayland_is_named_where_qt_knows_only_x11(tmp_path):
    assert (qt_plugins() / "libqxcb.so").is_file()
    for name in ("libqxcb.so", "libqoffscreen.so"):
        (tmp_path / name).touch()
    assert "the package xwayland" in what_is_missing(WAYLAND, without(), tmp_path)
    for environment in ({**WAYLAND, **X11}, {**WAYLAND, **OFFSCREEN}):
        assert what_is_missing(environment, without(), tmp_path) == ""
    (tmp_path / "libqwayland.so").touch()
    assert what_is_missing(WAYLAND, without(), tmp_path) == ""


@LINUX_ONLY
def test_the_file_that_is_missing_is_named_and_not_those_that_need_it():
    def load(name):
        if "xcb" in name or name == "libGL.so.1":
            words = "libxcb.so.1: cannot open shared object file: No such file or directory"
            raise OSError(f"Failed to load dynlib/dll {name}") from OSError(words)

    words = what_is_missing(X11, load)
    assert "(libxcb.so.1)" in words
    assert "sudo apt-get install libxcb1\n" in words


@LINUX_ONLY
@pytest.mark.parametrize(
    ("environment", "answering", "words"),
    [
        (X11, (), "DISPLAY=:3"),
        (X11, (), "ssh -X"),
        ({**X11, **WAYLAND}, (), "WAYLAND_DISPLAY=wayland-0"),
        ({**X11, **WAYLAND}, ("xcb",), ""),
        ({**X11, "QT_QPA_PLATFORM": "wayland"}, ("xcb",), "QT_QPA_PLATFORM=wayland asks for a screen"),
        ({**X11, "QT_QPA_PLATFORM": "wayland"}, (), "the screen doesn't answer"),
        ({**X11, **OFFSCREEN}, (), ""),
        ({}, (), ""),
    ],
)
def test_a_silent_screen_is_named_with_what_to_do(environment, answering, words):
    reason = why_no_answer(environment, lambda platform: platform in answering)
    assert words in reason
    assert bool(words) == bool(reason)


@LINUX_ONLY
def test_a_real_x11_display_that_is_not_there(monkeypatch):
    def unknown(_platform):
        raise OSError("libxcb.so.1")

    assert why_no_answer(X11, unknown) == ""
    pytest.importorskip("ctypes").CDLL("libxcb.so.1")
    monkeypatch.setenv("DISPLAY", ":98765")
    monkeypatch.setenv("QT_QPA_PLATFORM", "xcb")
    assert "doesn't answer" in why_no_answer()


@LINUX_ONLY
@pytest.mark.parametrize(
    ("change", "variables", "words"),
    [
        ("", {}, "There is no screen here"),
        ('__main__.ON_X11 = {"libnone.so.0": "libnone0"}', {"DISPLAY": ":99"}, "apt-get install libnone0"),
    ],
)
def test_the_program_says_so_before_qt_is_loaded(tmp_path, change, variables, words):
    code = f"""
import sys
from gui import __main__
{change}
status = __main__.open_window()
assert not [name for name in sys.modules if name.startswith("PySide6")]
sys.exit(status)
"""
    done = start(tmp_path, "-c", code, **variables)
    assert done.returncode == 1, done.stderr
    assert words in done.stderr
    assert "`hone train RUN.hone`" in done.stderr


@pytest.mark.parametrize("name", SCREENS)
def test_any_of_the_variables_is_taken_at_its_word(name, monkeypatch):
    for other in SCREENS:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, ":0")
    assert has_screen()


# --- Hone's own folder


@pytest.mark.parametrize("is_file", [True, False])
def test_a_home_that_cant_be_used_gives_the_defaults(tmp_path, monkeypatch, is_file):
    home = tmp_path / "home"
    if is_file:
        home.write_text("")
    else:
        (home / "settings.json").mkdir(parents=True)
        monkeypatch.setattr(application, "open_log", lambda path: None)
    monkeypatch.setenv("HONE_HOME", str(home))
    chosen, trouble, _ = open_home()
    assert chosen == Settings()
    assert isinstance(trouble, OSError)
    assert trouble.filename == str(home if is_file else home / "settings.json")


def test_damaged_settings_are_named_in_the_window_and_the_log(tmp_path):
    (tmp_path / "settings.json").write_text('{"runs_folder": 7, "appearance": "pink"}')
    code = """
from PySide6.QtWidgets import QApplication, QLabel
from gui.app import application as app
def look():
    (window,) = [one for one in QApplication.topLevelWidgets() if isinstance(one, app.MainWindow)]
    print(*[label.text() for label in window.found.strip.trouble.findChildren(QLabel) if label.isVisible()])
    QApplication.quit()
app._report_paint = look
app.run_app(["hone"])
"""
    done = start(tmp_path, "-c", code, HONE_QUIT_AFTER_PAINT="1", **OFFSCREEN)
    for words in (done.stdout, (tmp_path / "hone.log").read_text(encoding="utf-8")):
        assert "Your settings were damaged, so the defaults are in force" in words
        assert str(tmp_path / "settings.damaged.json") in words


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            b"\xff.csv", marks=pytest.mark.skipif(os.name != "posix", reason="names are text elsewhere")
        ),
        "",
    ],
)
def test_the_window_opens_where_nothing_can_be_kept_and_for_any_name(tmp_path, name):
    home = tmp_path / "file"
    home.write_text("")
    done = start(home, "-m", "gui", *filter(None, [name]), HONE_QUIT_AFTER_PAINT="1", **OFFSCREEN)
    assert (done.returncode, done.stdout[:12]) == (0, "first-paint "), done.stderr
    assert "Hone's folder can't be used" in done.stderr
    assert home.is_file()


def test_what_hone_does_not_understand_is_said_where_nobody_reads_along(tmp_path):
    """Such as what was dropped on its icon."""
    done = start(tmp_path, "-m", "gui", "nonsense")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("Hone doesn't understand “nonsense”.")


def test_garbage_is_collected_again_once_the_window_has_settled():
    gc.disable()
    try:
        application.collect_garbage()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()
