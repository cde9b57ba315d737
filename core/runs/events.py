"""Events of a run: one struct per type, one JSON line each, one codec for all files.

The engine appends to `events.jsonl`, the keeper to `machine.jsonl`. Every line has `type`, `time` (unix seconds) and
`attempt` (1, plus one for each resume). JSON has no NaN: a loss that isn't finite is written as `"loss": null` with
`"non_finite": "nan"` or `"inf"`, and read back as NaN by `loss_value`.
"""

import math
import re
import time as clock
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import Annotated, Literal

import msgspec

from core.base.errors import Fix
from core.jobs.chat import Chance
from core.memory.model import Basis, Parts, Room

LATEST = 253_402_300_799
"""Unix seconds of the end of the year 9999; there is no date beyond."""

Moment = Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
"""Unix seconds."""

Seconds = Annotated[float, msgspec.Meta(ge=-LATEST, le=LATEST)]
"""A duration; rounding of a difference may make it slightly negative."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""Steps, samples or bytes, at most the largest integer that a float (as in charts) represents exactly."""

ProcessNumber = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
"""A process id; 0: unknown."""


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=_snake):
    """Base of all events. `time` is unix seconds."""

    time: Moment = msgspec.field(default_factory=clock.time)
    attempt: Count = 1


MOST_LABELS = 50
"""The largest number of labels in a confusion matrix."""
MOST_LISTED = 1000
"""The largest number of labels that are counted each."""


