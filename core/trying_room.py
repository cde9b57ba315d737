"""Whether there is room to try models now: memory is for the run that trains, and two models are two processes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core import figures, queue
from core.choices import Method, Precision, Quantization
from core.machine.memory import system_memory
from core.memory.cgroup import group_memory
from core.memory.overhead import FIRST_USE, libraries_bytes
from core.memory.room import shared_room
from core.memory.weight_memory import INT8, NF4
from core.options import RunOptions
from core.run_folder import RunFolder
from core.run_summary import summarize
from core.runs import list_runs
from core.story import State
from core.trying import Which
from core.trying_models import parameters_of

FP32, HALF = 4, 2
"""Bytes of a weight as it is loaded, and of the copy in 16 bits that a computation in those keeps of it."""
ANSWERING = 1.1
"""What an answer takes beside the weights: keys and values of what was read, activations. A tenth is a guess."""
SPARE = 0.05
"""So much of what is free is left alone."""


@dataclass(frozen=True)
class Need:
    """What one model takes in a process of its own, in bytes; None: nobody can tell before it is loaded."""

    which: Which
    size: int | None


@dataclass(frozen=True)
class Verdict:
    """Which of the models may be loaded now, and why not the others, in a title and a sentence.

    `cpu_helps` tells that they could be loaded on the CPU all the same, beside a run that trains.
    """

    allowed: tuple[Which, ...]
    title: str = ""
    detail: str = ""
    cpu_helps: bool = False


def need_of(run: RunFolder, options: RunOptions, which: Which) -> Need:
    """What a model of a run will take of the computer's memory."""
    parameters = parameters_of(run, options, which)
    if parameters is None:
        return Need(which, None)
    weights = parameters * _bytes_a_weight(options) * ANSWERING
    return Need(which, libraries_bytes(options) + FIRST_USE + round(weights))


def _bytes_a_weight(options: RunOptions) -> float:
    if options.model.method is Method.QLORA:
        return INT8 if options.model.quantization is Quantization.INT8 else NF4
    is_whole = options.device.precision in (Precision.FP32, Precision.TF32)
    return FP32 if is_whole else FP32 + HALF


def free_memory() -> int:
    """Bytes that a new process may take of the computer's memory."""
    return shared_room(system_memory(), group_memory()).free


def that_train(folder: Path) -> tuple[RunFolder, ...]:
    """The runs that hold memory now, in a folder or elsewhere; those that wait for their turn hold none."""
    try:
        found = list_runs(folder)
    except OSError:
        found = []
    alive = [run for run in found if run.exit_record() is None and run.keeper_is_alive()]
    known = {run.path.absolute() for run in alive}
    alive += [run for run in queue.training() if run.path not in known]
    states = {run: summarize(run).state for run in alive}
    return tuple(run for run, state in states.items() if not (state.is_over or state is State.QUEUED))


def judge(needs: Sequence[Need], free: int, training: Sequence[str] = (), *, on_cpu: bool = False) -> Verdict:
    """Which models may be loaded, the first one first.

    Args:
        needs: Of the models that are wanted, the most wanted first.
        free: Bytes that are free.
        training: What the runs are called that train now.
        on_cpu: Whether the person wants them beside a run that trains, on the CPU.
    """
    fitting = _that_fit(needs, round(free * (1 - SPARE)))
    if training and not on_cpu:
        return Verdict((), _trains(training), _waiting(fitting, needs, free), cpu_helps=bool(fitting))
    if len(fitting) == len(needs):
        return Verdict(fitting)
    if fitting:
        return Verdict(
            fitting,
            "Only one of the two models fits into memory",
            f"Together they take about {_sum(needs)}, and {figures.size(free)} are free. Close other programs to see "
            "both side by side, or look at one after the other.",
        )
    return Verdict(
        (),
        "There is too little memory to try this model",
        f"It takes about {_sum(needs[:1])}, and {figures.size(free)} are free. Close other programs and try again.",
    )


def _that_fit(needs: Sequence[Need], free: int) -> tuple[Which, ...]:
    """Those that fit together, taken in their order; of one whose size nobody knows it is hoped."""
    taken: list[Which] = []
    for need in needs:
        size = need.size or 0
        if size <= free:
            taken.append(need.which)
            free -= size
    return tuple(taken)


def _trains(training: Sequence[str]) -> str:
    return f"{training[0]} is training" if len(training) == 1 else f"{len(training)} runs are training"


def _waiting(fitting: Sequence[Which], needs: Sequence[Need], free: int) -> str:
    kept = "Trying a model now would take memory and time from it."
    if fitting:
        return f"{kept} It can be tried on the CPU meanwhile, slowly; or wait until the run has ended."
    return (
        f"{kept} There is no room beside it either: the model takes about {_sum(needs[:1])}, and "
        f"{figures.size(free)} are free. Wait until the run has ended, or pause it."
    )


def _sum(needs: Sequence[Need]) -> str:
    return figures.size(sum(need.size or 0 for need in needs))
