"""How quick a bundle is: its window cold, and its first training step beside that of the source tree."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from bootstrap.errors import SetupError
from bootstrap.sizes import size_of
from bootstrap.trial import Person, said_by, somebody

WINDOWS, TURNS = 3, 3
"""How often each is started; the median counts."""
WINDOW_GOAL, STEP_GOAL = 1.0, 1.3
STEPS = 2


def measure(program: Path, source: Sequence[str], root: Path) -> None:
    """Print a table of seconds.

    Args:
        program: The bundle's.
        source: What starts Hone from its source.
        root: The checkout.

    Raises:
        SetupError: One of them doesn't work.
    """
    example = root / "resources" / "examples" / "digits.hone"
    with somebody(is_us=True) as person:
        paints = [_paint(person, program) for _ in range(WINDOWS)]
        frozen, plain = [], []
        for turn in range(TURNS):
            frozen.append(_first_step(person, [str(program)], example, f"frozen-{turn}"))
            plain.append(_first_step(person, source, example, f"plain-{turn}"))
    window = statistics.median(paints)
    ours, theirs = statistics.median(frozen), statistics.median(plain)
    print(f"\nTimes, medians of {TURNS}, {busy()}")
    print(
        f"  window painted, the bundle's files read from disk  {window:6.2f} s  {_verdict(window, WINDOW_GOAL)}"
    )
    print(f"  first training step, the bundle                    {ours:6.2f} s")
    print(f"  first training step, the source tree               {theirs:6.2f} s")
    ratio = ours / theirs
    print(
        f"  the bundle's by the source tree's                  {ratio:6.2f}    {_verdict(ratio, STEP_GOAL)}"
    )


def busy() -> str:
    """How busy the computer is, as far as its system tells: Windows doesn't."""
    cores = f"{os.cpu_count()} cores"
    if not hasattr(os, "getloadavg"):
        return cores
    return f"{os.getloadavg()[0]:.0f} programs busy on {cores}"


def _verdict(found: float, goal: float) -> str:
    return f"goal {goal}: {'reached' if found <= goal else 'missed'}"


def _paint(person: Person, program: Path) -> float:
    """Seconds from the start to the first paint, with the bundle's files out of the system's memory before."""
    forget(program.parent)
    began = time.monotonic()
    said = said_by(
        person, [program], {"HONE_QUIT_AFTER_PAINT": "1", "HONE_HOME": str(person.home / "window")}
    )
    stamps = [line.split()[1] for line in said.splitlines() if line.startswith("first-paint ")]
    if not stamps:
        raise SetupError(f"{program} opened no window; it said: {said}")
    return float(stamps[0]) - began


def forget(folder: Path) -> int:
    """Ask Linux to drop a folder's files from memory, so that they are read from the disk; returns how many bytes."""
    if not hasattr(os, "posix_fadvise"):
        return 0
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)
    return size_of(folder)


def _first_step(person: Person, hone: Sequence[str], example: Path, name: str) -> float:
    """Seconds from the start of `hone train` to the end of its first step."""
    run = person.home / "times" / name
    began = time.time()
    arguments = ["train", str(example), "--run-dir", str(run), "--set", f"training.max_steps={STEPS}"]
    said_by(person, [*hone, *arguments, "--set", "device.name=cpu"], {})
    lines = (run / "events.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [event for event in map(json.loads, lines) if event["type"] == "step_finished"]
    shutil.rmtree(run, ignore_errors=True)
    return float(steps[0]["time"]) - began
