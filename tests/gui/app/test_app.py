"""What the program sets once for its whole process."""

import os
import subprocess
import sys


def test_charts_are_imported_in_a_thread():
    """In a process of its own: here they have long been imported."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, gui.app.application as a; before = 'pyqtgraph' in sys.modules; a.import_charts().join();"
            "print(before, 'pyqtgraph' in sys.modules)",
        ],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )
    assert (told.stdout.split(), told.stderr) == (["False", "True"], "")


GERMAN = """
import time
from PySide6.QtTest import QTest
from core.options.catalogue import options_by_path
from gui.app.application import HoneApplication, set_up
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
"""


def test_numbers_and_dates_are_english_as_all_texts_are_whatever_the_system_speaks():
    """In a process of its own: Qt asks for the system's locale once."""
    told = subprocess.run(
        [sys.executable, "-c", GERMAN],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "de_DE.UTF-8"},
    )
    assert told.stdout.split("\n") == ["Mar", "0.125 12.5 %", "0.125 12.5 %", "1,024", ""]
