"""The program's start, and what it reports if it can't: no screen, no library, no folder of its own."""

import gc
import io
import os
import subprocess
import sys
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


def test_debian_packages_are_named_by_rule():
    libraries = system_libraries.ALWAYS | system_libraries.ON_X11 | system_libraries.ON_WAYLAND
    assert {name: debian_package(name) for name in libraries} == libraries


@pytest.mark.parametrize("name", ["zenity", "kdialog", "notify-send"])
def test_each_desktops_dialog_is_found(name):
    def which(program):
        return f"/usr/bin/{program}" if program == name else None

    assert dialog_command("linux", X11, which)[0] == name
    assert dialog_command("linux", {}, which) == dialog_command("linux", X11, lambda _name: None) == ()
    assert dialog_command("darwin", {})[0] == "osascript"


@LINUX_ONLY
def test_without_a_terminal_a_box_is_shown(tmp_path, monkeypatch, qtbot):
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
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys, stream, Terminal())
    monkeypatch.setattr(program, "dialog_command", lambda: pytest.fail("a box beside the terminal"))
    show_message("Too old")
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


def without(*names):
    """Loads all plugins but these, each of which lacks a library of this name."""

    def load(path):
        for name in names:
            if name in path:
                raise OSError(f"lib{name}.so.0: cannot open shared object file")

    return load


@LINUX_ONLY
@pytest.mark.parametrize(
    ("environment", "lacking", "words"),
    [
        ({}, (), "no screen here"),
        (X11, ("xcb",), "apt-get install libxcb0\n"),
        ({**X11, **WAYLAND, "QT_QPA_PLATFORM": "xcb"}, ("xcb",), "apt-get install libxcb0\n"),
        ({**X11, **WAYLAND}, ("xcb",), ""),
        (WAYLAND, ("wayland",), "libwayland0"),
        ({**X11, **OFFSCREEN}, ("xcb",), ""),
        ({**X11, "QT_QPA_PLATFORM": "foo;bar:1"}, (), "QT_QPA_PLATFORM=foo;bar:1 names no platform"),
        ({**X11, "QT_QPA_PLATFORM": "foo;offscreen"}, (), ""),
        ({"QT_QPA_PLATFORM": "wayland-egl"}, (), ""),
        ({"QT_QPA_PLATFORM": "VNC:size=800x600"}, (), ""),
    ],
)
def test_what_qt_lacks_is_named(monkeypatch, environment, lacking, words):
    monkeypatch.setenv("PATH", "")  # without ldd
    reason = why_no_window(environment, without(*lacking), lambda _platform: True)
    assert words in reason
    assert bool(words) == bool(reason)


@LINUX_ONLY
@pytest.mark.parametrize(
    ("environment", "answering", "words"),
    [
        (X11, (), "DISPLAY=:3"),
        ({**X11, **WAYLAND}, (), "WAYLAND_DISPLAY=wayland-0"),
        ({**X11, **WAYLAND}, ("xcb",), ""),
        ({**X11, "QT_QPA_PLATFORM": "wayland"}, ("xcb",), "start Hone without it"),
        ({**X11, **OFFSCREEN}, (), ""),
    ],
)
def test_a_screen_that_does_not_answer_is_named(environment, answering, words):
    reason = why_no_window(environment, without(), lambda platform: platform in answering)
    assert words in reason
    assert bool(words) == bool(reason)


def test_the_loaders_error_names_the_missing_file(monkeypatch):
    monkeypatch.setenv("PATH", "")
    wrapped = OSError("Failed to load dynlib/dll")
    wrapped.__cause__ = OSError("libxcb.so.1: cannot open shared object file: No such file or directory")
    assert missing_libraries(Path("libqxcb.so"), wrapped) == ["libxcb.so.1"]
    assert missing_libraries(Path("libqxcb.so"), OSError("no")) == ["libqxcb.so"]


@LINUX_ONLY
@pytest.mark.parametrize(
    ("variables", "words"), [({}, "There is no screen here"), ({"DISPLAY": ":98765"}, "DISPLAY=:98765")]
)
def test_the_program_reports_it_before_qt_is_imported(tmp_path, variables, words):
    code = """
import sys
from gui import __main__
status = __main__.open_window()
assert not [name for name in sys.modules if name.startswith("PySide6")]
sys.exit(status)
"""
    done = start(tmp_path, "-c", code, **variables)
    assert done.returncode == 1, done.stderr
    assert words in done.stderr
    assert "`hone train RUN.hone`" in done.stderr


@pytest.mark.parametrize("is_file", [True, False])
def test_a_home_that_cant_be_used_gives_the_defaults(tmp_path, monkeypatch, is_file):
    home = tmp_path / "home"
    if is_file:
        home.write_text("")
    else:
        (home / "settings.json").mkdir(parents=True)
        monkeypatch.setattr(application, "open_log", lambda path: None)
    monkeypatch.setenv("HONE_HOME", str(home))
    chosen, error, _ = open_home()
    assert chosen == Settings()
    assert isinstance(error, OSError)
    assert error.filename == str(home if is_file else home / "settings.json")


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
    for text in (done.stdout, (tmp_path / "hone.log").read_text(encoding="utf-8")):
        assert str(tmp_path / "settings.damaged.json") in text


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            b"\xff.csv", marks=pytest.mark.skipif(os.name != "posix", reason="names are text elsewhere")
        ),
        "",
    ],
)
def test_the_window_opens_without_a_home_and_for_any_name(tmp_path, name):
    home = tmp_path / "file"
    home.write_text("")
    done = start(home, "-m", "gui", *filter(None, [name]), HONE_QUIT_AFTER_PAINT="1", **OFFSCREEN)
    assert (done.returncode, done.stdout[:12]) == (0, "first-paint "), done.stderr
    assert "Hone's folder can't be used" in done.stderr
    assert home.is_file()


def test_unknown_arguments_are_reported_without_a_terminal(tmp_path):
    """Such as files dropped on its icon."""
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
