"""How a keeper gets `exit.json` written on a full disk: it has kept a little room for that from the start."""

import contextlib
import os
import sys
import time

import msgspec

from core.files import write_atomically
from core.run_folder import ExitRecord, RunFolder

LAST_WORD_SECONDS = 30.0
"""How long a keeper tries to write down how its engine ended: a full disk may find room."""

SPARE_BYTES = 32 << 10
"""`exit.json` with the end of the log takes a few KB; so do the blocks of its temporary file and of the folder."""


class LastWord:
    """Keeps room in a run's folder, and gives it up for the record of how the run's engine ended.

    Args:
        run: The run's folder. Where no room is to be had from the start, there is none to give up.
    """

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        with contextlib.suppress(OSError):
            write_atomically(run.spare_file, os.urandom(SPARE_BYTES))  # zeros may take no room on some disks

    def say(self, record: ExitRecord) -> None:
        """Write `exit.json`; where that can't be, the run's events have to tell how it ended."""
        deadline = time.monotonic() + LAST_WORD_SECONDS
        while not self._run.is_removed:
            with contextlib.suppress(OSError):
                self._run.spare_file.unlink(missing_ok=True)
            try:
                self._write(record)
            except OSError as error:
                if time.monotonic() >= deadline:
                    print(f"exit.json can't be written: {error}\n{record}", file=sys.stderr)
                    return
                time.sleep(1.0)
            else:
                return

    def _write(self, record: ExitRecord) -> None:
        """Write it, and where that takes too much room, without the end of the log."""
        try:
            self._run.record_exit(record)
        except OSError:
            self._run.record_exit(msgspec.structs.replace(record, log_tail=""))
