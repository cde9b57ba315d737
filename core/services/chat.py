"""Try a run's model in an engine process of its own: the process, its memory, and the runs that can be tried."""

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import msgspec

from core.base import formats
from core.base.errors import OutOfMemory, UserError
from core.base.jobs import EngineCrashed, JobCancelled, JobProcess
from core.base.language import _, isolated, ngettext
from core.base.processes import kill_with_children
from core.base.system import group_memory, system_memory
from core.jobs.chat import JOB, Close, Load, NotLoaded, Said, Told, Which
from core.memory.estimate import FIRST_USE, QUANTIZED_NUMBER, libraries_bytes
from core.monitor.device_memory import shared_room
from core.options import RunOptions
from core.options.choices import Method, Precision, Task
from core.options.hub import RepoKind, snapshot
from core.options.packing import packing
from core.options.past_runs import holds_adapter, model_folder
from core.options.sources import scheme_of
from core.runs import queue
from core.runs.events import Example
from core.runs.export_source import config_of
from core.runs.folder import RunFolder
from core.runs.library import list_runs, run_title
from core.runs.models import WEIGHTS, count_weights, lacks_model, name_of
from core.runs.notes import title_of
from core.runs.status import State, chosen_examples
from core.runs.summary import summarize
from core.services.memory import probable_device

# --- A run's two models


def parameters_of(run: RunFolder, options: RunOptions, which: Which) -> int | None:
    """Returns the number of weights of a run's model, from the headers of its files; None if they aren't found."""
    own = count_weights(run.model.glob(WEIGHTS))
    if not holds_adapter(run.model):
        return own or None  # as many as before training
    frozen = count_weights(_base(run, options).glob(WEIGHTS))
    if not frozen:
        return None
    return frozen + own if which is Which.TRAINED else frozen


def _base(run: RunFolder, options: RunOptions) -> Path:
    """Returns the folder of the base model of a run's adapter, which may not be on this computer."""
    source, base = options.model.source, run.model / "base"
    if not base.is_dir():
        base = model_folder(source) or Path(source)
    if not base.is_dir() and not scheme_of(source):
        base = snapshot(source, RepoKind.MODEL) or base
    return base


# --- The process


KILLED = -9
"""Exit status of a process killed by another one; Windows has none for that."""
EXIT_SECONDS = 3.0
"""Timeout of a process that was asked to end."""


class TryProcess(JobProcess):
    """One model in a process of its own. `say` may be called from any thread; `lines` waits for messages."""

    def __init__(self, load: Load, command: Sequence[str] | None = None) -> None:
        super().__init__(JOB, command)
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="try-writer", daemon=True)
        self._writer.start()
        self.say(load)

    def say(self, said: Said) -> None:
        """Sends a message without waiting; does nothing once the process has ended."""
        self._outbox.put(msgspec.json.encode(said) + b"\n")

    def lines(self) -> Iterator[Told]:
        """Yields messages until the process ends as it was asked to, then cleans up.

        Raises:
            UserError: The model can't be loaded, or the system ended the process.
            EngineCrashed: The process ended by itself, or sent an invalid message.
            JobCancelled: `kill` was called.
        """
        assert self._process.stdout is not None
        try:
            with self._ceiling.over_process(self.pid, lambda: kill_with_children(self._process)):
                for line in self._process.stdout:
                    try:
                        message: Told = msgspec.json.decode(line, type=Told)
                    except msgspec.MsgspecError as error:
                        self.kill()
                        text = line[:2000].decode(errors="replace")
                        raise EngineCrashed(JOB, 0, f"{error}\n{text}") from error
                    if isinstance(message, NotLoaded):
                        raise UserError(message.error.title, message.error.detail, message.error.fixes)
                    yield message
            if self._process.wait(EXIT_SECONDS) != 0:
                raise self._error()
        finally:
            self._outbox.put(None)
            try:
                self._process.wait(0 if self._killed else EXIT_SECONDS)
            except subprocess.TimeoutExpired:
                kill_with_children(self._process)
                self._process.wait()
            self._writer.join()
            self._process.stdout.close()
            self._messages.close()

    def close(self) -> None:
        """Asks the process to end, even while it is writing an answer."""
        self.say(Close())
        self._outbox.put(None)

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # the process has ended; `lines` raises the reason
            while (line := self._outbox.get()) is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _error(self) -> Exception:
        if self._killed:
            return JobCancelled(JOB)
        if self._ceiling.over:
            return self._ceiling.over
        if self._process.returncode == KILLED:
            return OutOfMemory(
                _("The system ended the model's process"),
                _("Probably memory ran out. Close other programs, or ask one model at a time."),
            )
        return self._crashed()


