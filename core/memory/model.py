"""Which options change how much memory a run takes, and how long a step: what is known survives changes of others."""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from core.base.errors import Problem
from core.base.language import _
from core.options import RunOptions, Tree
from core.options.catalogue import Changes, options_by_path, value_of, with_changes
from core.options.device_support import DeviceReport, refusal
from core.options.method_rules import METHOD_RULES
from core.options.sections import OutputOptions, TrainingOptions
from core.options.validate import TASK_RULES

# --- Whether changes can be made


def can_be_made(options: RunOptions, changes: Changes, device: DeviceReport) -> bool:
    """Whether `changes` change something, mean something here, work on `device`, and break no rule that held before."""
    changed = with_changes(options, changes)
    return (
        changed != options
        and all(options_by_path()[path].applies_to(changed) for path in changes)
        and not any(refusal(device, path, value_of(changed, path)) for path in changes)
        and not {str(found) for found in _broken(changed)} - {str(found) for found in _broken(options)}
    )


def _broken(options: RunOptions) -> Iterator[Problem]:
    for rule in (*METHOD_RULES, *TASK_RULES):
        yield from rule(options)


# --- What is told of a run's memory: its parts, how the figures came about


DISTURBED = 1.2
"""Ordinary steps so many times as long as those on the longest batch were held up."""

TIGHT = 0.9
"""From this share of the free memory on, a run fits only tightly: other programs grow, and batches differ."""


class Basis(StrEnum):
    """How a figure came about; said wherever it is shown."""

    FORMULA = "formula"
    MEASURED = "measured"


class Verdict(StrEnum):
    """Whether a run fits into the memory that is free now."""

    FITS = "fits"
    TIGHT = "tight"
    TOO_LARGE = "too_large"
    UNKNOWN = "unknown"


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of each part at the fullest moment of a step, so that they add up to the peak.

    `weights` are the model's (copies in half precision that autocast keeps count as `temporary`), `optimizer` its
    state, `activations` what the forward pass keeps for the gradients, `temporary` buffers that live no longer than
    an operator, `overhead` what stands beside all tensors: Python and its libraries on a CPU, the CUDA context, Metal's
    driver, and what the allocator holds without using it.
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
        """The name of the largest part."""
        return max(self.__struct_fields__, key=lambda name: getattr(self, name))


PART_TITLES = {
    "weights": "Weights",
    "gradients": "Gradients",
    "optimizer": _("Optimizer state"),
    "activations": "Activations",
    "temporary": _("Temporary buffers"),
    "overhead": _("Overhead (libraries, context)"),
}
"""What the fields of `Parts` are called wherever they are told in words."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the device a run computes on: `free` for it now, and the `ceiling` nothing gets beyond."""

    free: int
    ceiling: int


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The memory a run takes at its fullest moment, and how that is known.

    `device` is as in `device.name`, never "auto". `correction` is the factor that past runs on this device have taught
    and that is in `parts` already. `length` is how many tokens the longest row was taken to have, padding counted;
    None: not a text. `longest_text` is how many the longest text was found to have, cut off as the run cuts; None: not
    known. `notes` are plain sentences: what was taken for granted.
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
    def verdict(self) -> Verdict:
        """Whether it fits now."""
        return verdict(self.parts.total, self.room)

    @property
    def unpadded_length(self) -> int | None:
        """Tokens of the longest row before padding, as far as known: what the ladder has to know."""
        return self.length if self.longest_text is None else self.longest_text


def verdict(total: int, room: Room | None) -> Verdict:
    """Whether `total` bytes fit into what is free now."""
    if room is None:
        return Verdict.UNKNOWN
    if total > room.free:
        return Verdict.TOO_LARGE
    return Verdict.TIGHT if total > TIGHT * room.free else Verdict.FITS


class OptionsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run that the jobs `forecast`, `measure` and `check-model` are asked about, best made by `options_request`.

    `asked` is its options as plain values, folders absolute; `labels` is how many labels the data has.
    """

    asked: Tree
    labels: int = 2


def options_request(options: RunOptions, labels: int = 2) -> OptionsRequest:
    return OptionsRequest(asked=msgspec.to_builtins(options), labels=labels)


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry run measured: a few real steps on the longest batch, then a few on ordinary ones.

    `peak` is what `Parts.total` forecasts: on a CPU what the process held at most (resident set), on a GPU what
    torch's allocator reserved at most, with the context. `base` is what it held before data and model, libraries
    loaded. `longest` is the tokens a row of the longest batch has, padding counted, and `longest_text` those of the
    longest text; None: not a text. `longest_step_seconds` is a steady step on that batch, `step_seconds` the mean
    of ordinary ones, of short, middling and long rows; `compile_seconds` came before them. `train_samples` and
    `total_steps` are those of the whole run and `run_seconds` what they will take, evaluation and saving left out.
    `out_of_memory` says, where memory ran out, what was asked and what there was; the other figures are then those
    of that moment.
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

    @property
    def is_undivided(self) -> bool:
        """Whether only the whole is known, which stands as `overhead`: the dry run was ended from outside."""
        return bool(self.out_of_memory) and self.parts.overhead == self.parts.total

    @property
    def was_disturbed(self) -> bool:
        """Whether ordinary steps took longer than those on the longest batch: something else was computing."""
        longest, ordinary = self.longest_step_seconds, self.step_seconds
        return longest is not None and ordinary is not None and ordinary > DISTURBED * longest

    @property
    def forecast(self) -> Forecast:
        """The same as a forecast whose basis is that it was measured."""
        return Forecast(
            basis=Basis.MEASURED,
            device=self.device,
            parts=self.parts,
            room=self.room,
            length=self.longest,
            longest_text=self.longest_text,
        )


# --- Which options change how much memory a run takes, and how long a step


OF_TRAINING = ("optimizer", "momentum", "max_grad_norm", "deterministic")
"""The options of training that matter. How long a run is and at which learning rate changes nothing."""


def matters(path: str) -> bool:
    """Whether the option at a path changes anything, such as `memory.batch_size`."""
    section, _rest, name = path.partition(".")
    return section != "output" and (section != "training" or name in OF_TRAINING)


def that_matter(options: RunOptions) -> RunOptions:
    """`options` with those that don't matter at their defaults.

    Where two of these are equal, a forecast or a measurement of the one is good for the other.
    """
    kept = {name: getattr(options.training, name) for name in OF_TRAINING}
    return msgspec.structs.replace(options, training=TrainingOptions(**kept), output=OutputOptions())


def key_of(options: RunOptions) -> bytes:
    """What tells options that matter apart, to look something up by."""
    return msgspec.json.encode(that_matter(options))


# --- What of a model decides how much memory it takes: counts and widths


class KeptTensor(msgspec.Struct, frozen=True, array_like=True):
    """Tensors of one size that autograd keeps: bytes of one for a row of `n` places are `each` n + `square` n^2.

    A place is a token, or a pixel of an image. `count` is how many of them there are.
    """

    each: float
    square: float = 0.0
    count: int = 1

    def size(self, places: int) -> float:
        """Bytes of one, for one row."""
        return places * (self.each + self.square * places)


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a forward pass keeps for the gradients, counted by the engine on a model without numbers.

    `blocks` are the tensors inside what activation checkpointing computes again, `outside` the others. `entering` are
    the bytes for each place that enter all blocks, `largest` the share that the largest block has of all of them.
    `casts` are bytes of copies of weights in half precision, whatever the batch. `into_linears` are the numbers for
    each pixel that enter layers LoRA can stand beside (of a text, `ModelShape.linears` tells that).
    """

    blocks: tuple[KeptTensor, ...] = ()
    outside: tuple[KeptTensor, ...] = ()
    entering: float = 0.0
    largest: float = 0.0
    casts: int = 0
    into_linears: float = 0.0

    @staticmethod
    def key(*, frozen: bool, half: bool) -> str:
        """Where `ModelShape.kept` has it: of frozen weights or learning ones, in half precision or single."""
        return f"{'frozen' if frozen else 'full'}{'-half' if half else ''}"


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a model's weights, and what a pass through it keeps. The engine reads it off a model without numbers.

    `parameters` counts all weights, `packable` those that QLoRA packs, `head` those of the layers that turn what the
    model has seen into labels (none of a model that writes). `linears` has inputs and outputs of the layers LoRA stands
    beside, by the last part of a layer's name: its matrices have as many weights, times the rank. `embeddings` counts
    the weights of tables of tokens and positions, `largest` those of the largest single weight, `largest_linear` those
    of the largest linear layer, `factored` the numbers Adafactor remembers of all: a sum for each row and each column
    of their last two sides, which spares little of a convolution's 3 x 3.

    Of a transformer that reads texts: `layers` blocks of width `hidden`, `positions` at most; `said` tokens are told
    apart at every place by a model that writes, 0 by one with a head of labels. `kept` is by `Kept.key`.
    """

    parameters: int
    packable: int = 0
    head: int = 0
    linears: dict[str, tuple[int, int]] = {}
    embeddings: int = 0
    largest: int = 0
    largest_linear: int = 0
    factored: int = 0
    layers: int = 0
    hidden: int = 0
    said: int = 0
    positions: int | None = None
    kept: dict[str, Kept] = {}

    @property
    def linear_sides(self) -> int:
        """Inputs and outputs of all layers that LoRA can stand beside."""
        return sum(map(sum, self.linears.values()))


class ModelReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model before its weights are read.

    `architecture` is the name of its class, such as `BertForSequenceClassification`. `total_parameters` and
    `trainable_parameters` count weights with those LoRA adds, under the method asked for. `layers` counts a
    transformer's blocks, or a vision model's linear layers and convolutions. `attention` holds the values of
    `model.attention` its architecture has (none for vision models), `max_length` the most tokens it can see; None:
    nothing limits it. `normalises_batch` tells that it has batch norm, so that accumulated small batches differ from a
    large one. `shape` is what its memory is forecast from, whatever is trained of it. `problems` are
    what would end a run with this model, each at its option; where it can't be read at all, they are all there is, and
    without any, nothing is known: it isn't on this computer yet.
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
    problems: tuple[Problem, ...] = ()
