"""What a self-test consists of: checks, each one line of result, each heard whatever became of the others."""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import UserError

Run = Callable[[Path], str]
"""A check: works in the folder it is given and returns a few words on what it found; raises where that is wrong."""


class Failed(Exception):  # noqa: N818 - said as the line says it
    """A check found something wrong; the text says what."""


@dataclass(frozen=True)
class Check:
    """One thing that is tried. `needs` names checks that have to have passed before, whose results it uses."""

    name: str
    run: Run
    needs: tuple[str, ...] = ()


class UnknownCheck(UserError):  # noqa: N818 - said as the command line says it
    """Somebody asked for a check that there isn't."""


def chosen(checks: Sequence[Check], names: Sequence[str]) -> list[Check]:
    """The checks called `names` and those they need, in their order; all where no name is given.

    Raises:
        UnknownCheck: A name is none of theirs.
    """
    by_name = {check.name: check for check in checks}
    if unknown := [name for name in names if name not in by_name]:
        raise UnknownCheck(
            f"There is no self-test called {', '.join(unknown)}", f"There are {', '.join(by_name)}."
        )
    wanted = set(names or by_name)
    for check in reversed(checks):
        if check.name in wanted:
            wanted |= set(check.needs)
    return [check for check in checks if check.name in wanted]


def run_checks(checks: Sequence[Check], folder: Path, say: Callable[[str], None]) -> list[str]:
    """Run the checks one after the other; returns the names of those that failed.

    Args:
        checks: In an order in which each comes after those it needs.
        folder: Where they may write.
        say: Hears one line for each, with its seconds; of a bug, the lines of its report as well.
    """
    failed: list[str] = []
    for check in checks:
        began = time.monotonic()
        reason, found = _outcome(check, folder, failed)
        word = "FAILED" if reason else "ok"
        say(f"{word:6} {time.monotonic() - began:6.1f} s  {check.name}: {reason or found}")
        if reason:
            failed.append(check.name)
    return failed


def _outcome(check: Check, folder: Path, failed: Sequence[str]) -> tuple[str, str]:
    """Why a check failed, or, the reason empty, what it found."""
    missing = [name for name in check.needs if name in failed]
    if missing:
        return f"not tried, because this failed: {', '.join(missing)}", ""
    try:
        return "", check.run(folder)
    except Failed as failure:
        return str(failure), ""
    except UserError as error:
        return str(error).replace("\n", " "), ""
    except Exception as error:  # noqa: BLE001 - the outer edge of a check: the others are to be heard as well
        return "".join(traceback.format_exception(error)).rstrip(), ""
