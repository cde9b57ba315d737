"""What the program sets once for its whole process."""

import sys

from gui.app import SWITCH_SECONDS, take_short_turns


def test_the_window_waits_half_a_millisecond_for_another_thread():
    before = sys.getswitchinterval()
    try:
        take_short_turns()
        assert sys.getswitchinterval() == SWITCH_SECONDS == 0.0005
    finally:
        sys.setswitchinterval(before)
