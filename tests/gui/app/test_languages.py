"""The window in a language: its direction, Qt's own words, and letters that no font here has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QFontDatabase

from core.base import language
from gui.app.application import missing_letters

ROOT = Path(__file__).resolve().parents[3]
SHOW = """
from PySide6.QtWidgets import QApplication, QDialogButtonBox
from core.base.language import _
from gui.app.application import set_up
from gui.new_run.memory_card import TimeBox
from gui.widgets.labels import meanings_in
application = QApplication(["hone"])
set_up(application)
box = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
print(application.layoutDirection().name, box.buttons()[0].text())
words = [_("weights"), _("gradients"), _("optimizer"), _("activations"), _("Validation loss")]
print(sum(bool(meanings_in(word)) for word in words))
box = TimeBox()
print(all(box.valueFromText(box.textFromValue(minutes)) == minutes for minutes in (45.0, 60.0, 90.0, 100.0)))
"""


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("en", "LeftToRight Cancel"),
        ("ar", "RightToLeft إلغاء"),
        ("ko", "LeftToRight 취소"),
        ("zh_CN", "LeftToRight 取消"),
    ],
)
def test_the_window_is_laid_out_in_its_language_and_qt_speaks_it(tmp_path, code, shown):
    environment = {**os.environ, "HONE_LANGUAGE": code, "HONE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    direction, meanings, is_read = done.stdout.splitlines()
    assert direction == shown
    assert meanings == "5", "the guide's glossary has the words of the window"
    assert is_read == "True", "a length of time is read as it is shown"


@pytest.mark.parametrize(
    ("code", "families", "package"),
    [("ko", [], "fonts-noto-cjk"), ("ar", [], "fonts-noto-core"), ("ar", ["Amiri"], ""), ("en", [], "")],
)
def test_without_letters_the_package_that_has_them_is_named(monkeypatch, code, families, package):
    monkeypatch.setattr(language, "LANGUAGE", code)
    monkeypatch.setattr(QFontDatabase, "families", lambda _script: families)
    found = missing_letters()
    assert (package in found.detail) if package else found is None
