"""`hone --selftest [NAME ...]`: the whole of Hone without a screen, or a few checks of it.

One line for each check, with its seconds; exit status 1 where any failed. It works in a folder of its own, which is
gone afterwards, and fetches nothing. `--keep FOLDER` leaves what it made in FOLDER.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from core.commands.output import say
from core.figures import counted
from core.processes import is_frozen
from core.selftest import engine_checks
from core.selftest.checking import Check, UnknownCheck, chosen, run_checks
from core.selftest.data_checks import read
from core.selftest.samples import SAMPLES
from core.selftest.untouched import Untouched
from core.version import VERSION

ENGINE_CHECKS = (
    Check("python", engine_checks.python),
    Check("devices", engine_checks.devices),
    Check("compute", engine_checks.compute),
    Check("keychain", engine_checks.keychain),
    Check("digits", engine_checks.digits),
    Check("reload", engine_checks.reload_digits, needs=("digits",)),
    Check("workers", engine_checks.workers),
    Check("tags", engine_checks.tags),
    Check("writer", engine_checks.writer),
    Check("lora", engine_checks.lora, needs=("writer",)),
    Check("preferences", engine_checks.preferences, needs=("writer",)),
    Check("forecast", engine_checks.forecast),
    Check("measure", engine_checks.measure),
    Check("export", engine_checks.export, needs=("lora",)),
)
DATA_CHECKS = tuple(Check(f"read-{sample.name}", partial(read, sample)) for sample in SAMPLES)
UNTOUCHED = "untouched"
WRONG_REQUEST = 2


def main(arguments: Sequence[str]) -> int:
    """Run the checks that are asked for; 0 where all passed, 1 where one failed, 2 where the request was wrong."""
    parser = argparse.ArgumentParser(
        prog="hone --selftest", description=(__doc__ or "").partition("\n\n")[2].strip()
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only this check; see --list")
    parser.add_argument("--list", action="store_true", help="name the checks")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work in FOLDER and leave it there")
    asked = parser.parse_args(arguments)
    with own_home(asked.keep) as folder:
        checks = all_checks(Untouched())
        if asked.list:
            say("\n".join(check.name for check in checks))
            return 0
        try:
            return test(checks, asked.names, folder)
        except UnknownCheck as error:
            say(error, sys.stderr)
            return WRONG_REQUEST


def all_checks(untouched: Untouched) -> list[Check]:
    """Every check without a screen; the last looks whether the program's own folder is as it was."""
    return [*ENGINE_CHECKS, *DATA_CHECKS, Check(UNTOUCHED, untouched.check)]


def test(checks: Sequence[Check], names: Sequence[str], folder: Path) -> int:
    """Run the checks called `names`, all where there are none, and say what came of them; returns the exit status.

    Raises:
        UnknownCheck: A name is none of theirs.
    """
    wanted = chosen(checks, names)
    began = time.monotonic()
    kind = f"the program in {Path(sys.executable).parent}" if is_frozen() else "its source"
    say(f"Hone {VERSION} tries itself out, as {kind}: {counted(len(wanted), 'check')}")
    failed = run_checks(wanted, folder, say)
    seconds = f"{time.monotonic() - began:.0f} s"
    if failed:
        say(f"{len(failed)} of {len(wanted)} checks failed in {seconds}: {', '.join(failed)}")
        return 1
    say(f"All {len(wanted)} checks passed in {seconds}")
    return 0


@contextmanager
def own_home(keep: Path | None) -> Iterator[Path]:
    """While entered, Hone's home and the caches of its libraries are in a folder of their own, and nothing is fetched.

    Args:
        keep: The folder, which then stays; None: one that is gone afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="hone-selftest-", ignore_cleanup_errors=True) as passing:
        folder = (keep or Path(passing)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        ours = {"HONE_HOME": str(folder / "home"), "HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "1"}
        before = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)
        try:
            yield folder
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
