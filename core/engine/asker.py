"""A job that answers a question ends with whoever asked: nobody waits for the answer, and nobody guards it any more.

A window that is closed ends its jobs itself. One that crashed or was killed can't, and a dry run would go on without
the guard that keeps it from taking all memory.
"""

import contextlib
import os
import threading
import time

import psutil

from core.processes import ASKER, end_group

LOOK_SECONDS = 1.0


def end_with_asker() -> None:
    """Watch who asked, in a thread of its own, and end this process and its children once that one is gone.

    Started by hand, without its number in the environment, a job is left alone.
    """
    asker = os.environ.get(ASKER, "")
    if asker.isdecimal():
        threading.Thread(target=_watch, args=(int(asker),), name="asker", daemon=True).start()


def _watch(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        asker = psutil.Process(pid)
        while asker.is_running() and asker.status() != psutil.STATUS_ZOMBIE:
            time.sleep(LOOK_SECONDS)
    end_group(os.getpid())  # a worker leads a group of its own, in which its children are
    os._exit(1)
