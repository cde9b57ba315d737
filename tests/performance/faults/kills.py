"""Kills of the engine while it loads, steps, evaluates and saves; the run is resumed each time.

In the end it must have learned exactly what it would have learned undisturbed, and no event may be lost.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from core.options import RunOptions
from core.options.backend_rules import MLX_ON_CPU
from core.runs.events import Phase
from core.runs.models import newest
from core.runs.status import State
from tests.performance.faults.case import Case
from tests.performance.faults.training import (
    Attended,
    Reference,
    differences,
    lost_lines,
    mlx_options,
    new_run,
    small_options,
    train_alone,
    whole_lines,
    write_texts,
)

PHASES = {"stepping": Phase.TRAINING, "evaluating": Phase.EVALUATING, "saving": Phase.SAVING}
KINDS = ("loading", *PHASES)
ROWS = 200
EPOCHS = 6.0
KILLS_A_RUN = 5


def campaign(folder: Path, count: int, seed: int, *, with_mlx: bool = False) -> Iterator[Case]:
    """Kill `count` times, in as many runs as that takes."""
    if with_mlx:
        os.environ[MLX_ON_CPU] = "1"
        options = mlx_options(folder, EPOCHS)
    else:
        options = small_options(write_texts(folder / "texts.csv", ROWS), EPOCHS)
    reference = train_alone(folder / "alone", options)
    waiting, runs = [KINDS[number % len(KINDS)] for number in range(count)], 0
    while waiting:
        chance, moments = Random(f"{seed}:{runs}"), waiting[:KILLS_A_RUN]
        chance.shuffle(moments)
        for case in kill_and_resume(folder / f"killed-{runs}", options, reference, moments, chance):
            waiting.remove(case.kind)
            yield case
        runs += 1


def kill_and_resume(
    path: Path, options: RunOptions, reference: Reference, moments: list[str], chance: Random
) -> list[Case]:
    """Kill a run at these moments one after the other and resume it each time; the last case has its differences."""
    run = new_run(options, path)
    attended = Attended(run)
    cases, lines = [], []
    try:
        for moment in moments:
            case = kill_at(attended, moment, chance)
            if case is None:  # the run was over before
                break
            cases.append(case)
            lines.append(whole_lines(run))
            attended.until_over()
            case.wrong += wrong_with_crash(attended)
            attended.resume()
        attended.until_over()
    finally:
        attended.end()
    if cases:
        cases[-1].wrong += differences(attended, reference)
        if lost := sum(map(lost_lines, lines)):
            cases[-1].wrong.append(f"{lost} lines of events are lost")
    return cases


def kill_at(attended: Attended, moment: str, chance: Random) -> Case | None:
    """Wait for the moment, a little longer by chance, and kill the engine; None if it ended before."""
    attempt = attended.run.attempt_kept()

    def phase() -> Phase | None:
        return attended.follower.status.phase if attended.follower.status.attempt == attempt else None

    if moment == "loading":
        attended.until(lambda: attended.engine is not None)
        attended.until(lambda: phase() is Phase.TRAINING, chance.uniform(0.0, 6.0))
    else:
        attended.until(lambda: phase() is Phase.TRAINING)
        enough = attended.follower.status.step + chance.randrange(1, 30)
        attended.until(lambda: attended.follower.status.step > enough)
        attended.until(lambda: attended.follower.status.phase is PHASES[moment])
        time.sleep(chance.uniform(0.0, 0.03))
    status, saved, pid = attended.follower.status, newest(attended.run), attended.engine
    if status.finished is not None or pid is None:
        return None
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    words = f"{phase() or 'importing'} at step {status.step}, saved: {saved.step if saved else 0}"
    return Case(moment, "resumed", words=words)


def wrong_with_crash(attended: Attended) -> list[str]:
    """What a killed run doesn't state as it should."""
    state, record = attended.follower.state, attended.run.exit_record()
    wrong = [] if state is State.CRASHED else [f"it reads as {state}"]
    if record is None or record.signal != "SIGKILL":
        wrong.append(f"the signal is missing: {record}")
    return wrong
