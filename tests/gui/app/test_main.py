"""The start of the program, and what it reports where it can't: no screen, no library, no folder of its own."""

import gc
import io
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import about
from bootstrap import old_systems, system_libraries
from core.base.processes import foreign_environment
from core.base.settings import Settings
from gui import __main__ as program
from gui.__main__ import debian_package, dialog_command, missing_libraries, show_message, why_no_window
from gui.app import application
from gui.app.application import open_home

ROOT = Path(__file__).resolve().parents[3]
LINUX_ONLY = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asked on Linux only")
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
X11, WAYLAND = {"DISPLAY": ":3"}, {"WAYLAND_DISPLAY": "wayland-0"}
OFFSCREEN = {"QT_QPA_PLATFORM": "offscreen"}
LD_LIBRARY_PATHS = {"LD_LIBRARY_PATH": "/opt/hone/_internal", "LD_LIBRARY_PATH_ORIG": "/own"}


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


# --- Systems and libraries


@pytest.mark.parametrize(
    ("system", "mac", "libc", "words"),
    [
        ("linux", "", "glibc 2.31", "glibc 2.31"),
        ("linux", "", "glibc 2.34", ""),
        ("linux", "", "", "musl"),
        ("darwin", "13.6", "", "macOS 13.6"),
        ("darwin", "14.0", "", ""),
        ("win32", "", "", ""),
    ],
)
def test_the_set_up_refuses_systems_that_are_too_old(system, mac, libc, words):
    reason = old_systems.why_not(system, mac, libc)
    assert words in reason
    assert bool(words) == bool(reason)
    assert ".".join(map(str, old_systems.OLDEST_MACOS)) == about.OLDEST_MACOS


def without(*names):
    """Loads all plugins but these, each of which lacks a library of this name."""

    def load(path):
        for name in names:
            if name in path:
                raise OSError(f"lib{name}.so.0: cannot open shared object file")

    return load


@LINUX_ONLY
@pytest.mark.parametrize(
    ("environment", "lacking", "answering", "words"),
    [
        ({}, (), None, "no screen here"),
        (X11, ("xcb",), None, "apt-get install libxcb0\n"),
        ({**X11, **WAYLAND, "QT_QPA_PLATFORM": "xcb"}, ("xcb",), None, "apt-get install libxcb0\n"),
        ({**X11, **WAYLAND}, ("xcb",), None, ""),
        (WAYLAND, ("wayland",), None, "libwayland0"),
        ({**X11, **OFFSCREEN}, ("xcb",), None, ""),
        ({**X11, "QT_QPA_PLATFORM": "foo;bar:1"}, (), None, "QT_QPA_PLATFORM=foo;bar:1 names no platform"),
        ({**X11, "QT_QPA_PLATFORM": "foo;offscreen"}, (), None, ""),
        ({"QT_QPA_PLATFORM": "wayland-egl"}, (), None, ""),
        ({"QT_QPA_PLATFORM": "VNC:size=800x600"}, (), None, ""),
        (X11, (), (), "DISPLAY=:3"),
        ({**X11, **WAYLAND}, (), (), "WAYLAND_DISPLAY=wayland-0"),
        ({**X11, **WAYLAND}, (), ("xcb",), ""),
        ({**X11, "QT_QPA_PLATFORM": "wayland"}, (), ("xcb",), "start Hone without it"),
        ({**X11, **OFFSCREEN}, (), (), ""),
    ],
)
def test_a_missing_library_or_a_screen_that_doesnt_answer_is_named(
    monkeypatch, environment, lacking, answering, words
):
    monkeypatch.setenv("PATH", "")  # without ldd
    answers = (lambda _: True) if answering is None else (lambda platform: platform in answering)
    reason = why_no_window(environment, without(*lacking), answers)
    assert words in reason
    assert bool(words) == bool(reason)


def test_missing_libraries_are_read_from_the_loaders_error_and_named_as_debian_packages(monkeypatch):
    monkeypatch.setenv("PATH", "")
    wrapped = OSError("Failed to load dynlib/dll")
    wrapped.__cause__ = OSError("libxcb.so.1: cannot open shared object file: No such file or directory")
    assert missing_libraries(Path("libqxcb.so"), wrapped) == ["libxcb.so.1"]
    assert missing_libraries(Path("libqxcb.so"), OSError("no")) == ["libqxcb.so"]
    libraries = system_libraries.ALWAYS | system_libraries.ON_X11 | system_libraries.ON_WAYLAND
    assert {name: debian_package(name) for name in libraries} == libraries


@LINUX_ONLY
def test_without_a_screen_the_program_reports_it_before_qt_is_imported(tmp_path):
    code = """
import sys
from gui import __main__
status = __main__.open_window([])
assert not [name for name in sys.modules if name.startswith("PySide6")]
sys.exit(status)
"""
    ended = start(tmp_path, "-c", code, DISPLAY=":98765")
    assert ended.returncode == 1, ended.stderr
    # which of the reasons it is, the tests above say: this system may lack libraries, too
    assert ended.stderr.strip().endswith(why_no_window({"DISPLAY": ":98765"}))
    assert "`hone train RUN.hone`" in ended.stderr


# --- Messages without a window


