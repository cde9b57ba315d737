"""Keeps the computer awake while a run trains. The display may sleep: some Macs don't bear it on under full load."""

import contextlib
import os
import sys
from collections.abc import Iterator

from core import settings


@contextlib.contextmanager
def awake() -> Iterator[bool]:
    """Keep the computer from going to sleep by itself, where the person's settings want that.

    It holds for as long as this process lives: the operating system drops it when the process is killed. Whoever closes
    the lid or chooses Sleep still puts the computer to sleep. Where it can't be had, standard error says why.

    Yields:
        Whether it is kept awake.
    """
    if not (_is_wanted() and _can_sleep()):
        yield False
        return
    from wakepy import keep

    kept = contextlib.ExitStack()
    mode = kept.enter_context(keep.running(on_fail="pass"))
    if not mode.active:
        print("This desktop has no way to keep the computer awake.", file=sys.stderr)
    try:
        yield mode.active
    finally:
        with contextlib.suppress(RuntimeError):  # the desktop is gone meanwhile, and what it held with it
            kept.close()


def _is_wanted() -> bool:
    try:
        return settings.load().keep_awake
    except OSError:  # settings that can't be read change nothing about a run
        return settings.Settings().keep_awake


def _can_sleep() -> bool:
    """Whether there is anybody to ask: on Linux it is the desktop that lets a computer sleep, and D-Bus reaches it."""
    return sys.platform in ("win32", "darwin") or "DBUS_SESSION_BUS_ADDRESS" in os.environ
