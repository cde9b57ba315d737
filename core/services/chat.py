"""Trying a run's model: what is asked of the process that holds one, and what it answers, as one JSON line each.

The first line to the process is a `Load`, answered by `Loaded` or `NotLoaded`. Then come questions (`Ask`), each
answered by one `Answered` or `NotAnswered`, before which text may come in `Piece`s; `Stop` ends an answer early.
`Close`, or the end of the input, ends the process. Two models are two processes: each starts with empty memory.
"""

import contextlib
import json
import math
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue

import msgspec

from core.base import formats
from core.base.ceiling import Ceiling, room_for_reading
from core.base.errors import OutOfMemory, UserError
from core.base.files import open_plain
from core.base.jobs import EngineCrashed, FailureReport, JobCancelled, engine_command, start_asked
from core.base.language import _
from core.base.processes import kill_with_children
from core.base.system import group_memory, system_memory
from core.memory.estimate import FIRST_USE, INT8, NF4, libraries_bytes
from core.options import RunOptions
from core.options.choices import Method, Precision, Quantization, Speaker, Task
from core.options.past_runs import holds_adapter, model_folder, model_name, title_of
from core.options.sources import is_scratch, scheme_of
from core.runs import queue
from core.runs.events import Example
from core.runs.folder import RunFolder
from core.runs.library import list_runs, run_title
from core.runs.models import WEIGHTS, trained_model
from core.runs.status import State, chosen_examples
from core.runs.summary import summarize
from core.services.hub import Kind, snapshot
from core.services.memory import shared_room

JOB = "try"
"""The name of the engine's job."""
CHANCES_TOLD = 50
"""So many labels are told at most, the likeliest first."""


class Which(StrEnum):
    """Which of a run's two models: the one it has trained, or the one it started from."""

    TRAINED = "trained"
    BEFORE = "before"


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=str.lower):
    """One line in either direction."""


class Writing(msgspec.Struct, frozen=True, kw_only=True):
    """How a text is written: each token the likeliest (temperature 0), or drawn by chance with `seed`.

    `top_p` draws among the likeliest tokens only whose probabilities come to that share (1: all). `stop_at` are texts
    at which writing ends; they are no part of the answer.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop_at: tuple[str, ...] = ()


class Turn(msgspec.Struct, frozen=True):
    """What one speaker has said."""

    role: Speaker
    text: str


class Texts(Line, frozen=True, kw_only=True):
    """One text, or two that are read as a pair; to be labelled, scored or gone on from.

    `as_read`: the one text is already what the model reads, special tokens included; nothing is put before it.
    """

    texts: tuple[str, ...]
    as_read: bool = False


class Chat(Line, frozen=True, kw_only=True):
    """A conversation so far, a person's turn last; `system` is what the assistant is told before it, or empty."""

    turns: tuple[Turn, ...]
    system: str = ""


class Image(Line, frozen=True, kw_only=True):
    """An image file."""

    path: str


Given = Texts | Chat | Image


class Load(Line, frozen=True, kw_only=True):
    """Load a model of the run in the folder `run`. `on_cpu`: on the CPU, whatever else there is."""

    run: str
    which: Which
    on_cpu: bool = False


class Ask(Line, frozen=True, kw_only=True):
    """A question; `id` names it in what is answered."""

    id: int
    given: Given
    writing: Writing = Writing()


class Stop(Line, frozen=True, kw_only=True):
    """End the answer to a question early; what is written so far is kept."""

    id: int


class Close(Line, frozen=True, kw_only=True):
    """End the process."""


Said = Load | Ask | Stop | Close
"""What is said to the process."""


class Loaded(Line, frozen=True, kw_only=True):
    """The model is ready.

    `name` is what it is called; `device` where it is (`cpu`, `mps`, `cuda:0`), `dtype` what it computes in (`bf16`);
    `sees` the most tokens it can read and write together, 0: no limit is known. `notes` are sentences to know.
    """

    name: str
    task: Task
    device: str
    dtype: str
    labels: tuple[str, ...] = ()
    sees: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


class NotLoaded(Line, frozen=True, kw_only=True):
    """The model can't be loaded; the process ends."""

    error: FailureReport


class Piece(Line, frozen=True, kw_only=True):
    """Some more of a text that is being written."""

    id: int
    text: str


class Chance(msgspec.Struct, frozen=True):
    """How likely a label is, 0 to 1."""

    label: str
    chance: float


class Word(msgspec.Struct, frozen=True):
    """A word of the text asked about, by the places of its first character and behind its last, with its label."""

    start: int
    end: int
    label: str
    chance: float


class EndedBy(StrEnum):
    """What ended a text."""

    MODEL = "model"
    LENGTH = "length"
    STOP_TEXT = "stop-text"
    PERSON = "person"