@pytest.mark.parametrize("name", ["zenity", "kdialog", "notify-send"])
def test_each_desktops_dialog_is_found(name):
    def which(program):
        return f"/usr/bin/{program}" if program == name else None

    assert dialog_command("linux", X11, which)[0] == name
    assert dialog_command("linux", {}, which) == dialog_command("linux", X11, lambda _name: None) == ()
    assert dialog_command("darwin", {})[0] == "osascript"


@LINUX_ONLY
def test_without_a_terminal_a_message_is_shown_in_a_box(tmp_path, monkeypatch, qtbot):
    shown, stand_in = tmp_path / "shown", tmp_path / "zenity"
    stand_in.write_text(
        f'#!/bin/sh\nfor last; do :; done\nprintf %s "$last" > "{shown}.part"\nmv "{shown}.part" "{shown}"\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":0")
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, io.StringIO())
    show_message("Do this\nand that")
    assert sys.stderr.getvalue() == "Do this\nand that\n"
    qtbot.waitUntil(shown.exists)
    assert shown.read_text() == "Do this\nand that"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_in_a_terminal_no_box_is_shown(monkeypatch, stream):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys, stream, terminal)
    monkeypatch.setattr(program, "dialog_command", lambda: pytest.fail("a box beside the terminal"))
    show_message("Too old")
    assert sys.stderr.getvalue() == "Too old\n"


def test_other_programs_get_none_of_a_bundles_library_paths(monkeypatch):
    for name, value in LD_LIBRARY_PATHS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("QT_PLUGIN_PATH", "/opt/hone/_internal/PySide6")
    monkeypatch.setenv("_PYI_ARCHIVE_FILE", "/opt/hone/hone")
    assert foreign_environment()["LD_LIBRARY_PATH"] == "/opt/hone/_internal"
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    given = foreign_environment()
    assert given["LD_LIBRARY_PATH"] == "/own"
    assert not {"LD_LIBRARY_PATH_ORIG", "QT_PLUGIN_PATH", "_PYI_ARCHIVE_FILE"} & set(given)


def test_unknown_arguments_are_reported(tmp_path):
    ended = start(tmp_path, "-m", "gui", "nonsense")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "“nonsense”" in line


# --- The home


def test_a_home_that_cant_be_used_and_damaged_settings_give_the_defaults(tmp_path, monkeypatch):
    file, folder, damaged = tmp_path / "file", tmp_path / "folder", tmp_path / "damaged"
    file.write_text("")
    (folder / "settings.json").mkdir(parents=True)
    damaged.mkdir()
    (damaged / "settings.json").write_text('{"runs_folder": 7, "appearance": "pink"}')
    for home, name in ((file, file), (folder, folder / "settings.json")):
        monkeypatch.setenv("HONE_HOME", str(home))
        chosen, error, _ = open_home()
        assert chosen == Settings()
        assert error.filename == str(name)
        monkeypatch.setattr(application, "open_log", lambda path: None)
    monkeypatch.setenv("HONE_HOME", str(damaged))
    chosen, error, trouble = open_home()
    assert (chosen, error) == (Settings(), None)
    assert str(damaged / "settings.damaged.json") in str(trouble)


@pytest.mark.skipif(os.name != "posix", reason="names are text elsewhere")
def test_the_window_opens_without_a_home_and_for_a_name_that_is_no_text(tmp_path):
    home = tmp_path / "file"
    home.write_text("")
    ended = start(home, "-m", "gui", b"\xff.csv", HONE_QUIT_AFTER_PAINT="1", **OFFSCREEN)
    assert (ended.returncode, ended.stdout[:12]) == (0, "first-paint "), ended.stderr
    assert "Hone's folder can't be used" in ended.stderr
    assert home.is_file()


# --- What is set once for the whole process

FOREIGN = """
import sys, time
from PySide6.QtTest import QTest
from core.options.catalogue import options_by_path
from gui.app.application import HoneApplication, import_charts, set_up
from gui.widgets.fields import make_field
set_up(HoneApplication(["hone"]))
print(time.strftime("%b", time.gmtime(6e6)))
for text in ("12.5", "12,5"):
    share = make_field(options_by_path()["data.eval_fraction"])
    share.control.selectAll()
    QTest.keyClicks(share.control, text)
    print(share.value(), share.control.text())
longest = make_field(options_by_path()["data.max_length"])
longest.set_value(1024)
print(longest.control.text())
before = "pyqtgraph" in sys.modules
import_charts().join()
print(before, "pyqtgraph" in sys.modules)
"""


@pytest.mark.parametrize("language", ["de_DE", "ar_EG"])
def test_numbers_and_dates_are_english_whatever_the_system_speaks_and_charts_are_imported_in_a_thread(
    tmp_path, language
):
    ended = start(tmp_path, "-c", FOREIGN, LC_ALL=f"{language}.UTF-8", **OFFSCREEN)
    assert ended.stdout.splitlines() == ["Mar", "0.125 12.5 %", "0.125 12.5 %", "1,024", "False True"]


def test_garbage_is_collected_in_the_event_loop_and_nowhere_else(qtbot, qapp):
    class Round:
        pass

    timer = application.collect_garbage(qapp)
    timer.setInterval(0)
    try:
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
        first, second = Round(), Round()
        first.other, second.other = second, first
        gone = weakref.ref(first)
        del first, second
        kept = [[] for _number in range(2 * gc.get_threshold()[0])]
        assert gone() is not None
        qtbot.waitUntil(lambda: gone() is None)
        assert kept
    finally:
        timer.stop()
        gc.enable()
        gc.unfreeze()
