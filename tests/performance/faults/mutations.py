"""Damaged run files, event files and run folders by the hundred: each is opened, or refused with a reason.

They are read in another process, which is replaced when it crashes or hangs: that costs one mutation and not the
campaign. Each mutation follows from the seed and its number.
"""

import contextlib
import faulthandler
import json
import os
import resource
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random

from core.options import run_file
from core.runs.folder import RunFolder
from tests.fakes.runs import OPTIONS
from tests.performance.faults.case import Case
from tests.performance.faults.damage import DAMAGES
from tests.performance.faults.damage_folder import FOLDER_DAMAGES, OUTSIDE
from tests.performance.faults.reading import FAILED, OPENED, REFUSED, read_run, read_run_file
from tests.performance.faults.sample_run import write_sample
from tests.performance.figures import ROOT, own_home

LIMIT_SECONDS = 120.0
"""The time for all readers of a mutation; on a busy machine nearly all of it is waiting for a core."""

GROWTH_MB = 600
"""How much more memory than before its first mutation the readers' process may take."""

FILES = {
    "options": ("run.toml",),
    "events": ("events.jsonl",),
    "machine": ("machine.jsonl",),
    "records": ("exit.json", "keeper.json", "forecast.json", "notes.json", "model/config.json", "log.txt"),
}
KINDS = ("run file", *FILES, "folder")
UNTOUCHED = b"outside"


def campaign(folder: Path, count: int, seed: int, *, every: int = 1) -> Iterator[Case]:
    """Make and read mutations 0 to `count`. The window reads one in `every`, all else reads each."""
    done = 0
    while done < count:
        numbers = map(str, (seed, done, count, every))
        command = [sys.executable, "-m", "tests.performance.faults", "read", *numbers]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=ROOT
        )
        for line in process.stdout:
            done += 1
            yield Case(**json.loads(line))
        if process.wait() and done < count:
            wrong = f"the readers of mutation {done} hung or crashed: status {process.returncode}"
            yield Case(KINDS[done % len(KINDS)], FAILED, [wrong])
            done += 1


def read_mutations(seed: int, first: int, count: int, every: int) -> int:
    """The process of readers: make and read the mutations from `first` on, printing a `Case` each."""
    from tests.performance.faults.reading_window import Window

    warnings.simplefilter("ignore", RuntimeWarning)  # charts of damaged figures: none is a number
    with own_home() as home:
        whole = write_sample(home / "whole").path  # `hone runs --compare` reads it, too
        (home / "runs").mkdir()
        window = Window(home / "runs")
        before = most_memory()
        for number in range(first, count):
            faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True)
            case = mutate_and_read(home, whole, seed, number, None if number % every else window)
            if (grown := most_memory() - before) > GROWTH_MB:
                case.wrong.append(f"held {grown:.0f} MB more than before")
            print(json.dumps(asdict(case)), flush=True)
        window.end()
    os._exit(0)  # skips taking the window apart


def most_memory() -> float:
    """The most memory this process has held so far, in MB."""
    unit = 1 << 10 if sys.platform == "linux" else 1 << 20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def mutate_and_read(home: Path, whole: Path, seed: int, number: int, window) -> Case:
    chance, kind = Random(f"{seed}:{number}"), KINDS[number % len(KINDS)]
    damage = chance.choice(FOLDER_DAMAGES if kind == "folder" else DAMAGES)
    outside = home / "runs" / OUTSIDE
    outside.write_bytes(UNTOUCHED)
    if kind == "run file":
        path = home / "damaged.hone"
        path.write_bytes(damage(chance, run_file.dumps(OPTIONS).encode()))
        findings = [*read_run_file(path), *(window.read_run_file(path) if window else ())]
        path.unlink()
    else:
        path = home / "runs" / "damaged"
        shutil.copytree(whole, path, symlinks=True)
        if kind == "folder":
            damage(chance, path)
        else:
            file = path / chance.choice(FILES[kind])
            file.write_bytes(damage(chance, file.read_bytes()))
        run = RunFolder(path)
        findings = [*read_run(run), *(window.read_run(run) if window else ())]
        remove(path)
    wrong = [f"{found.reader}: {found.words}" for found in findings if found.outcome == FAILED]
    if outside.read_bytes() != UNTOUCHED:
        wrong.append("a file outside was written to")
    outcomes = {found.outcome for found in findings}
    outcome = next(name for name in (FAILED, REFUSED, OPENED) if name in outcomes)
    return Case(kind, outcome, wrong, f"{number}: {damage.__name__}")


def remove(path: Path) -> None:
    for folder in (path, *path.rglob("*")):
        with contextlib.suppress(OSError):
            if not folder.is_symlink():
                folder.chmod(0o700)
    shutil.rmtree(path)
