"""Schemes of `model.source`, `data.train` and `data.eval`.

Data: `builtin:digits`, `synthetic:512x128`, `synthetic:512x64-128` (texts of 64 to 128 tokens), `hub:OWNER/NAME`,
`hub:OWNER/NAME/SUBSET`. Models: `torchvision:resnet18`, `scratch:NAME` (random weights), `run:NAME` (an earlier run).
"""

import json
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from pathlib import Path

import msgspec

from core.base.errors import Fix
from core.base.files import is_there, read_small
from core.base.language import _

# --- Model folders


RANDOM_WEIGHTS = Fix(_("Start with random weights"), {"model.pretrained": False})

PICKLED = (".bin", ".pt", ".pth")
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
"""Where the weights are, and what else names the files with parts of them."""
ADAPTER, MATRICES = "adapter_config.json", "adapter_model.safetensors"


class Lack(Enum):
    """What keeps a folder from being a model to start from."""

    CONFIG = auto()
    KIND = auto()
    """There is a config.json, but no model's: it names no kind of model."""
    WEIGHTS = auto()
    SAFE_WEIGHTS = auto()
    """There are weights, but in a format that can run code when opened."""
    PARTS = auto()
    """The index names a part that is missing, lies elsewhere, or is in such a format."""
    ALL_BUT_ADAPTER = auto()
    """There are LoRA matrices, but not the model they were trained beside."""


SAID = {
    Lack.CONFIG: "there is no config.json in {}; choose the folder that has config.json and model.safetensors in it",
    Lack.KIND: "config.json in {} names no kind of model (model_type); choose the folder of a model",
    Lack.WEIGHTS: "there is no model.safetensors in {}; copy the model's weights there",
    Lack.SAFE_WEIGHTS: "the weights in {} are in a format that can run code when opened; "
    "use a copy of the model with .safetensors files",
    Lack.PARTS: f"{{}}: {INDEX} names a part of the weights that isn't a .safetensors file in this folder; copy all "
    "parts there, from where the model is from",
    Lack.ALL_BUT_ADAPTER: "{} holds LoRA matrices without their model; choose the model they were trained beside",
}
"""What is missing, and what to do; for the folder."""


def what_lacks(folder: Path, *, needs_weights: bool) -> Lack | None:
    """What is missing in `folder`; None where nothing is.

    Raises:
        OSError: It can't be looked into.
    """
    endings = {path.suffix for path in folder.iterdir()}
    has_adapter, is_whole = (folder / ADAPTER).is_file(), (folder / WHOLE).is_file()
    if has_adapter and not is_whole:
        return Lack.ALL_BUT_ADAPTER
    if not (folder / "config.json").is_file():
        return Lack.CONFIG
    if has_adapter and not (folder / MATRICES).is_file():
        return Lack.SAFE_WEIGHTS  # transformers would load the matrices beside the model, pickled as they are
    # A config of old names no kind; transformers may know it by the folder's name.
    if is_whole or is_there(folder / INDEX):
        is_safe = is_whole or not needs_weights or names_safe_parts(folder / INDEX, folder)
        return None if is_safe else Lack.PARTS
    if not _names_kind(folder / "config.json"):
        return Lack.KIND
    lack = Lack.WEIGHTS if endings.isdisjoint(PICKLED) else Lack.SAFE_WEIGHTS
    return lack if needs_weights else None


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def names_safe_parts(index: Path, folder: Path | None = None) -> bool:
    """Whether an index names .safetensors files beside it and nothing else; all of them there, where `folder` is given.

    transformers loads whatever an index names: pickled files, and files of other folders.
    """
    try:
        names = set(msgspec.json.decode(read_small(index), type=_Index).weight_map.values())
    except (OSError, ValueError, RecursionError):
        return False
    return all(
        name.endswith(".safetensors")
        and not {"/", "\\"} & set(name)
        and (folder is None or (folder / name).is_file())
        for name in names
    )


