"""Where Qt would abort for want of a library, Hone says which package has it."""

import subprocess
import sys
from pathlib import Path

import pytest

from gui.__main__ import ALWAYS, ON_WAYLAND, ON_X11, qt_plugins, what_is_missing

ROOT = Path(__file__).resolve().parents[3]
CURSOR = "libxcb-cursor.so.0"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere Qt brings all along")


def without(*names):
    """Loads all libraries but these."""

    def load(name):
        if name in names:
            raise OSError(f"{name}: cannot open shared object file")

    return load


@pytest.mark.parametrize(
    "environment", [{"DISPLAY": ":0"}, {"QT_QPA_PLATFORM": "xcb", "WAYLAND_DISPLAY": "0", "DISPLAY": ":0"}]
)
def test_a_library_of_x11_is_named_with_its_package(environment):
    words = what_is_missing(environment, without(CURSOR, "libxcb-icccm.so.4"))
    assert "(libxcb-cursor.so.0, libxcb-icccm.so.4)" in words
    assert "sudo apt-get install libxcb-cursor0 libxcb-icccm4\n" in words
    assert "`hone train RUN.hone`" in words
    assert what_is_missing(environment, without()) == ""


@pytest.mark.parametrize(
    "environment",
    [
        {"QT_QPA_PLATFORM": "offscreen"},
        {"WAYLAND_DISPLAY": "0", "DISPLAY": ":0"},
        {"QT_QPA_PLATFORM": "wayland"},
    ],
)
def test_x11_s_are_not_missed_on_other_screens(environment):
    assert what_is_missing(environment, without(*ON_X11)) == ""
    assert "libegl1" in what_is_missing(environment, without("libEGL.so.1"))


def test_the_program_says_so_before_qt_is_loaded(tmp_path):
    code = """
import ctypes, sys
from gui import __main__
__main__.ON_X11 = {"libnone.so.0": "libnone0"}
status = __main__.open_window()
assert not [name for name in sys.modules if name.startswith("PySide6")]
sys.exit(status)
"""
    environment = {"DISPLAY": ":99", "PYTHONPATH": str(ROOT), "HONE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1, done.stderr
    assert "sudo apt-get install libnone0" in done.stderr


def test_start_py_knows_the_same(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    from bootstrap import system_libraries

    assert (ALWAYS, ON_X11) == (system_libraries.ALWAYS, system_libraries.ON_X11)
    assert ON_WAYLAND == system_libraries.ON_WAYLAND


def test_a_bundle_is_asked_for_what_the_graphics_driver_brings(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    words = what_is_missing({"DISPLAY": ":0"}, without("libGL.so.1"))
    assert "OpenGL" in words
    assert "sudo apt-get install libgl1\n" in words


def test_wayland_without_xwayland_is_told_where_qt_knows_only_x11(tmp_path):
    for name in ("libqxcb.so", "libqoffscreen.so"):
        (tmp_path / name).touch()
    alone = {"WAYLAND_DISPLAY": "wayland-0"}
    words = what_is_missing(alone, without(), tmp_path)
    assert "without XWayland" in words
    assert "the package xwayland" in words
    assert what_is_missing({**alone, "DISPLAY": ":0"}, without(), tmp_path) == ""
    assert what_is_missing({**alone, "QT_QPA_PLATFORM": "offscreen"}, without(), tmp_path) == ""
    (tmp_path / "libqwayland.so").touch()
    assert what_is_missing(alone, without(), tmp_path) == ""
    assert "libwayland-cursor0" in what_is_missing(alone, without("libwayland-cursor.so.0"), tmp_path)


def test_x11_asked_for_where_there_is_none_is_told():
    words = what_is_missing({"WAYLAND_DISPLAY": "0", "QT_QPA_PLATFORM": "xcb"}, without())
    assert "QT_QPA_PLATFORM=wayland" in words


def test_the_file_that_is_missing_is_named_and_not_those_that_need_it():
    def load(name):
        if "xcb" in name or name == "libGL.so.1":
            words = "libxcb.so.1: cannot open shared object file: No such file or directory"
            raise OSError(f"Failed to load dynlib/dll {name}") from OSError(words)

    words = what_is_missing({"DISPLAY": ":0"}, load)
    assert "(libxcb.so.1)" in words
    assert "sudo apt-get install libxcb1\n" in words


@pytest.mark.parametrize("asked", ["foo", "foo;bar:1"])
def test_a_platform_that_qt_does_not_have_is_told(asked):
    words = what_is_missing({"DISPLAY": ":0", "QT_QPA_PLATFORM": asked}, without())
    assert f"QT_QPA_PLATFORM={asked} names no platform" in words
    assert "wayland, xcb" in words
    assert what_is_missing({"QT_QPA_PLATFORM": asked, "QT_PLUGIN_PATH": "/own"}, without()) == ""


@pytest.mark.parametrize("asked", ["", "foo;offscreen", "wayland-egl", "VNC:size=800x600"])
def test_a_platform_that_qt_has_is_taken_at_its_word(asked):
    assert what_is_missing({"DISPLAY": ":0", "QT_QPA_PLATFORM": asked}, without()) == ""


def test_qt_s_plugins_are_found_without_loading_qt():
    assert (qt_plugins() / "libqxcb.so").is_file()
