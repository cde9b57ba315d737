"""What a run can say: one struct a kind of event, one JSON line each, one codec for all files.

The engine appends to `events.jsonl`, the keeper to `machine.jsonl`. Every line has `type`, `time` (unix seconds) and
`attempt` (1, and one more each time a run is resumed). JSON has no NaN: a loss that isn't finite is written as
`"loss": null` with `"non_finite": "nan"` or `"inf"`, and read back as NaN through `loss_value`.
"""

import math
from enum import StrEnum
from typing import Literal

import msgspec

from core.errors import Fix
from core.event import Count, Event, ProcessNumber, Seconds
from core.predictions import ConfusionCounted, ExamplesChosen, Predicted
from core.samples import (
    BatterySampled,
    DeviceSampled,
    DiskSampled,
    MemoryForecast,
    MemorySampled,
    Pressure,
    Source,
)

__all__ = [
    "SCHEMA",
    "AnyEvent",
    "BatterySampled",
    "CheckpointSaved",
    "ConfusionCounted",
    "DeviceSampled",
    "DiskSampled",
    "Evaluated",
    "Event",
    "ExamplesChosen",
    "Level",
    "MemoryForecast",
    "MemorySampled",
    "MessageRaised",
    "MessageWithdrawn",
    "NonFinite",
    "Outcome",
    "Phase",
    "PhaseChanged",
    "Predicted",
    "Pressure",
    "RequestAnswered",
    "RunFinished",
    "RunPlanned",
    "RunStarted",
    "Source",
    "StepFinished",
    "TurnAwaited",
    "TurnCame",
    "WhatRan",
    "decode",
    "decode_all",
    "encode",
    "split_non_finite",
]

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
        return _restore(self.loss, self.non_finite)


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

_RETIRED_TAGS = frozenset({"losses_logged"})
"""Types that files may hold and that tell nothing any more."""


class _Tag(msgspec.Struct):
    type: str


_TAG_DECODER = msgspec.json.Decoder(_Tag)

_NO_JSON = (RecursionError, UnicodeDecodeError)
"""What msgspec lets through of damaged lines: brackets without end, and letters that are none."""


def split_non_finite(value: float | None) -> tuple[float | None, NonFinite | None]:
    """Prepare a number for JSON: a finite one as it is, otherwise None and what it was."""
    if value is None or math.isfinite(value):
        return value, None
    return None, "nan" if math.isnan(value) else "inf"


def _restore(value: float | None, non_finite: NonFinite | None) -> float | None:
    return float(non_finite) if non_finite else value


def encode(event: Event) -> bytes:
    """One JSON line, newline included."""
    return _ENCODER.encode(event) + b"\n"


def decode(line: bytes) -> AnyEvent | None:
    """Read one line; None for a type this version doesn't know.

    Raises:
        msgspec.MsgspecError: The line is not JSON, or a known type with wrong fields.
    """
    try:
        event: AnyEvent = _DECODER.decode(line)
    except msgspec.ValidationError:
        if _tag(line) not in _TAGS:
            return None
        raise
    except _NO_JSON as error:
        raise msgspec.DecodeError(str(error)) from error
    return event


def _tag(line: bytes) -> str:
    try:
        return _TAG_DECODER.decode(line).type
    except _NO_JSON as error:
        raise msgspec.DecodeError(str(error)) from error


def is_retired(line: bytes) -> bool:
    """Whether a line is of a type that is known, and passed over.

    Raises:
        msgspec.MsgspecError: The line is no event.
    """
    return _tag(line) in _RETIRED_TAGS


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
