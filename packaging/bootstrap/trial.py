"""Try a frozen Hone: does it train, and does it draw?"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from bootstrap.errors import SetupError

STEPS = 5
TRAIN_SECONDS = 300
DRAW_SECONDS = 60
SMALLEST_PICTURE = 10_000
"""Bytes below which a PNG of a page can only be an empty one."""


def run(program: Path) -> None:
    """Train the digits for a few steps and draw one page, in a folder that is gone afterwards.

    Raises:
        SetupError: It doesn't; holds what the program said.
    """
    # A clean folder and no Python variables: the program must find everything in itself.
    with tempfile.TemporaryDirectory(prefix="hone-trial-") as folder:
        place = Path(folder)
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        environ.update(HONE_HOME=str(place / "home"), QT_QPA_PLATFORM="offscreen", HF_HUB_OFFLINE="1")
        _train(program, place, environ)
        _draw(program, place, environ)


def _train(program: Path, place: Path, environ: dict[str, str]) -> None:
    example = program.parent / "_internal" / "resources" / "examples" / "digits.hone"
    run_folder = place / "run"
    options = ["--run-dir", str(run_folder), "--set", f"training.max_steps={STEPS}"]
    seconds = _call([str(program), "train", str(example), *options], place, environ, TRAIN_SECONDS)
    lines = (run_folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    steps = sum(event["type"] == "step_finished" for event in events)
    finished = [event for event in events if event["type"] == "run_finished"]
    if steps != STEPS or not finished or finished[-1]["state"] != "finished":
        raise SetupError(f"The frozen program took {steps} of {STEPS} steps; its last event: {lines[-1]}")
    print(f"Trained {STEPS} steps in {seconds:.1f} s from start to end.")


def _draw(program: Path, place: Path, environ: dict[str, str]) -> None:
    picture = place / "page.png"
    seconds = _call(
        [str(program), "--draw-run", str(place / "run"), str(picture)], place, environ, DRAW_SECONDS
    )
    if not picture.exists() or picture.stat().st_size < SMALLEST_PICTURE:
        raise SetupError("The frozen program drew no page, or an empty one.")
    print(f"Drew a page in {seconds:.1f} s, {picture.stat().st_size / 1e3:.0f} kB of PNG.")


def _call(command: list[str], place: Path, environ: dict[str, str], limit: int) -> float:
    """Run the program; returns its seconds."""
    started = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=place,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"The frozen program doesn't work: {error}") from error
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise SetupError(
            f"{' '.join(command[:2])} ended with exit status {done.returncode} and said:\n{tail}"
        )
    return time.monotonic() - started
