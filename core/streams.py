"""The three standard streams, where whoever started this program has closed them or Windows gave none.

A file opened next would take the number of a closed one, and then be written into by everything that prints.
"""

import os
import sys

FLAGS = {0: os.O_RDONLY, 1: os.O_WRONLY, 2: os.O_WRONLY}


def open_missing() -> None:
    """Let streams that are closed lead nowhere, for this process and for those it starts."""
    for number, flags in FLAGS.items():
        if not _is_open(number):
            _lead_nowhere(number, flags)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - for as long as the process lives
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _lead_nowhere(number: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)
