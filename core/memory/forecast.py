"""What is told of a run's memory: its parts, how the figures came about, whether they fit. All figures are bytes."""

from enum import StrEnum

import msgspec

from core.options import RunOptions, Tree

DISTURBED = 1.2
"""Ordinary steps so many times as long as those on the longest batch were held up."""

TIGHT = 0.9
"""From this share of the free memory on, a run fits only tightly: other programs grow, and batches differ."""


class Basis(StrEnum):
    """How a figure came about; said wherever it is shown."""

    FORMULA = "formula"
    TRACE = "trace"
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
    "optimizer": "Optimizer state",
    "activations": "Activations",
    "temporary": "Temporary buffers",
    "overhead": "Overhead (libraries, context)",
}
"""What the fields of `Parts` are called wherever they are told in words."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the device a run computes on: `free` for it now, and the `ceiling` nothing gets beyond."""

    free: int
    ceiling: int


class LayerMemory(msgspec.Struct, frozen=True):
    """What one module of a traced model holds at most, its own weights and what it keeps, by its dotted name."""

    name: str
    bytes: int


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The memory a run takes at its fullest moment, and how that is known.

    `device` is as in `device.name`, never "auto". `correction` is the factor that past runs on this device have taught
    and that is in `parts` already. `length` is how many tokens the longest row was taken to have, padding counted;
    None: not a text. `longest_text` is how many the longest text was found to have, cut off as the run cuts; None: not
    known. `layers` are the largest modules of a trace, largest first. `notes` are plain sentences: what was taken for
    granted, and why a trace was not to be had.
    """

    basis: Basis
    device: str
    parts: Parts
    room: Room | None = None
    correction: float = 1.0
    length: int | None = None
    longest_text: int | None = None
    layers: tuple[LayerMemory, ...] = ()
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


class ForecastRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The question "how much memory would this run take?", best made by `forecast_request`.

    `asked` is a run's options as plain values, folders absolute; `labels` is how many labels the data has.
    """

    asked: Tree
    labels: int = 2


def forecast_request(options: RunOptions, labels: int = 2) -> ForecastRequest:
    """The question about the memory of `options`; `labels` as in `ForecastRequest`."""
    return ForecastRequest(asked=msgspec.to_builtins(options), labels=labels)


class MeasureRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The wish for a dry run: `asked` as in `ForecastRequest`."""

    asked: Tree


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
