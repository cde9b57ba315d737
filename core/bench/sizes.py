"""The models that benchmarks build from their config alone, and which of them suits a machine.

They have the guide's vocabulary and sight, and random weights: what a step takes doesn't depend on what the weights
are, and nothing has to be fetched.
"""

from dataclasses import dataclass

from core import figures
from core.catalogue import value_of
from core.memory import anatomy
from core.memory.forecast import Forecast, Room, Verdict
from core.memory.record import correction
from core.memory.shape import ModelShape
from core.options import RunOptions
from core.reports import DeviceReport
from core.scratch_models import ScratchModel, scratch_model
from core.sources import Scheme

VOCABULARY = 30_522
POSITIONS = 512
LABELS = 2

CPU_FLOPS = 35e9
"""Multiplications and additions a second that a core gets out of a plain step in fp32, about: of two cores of a server.

It decides which model is offered on a CPU, nothing else.
"""

LONGEST_CPU_STEP = 4.0
"""Seconds. With longer steps, sixteen rows in three passes take hours."""


@dataclass(frozen=True)
class Size:
    """A model: the name a person asks for, what it is called, and what `model.source` says of it."""

    name: str
    title: str
    source: str

    @property
    def built(self) -> ScratchModel:
        """Its widths."""
        found = scratch_model(self.source)
        assert found is not None, "those of SIZES are known"
        return found

    @property
    def shape(self) -> ModelShape:
        """What its memory is forecast from, with two labels; a test holds it against what the engine reads off it."""
        return _shape(self.built)

    def flops(self, rows: int, length: int) -> float:
        """Multiplications and additions of a step on so many rows of so many tokens: forward once, backward twice.

        6 for each weight of the layers and each token, and 12 for each pair of tokens, width and layer in attention
        (J. Kaplan and others, Scaling Laws for Neural Language Models, 2020, table 1).
        """
        built, tokens = self.built, rows * length
        weights = built.layers * (4 * built.hidden**2 + 2 * built.hidden * built.inner)
        return 6.0 * weights * tokens + 12.0 * built.layers * tokens * length * built.hidden


SIZES = {
    name: Size(name, title, Scheme.SCRATCH.of(source))
    for name, title, source in (
        ("bert-large", "BERT-large", "bert-large"),
        ("bert-base", "BERT-base", "bert-base"),
        ("minilm", "MiniLM size", "minilm"),
        ("tiny", "BERT-tiny", "bert-tiny"),
    )
}
"""By name, the largest first. The last is the smallest that google-research/bert lists."""


@dataclass(frozen=True)
class Choice:
    """The size that suits a machine, and why, in a sentence."""

    size: Size
    reason: str


def choose_size(plain: RunOptions, device: DeviceReport, room: Room | None) -> Choice:
    """The largest size whose plain row fits with a tenth to spare and, on a CPU, whose steps don't take for ever.

    Takes a few milliseconds and asks nobody.

    Args:
        plain: What the plain row asks for, of whichever model.
        device: Where it is to compute.
        room: The memory there now; None: it isn't known.
    """
    reason = ""
    for size in SIZES.values():
        needed = needed_by(size, plain, device, room)
        if needed.verdict not in (Verdict.FITS, Verdict.UNKNOWN):
            reason = f"{size.title} is forecast to take {figures.size(needed.parts.total)}{_free(room)}"
            continue
        seconds = cpu_seconds(size, plain, device)
        if seconds is not None and seconds > LONGEST_CPU_STEP and size is not _smallest():
            reason = f"a plain step of {size.title} would take about {seconds:.0f} s on {_cores(device)}"
            continue
        return Choice(size, _why(size, reason, needed, room))
    return Choice(_smallest(), f"{_smallest().title} is the smallest size there is, and {reason}.")


def needed_by(size: Size, plain: RunOptions, device: DeviceReport, room: Room | None) -> Forecast:
    """The memory of a row, by formula, as past runs on the device have corrected it."""
    return anatomy.forecast(plain, size.shape, device, room=room, correction=correction(device.title))


def cpu_seconds(size: Size, plain: RunOptions, device: DeviceReport) -> float | None:
    """About how long a plain step takes on a CPU; None for other devices, of which nobody knows beforehand."""
    if device.name != "cpu":
        return None
    flops = size.flops(plain.effective_batch, plain.data.max_length)
    return flops / (CPU_FLOPS * cores_of(device))


def cores_of(device: DeviceReport) -> int:
    """How many threads it computes with unless told otherwise; 1 where it doesn't tell."""
    found = device.automatic.get("device.threads")
    return int(found.value) if found is not None else 1


def of_size(options: RunOptions, size: Size) -> dict[str, object]:
    """What makes `options` ask for a size: changes by path."""
    changes: dict[str, object] = {"model.source": size.source, "model.vocabulary": VOCABULARY}
    return {path: value for path, value in changes.items() if value_of(options, path) != value}


def _smallest() -> Size:
    return list(SIZES.values())[-1]


def _why(size: Size, larger: str, needed: Forecast, room: Room | None) -> str:
    if larger:
        return f"{size.title} was taken: {larger}."
    if room is None:
        return f"{size.title} was taken, the guide's own; how much memory there is isn't known."
    return (
        f"{size.title}, the guide's own, is forecast to take {figures.size(needed.parts.total)}{_free(room)}."
    )


def _free(room: Room | None) -> str:
    return f", and {figures.size(room.free)} are free" if room else ""


def _cores(device: DeviceReport) -> str:
    return figures.counted(cores_of(device), "core")


def _shape(model: ScratchModel) -> ModelShape:
    hidden, inner, layers = model.hidden, model.inner, model.layers
    attention, pooler, head = hidden * hidden, hidden * hidden, LABELS * hidden + LABELS
    tables = (VOCABULARY + POSITIONS + 2) * hidden
    width = {"query": hidden, "key": hidden, "value": hidden}
    dense = (
        layers * (hidden + hidden + inner) + hidden
    )  # after attention, into the inner width, back, and the pooler
    linears = {name: (layers * side, layers * side) for name, side in width.items()} | {
        "dense": (dense, dense)
    }
    return ModelShape(
        parameters=model.parameters(VOCABULARY, POSITIONS) + head,
        packable=layers * (4 * attention + 2 * hidden * inner) + pooler,
        head=head,
        linear_sides=sum(inputs + outputs for inputs, outputs in linears.values()),
        linears=linears,
        embeddings=tables,
        largest=VOCABULARY * hidden,
        factored=_factored(model),
        layers=layers,
        hidden=hidden,
        intermediate=inner,
        heads=model.heads,
        key_heads=model.heads,
        head_width=hidden // model.heads,
        vocabulary=VOCABULARY,
        positions=POSITIONS,
        dropout=True,
        attention_dropout=True,
        norm_keeps=1.0 + 2.0 / hidden,
    )


def _factored(model: ScratchModel) -> int:
    """Numbers Adafactor keeps: a row and a column of each matrix, and vectors whole."""
    hidden, inner = model.hidden, model.inner
    tables = (VOCABULARY + hidden) + (POSITIONS + hidden) + (2 + hidden)
    norms, biases = 2 * 2 * hidden, 4 * hidden + inner + hidden
    block = 4 * 2 * hidden + 2 * (hidden + inner) + norms + biases
    last = 2 * hidden + hidden + (LABELS + hidden) + LABELS
    return tables + 2 * hidden + model.layers * block + last
