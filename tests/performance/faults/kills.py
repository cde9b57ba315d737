"""Kills of the engine while it loads, steps, evaluates and saves: each time the run is gone on with.

In the end it must have learned exactly what it would have without, and nothing that was told may be gone.
"""

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from core.runs.events import Phase
from core.runs.models import newest
from core.runs.status import State
from tests.performance.faults.training import (
    Attended,
    final_metrics,
    losses,
    lost_lines,
    new_run,
    small_options,
    weights,
    whole_lines,
    write_texts,
)

MOMENTS = ("loading", "stepping", "evaluating", "saving")
_PHASES = {"stepping": Phase.TRAINING, "evaluating": Phase.EVALUATING, "saving": Phase.SAVING}
ROWS = 200
EPOCHS = 6.0
KILLS_A_RUN = 5


@dataclass
class Kill:
    """One kill: what the engine was busy with, at which step, and from which step the run could go on."""

    moment: str
    phase: str
    step: int
    saved: int
    wrong: list[str] = field(default_factory=list)


@dataclass
class KilledRun:
    """A run with its kills. `wrong` says what differs from the run that was left alone."""

    kills: list[Kill]
    lost: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Reference:
    """What the run comes to where nobody disturbs it."""

    losses: dict[int, float | None]
    weights: str
    metrics: bytes


def campaign(
    folder: Path, count: int, seed: int, tell=lambda _run: None, *, epochs: float = EPOCHS
) -> list[KilledRun]:
    """So many kills in as many runs as that takes; `tell` hears each run."""
    data = write_texts(folder / "texts.csv", ROWS)
    reference = train_alone(folder / "alone", data, epochs)
    found: list[KilledRun] = []
    to_come = [MOMENTS[number % len(MOMENTS)] for number in range(count)]
    while to_come:
        chance = Random(f"{seed}:{len(found)}")
        moments = to_come[:KILLS_A_RUN]
        path = folder / f"killed-{len(found)}"
        found.append(
            kill_and_resume(
                path, data, reference, chance.sample(moments, len(moments)), chance, epochs=epochs
            )
        )
        for kill in found[-1].kills:
            to_come.remove(kill.moment)
        tell(found[-1])
    return found


def train_alone(path: Path, data: Path, epochs: float = EPOCHS) -> Reference:
    """Train without any kill."""
    run = new_run(small_options(data, epochs), path)
    attended = Attended(run)
    try:
        attended.until_over()
    finally:
        attended.end()
    if attended.follower.state is not State.FINISHED:
        raise SystemExit(f"the run that nobody disturbed is {attended.follower.state}: see {run.log_file}")
    return Reference(losses(run), weights(run), final_metrics(run))


def kill_and_resume(
    path: Path,
    data: Path,
    reference: Reference,
    moments: list[str],
    chance: Random,
    *,
    epochs: float = EPOCHS,
) -> KilledRun:
    """One run, killed at these moments one after the other and each time gone on with, then left to its end."""
    run = new_run(small_options(data, epochs), path)
    attended = Attended(run)
    found = KilledRun([])
    told = []
    try:
        for moment in moments:
            kill = kill_at(attended, moment, chance)
            if kill is None:  # it was done before
                break
            found.kills.append(kill)
            told.append(whole_lines(run))
            attended.until_over()
            kill.wrong += wrong_with_crash(attended)
            attended.resume()
        attended.until_over()
    finally:
        attended.end()
    found.lost = sum(map(lost_lines, told))
    found.wrong += differences(attended, reference)
    return found


def kill_at(attended: Attended, moment: str, chance: Random) -> Kill | None:
    """Wait for the moment, a little longer by chance, and kill the engine; None where it ended before."""
    follower, attempt = attended.follower, attended.run.attempt_kept()

    def has_phase() -> bool:
        return follower.status.attempt == attempt and follower.status.phase is not None

    if moment == "loading":
        attended.until(lambda: attended.engine is not None)
        attended.until(
            lambda: has_phase() and follower.status.phase is Phase.TRAINING, chance.uniform(0.0, 6.0)
        )
    else:
        attended.until(lambda: has_phase() and follower.status.phase is Phase.TRAINING)
        enough = follower.status.step + chance.randrange(1, 30)
        attended.until(lambda: follower.status.step > enough)
        attended.until(lambda: follower.status.phase is _PHASES[moment])
        time.sleep(chance.uniform(0.0, 0.03))
    saved, pid = newest(attended.run), attended.engine
    phase = follower.status.phase.value if has_phase() and follower.status.phase else "importing"
    if follower.status.finished is not None or pid is None:
        return None
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return Kill(moment, phase, follower.status.step, saved.step if saved else 0)


def wrong_with_crash(attended: Attended) -> list[str]:
    """What a killed run doesn't say as it should."""
    state, record = attended.follower.state, attended.run.exit_record()
    wrong = [] if state is State.CRASHED else [f"it reads as {state}"]
    if record is None or record.signal != "SIGKILL":
        wrong.append(f"the signal isn't told: {record}")
    return wrong


def differences(attended: Attended, reference: Reference) -> list[str]:
    """In what a run that was gone on with differs from the one that was left alone."""
    run, wrong = attended.run, []
    if attended.follower.state is not State.FINISHED:
        return [f"it ended as {attended.follower.state}: see {run.log_file}"]
    found = losses(run)
    if found != reference.losses:
        steps = sorted(set(found) | set(reference.losses))
        first = next(step for step in steps if found.get(step) != reference.losses.get(step))
        wrong.append(f"the loss differs from step {first} on")
    if weights(run) != reference.weights:
        wrong.append("the weights differ")
    if final_metrics(run) != reference.metrics:
        wrong.append("the metrics differ")
    return wrong


def table(found: list[KilledRun]) -> str:
    """Counts by moment, and over all."""
    kills = [kill for run in found for kill in run.kills]
    rows = ["| killed while | kills | crashed with SIGKILL, and gone on with |", "|---|---|---|"]
    for moment in MOMENTS:
        some = [kill for kill in kills if kill.moment == moment]
        rows.append(f"| {moment} | {len(some)} | {sum(not kill.wrong for kill in some)} |")
    same = sum(not run.wrong for run in found)
    rows.append(
        f"\n{len(kills)} kills in {len(found)} runs; {same} runs ended with the losses, weights and metrics of the one "
        f"that was left alone; lines of events lost: {sum(run.lost for run in found)}."
    )
    return "\n".join(rows)
