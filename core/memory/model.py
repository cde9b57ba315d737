"""Memory of a run as data: parts, forecasts, measurements, the model's shape, and the options that matter."""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from core.base.errors import Problem
from core.base.language import _
from core.options import RunOptions, Tree
from core.options.catalogue import Changes, options_by_path, value_of, with_changes
from core.options.data import DataOptions
from core.options.device_support import DeviceReport, refusal
from core.options.hub import is_at_hand
from core.options.method_rules import METHOD_RULES
from core.options.packing import Packing
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.options.sources import is_scratch
from core.options.validate import TASK_RULES

# --- Whether changes can be made


def can_be_made(options: RunOptions, changes: Changes, device: DeviceReport) -> bool:
    """Returns whether `changes` have an effect, apply, are supported by `device`, and break no further rule."""
    changed = with_changes(options, changes)
    return (
        changed != options
        and all(options_by_path()[path].applies_to(changed) for path in changes)
        and not any(refusal(device, path, value_of(changed, path), changed) for path in changes)
        and not {str(problem) for problem in _broken(changed)}
        - {str(problem) for problem in _broken(options)}
    )


def _broken(options: RunOptions) -> Iterator[Problem]:
    for rule in (*METHOD_RULES, *TASK_RULES):
        yield from rule(options)


# --- Parts and forecasts


DISTURBED = 1.2
"""If ordinary steps take this factor of those on the longest batch, something disturbed them."""

BUSY = 0.15
"""A measurement counts as disturbed if other programs used more than this fraction of the CPU's cores."""

TIGHT = 0.9
"""Above this fraction of the free memory a run fits only tightly: other programs grow, and batches differ."""


class Basis(StrEnum):
    """The source of a figure."""

    FORMULA = "formula"
    MEASURED = "measured"


class FitVerdict(StrEnum):
    """Whether a run fits into the free memory."""

    FITS = "fits"
    TIGHT = "tight"
    TOO_LARGE = "too_large"
    UNKNOWN = "unknown"


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of each part at the peak of a step; they add up to the peak.

    `activations` are what the forward pass saves for gradients; `temporary` are buffers of operators and autocast's
    copies of weights in half precision; `overhead` is everything but tensors: Python and its libraries on a CPU, the
    CUDA context, Metal's driver, and what the allocator holds unused.
    """

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    temporary: int = 0
    overhead: int = 0

    @property
    def total(self) -> int:
        """The peak."""
        return sum(getattr(self, name) for name in self.__struct_fields__)

    @property
    def largest(self) -> str:
        return max(self.__struct_fields__, key=lambda name: getattr(self, name))


PART_TITLES = {
    "weights": _("Weights"),
    "gradients": _("Gradients"),
    "optimizer": _("Optimizer state"),
    "activations": _("Activations"),
    "temporary": _("Temporary buffers"),
    "overhead": _("Overhead (libraries, context)"),
}
"""Titles of the fields of `Parts`."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of a device: bytes that are `free` now, and the total (`ceiling`)."""

    free: int
    ceiling: int


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The peak memory of a run.

    `device` is as in `device.name`, never "auto". `correction` is the factor learned from past runs on this device,
    already applied to `parts`. `length` is the assumed length of the longest row in tokens with padding (None: not a
    text), `longest_text` the length of the longest text after truncation (None: unknown). `notes` are sentences on
    assumptions.
    """

    basis: Basis
    device: str
    parts: Parts
    room: Room | None = None
    correction: float = 1.0
    length: int | None = None
    longest_text: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> FitVerdict:
        return verdict(self.parts.total, self.room)

    @property
    def unpadded_length(self) -> int | None:
        """Tokens of the longest row before padding, as far as known."""
        return self.length if self.longest_text is None else self.longest_text

    def correction_to(self, total: int) -> float:
        """Returns the correction with which the formula gives `total` bytes, measured or by a better forecast."""
        return self.correction * total / max(1, self.parts.total)


def verdict(total: int, room: Room | None) -> FitVerdict:
    """Returns whether `total` bytes fit into the free memory."""
    if room is None:
        return FitVerdict.UNKNOWN
    if total > room.free:
        return FitVerdict.TOO_LARGE
    return FitVerdict.TIGHT if total > TIGHT * room.free else FitVerdict.FITS


class OptionsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request of the jobs `forecast`, `measure` and `check-model` (see `options_request`).

    `asked` is a run's options as plain values with absolute paths; `labels` is the number of labels of the data.
    """

    asked: Tree
    labels: int = 2