Start = Callable[[Load], TryProcess]
"""Starts the process of a model; may raise OSError."""


# --- Memory for models beside runs that train


FP32, HALF = 4, 2
"""Bytes of a weight as it is loaded, and of its copy for computation in 16 bits."""
ANSWERING = 1.1
"""Memory of an answer relative to the weights: keys, values, activations. A guess."""
SPARE = 0.05
"""Fraction of the free memory that is left alone."""


@dataclass(frozen=True)
class LoadVerdict:
    """Which models may be loaded now, and why not the others.

    `cpu_helps`: they could be loaded on the CPU while a run trains.
    """

    allowed: tuple[Which, ...]
    title: str = ""
    detail: str = ""
    cpu_helps: bool = False


def room_for(run: RunFolder, wanted: Sequence[Which], folder: Path, *, on_cpu: bool = False) -> LoadVerdict:
    """Returns which models of a run may be loaded now.

    Args:
        wanted: Its models, the most wanted first.
        folder: A folder with runs, some of which may be training.
        on_cpu: Whether to load them on the CPU even while a run trains.
    """
    options = run.readable_options()
    needed = {} if options is None else {which: memory_needed(run, options, which) for which in wanted}
    if holds_adapter(run.model):  # one process answers for both
        needed |= dict.fromkeys([*needed][1:], 0)
    free = shared_room(system_memory(), group_memory()).free
    titles = [run_title(other) for other in that_train(folder)]
    has_gpu = options is None or probable_device(options) != "cpu"
    return judge(needed, free, titles, on_cpu=on_cpu, has_gpu=has_gpu)


def memory_needed(run: RunFolder, options: RunOptions, which: Which) -> int | None:
    """Returns the bytes of main memory that a model of a run takes; None if unknown."""
    parameters = parameters_of(run, options, which)
    if parameters is None:
        return None
    base = _base(run, options)
    if holds_adapter(run.model) and packing(config_of(base).get("quantization")):
        bytes_per_weight = sum(path.stat().st_size for path in base.glob(WEIGHTS)) / parameters
    elif options.model.method is Method.QLORA:
        bytes_per_weight = QUANTIZED_NUMBER[options.model.quantization]
    else:
        is_single = options.device.precision in (Precision.FP32, Precision.TF32)
        bytes_per_weight = FP32 if is_single else FP32 + HALF
        frozen = str(options.model.frozen_precision)
        is_held = frozen in (Precision.BF16, Precision.FP16)
        is_held |= frozen == Precision.AUTO and not is_single and probable_device(options) != "cpu"
        if is_held and options.model.method is not Method.FULL:
            bytes_per_weight = HALF
    return libraries_bytes(options) + FIRST_USE + round(parameters * bytes_per_weight * ANSWERING)


def that_train(folder: Path) -> tuple[RunFolder, ...]:
    """Returns the runs in a folder or elsewhere that take memory now, which queued ones don't."""
    alive = [run for run in _runs(folder) if run.exit_record() is None and run.keeper_is_alive()]
    known = {run.path.absolute() for run in alive}
    alive += [run for run in queue.training() if run.path not in known]
    states = {run: summarize(run).state for run in alive}
    return tuple(run for run, state in states.items() if not (state.is_over or state is State.QUEUED))