class Answered(Line, frozen=True, kw_only=True):
    """The whole answer of the model called `name`, and what it took.

    By task one of these is filled: `text` and `ended_by` of a text that was written; `chances` of labels, the likeliest
    first; `words` with their labels; `number`. `read` and `tokens` count tokens read and written, `seconds` is the time
    from the question to the end. `notes` are sentences to know, such as that earlier turns were left out.
    """

    id: int
    name: str
    text: str = ""
    ended_by: EndedBy | None = None
    chances: tuple[Chance, ...] = ()
    words: tuple[Word, ...] = ()
    number: float | None = None
    read: int = 0
    tokens: int = 0
    seconds: float = 0.0
    device: str = ""
    dtype: str = ""
    notes: tuple[str, ...] = ()

    @property
    def tokens_per_second(self) -> float | None:
        """How fast it wrote; None where it wrote nothing."""
        return self.tokens / self.seconds if self.tokens and self.seconds > 0 else None


class NotAnswered(Line, frozen=True, kw_only=True):
    """A question that can't be answered; the model is there for the next one."""

    id: int
    error: FailureReport


Told = Loaded | NotLoaded | Piece | Answered | NotAnswered
"""What the process says."""


# --- A run's two models


LARGEST_HEADER = 64 << 20
"""A safetensors file begins with its header's length and the header, JSON; a longer one is no file of weights."""
MOST_DIMENSIONS = 16
"""A stranger's file may name so many large ones that multiplying them would take for ever."""


def name_of(run: RunFolder, options: RunOptions, which: Which) -> str:
    """What a model of a run is called beside its answers."""
    if which is Which.TRAINED:
        title, newest = title_of(run.path, options), trained_model(run)
        return (
            _("{title}, step {step:,}").format(title=title, step=newest.step)
            if newest and newest.has_gone_on
            else title
        )
    is_untrained = is_scratch(options.model.source) or not options.model.pretrained
    return f"{model_name(options)} (untrained)" if is_untrained else model_name(options)


def lacks_model(run: RunFolder) -> str:
    """Why a run has no trained model to try, in a sentence; empty where it has one."""
    newest = trained_model(run)
    if newest is None:
        return _("It has no model: it hasn't ended yet, or its model was deleted.")
    if newest.is_checkpoint:
        return _(
            "Its newest weights are those of its checkpoint of step {step:,}: resume it, and its "
            "model is "
            "written when it ends, or export the checkpoint."
        ).format(step=newest.step)
    return ""


def parameters_of(run: RunFolder, options: RunOptions, which: Which) -> int | None:
    """How many weights a model of a run has, by the headers of its files; None where they aren't found."""
    own = count_weights(run.model.glob(WEIGHTS))
    if not holds_adapter(run.model):
        return own or None  # before training, it had as many
    source, base = options.model.source, run.model / "base"
    if not base.is_dir():
        base = model_folder(source) or Path(source)
    if not base.is_dir() and not scheme_of(source):
        base = snapshot(source, Kind.MODEL) or base
    found = count_weights(base.glob(WEIGHTS))
    if not found:
        return None
    return found + own if which is Which.TRAINED else found


def count_weights(files: Iterable[Path]) -> int:
    """How many numbers safetensors files hold (https://huggingface.co/docs/safetensors); 0 of unreadable ones."""
    total = 0
    for path in files:
        try:
            with open_plain(path) as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(length)) if length <= LARGEST_HEADER else {}
        except (OSError, ValueError, RecursionError):
            continue
        for tensor in header.values() if isinstance(header, dict) else ():
            shape = tensor.get("shape") if isinstance(tensor, dict) else None
            if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
                continue
            if all(isinstance(side, int) and 0 <= side < 1 << 48 for side in shape):
                total += math.prod(shape)
    return total


# --- The process


KILLED = -9
"""The exit status of a process that somebody else has killed; on Windows there is none of its own for that."""
LAST_SECONDS = 3.0
"""How long a process that was asked to end may take."""