def options_request(options: RunOptions, labels: int = 2) -> OptionsRequest:
    return OptionsRequest(asked=msgspec.to_builtins(options), labels=labels)


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a dry run: a few steps on the longest batch, then a few on ordinary ones.

    `peak` is what `Parts.total` forecasts: on a CPU the maximum resident set, on a GPU the maximum that torch's
    allocator reserved, with the context. `base` is the memory before data and model were loaded. `longest` is the
    length of a row of the longest batch in tokens with padding, `longest_text` that of the longest text (None: not a
    text). `longest_step_seconds` is the time of a step on that batch, `step_seconds` the mean of ordinary ones;
    `compile_seconds` is apart. `train_samples` and `total_steps` are those of the whole run, `run_seconds` its time
    without evaluation and saving. `other_load` is the fraction of the CPU's cores that other programs used, None if the
    steps took too short a time. `processes` are those of the run, of which one was measured. `out_of_memory` is empty
    unless memory ran out; the other figures are then those of that moment.
    """

    device: str
    parts: Parts
    peak: int
    base: int
    room: Room | None = None
    longest: int | None = None
    longest_text: int | None = None
    longest_step_seconds: float | None = None
    step_seconds: float | None = None
    compile_seconds: float = 0.0
    train_samples: int | None = None
    total_steps: int | None = None
    run_seconds: float | None = None
    out_of_memory: str = ""
    other_load: float | None = None
    processes: int = 1

    @property
    def is_undivided(self) -> bool:
        """Whether the dry run was killed, so that only the total is known, which is counted as `overhead`."""
        return bool(self.out_of_memory) and self.parts.overhead == self.parts.total

    @property
    def was_disturbed(self) -> bool:
        """Whether other programs used the CPU, or ordinary steps took longer than those on the longest batch."""
        if (self.other_load or 0.0) > BUSY:
            return True
        longest, ordinary = self.longest_step_seconds, self.step_seconds
        return longest is not None and ordinary is not None and ordinary > DISTURBED * longest

    @property
    def forecast(self) -> Forecast:
        return Forecast(
            basis=Basis.MEASURED,
            device=self.device,
            parts=self.parts,
            room=self.room,
            length=self.longest,
            longest_text=self.longest_text,
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        if self.processes > 1 and self.device == "cpu":
            text = _("Measured with one process; {count} take {count} times as much, and share the cores.")
            yield text.format(count=self.processes)
        elif self.processes > 1:
            yield _(
                "Measured with one process, which is what each GPU takes, without buffers of NVIDIA's NCCL."
            )


# --- Options that affect memory or step time; forecasts stay valid when others change


OF_TRAINING = ("optimizer", "momentum", "max_grad_norm", "deterministic", "preference_loss")
"""The training options that matter."""


def matters(path: str) -> bool:
    """Returns whether the option at `path` affects memory or step time."""
    section, _dot, name = path.partition(".")
    return section != "output" and (section != "training" or name in OF_TRAINING)


def that_matter(options: RunOptions) -> RunOptions:
    """Returns `options` with those that don't matter at their defaults."""
    training = TrainingOptions(**{name: getattr(options.training, name) for name in OF_TRAINING})
    return msgspec.structs.replace(options, training=training, output=OutputOptions())


def key_of(options: RunOptions) -> bytes:
    """Returns a key that is equal for options that differ only in what doesn't matter."""
    return msgspec.json.encode(that_matter(options))


# --- The shape of a model


