"""Events of a run: one struct per type, one JSON line each, one codec for all files.

The engine appends to `events.jsonl`, the keeper to `machine.jsonl`. Every line has `type`, `time` (unix seconds) and
`attempt` (1, plus one for each resume). JSON has no NaN: a loss that isn't finite is written as `"loss": null` with
`"non_finite": "nan"` or `"inf"`, and read back as NaN by `loss_value`.
"""

import math
import time as clock
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from core.base.errors import Fix
from core.memory.model import Basis, Parts, Room

LATEST = 253_402_300_799
"""Unix seconds of the end of the year 9999; there is no date beyond."""

Moment = Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
"""Unix seconds."""

Seconds = Annotated[float, msgspec.Meta(ge=-LATEST, le=LATEST)]
"""A length of time; below zero by a hair where one figure is taken from another."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""Steps, samples, bytes; a float, which charts keep, holds no larger whole numbers."""

ProcessNumber = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
"""The number of a process, 0 where it isn't told."""


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=_snake):
    """Base of all events. `time` is unix seconds."""

    time: Moment = msgspec.field(default_factory=clock.time)
    attempt: Count = 1


MOST_LABELS = 50
"""So many labels at most a confusion matrix has."""


class Example(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One held-out example, or a prompt of the person's own.

    `given` is what the model reads, as text; `image` a PNG file relative to the run's folder, in its place. `expected`
    is what it should say; empty for own prompts, where nobody knows.
    """

    given: str = ""
    image: str = ""
    expected: str = ""
    is_own: bool = False


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model said of one example: a label, a number, labels by word, or the text it wrote.

    `sure` is the probability (0 to 1) of a label. `right` tells whether it is what was expected; None where that is no
    matter of yes or no. `is_cut` marks a text that was ended by its length, not by the model.
    """

    text: str
    sure: float | None = None
    right: bool | None = None
    is_cut: bool = False


class ExamplesChosen(Event, frozen=True, kw_only=True):
    """The examples whose predictions are kept, in order."""

    examples: tuple[Example, ...]


class Predicted(Event, frozen=True, kw_only=True):
    """What the model said after `step` of each of the examples, in their order."""

    step: Count
    epoch: float
    said: tuple[Said, ...]
    seconds: Seconds = 0.0


class ConfusionCounted(Event, frozen=True, kw_only=True):
    """How classes were mixed up in the evaluation after `step`.

    `counts[i][j]` samples of class `labels[i]` were taken for `labels[j]`. Of many classes only those mixed up
    most are told; `left_out` counts the others.
    """

    step: Count
    labels: tuple[str, ...]
    counts: tuple[tuple[Count, ...], ...]
    left_out: Count = 0

    def within_limits(self) -> "ConfusionCounted":
        """The same with no more labels than Hone writes: somebody else's file may hold any number."""
        labels, counts = (
            self.labels[:MOST_LABELS],
            tuple(row[:MOST_LABELS] for row in self.counts[:MOST_LABELS]),
        )
        left_out = self.left_out + len(self.labels) - len(labels)
        return msgspec.structs.replace(self, labels=labels, counts=counts, left_out=left_out)


class Source(StrEnum):
    """Who measured a figure."""

    SYSTEM = "system"
    PROCESS = "process"
    TORCH = "torch"
    NVML = "nvml"
    APPLE = "apple"


class Pressure(StrEnum):
    """How short of memory the operating system says it is."""

    NORMAL = "normal"
    WARN = "warn"
    CRITICAL = "critical"


class Throttle(StrEnum):
    """Why a processor's clock is held down. A power cap is usual for a card that works hard.

    No driver reports the last two: they follow from other figures.
    """

    POWER_CAP = "power cap"
    POWER_BRAKE = "power brake"
    THERMAL_SOFTWARE = "thermal slowdown (software)"
    THERMAL_HARDWARE = "thermal slowdown (hardware)"
    HARDWARE = "hardware slowdown"
    PRESSURE = "thermal pressure"
    HOT = "it is hot, and its clock is low"


THERMAL = frozenset({Throttle.THERMAL_SOFTWARE, Throttle.THERMAL_HARDWARE, Throttle.PRESSURE, Throttle.HOT})
"""The processor, or its memory, is too hot."""


class MemorySampled(Event, frozen=True, kw_only=True):
    """Memory in use, in bytes; None: not available.

    - `system`: `bytes` is what all programs hold, `ceiling` the installed memory, `swap` what lies on the disk,
      `compressed` what macOS keeps compressed, `pressure` how short of memory the operating system is.
    - `process`: the engine and its children.
    - `torch`: the live tensors, with `reserved` what the allocator (CUDA) or Metal's driver (MPS) holds for them and
      `ceiling` what it may have; `unified` tells that the device shares the computer's memory.
    - `nvml`: what all programs hold of the GPU, of its `ceiling`, with `own` what this run's processes do.
    - `apple`: what all programs have the GPU hold of the computer's memory.
    """

    source: Source
    bytes: Count
    ceiling: Count | None = None
    swap: Count | None = None
    compressed: Count | None = None
    pressure: Pressure | None = None
    reserved: Count | None = None
    own: Count | None = None
    unified: bool = False


class DeviceSampled(Event, frozen=True, kw_only=True):
    """How busy a processor is, and what holds it back; None: not available.

    `busy` is 0 to 1, `power` and `power_limit` watts, `temperature` degrees Celsius, `clock` and `clock_limit` MHz.
    `throttled` says why the clock is held down, as in `Throttle` (a newer driver may have others); empty: it isn't;
    None: unknown. `thermal` is macOS' level of thermal pressure, from 0 (nominal) to 4 (sleeping).
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
    """The computer's battery: `share` that is left (0 to 1); `is_plugged` is None where nobody tells."""

    share: float
    is_plugged: bool | None = None


class DiskSampled(Event, frozen=True, kw_only=True):
    """The disk that the run's folder lies on, in bytes."""

    free: Count
    total: Count


class MemoryForecast(Event, frozen=True, kw_only=True):
    """How much memory the run takes at its fullest moment, told once its model is loaded; bytes.

    `basis`, `correction` and `length` are as in `core.memory.model.Forecast`. `fixes` are what to do should memory
    run out, best first, for whoever has to say so after the engine is gone.
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
    """What the engine is busy with."""

    LOADING_DATA = "loading_data"
    LOADING_MODEL = "loading_model"
    TOKENIZING = "tokenizing"
    COMPILING = "compiling"
    TRAINING = "training"
    EVALUATING = "evaluating"
    SAVING = "saving"


class Level(StrEnum):
    """How loudly a message speaks."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Outcome(StrEnum):
    """How the engine says a run ended."""

    FINISHED = "finished"
    STOPPED = "stopped"
    PAUSED = "paused"
    FAILED = "failed"


class RunStarted(Event, frozen=True, kw_only=True):
    """First line of an attempt. Steps of earlier attempts beyond `from_step` no longer count."""

    schema: int = SCHEMA
    from_step: Count = 0
    pid: ProcessNumber = 0
    versions: dict[str, str] = {}


class TurnAwaited(Event, frozen=True, kw_only=True):
    """The keeper waits: `ahead` runs are to train before this one, the next of them in a folder named `behind`.

    `title` is what that one is called.
    """

    ahead: Count
    behind: str = ""
    title: str = ""


class TurnCame(Event, frozen=True, kw_only=True):
    """The keeper waits no longer and starts the engine."""


class RunPlanned(Event, frozen=True, kw_only=True):
    """What the run is going to do, known once data and model are loaded."""

    total_steps: Count
    epochs: float
    train_samples: Count
    eval_samples: Count
    effective_batch: Count
    labels: tuple[str, ...] = ()
    device: str = ""


class PhaseChanged(Event, frozen=True, kw_only=True):
    """The engine went on to something else. `detail` is a file or model name."""

    phase: Phase
    detail: str = ""


class StepFinished(Event, frozen=True, kw_only=True):
    """One optimizer step: its wall time in seconds, samples and (unpadded) tokens, loss where already known.

    `compile_seconds` is the time compiling took in between, which `seconds` leaves out. Such a step is no measure of
    the pace.

    `data_seconds`, `forward_seconds`, `backward_seconds` and `optimizer_seconds` are parts of `seconds`; the rest went
    into the loop itself. A CPU computes while it is waited for, so every step has them. CUDA and MPS work on after they
    were told to: only steps for which Hone waited between the parts have the last three, the others None.
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
        """The loss as a number: NaN or infinity where it was that, None where it isn't known yet."""
        return float(self.non_finite) if self.non_finite else self.loss


class Evaluated(Event, frozen=True, kw_only=True):
    """Metrics on the held-out data after `step`: `eval_loss`, `eval_accuracy`, `eval_f1` (0 to 1)."""

    step: Count
    epoch: float
    metrics: dict[str, float | None]
    seconds: Seconds


class CheckpointSaved(Event, frozen=True, kw_only=True):
    """A complete checkpoint, its folder relative to the run's."""

    step: Count
    path: str
    bytes: Count
    seconds: Seconds


class WhatRan(Event, frozen=True, kw_only=True):
    """What actually ran, read from the live objects after the first step. Bytes and counts are exact.

    `optimizer_state` splits `optimizer_state_bytes` by dtype. `attention` is the implementation that was called,
    `recomputed` counts the modules whose activations were computed again for the gradients, `compiled` names the back
    end (and mode) that compiled the model, `loss_scale` is that of fp16, `matmul` the format CUDA multiplies fp32 in.
    `optimizer_numbers` are those of the training options that the live optimizer holds. `decayed_parameters` are those
    that weight decay reaches. `adapter` describes LoRA matrices, `packed_parameters`
    counts the frozen weights held in 4 or 8 bits. `workers` are the process ids of the data loaders, `worker_start` how
    they were started. `padded_to` and `sampling` say how batches were made, `fell_back` which operators ran on the CPU.
    `reasons` say by option what was left to Hone and why it came out so.
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
    attention: str | None = None
    reasons: dict[str, str] = {}
    optimizer_state: dict[str, int] = {}
    optimizer_numbers: dict[str, float] = {}
    decayed_parameters: Count | None = None
    loss_scale: float | None = None
    matmul: str = ""
    recomputed: Count = 0
    compiled: str = ""
    compile_seconds: Seconds | None = None
    adapter: str = ""
    packed_parameters: Count = 0
    batches_per_step: Count = 1
    padded_to: str = ""
    sampling: str = ""
    workers: tuple[ProcessNumber, ...] = ()
    worker_start: str = ""
    pinned: bool = False
    threads: Count | None = None
    deepspeed: str = ""
    deterministic: bool = False
    fell_back: tuple[str, ...] = ()


class MessageRaised(Event, frozen=True, kw_only=True):
    """Something the person should read. `id` names the kind of message and is withdrawn by it."""

    id: str
    level: Level
    title: str
    detail: str = ""
    fixes: tuple[Fix, ...] = ()


class MessageWithdrawn(Event, frozen=True, kw_only=True):
    """The message with this id no longer holds."""

    id: str


class RequestAnswered(Event, frozen=True, kw_only=True):
    """A request (stop, pause, ...) was taken up, or refused with its reason."""

    request: str
    action: str
    accepted: bool
    detail: str = ""


class RunFinished(Event, frozen=True, kw_only=True):
    """Last line of an attempt that ended by itself.

    `seconds` is training and evaluation, loading left out; `samples_per_second` is that of training alone.
    `peak_bytes` is the most the process held of the computer's memory, `peak_device_bytes` of the GPU's (torch's
    allocator; None on a CPU). `worked` is how long the attempt lasted, loading included, by a clock that nobody sets.
    """

    state: Outcome
    metrics: dict[str, float | None] = {}
    samples_per_second: float | None = None
    seconds: Seconds = 0.0
    steps: Count = 0
    peak_bytes: Count | None = None
    peak_device_bytes: Count | None = None
    worked: Seconds | None = None

    @property
    def wrote_model(self) -> bool:
        """Whether the attempt has written the trained model: one that was stopped while it loaded has not."""
        return self.state is Outcome.FINISHED or (self.state is Outcome.STOPPED and self.seconds > 0)


AnyEvent = (
    RunStarted
    | TurnAwaited
    | TurnCame
    | RunPlanned
    | PhaseChanged
    | StepFinished
    | MemorySampled
    | MemoryForecast
    | DeviceSampled
    | BatterySampled
    | DiskSampled
    | Evaluated
    | ExamplesChosen
    | Predicted
    | ConfusionCounted
    | CheckpointSaved
    | WhatRan
    | MessageRaised
    | MessageWithdrawn
    | RequestAnswered
    | RunFinished
)

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(AnyEvent)
_TAGS = frozenset(struct.__struct_config__.tag for struct in AnyEvent.__args__)

_NO_JSON = (RecursionError, UnicodeDecodeError)
"""What msgspec lets through of damaged lines: brackets without end, and letters that are none."""


class _Tag(msgspec.Struct):
    type: str


def split_non_finite(value: float | None) -> tuple[float | None, NonFinite | None]:
    """Prepare a number for JSON: a finite one as it is, otherwise None and what it was."""
    if value is None or math.isfinite(value):
        return value, None
    return None, "nan" if math.isnan(value) else "inf"


def encode(event: Event) -> bytes:
    """One JSON line, newline included."""
    return _ENCODER.encode(event) + b"\n"


def decode(line: bytes) -> AnyEvent | None:
    """Read one line; None for a type this version doesn't know.

    Raises:
        msgspec.MsgspecError: The line is not JSON, or a known type with wrong fields.
    """
    try:
        try:
            event: AnyEvent = _DECODER.decode(line)
        except msgspec.ValidationError:
            if msgspec.json.decode(line, type=_Tag).type not in _TAGS:
                return None
            raise
    except _NO_JSON as error:
        raise msgspec.DecodeError(str(error)) from error
    return event


def decode_all(block: bytes) -> list[AnyEvent]:
    """Read whole lines, all of them or none; three times as fast as one by one.

    Raises:
        msgspec.MsgspecError: One of them is not JSON, of a type that this version doesn't know, or has wrong fields.
    """
    try:
        events: list[AnyEvent] = _DECODER.decode_lines(block)
    except _NO_JSON as error:
        raise msgspec.DecodeError(str(error)) from error
    return events