def judge(
    needed: Mapping[Which, int | None],
    free: int,
    training: Sequence[str] = (),
    *,
    on_cpu: bool = False,
    has_gpu: bool = True,
) -> LoadVerdict:
    """Returns which models fit into memory.

    Args:
        needed: Bytes by model, the most wanted first; None is taken to fit.
        training: The titles of the runs that train now.
    """
    allowed: list[Which] = []
    left = round(free * (1 - SPARE))
    for which, size in needed.items():
        if (size or 0) <= left:
            allowed.append(which)
            left -= size or 0
    sizes = [size or 0 for size in needed.values()]
    first, total, free_text = (formats.memory(count) for count in (sum(sizes[:1]), sum(sizes), free))
    if training and not on_cpu:
        title = ngettext("{title} is running", "{count} runs are running", len(training))
        detail = _(
            "Not enough memory is left: the model takes about {first}, and {free} are free. Wait for the end of the "
            "run, or pause it."
        )
        if allowed and has_gpu:
            detail = _("Trying a model would slow the training down. Try it on the CPU instead, or wait.")
        elif allowed:
            detail = _(
                "Trying a model slows the training down until the answer is there. You can also wait, or pause it."
            )
        return LoadVerdict(
            (),
            title.format(title=isolated(training[0]), count=len(training)),
            detail.format(first=first, free=free_text),
            cpu_helps=bool(allowed),
        )
    if len(allowed) == len(needed):
        return LoadVerdict(tuple(allowed))
    if allowed:
        title = _("Only one of the two models fits into memory")
        detail = _(
            "Together they take about {total}, and {free} are free. Close other programs to see both side by side, or "
            "look at one after the other."
        )
    else:
        title = _("Not enough memory to try this model")
        detail = _("It takes about {first}, and {free} are free. Close other programs and try again.")
    return LoadVerdict(tuple(allowed), title, detail.format(first=first, total=total, free=free_text))


# --- The runs that can be tried


@dataclass(frozen=True)
class Triable:
    """A run with a model: its title, its task, and the names of its two models.

    `is_adapter`: the process of the trained model answers for the one before, too.
    """

    run: RunFolder
    title: str
    task: Task
    names: Mapping[Which, str]
    is_adapter: bool = False


@dataclass(frozen=True)
class TryChoice:
    """The runs that can be tried, newest first, and the chosen one with its validation examples, own prompts first.

    `reads_pairs`: it was trained on pairs of texts. `problem`: why the requested run can't be tried.
    """

    runs: tuple[Triable, ...]
    chosen: Triable | None = None
    examples: tuple[Example, ...] = ()
    reads_pairs: bool = False
    problem: str = ""


def look(folder: Path, wanted: RunFolder | None) -> TryChoice:
    """Finds the runs of a folder that can be tried, and chooses `wanted`, or the newest if that is None."""
    runs = [each for run in _runs(folder) if (each := triable(run)) is not None]
    if wanted is None:
        chosen = runs[0] if runs else None
    else:
        chosen = next((each for each in runs if each.run.path == wanted.path), None) or triable(wanted)
        if chosen is None:
            return TryChoice(tuple(runs), problem=lacks_model(wanted) or _("Its run file can't be read."))
        if chosen not in runs:  # in another folder
            runs.insert(0, chosen)
    if chosen is None:
        return TryChoice(())
    examples = sorted(chosen_examples(chosen.run.events_file), key=lambda example: not example.is_own)
    return TryChoice(tuple(runs), chosen, tuple(examples), reads_pairs(chosen.run))


def reads_pairs(run: RunFolder) -> bool:
    """Returns whether a run was trained on pairs of texts, by its columns or its examples."""
    options = run.readable_options()
    if options is None or options.task not in (Task.TEXT_CLASSIFICATION, Task.TEXT_REGRESSION):
        return False
    if options.data.text_columns:
        return len(options.data.text_columns) == 2
    examples = chosen_examples(run.events_file)
    return bool(examples) and all(len(one.texts or one.given.split("\n")) == 2 for one in examples)


def _runs(folder: Path) -> list[RunFolder]:
    try:
        return list_runs(folder)
    except OSError:
        return []


def triable(run: RunFolder) -> Triable | None:
    """Returns None if the run has no model, or its run file can't be read."""
    options = run.readable_options()
    if options is None or lacks_model(run):
        return None
    names = {which: name_of(run, options, which) for which in Which}
    return Triable(run, title_of(run.path, options), options.task, names, holds_adapter(run.model))
