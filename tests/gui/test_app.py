"""What the program sets once for its whole process."""

import os
import subprocess
import sys

from gui.app import SWITCH_SECONDS, take_short_turns


def test_the_window_waits_half_a_millisecond_for_another_thread():
    before = sys.getswitchinterval()
    try:
        take_short_turns()
        assert sys.getswitchinterval() == SWITCH_SECONDS == 0.0005
    finally:
        sys.setswitchinterval(before)


def test_charts_are_imported_in_a_thread():
    """In a process of its own: here they have long been imported."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, gui.app; before = 'pyqtgraph' in sys.modules; gui.app.import_charts().join();"
            "print(before, 'pyqtgraph' in sys.modules)",
        ],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )
    assert (told.stdout.split(), told.stderr) == (["False", "True"], "")