def _names_kind(config: Path) -> bool:
    """Whether a config.json says what kind of model it is of, as all do that transformers writes.

    Of a damaged one that can't be told: whoever loads it says what is wrong with it.
    """
    try:
        content = json.loads(read_small(config))
    except (ValueError, RecursionError):
        return True
    return isinstance(content, dict) and bool(content.get("model_type"))


# --- Schemes


DIGITS = "builtin:digits"


class Scheme(StrEnum):
    """What stands before the colon."""

    BUILTIN = "builtin"
    SYNTHETIC = "synthetic"
    TORCHVISION = "torchvision"
    HUB = "hub"
    SCRATCH = "scratch"
    RUN = "run"

    def name_of(self, source: str) -> str | None:
        """What follows this scheme in `source`; None where `source` is something else."""
        return source.removeprefix(f"{self}:") if source.startswith(f"{self}:") else None

    def of(self, name: str) -> str:
        """The source with this scheme, such as `torchvision:resnet18`."""
        return f"{self}:{name}"


def scheme_of(source: str) -> Scheme | None:
    """The scheme of a source; None for a path or an id on the Hub."""
    head, colon, _rest = source.partition(":")
    return Scheme(head) if colon and head in list(Scheme) else None


def unknown_scheme(source: str) -> str:
    """What stands before the colon of a source that isn't a path and has no known scheme; empty for all others."""
    head, colon, _rest = source.partition(":")
    is_plain = colon and len(head) > 1 and head.isalpha() and not Path(source).is_absolute()
    return head if is_plain and scheme_of(source) is None else ""


def hub_data(name: str) -> tuple[str, str]:
    """The data set and its subset, empty for the first, of what follows `hub:`: OWNER/NAME or OWNER/NAME/SUBSET."""
    parts = name.split("/", 2)
    return "/".join(parts[:2]), parts[2] if len(parts) == 3 else ""


def parse_synthetic(source: str) -> tuple[int, int] | None:
    """Samples and length of `synthetic:512x128`, of `synthetic:512x64-128` the longest; None where it isn't that."""
    found = _parse_synthetic(source)
    return (found[0], found[2]) if found else None


def synthetic_lengths(source: str) -> tuple[int, int] | None:
    """The fewest and the most tokens of random samples, which may be the same; None where `source` isn't such."""
    found = _parse_synthetic(source)
    return found[1:] if found else None


def _parse_synthetic(source: str) -> tuple[int, int, int] | None:
    """Samples, shortest and longest."""
    samples, _rest, length = (Scheme.SYNTHETIC.name_of(source) or "").partition("x")
    shortest, dash, longest = length.partition("-")
    parts = (samples, shortest, longest if dash else shortest)
    if not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):
        return None
    found = (int(parts[0]), int(parts[1]), int(parts[2]))
    return found if found[0] > 0 and 0 < found[1] <= found[2] else None


def synthetic(samples: int, length: int, shortest: int | None = None) -> str:
    """The source of so many random samples, each of so many tokens or pixels, or of `shortest` to `length`."""
    lengths = str(length) if shortest in (None, length) else f"{shortest}-{length}"
    return Scheme.SYNTHETIC.of(f"{samples}x{lengths}")


def short_name(source: str) -> str:
    """What follows the scheme, or the last part of a path or id; a folder called `model` goes by the one it lies in."""
    scheme = scheme_of(source)
    if scheme in (None, Scheme.RUN):  # a run may be named by its path
        path = Path(source.removeprefix(f"{Scheme.RUN}:"))
        return path.parent.name if path.is_absolute() and path.name == "model" else path.name
    return scheme.name_of(source) or source


# --- torchvision models


class VisionModel(msgspec.Struct, frozen=True):
    """A vision model: sizes in pixels below which it can't be trained, and its name as its makers write it.

    `smallest` holds for every batch, `smallest_alone` for a batch of one image: batch normalisation needs more than
    one value a channel, so a single image must still be larger than 1 x 1 where the network ends.
    """

    smallest: int
    smallest_alone: int
    title: str = ""

    @property
    def normalises_batch(self) -> bool:
        """Whether the model has batch normalisation: nothing else makes a single image need more pixels."""
        return self.smallest_alone > self.smallest