class KeptTensor(msgspec.Struct, frozen=True, array_like=True):
    """`count` saved tensors of one size: `each` n + `square` n^2 bytes for a row of n places (tokens or pixels)."""

    each: float
    square: float = 0.0
    count: int = 1

    def size(self, places: int) -> float:
        """Returns the bytes of one tensor for one row."""
        return places * (self.each + self.square * places)


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a forward pass saves for gradients, counted by the engine with fake tensors.

    `blocks` are tensors inside the blocks of activation checkpointing, `outside` the others. `entering` are bytes per
    place of the inputs of all blocks, `largest` is the fraction of the largest block. `casts` are bytes of weights
    copied to half precision. `into_linears` are numbers per pixel that enter layers LoRA may adapt (for texts, see
    `ModelShape.linears`).
    """

    blocks: tuple[KeptTensor, ...] = ()
    outside: tuple[KeptTensor, ...] = ()
    entering: float = 0.0
    largest: float = 0.0
    casts: int = 0
    into_linears: float = 0.0

    @staticmethod
    def key(*, frozen: bool, half: bool) -> str:
        """Returns the key in `ModelShape.kept`: frozen or trained weights, half or single precision."""
        return f"{'frozen' if frozen else 'full'}{'-half' if half else ''}"


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a model's weights and saved tensors, made by the engine with fake tensors.

    `parameters` counts all weights, `packable` those that QLoRA quantizes, `holdable` those that can be held in 16 bits
    while they are frozen, `head` those of the classifier. `linears` has the summed inputs and outputs of the layers
    that LoRA may adapt, by the last part of their name: its matrices have as many weights, times the rank. `embeddings`
    counts the weights of token and position tables, `largest` those of the largest tensor, `largest_linear` those of
    the largest linear layer, `factored` the numbers of Adafactor's state: sums over the last two dimensions, which
    saves little for 3 x 3 convolutions, `blocks` those that `model.lora_layers` counts. `packed` counts the weights
    that are quantized for MLX in the model's files, by format.

    A text model has `layers` blocks of width `hidden` with `heads` of attention, and at most `positions` tokens;
    `vocabulary` is the size of the vocabulary if the model writes text, else 0. `kept` is by `Kept.key`.
    """

    parameters: int
    packable: int = 0
    holdable: int = 0
    head: int = 0
    linears: dict[str, tuple[int, int]] = {}
    embeddings: int = 0
    largest: int = 0
    largest_linear: int = 0
    factored: int = 0
    blocks: int = 0
    packed: tuple[tuple[Packing, int], ...] = ()
    layers: int = 0
    hidden: int = 0
    heads: int = 0
    vocabulary: int = 0
    positions: int | None = None
    kept: dict[str, Kept] = {}


class ModelReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model without its weights; empty if it isn't on this computer yet.

    `architecture` is its class, such as `BertForSequenceClassification`. `total_parameters` and
    `trainable_parameters` depend on the method and include LoRA's. `layers` counts blocks, or a vision model's linear
    layers and convolutions. `attention` are the supported values of `model.attention` (none for vision models),
    `max_length` is its context length (None: unlimited). `normalises_batch`: it has batch norm. `shape` is for the
    memory forecast. `why_not_mlx` says why MLX can't train it, empty if it can or isn't there at all. `problems` would
    end a run with this model.
    """

    architecture: str = ""
    total_parameters: int = 0
    trainable_parameters: int = 0
    layers: int = 0
    activation_checkpointing: bool = False
    attention: tuple[str, ...] = ()
    max_length: int | None = None
    normalises_batch: bool = False
    shape: ModelShape | None = None
    why_not_mlx: str = ""
    problems: tuple[Problem, ...] = ()


def question_about(options: RunOptions, labels: int = 2) -> OptionsRequest | None:
    """Returns the request to check the model of `options`; None if the model isn't on this computer.

    Options that don't matter are left at their defaults, so that equal requests compare equal. `labels` is the number
    of labels of the data, 2 if unknown.
    """
    if not is_at_hand(options):
        return None
    unused = ModelOptions()
    # positions of a model from scratch depend on the length, and whether MLX's attention sees as far
    needs_length = is_scratch(options.model.source) or options.task.writes_text
    relevant = RunOptions(
        task=options.task,
        model=msgspec.structs.replace(
            options.model, lora_alpha=unused.lora_alpha, lora_dropout=unused.lora_dropout
        ),
        data=DataOptions(max_length=options.data.max_length) if needs_length else DataOptions(),
        device=DeviceOptions(name=options.device.name, backend=options.device.backend),
        memory=MemoryOptions(activation_checkpointing=options.memory.activation_checkpointing),
    )
    return options_request(relevant, max(2, labels))