class TryProcess:
    """One model in a process of its own. `say` returns at once, from any thread; `lines` waits for what it answers.

    Args:
        load: What it is to load.
        command: What starts it, where it isn't Hone's own engine.

    Raises:
        OSError: It can't be started.
    """

    def __init__(self, load: Load, command: Sequence[str] | None = None) -> None:
        self._killed = False
        self._ceiling = Ceiling(limit=room_for_reading(system_memory()))
        try:
            self._process, self._messages = start_asked(
                command or engine_command(JOB), self._ceiling.environment
            )
        except BaseException:
            self._ceiling.close()
            raise
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="try-writer", daemon=True)
        self._writer.start()
        self.say(load)

    @property
    def pid(self) -> int:
        """The number of its process."""
        return int(self._process.pid)

    def say(self, said: Said) -> None:
        """Send a line; a process that has ended hears nothing, which `lines` tells."""
        self._waiting.put(msgspec.json.encode(said) + b"\n")

    def lines(self) -> Iterator[Told]:
        """What it says, until it ends as it was asked to. No process and no thread is left then.

        Raises:
            UserError: The model can't be loaded, or the system has ended its process.
            EngineCrashed: It ended by itself, or said what can't be understood.
            JobCancelled: `kill` was called.
        """
        assert self._process.stdout is not None
        try:
            with self._ceiling.over_process(self.pid, lambda: kill_with_children(self._process)):
                for line in self._process.stdout:
                    try:
                        told: Told = msgspec.json.decode(line, type=Told)
                    except msgspec.MsgspecError as error:
                        self.kill()
                        said = line[:2000].decode(errors="replace")
                        raise EngineCrashed(JOB, 0, f"{error}\n{said}") from error
                    if isinstance(told, NotLoaded):
                        raise UserError(told.error.title, told.error.detail, told.error.fixes)
                    yield told
            if self._process.wait(LAST_SECONDS) != 0:
                raise self._end()
        finally:
            self._waiting.put(None)
            try:
                self._process.wait(0 if self._killed else LAST_SECONDS)
            except subprocess.TimeoutExpired:
                kill_with_children(self._process)
                self._process.wait()
            self._writer.join()
            self._process.stdout.close()
            self._messages.close()

    def close(self) -> None:
        """Ask it to end; it does so at once, whatever it is writing."""
        self.say(Close())
        self._waiting.put(None)

    def kill(self) -> None:
        """End it at once; may be called from another thread while `lines` waits."""
        self._killed = True
        kill_with_children(self._process)
        self._ceiling.close()

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended; `lines` says why
            while (line := self._waiting.get()) is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _end(self) -> Exception:
        if self._killed:
            return JobCancelled(JOB)
        if self._ceiling.over:
            return self._ceiling.over
        if self._process.returncode == KILLED:
            return OutOfMemory(
                _("The system has ended the model's process"),
                _("Mostly memory was short. Close other programs, or ask one model at a time."),
            )
        self._messages.seek(0)
        return EngineCrashed(JOB, self._process.returncode, self._messages.read().decode(errors="replace"))


Start = Callable[[Load], TryProcess]
"""Starts the process of a model. Raises OSError where it can't."""


# --- Whether there is memory for models now: a run that trains comes first


FP32, HALF = 4, 2
"""Bytes of a weight as it is loaded, and of the copy that a computation in 16 bits keeps of it."""
ANSWERING = 1.1
"""What an answer takes beside the weights: keys and values of what was read, activations. A tenth is a guess."""
SPARE = 0.05
"""This share of the free memory is left alone."""


@dataclass(frozen=True)
class Need:
    """Bytes that one model takes in a process of its own; None: unknown before it is loaded."""

    which: Which
    size: int | None


@dataclass(frozen=True)
class Verdict:
    """Which of the models may be loaded now, and why not the others.

    `cpu_helps` tells that they could be loaded on the CPU all the same, beside a run that trains.
    """

    allowed: tuple[Which, ...]
    title: str = ""
    detail: str = ""
    cpu_helps: bool = False


def need_of(run: RunFolder, options: RunOptions, which: Which) -> Need:
    """How much of the computer's memory a model of a run will take."""
    parameters = parameters_of(run, options, which)
    if parameters is None:
        return Need(which, None)
    if options.model.method is Method.QLORA:
        bytes_a_weight = INT8 if options.model.quantization is Quantization.INT8 else NF4
    else:
        is_whole = options.device.precision in (Precision.FP32, Precision.TF32)
        bytes_a_weight = FP32 if is_whole else FP32 + HALF
    weights = round(parameters * bytes_a_weight * ANSWERING)
    return Need(which, libraries_bytes(options) + FIRST_USE + weights)


def free_memory() -> int:
    """Bytes that a new process may take of the computer's memory."""
    return shared_room(system_memory(), group_memory()).free


def that_train(folder: Path) -> tuple[RunFolder, ...]:
    """The runs that hold memory now, in a folder or elsewhere; queued ones hold none."""
    alive = [run for run in _runs(folder) if run.exit_record() is None and run.keeper_is_alive()]
    known = {run.path.absolute() for run in alive}
    alive += [run for run in queue.training() if run.path not in known]
    states = {run: summarize(run).state for run in alive}
    return tuple(run for run, state in states.items() if not (state.is_over or state is State.QUEUED))