VISION_MODELS: dict[str, VisionModel] = {
    "resnet18": VisionModel(1, 33, "ResNet-18"),
    "mobilenet_v2": VisionModel(1, 33, _("MobileNet V2")),
    "efficientnet_b0": VisionModel(1, 33, "EfficientNet-B0"),
    "squeezenet1_0": VisionModel(21, 21, "SqueezeNet 1.0"),
    "alexnet": VisionModel(63, 63, "AlexNet"),
    "vgg16": VisionModel(32, 32, "VGG-16"),
}
"""The torchvision models Hone trains, smallest computation per accuracy first; the sizes are held by a test."""


# --- Models from scratch


LEAST_POSITIONS = 256
"""A model from scratch has at least this many positions, so that longer texts can be tried on it later."""


@dataclass(frozen=True)
class ScratchModel:
    """Sizes of a small transformer: a Llama, which generates text (`writes`), or a Bert. Embeddings are tied."""

    title: str
    writes: bool
    layers: int
    hidden: int
    heads: int
    inner: int

    def parameters(self, vocabulary: int, positions: int = LEAST_POSITIONS) -> int:
        """How many weights it has, without the head of a classifier."""
        hidden, inner = self.hidden, self.inner
        if self.writes:
            block = 4 * hidden * hidden + 3 * hidden * inner + 2 * hidden
            return vocabulary * hidden + self.layers * block + hidden
        block = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
        tables = (vocabulary + positions + 2) * hidden + 2 * hidden
        return tables + self.layers * block + hidden * hidden + hidden

    @property
    def help(self) -> str:
        kind = _("Writes text") if self.writes else _("Reads text")
        millions = self.parameters(1024) / 1e6
        return f"{kind}; {self.layers} layers, {self.hidden} wide, {millions:.1f} million weights."


SCRATCH_MODELS = {
    "llama-tiny": ScratchModel(_("Llama, tiny"), True, layers=2, hidden=64, heads=4, inner=192),
    "llama-small": ScratchModel(_("Llama, small"), True, layers=4, hidden=192, heads=6, inner=512),
    "llama-medium": ScratchModel(_("Llama, medium"), True, layers=8, hidden=512, heads=8, inner=1376),
    "bert-tiny": ScratchModel(_("Bert, tiny"), False, layers=2, hidden=128, heads=2, inner=512),
    "bert-mini": ScratchModel(_("Bert, mini"), False, layers=4, hidden=256, heads=4, inner=1024),
    "bert-small": ScratchModel(_("Bert, small"), False, layers=4, hidden=512, heads=8, inner=2048),
}
"""By name. The Berts have the sizes of https://github.com/google-research/bert#bert, the Llamas Hone's own."""

TIMED_MODELS = {
    "minilm": ScratchModel(_("MiniLM size"), False, layers=6, hidden=384, heads=12, inner=1536),
    "bert-base": ScratchModel("BERT-base", False, layers=12, hidden=768, heads=12, inner=3072),
    "bert-large": ScratchModel("BERT-large", False, layers=24, hidden=1024, heads=16, inner=4096),
}
"""Sizes that benchmarks measure without downloading anything; the lists to choose from leave them out."""


def is_scratch(source: str) -> bool:
    """Whether a model's source is `scratch:NAME`, known or not."""
    return Scheme.SCRATCH.name_of(source) is not None


def scratch_model(source: str) -> ScratchModel | None:
    """The model of `scratch:NAME`; None where `source` is something else, or no such model is known."""
    name = Scheme.SCRATCH.name_of(source) or ""
    return SCRATCH_MODELS.get(name) or TIMED_MODELS.get(name)


def positions_of(max_length: int) -> int:
    """How many tokens a model from scratch sees at once where texts are cut off at `max_length`."""
    return max(LEAST_POSITIONS, max_length)
