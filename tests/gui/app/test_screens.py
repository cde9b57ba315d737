"""A screen that is named and doesn't answer."""

import sys

import pytest

from gui.__main__ import why_no_answer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asked on Linux only")
X11, WAYLAND = {"DISPLAY": ":3"}, {"WAYLAND_DISPLAY": "wayland-0"}


def silent(_platform):
    return False


def x11_answers(platform):
    return platform == "xcb"


def unknown(_platform):
    raise OSError("libxcb.so.1")


def test_a_silent_screen_is_named_with_what_to_do():
    assert "DISPLAY=:3" in why_no_answer(X11, silent)
    assert "ssh -X" in why_no_answer(X11, silent)
    assert "WAYLAND_DISPLAY=wayland-0" in why_no_answer({**X11, **WAYLAND}, silent)


def test_one_screen_that_answers_is_enough():
    assert why_no_answer({**X11, **WAYLAND}, x11_answers) == ""
    assert why_no_answer({**X11, **WAYLAND, "QT_QPA_PLATFORM": "wayland"}, x11_answers) != ""


def test_a_variable_that_leads_away_from_the_screen_is_named():
    words = why_no_answer({**X11, "QT_QPA_PLATFORM": "wayland"}, x11_answers)
    assert "QT_QPA_PLATFORM=wayland asks for a screen that doesn't answer" in words
    assert "QT_QPA_PLATFORM" not in why_no_answer({**X11, "QT_QPA_PLATFORM": "wayland"}, silent)
    assert "QT_QPA_PLATFORM" not in why_no_answer({**X11, "QT_QPA_PLATFORM": "xcb"}, silent)


def test_nothing_is_asked_where_none_is_needed_or_nobody_can_tell():
    assert why_no_answer({**X11, "QT_QPA_PLATFORM": "offscreen"}, silent) == ""
    assert why_no_answer({}, silent) == ""
    assert why_no_answer(X11, unknown) == ""


def test_a_real_x11_display_that_is_not_there(monkeypatch):
    pytest.importorskip("ctypes").CDLL("libxcb.so.1")
    monkeypatch.setenv("DISPLAY", ":98765")
    monkeypatch.setenv("QT_QPA_PLATFORM", "xcb")
    assert "doesn't answer" in why_no_answer()