def judge(needs: Sequence[Need], free: int, training: Sequence[str] = (), *, on_cpu: bool = False) -> Verdict:
    """Which models may be loaded, the first one first.

    Args:
        needs: Of the models that are wanted, the most wanted first; one of unknown size is hoped to fit.
        free: Free bytes.
        training: The titles of the runs that train now.
        on_cpu: Whether the person wants them beside a run that trains, on the CPU.
    """
    allowed: list[Which] = []
    left = round(free * (1 - SPARE))
    for need in needs:
        if (need.size or 0) <= left:
            allowed.append(need.which)
            left -= need.size or 0
    one, all_of_them = (formats.size(sum(need.size or 0 for need in some)) for some in (needs[:1], needs))
    if training and not on_cpu:
        trains = (
            _("{training} is training").format(training=training[0])
            if len(training) == 1
            else _("{training} runs are training").format(training=len(training))
        )
        detail = (
            "It can be tried on the CPU meanwhile, slowly; or wait until the run has ended."
            if allowed
            else _(
                "There is no room beside it either: the model takes about {one}, and {free} are "
                "free. "
                "Wait until the run has ended, or pause it."
            ).format(one=one, free=formats.size(free))
        )
        detail = _("Trying a model now would take memory and time from it. {detail}").format(detail=detail)
        return Verdict((), trains, detail, cpu_helps=bool(allowed))
    if len(allowed) == len(needs):
        return Verdict(tuple(allowed))
    if allowed:
        return Verdict(
            tuple(allowed),
            _("Only one of the two models fits into memory"),
            _(
                "Together they take about {all_of_them}, and {free} are free. Close other programs "
                "to see "
                "both side by side, or look at one after the other."
            ).format(all_of_them=all_of_them, free=formats.size(free)),
        )
    return Verdict(
        (),
        _("There is too little memory to try this model"),
        _("It takes about {one}, and {free} are free. Close other programs and try again.").format(
            one=one, free=formats.size(free)
        ),
    )


# --- The runs that can be tried


@dataclass(frozen=True)
class Triable:
    """A run with a model: its title, its task, and the names of its two models."""

    run: RunFolder
    title: str
    task: Task
    trained: str
    before: str

    def name(self, which: Which) -> str:
        """The name of one of its models."""
        return self.trained if which is Which.TRAINED else self.before


@dataclass(frozen=True)
class Choice:
    """The runs that can be tried, the newest first; of the chosen one its held-out examples, a person's prompts first.

    `reads_pairs`: it was trained on pairs of texts. `problem`: why the run that was asked for can't be tried.
    """

    runs: tuple[Triable, ...]
    chosen: Triable | None = None
    examples: tuple[Example, ...] = ()
    reads_pairs: bool = False
    problem: str = ""


def look(folder: Path, wanted: RunFolder | None) -> Choice:
    """Which runs of a folder can be tried, with the examples of `wanted` (None: of the newest)."""
    found = [one for run in _runs(folder) if (one := triable(run)) is not None]
    chosen = next((one for one in found if wanted is not None and one.run.path == wanted.path), None)
    if wanted is not None and chosen is None:
        chosen = triable(wanted)  # it lies elsewhere
        if chosen is None:
            return Choice(tuple(found), problem=lacks_model(wanted) or _("Its run file can't be read."))
        found.insert(0, chosen)
    chosen = chosen or next(iter(found), None)
    if chosen is None:
        return Choice(())
    examples = tuple(sorted(chosen_examples(chosen.run.events_file), key=lambda example: not example.is_own))
    return Choice(tuple(found), chosen, examples, reads_pairs(chosen.run))


def reads_pairs(run: RunFolder) -> bool:
    """Whether a run was trained on pairs of texts, by its columns or its examples."""
    options = run.readable_options()
    if options is None or options.task not in (Task.TEXT_CLASSIFICATION, Task.TEXT_REGRESSION):
        return False
    if options.data.text_columns:
        return len(options.data.text_columns) == 2
    examples = chosen_examples(run.events_file)
    return bool(examples) and all(example.given.count("\n") == 1 for example in examples)


def _runs(folder: Path) -> list[RunFolder]:
    try:
        return list_runs(folder)
    except OSError:
        return []


def triable(run: RunFolder) -> Triable | None:
    """None where the run has no model, or its run file can't be read."""
    options = run.readable_options()
    if options is None or lacks_model(run):
        return None
    return Triable(
        run=run,
        title=title_of(run.path, options),
        task=options.task,
        trained=name_of(run, options, Which.TRAINED),
        before=name_of(run, options, Which.BEFORE),
    )


def room_for(chosen: Triable, wanted: tuple[Which, ...], folder: Path, *, on_cpu: bool = False) -> Verdict:
    """Whether models of a run, the most wanted first, may be loaded now; `folder` holds runs that may train."""
    training = [run_title(run) for run in that_train(folder)]
    options = chosen.run.readable_options()
    needs = [] if options is None else [need_of(chosen.run, options, which) for which in wanted]
    return judge(needs, free_memory(), training, on_cpu=on_cpu)