class Example(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One held-out example, or one of the person's own prompts.

    `given` is the model's input as text, or `image` a PNG file relative to the run's folder. `expected` is the correct
    output; empty for own prompts, whose answer is unknown. `asked` is the last message of the user in a conversation,
    whose `given` has the special tokens of a chat template. `texts` are the text or the pair in the data, of which
    `given` has the tokens that the model reads, not all if it `is_cut`; `where` is "row 17 of reviews.csv", `file` the
    path of an image's own file on the computer that the run ran on.
    """

    given: str = ""
    asked: str = ""
    image: str = ""
    expected: str = ""
    is_own: bool = False
    texts: tuple[str, ...] = ()
    where: str = ""
    file: str = ""
    is_cut: bool = False

    @property
    def name(self) -> str:
        """What an image is called: its file's name, or its place in a table."""
        return re.split(r"[/\\]", self.file)[-1] or self.where or self.image

    @property
    def shown(self) -> str:
        """The input as the person knows it; that of a pair has a line for each text."""
        return "\n".join(self.texts) or self.asked or self.given


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model's output for one example: a label, a number, a label for each word, or generated text.

    `sure` is the probability (0 to 1) of a label. `right` is whether the output is the expected one; None where it
    can't be judged so. `is_cut` marks a text that was truncated at the maximum length.
    """

    text: str
    sure: float | None = None
    right: bool | None = None
    is_cut: bool = False


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A validation example of a classifier with its likeliest labels; the first is the predicted one."""

    example: Example
    chances: tuple[Chance, ...]

    @property
    def predicted(self) -> str:
        return self.chances[0].label if self.chances else ""

    @property
    def is_right(self) -> bool:
        return self.predicted == self.example.expected


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """`validation.json`: examples of the newest evaluation, or of the best if that is kept, the wrong ones first.

    Up to a bound all are included, else the wrong ones that the model was surest of, and the right ones that it was
    least sure of; the first of each cell of the confusion matrix comes before the second of any.
    """

    step: Count
    wrong: Count
    examples: tuple[Judged, ...]


class ExamplesChosen(Event, frozen=True, kw_only=True):
    """The examples whose predictions are recorded, in order."""

    examples: tuple[Example, ...]


class Predicted(Event, frozen=True, kw_only=True):
    """The model's outputs after `step` for each of the examples, in their order."""

    step: Count
    epoch: float
    said: tuple[Said, ...]
    seconds: Seconds = 0.0


class LabelCounted(msgspec.Struct, frozen=True, kw_only=True):
    """How often a label was the true one, the predicted one, and both."""

    label: str
    true: Count
    predicted: Count
    right: Count

    @property
    def precision(self) -> float | None:
        """Which share of its predictions is right, 0 to 1; None if it was never predicted."""
        return self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """Which share of its samples was found, 0 to 1; None if it has none."""
        return self.right / self.true if self.true else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of both, 0 to 1; None if it was neither true nor predicted."""
        both = self.true + self.predicted
        return 2 * self.right / both if both else None


class ConfusionCounted(Event, frozen=True, kw_only=True):
    """The confusion matrix of the evaluation after `step`, and the counts of each label.

    `counts[i][j]` samples of class `labels[i]` were classified as `labels[j]`. Of many classes only the most confused
    ones are included; `left_out` counts the others. `of_labels` has up to `MOST_LISTED` of them, or none in files of
    earlier versions. `is_kept`: its examples and its model are kept, those of no later one.
    """

    step: Count
    labels: tuple[str, ...]
    counts: tuple[tuple[Count, ...], ...]
    left_out: Count = 0
    of_labels: tuple[LabelCounted, ...] = ()
    is_kept: bool = True

    @property
    def each_label(self) -> tuple[LabelCounted, ...]:
        """The counts of each label; none if they aren't known."""
        if self.of_labels or self.left_out:
            return self.of_labels
        columns = [sum(column) for column in zip(*self.counts, strict=True)]
        return tuple(
            LabelCounted(label=label, true=sum(row), predicted=columns[place], right=row[place])
            for place, (label, row) in enumerate(zip(self.labels, self.counts, strict=True))
        )

    def within_limits(self) -> "ConfusionCounted":
        """Returns a copy with at most `MOST_LABELS` labels and a square matrix: a file from elsewhere may have any."""
        labels = self.labels[:MOST_LABELS]
        side = range(len(labels))
        rows = [dict(enumerate(row)) for row in self.counts[: len(labels)]]
        rows += [{}] * (len(labels) - len(rows))
        return msgspec.structs.replace(
            self,
            labels=labels,
            counts=tuple(tuple(row.get(place, 0) for place in side) for row in rows),
            left_out=self.left_out + len(self.labels) - len(labels),
            of_labels=self.of_labels[:MOST_LISTED],
        )


class Source(StrEnum):
    """What measured a value."""

    SYSTEM = "system"
    PROCESS = "process"
    TORCH = "torch"
    NVML = "nvml"
    APPLE = "apple"


class Pressure(StrEnum):
    """Memory pressure as the operating system reports it."""

    NORMAL = "normal"
    WARN = "warn"
    CRITICAL = "critical"


class Throttle(StrEnum):
    """Why a processor's clock is reduced. A power cap is normal for a GPU under full load.

    No driver reports the last two: they are derived from other values.
    """

    POWER_CAP = "power cap"
    POWER_BRAKE = "power brake"
    THERMAL_SOFTWARE = "thermal slowdown (software)"
    THERMAL_HARDWARE = "thermal slowdown (hardware)"
    HARDWARE = "hardware slowdown"
    PRESSURE = "thermal pressure"
    HOT = "it is hot, and its clock is low"


THERMAL = frozenset({Throttle.THERMAL_SOFTWARE, Throttle.THERMAL_HARDWARE, Throttle.PRESSURE, Throttle.HOT})
"""Reasons that mean that the processor, or its memory, is too hot."""


class MemorySampled(Event, frozen=True, kw_only=True):
    """Memory in use, in bytes; None: not available.

    - `system`: `bytes` is used by all programs, `ceiling` the installed memory, `swap` on the disk, `compressed` held
      compressed by macOS, `pressure` the operating system's memory pressure.
    - `process`: the engine and its children.
    - `torch`: live tensors of PyTorch or MLX, `reserved` by the allocator (CUDA, MLX) or by Metal (MPS), whose limit is
      `ceiling`; `cached` of it is given back when it is needed (MLX); `footprint` is what macOS counts of the engine;
      `unified`: the device shares the computer's memory.
    - `nvml`: GPU memory used by all programs, of `ceiling` in total; `own` is used by this run's processes.
    - `apple`: the computer's memory that the GPU uses for all programs.
    """

    source: Source
    bytes: Count
    ceiling: Count | None = None
    swap: Count | None = None
    compressed: Count | None = None
    pressure: Pressure | None = None
    reserved: Count | None = None
    cached: Count | None = None
    footprint: Count | None = None
    own: Count | None = None
    unified: bool = False

    @property
    def needed(self) -> int:
        """Bytes of the device that the run can't do without."""
        return max(self.bytes, (self.reserved or 0) - (self.cached or 0))


class DeviceSampled(Event, frozen=True, kw_only=True):
    """Utilization of a processor, and what limits it; None: not available.

    `busy` is 0 to 1, `power` and `power_limit` watts, `temperature` degrees Celsius, `clock` and `clock_limit` MHz.
    `throttled` has the reasons why the clock is reduced, as in `Throttle` (a newer driver may report others); empty: it
    isn't reduced; None: unknown. `thermal` is macOS' level of thermal pressure, from 0 (nominal) to 4 (sleeping).
    """

    source: Source
    name: str = ""
    busy: float | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    clock: float | None = None
    clock_limit: float | None = None
    throttled: tuple[str, ...] | None = None
    thermal: int | None = None


class BatterySampled(Event, frozen=True, kw_only=True):
    """The computer's battery: the `share` that is left (0 to 1); `is_plugged` is None if unknown."""

    share: float
    is_plugged: bool | None = None


class DiskSampled(Event, frozen=True, kw_only=True):
    """The disk of the run's folder, in bytes."""

    free: Count
    total: Count


class MemoryForecast(Event, frozen=True, kw_only=True):
    """The forecast of peak memory in bytes, written once the model is loaded.

    `basis`, `correction` and `length` are as in `core.memory.model.Forecast`. `fixes` are remedies, best first, to be
    shown if memory runs out and the engine is gone.
    """

    device: str
    basis: Basis
    parts: Parts
    room: Room | None = None
    correction: float = 1.0
    length: Count | None = None
    fixes: tuple[Fix, ...] = ()


SCHEMA = 1

NonFinite = Literal["nan", "inf"]


class Phase(StrEnum):
    """What the engine is doing."""

    LOADING_DATA = "loading_data"
    LOADING_MODEL = "loading_model"
    TOKENIZING = "tokenizing"
    COMPILING = "compiling"
    TRAINING = "training"
    EVALUATING = "evaluating"
    SAVING = "saving"


class Level(StrEnum):
    """The severity of a message."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Outcome(StrEnum):
    """How a run ended, as reported by the engine."""

    FINISHED = "finished"
    STOPPED = "stopped"
    PAUSED = "paused"
    FAILED = "failed"


class RunStarted(Event, frozen=True, kw_only=True):
    """First line of an attempt, which takes back what earlier ones did after `from_step`, and does it again."""

    schema: int = SCHEMA
    from_step: Count = 0
    pid: ProcessNumber = 0
    versions: dict[str, str] = {}

    def undoes(self, step: int) -> bool:
        """Returns whether what an earlier attempt did at `step` no longer counts."""
        return step > self.from_step


class TurnAwaited(Event, frozen=True, kw_only=True):
    """The keeper waits: `ahead` runs train before this one, the last of them in the folder named `behind`.

    `title` is the title of that one. `is_source`: this run starts from its model. `is_paused`: it must be resumed
    first.
    """

    ahead: Count
    behind: str = ""
    title: str = ""
    is_source: bool = False
    is_paused: bool = False


class TurnCame(Event, frozen=True, kw_only=True):
    """The keeper has stopped waiting and starts the engine."""


class RunPlanned(Event, frozen=True, kw_only=True):
    """The planned length and data of the run, known once data and model are loaded."""

    total_steps: Count
    epochs: float
    train_samples: Count
    eval_samples: Count
    effective_batch: Count
    labels: tuple[str, ...] = ()
    device: str = ""


SAMPLE_PREDICTIONS = "examples"
"""The detail of the phase `evaluating` while the predictions on the chosen examples are made."""


class PhaseChanged(Event, frozen=True, kw_only=True):
    """The engine has entered a phase.

    `detail` is a file or model name, `SAMPLE_PREDICTIONS`, or how many batches are evaluated: `12/40`.
    """

    phase: Phase
    detail: str = ""


class StepFinished(Event, frozen=True, kw_only=True):
    """One optimizer step: its wall time in seconds, samples, tokens without padding, and the loss if already known.

    `compile_seconds` is the time that compilation took, which `seconds` excludes. Such a step is left out where the
    time of a step is estimated.

    `data_seconds`, `forward_seconds`, `backward_seconds` and `optimizer_seconds` are parts of `seconds`; the rest was
    spent in the training loop itself. A CPU computes synchronously, so every step has them. CUDA and MPS compute
    asynchronously: only steps in which Hone synchronized between the parts have the last three, others have None.
    """

    step: Count
    epoch: float
    seconds: Seconds
    learning_rate: float
    samples: Count
    compile_seconds: Seconds = 0.0
    data_seconds: Seconds | None = None
    forward_seconds: Seconds | None = None
    backward_seconds: Seconds | None = None
    optimizer_seconds: Seconds | None = None
    tokens: Count | None = None
    loss: float | None = None
    grad_norm: float | None = None
    non_finite: NonFinite | None = None

    @property
    def loss_value(self) -> float | None:
        """The loss, which may be NaN or infinite; None: not known yet."""
        return float(self.non_finite) if self.non_finite else self.loss


class Evaluated(Event, frozen=True, kw_only=True):
    """Metrics on the validation data after `step`: `eval_loss`, `eval_accuracy`, `eval_f1` (0 to 1).

    `train_loss` is the mean loss of the steps since the evaluation before. `baseline` is what a constant prediction
    reaches on the same data: the accuracy of the most frequent label, or the mean absolute error of the mean.
    """

    step: Count
    epoch: float
    metrics: dict[str, float | None]
    seconds: Seconds
    train_loss: float | None = None
    baseline: float | None = None


class CheckpointSaved(Event, frozen=True, kw_only=True):
    """A checkpoint was saved; `path` is relative to the run's folder."""

    step: Count
    path: str
    bytes: Count
    seconds: Seconds


class WhatRan(Event, frozen=True, kw_only=True):
    """What actually ran, read from the live objects after the first step. Bytes and counts are exact.

    - `engine` is what trained, with its version; empty for PyTorch.
    - `optimizer_state` splits `optimizer_state_bytes` by dtype; `optimizer_numbers` are the optimizer's settings by
      option; `decayed_parameters` is the number of weights with weight decay.
    - `attention` is the implementation that was called, `recomputed` the number of modules with activation
      checkpointing, `compiled` the back end (and mode) of torch.compile, `fell_back` the operators that ran on the CPU,
      `empty_cache_steps` after how many steps unused GPU memory is given back (0: never), `memory_limit` the
      bytes of a card that the run may hold where its driver would go on in the computer's memory.
    - `loss_scale` is that of fp16, `matmul` the format in which CUDA multiplies fp32.
    - `adapter` describes LoRA matrices, `packed_parameters` is the number of frozen weights in 4 or 8 bits,
      `frozen_dtype` the format of the other frozen ones; biases and norms don't count.
    - `workers` are the process ids of the data loaders, `worker_start` their start method; `padded_to`, `sampling` and
      `augmentation` describe how batches were made.
    - `shards` is the number of parts into which FSDP2 has divided the model (0: it is whole).
    - `parallel` says how several processes work together; empty for one.
    - `reasons` has, by option, what Hone chose and why.
    """

    device: str
    device_name: str
    parameter_dtype: str
    autocast_dtype: str | None
    optimizer: str
    optimizer_state_bytes: Count
    trainable_parameters: Count
    total_parameters: Count
    effective_batch: Count
    engine: str = ""
    attention: str | None = None
    reasons: dict[str, str] = {}
    preference_loss: str = ""
    optimizer_state: dict[str, int] = {}
    optimizer_numbers: dict[str, float] = {}
    decayed_parameters: Count | None = None
    loss_scale: float | None = None
    matmul: str = ""
    recomputed: Count = 0
    empty_cache_steps: Count = 0
    memory_limit: Count | None = None
    compiled: str = ""
    compile_seconds: Seconds | None = None
    adapter: str = ""
    packed_parameters: Count = 0
    frozen_dtype: str = ""
    batches_per_step: Count = 1
    padded_to: str = ""
    sampling: str = ""
    augmentation: str = ""
    workers: tuple[ProcessNumber, ...] = ()
    worker_start: str = ""
    pinned: bool = False
    threads: Count | None = None
    deepspeed: str = ""
    shards: Count = 0
    parallel: str = ""
    deterministic: bool = False
    fell_back: tuple[str, ...] = ()


class MessageRaised(Event, frozen=True, kw_only=True):
    """A message for the person. `id` names its kind, and `MessageWithdrawn` withdraws it by that."""

    id: str
    level: Level
    title: str
    detail: str = ""
    fixes: tuple[Fix, ...] = ()


class MessageWithdrawn(Event, frozen=True, kw_only=True):
    """The message with this id no longer holds."""

    id: str


class Action(StrEnum):
    """A request to a run; the keeper answers `kill`, and all requests to a queued run, the engine the others."""

    STOP = "stop"
    PAUSE = "pause"
    SAVE = "save"
    KILL = "kill"


class RequestAnswered(Event, frozen=True, kw_only=True):
    """A request (stop, pause, ...) was accepted, or refused with a reason in `detail`."""

    request: str
    action: str
    accepted: bool
    detail: str = ""


class RunFinished(Event, frozen=True, kw_only=True):
    """Last line of an attempt whose engine ended by itself.

    `seconds` is the time of training and evaluation without loading; `samples_per_second` is that of training alone.
    `model_step` is the step whose weights the model has, if the best are kept; `waited` the evaluations without
    improvement after which it stopped early, 0 if it didn't.
    `peak_bytes` is the peak of main memory, of several processes the sum, `peak_device_bytes` of GPU memory (torch's
    allocator; None on a CPU). `worked` is the duration of the attempt including loading, by a monotonic clock.
    `keeps_model`: a model was to be written.
    """

    state: Outcome
    metrics: dict[str, float | None] = {}
    samples_per_second: float | None = None
    seconds: Seconds = 0.0
    steps: Count = 0
    model_step: Count | None = None
    waited: Count = 0
    peak_bytes: Count | None = None
    peak_device_bytes: Count | None = None
    worked: Seconds | None = None
    keeps_model: bool = True

    @property
    def wrote_model(self) -> bool:
        """Whether the attempt has written the trained model; one that was stopped while loading hasn't."""
        has_trained = self.state is Outcome.FINISHED or (self.state is Outcome.STOPPED and self.seconds > 0)
        return has_trained and self.keeps_model


_TYPES = Event.__subclasses__()
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(reduce(or_, _TYPES))
_TAGS = frozenset(struct.__struct_config__.tag for struct in _TYPES)

_NO_JSON = (RecursionError, UnicodeDecodeError)
"""Exceptions of damaged lines that msgspec doesn't wrap: too deeply nested, or not UTF-8."""


class _Tag(msgspec.Struct):
    type: str


def split_non_finite(value: float | None) -> tuple[float | None, NonFinite | None]:
    """Returns a number for JSON, which has no NaN: the number if it is finite, and the name of what it is otherwise."""
    if value is None or math.isfinite(value):
        return value, None
    return None, "nan" if math.isnan(value) else "inf"


def encode(event: Event) -> bytes:
    """Returns one JSON line, newline included."""
    return _ENCODER.encode(event) + b"\n"


def decode(line: bytes) -> Event | None:
    """Reads one line; None for a type this version doesn't know.

    Raises:
        msgspec.MsgspecError: The line is not JSON, or a known type with wrong fields.
    """
    try:
        try:
            event: Event = _DECODER.decode(line)
        except msgspec.ValidationError:
            if msgspec.json.decode(line, type=_Tag).type not in _TAGS:
                return None
            raise
    except _NO_JSON as error:
        raise msgspec.DecodeError(str(error)) from error
    return event


def decode_all(block: bytes) -> list[Event]:
    """Reads whole lines, all of them or none; three times as fast as one by one.

    Raises:
        msgspec.MsgspecError: One of them is not JSON, of a type that this version doesn't know, or has wrong fields.
    """
    try:
        events: list[Event] = _DECODER.decode_lines(block)
    except _NO_JSON as error:
        raise msgspec.DecodeError(str(error)) from error
    return events
