"""Damaged run files, event files and run folders by the hundred: each is opened, or refused with a reason.

They are read in a process of its own, which is given up where it keeps silent: what hangs or crashes costs one
mutation and not the campaign. Each mutation follows from the seed and its number.
"""

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Empty, Queue
from random import Random

from core.options import run_file
from core.runs.folder import RunFolder
from tests.performance.faults.damage import DAMAGES
from tests.performance.faults.damage_folder import FOLDER_DAMAGES, OUTSIDE
from tests.performance.faults.reading import FAILED, OPENED, REFUSED, Finding, read_run, read_run_file
from tests.performance.faults.sample_run import sample_options, write_sample

ROOT = Path(__file__).resolve().parents[3]
SILENCE_SECONDS = 120.0
"""A process of readers that says nothing for so long hangs where no signal reaches it."""

GROWTH_MB = 600
"""So much more memory than before its first mutation the readers' process may have held at most."""

KINDS = ("run file", "options", "events", "machine", "records", "folder")
_FILES = {
    "options": ("run.toml",),
    "events": ("events.jsonl",),
    "machine": ("machine.jsonl",),
    "records": ("exit.json", "keeper.json", "forecast.json", "notes.json", "model/config.json", "log.txt"),
}
_OUTSIDE = b"outside"


@dataclass
class Mutated:
    """One mutation and what came of it. `wrong` says what failed; `grown` is in MB."""

    number: int
    kind: str
    damage: str
    outcome: str
    wrong: list[str] = field(default_factory=list)
    reasons: int = 0
    grown: float = 0.0


def campaign(count: int, seed: int, tell=lambda _mutated: None, *, every: int = 1) -> list[Mutated]:
    """Make and read mutations 0 to `count`; `tell` hears each. The window reads one in `every`, all else each."""
    found: list[Mutated] = []
    while len(found) < count:
        process = _start(count, seed, len(found), every)
        for mutated in _told(process):
            found.append(mutated)
            tell(mutated)
        if len(found) < count and process.wait():
            kind, damage = name_of(seed, len(found))
            wrong = [f"the readers ended or kept silent: status {process.returncode}"]
            found.append(Mutated(len(found), kind, damage, FAILED, wrong))
            tell(found[-1])
    return found


def _start(count: int, seed: int, first: int, every: int) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "tests.performance.faults",
        "read",
        *map(str, (seed, first, count, every)),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=ROOT, env=environment
    )


def _told(process: "subprocess.Popen[str]"):
    """What a process of readers tells until it ends or keeps silent."""
    lines: Queue[str] = Queue()
    stream = process.stdout
    assert stream is not None

    def listen() -> None:
        for line in stream:
            lines.put(line)
        lines.put("")

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    with contextlib.suppress(Empty):
        while line := lines.get(timeout=SILENCE_SECONDS):
            yield Mutated(**json.loads(line))
    process.kill()
    process.wait()
    listener.join()


def name_of(seed: int, number: int) -> tuple[str, str]:
    """Of which kind a mutation is, and how it is damaged."""
    chance = Random(f"{seed}:{number}")
    kind = KINDS[number % len(KINDS)]
    damage = chance.choice(FOLDER_DAMAGES if kind == "folder" else DAMAGES)
    return kind, damage.__name__


def read_mutations(seed: int, first: int, count: int, every: int) -> int:
    """What the process of readers does: make, read and tell the mutations from `first` on."""
    from tests.performance.faults.reading_window import Window

    warnings.simplefilter("ignore", RuntimeWarning)  # charts of damaged figures: all of them no numbers
    with tempfile.TemporaryDirectory(prefix="hone-faults-") as folder:
        home = Path(folder)
        os.environ["HONE_HOME"] = str(home)
        whole = write_sample(home / "whole").path  # `reading.whole_run` looks for it there
        (home / "runs").mkdir()
        window = Window(home / "runs")
        before = _held()
        for number in range(first, count):
            mutated = _mutate_and_read(home, whole, seed, number, None if number % every else window)
            mutated.grown = _held() - before
            if mutated.grown > GROWTH_MB:
                mutated.wrong.append(f"held {mutated.grown:.0f} MB more than before")
            print(json.dumps(asdict(mutated)), flush=True)
        window.end()
    os._exit(0)  # taking a window apart while Python ends is nothing that is looked at here


def _held() -> float:
    """The most memory this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << 10 if sys.platform == "linux" else 1 << 20
    )


def _mutate_and_read(home: Path, whole: Path, seed: int, number: int, window) -> Mutated:
    chance = Random(f"{seed}:{number}")
    kind = KINDS[number % len(KINDS)]
    outside = home / "runs" / OUTSIDE
    outside.write_bytes(_OUTSIDE)
    path = home / "runs" / "damaged"
    if kind == "run file":
        path = home / "damaged.hone"
        change = chance.choice(DAMAGES)
        path.write_bytes(change(chance, run_file.dumps(sample_options()).encode()))
        damage = change.__name__
        findings = [*read_run_file(path), *(window.read_run_file(path) if window else ())]
        path.unlink()
    else:
        shutil.copytree(whole, path, symlinks=True)
        damage = _damage(chance, kind, path)
        run = RunFolder(path)
        findings = [*read_run(run), *(window.read_run(run) if window else ())]
        _remove(path)
    wrong = [f"{one.reader}: {one.words}" for one in findings if one.outcome == FAILED]
    if outside.read_bytes() != _OUTSIDE:
        wrong.append("a file outside was written to")
    return Mutated(number, kind, damage, _outcome(findings), wrong, _reasons(findings))


def _damage(chance: Random, kind: str, run: Path) -> str:
    if kind == "folder":
        damage_folder = chance.choice(FOLDER_DAMAGES)
        damage_folder(chance, run)
        return damage_folder.__name__
    damage = chance.choice(DAMAGES)
    path = run / chance.choice(_FILES[kind])
    path.write_bytes(damage(chance, path.read_bytes()))
    return damage.__name__


def _outcome(findings: list[Finding]) -> str:
    told = Counter(one.outcome for one in findings)
    return FAILED if told[FAILED] else REFUSED if told[REFUSED] else OPENED


def _reasons(findings: list[Finding]) -> int:
    return sum(one.outcome == REFUSED for one in findings)


def _remove(path: Path) -> None:
    for folder in (path, *path.rglob("*")):
        with contextlib.suppress(OSError):
            if not folder.is_symlink():
                folder.chmod(0o700)
    shutil.rmtree(path)


def table(found: list[Mutated]) -> str:
    """Counts by kind."""
    rows = [
        f"| what is damaged | mutations | {OPENED} | {REFUSED} with a reason | {FAILED} |",
        "|---|---|---|---|---|",
    ]
    for kind in (*KINDS, "all"):
        some = [one for one in found if kind in ("all", one.kind)]
        told = Counter(FAILED if one.wrong else one.outcome for one in some)
        rows.append(f"| {kind} | {len(some)} | {told[OPENED]} | {told[REFUSED]} | {told[FAILED]} |")
    rows.append(
        f"\nThe readers held at most {max((one.grown for one in found), default=0):.0f} MB more than before."
    )
    return "\n".join(rows)
