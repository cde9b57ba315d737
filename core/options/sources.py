"""Schemes of `model.source`, `data.train` and `data.eval`.

Data: `builtin:digits`, `synthetic:512x128`, `synthetic:512x64-128` (texts of 64 to 128 tokens), `hub:OWNER/NAME`,
`hub:OWNER/NAME/SUBSET`. Models: `torchvision:resnet18`, `scratch:NAME` (random weights), `run:NAME` (a past run).
"""

import json
import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path

import msgspec

from core.base.errors import Fix
from core.base.files import is_there, read_small
from core.base.language import _

# --- Model folders


RANDOM_WEIGHTS = Fix(_("Start with random weights"), {"model.pretrained": False})
ANOTHER_MODEL = Fix(_("Choose another model"), {"model.source": ""})

PICKLED = (".bin", ".pt", ".pth")
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
ADAPTER, MATRICES = "adapter_config.json", "adapter_model.safetensors"


class Lack(Enum):
    """Why a folder is no model to start from: what is missing, and what to do, with `{folder}` in place of its path."""

    CONFIG = _(
        "there is no config.json in {folder}; choose the folder that contains config.json and model.safetensors"
    )
    KIND = _("config.json in {folder} names no kind of model (model_type); choose the folder of a model")
    WEIGHTS = _("there is no model.safetensors in {folder}; copy the model's weights there")
    SAFE_WEIGHTS = _(
        "the weights in {folder} are in a format that can run code when opened; use a copy of the model with "
        ".safetensors files"
    )
    PARTS = _(
        "{folder}: model.safetensors.index.json names weights that are no .safetensors files in this folder; copy all "
        "of them there from the source of the model"
    )
    ALL_BUT_ADAPTER = _("{folder} contains a LoRA adapter without its base model; choose its base model")


def what_lacks(folder: Path, *, needs_weights: bool) -> Lack | None:
    """Returns what is missing in a model folder; None if it is complete.

    Raises:
        OSError: The folder can't be read.
    """
    endings = {path.suffix for path in folder.iterdir()}
    has_adapter, is_whole = (folder / ADAPTER).is_file(), (folder / WHOLE).is_file()
    if has_adapter and not is_whole:
        return Lack.ALL_BUT_ADAPTER
    if not (folder / "config.json").is_file():
        return Lack.CONFIG
    if has_adapter and not (folder / MATRICES).is_file():
        return Lack.SAFE_WEIGHTS  # transformers would load a pickled adapter with the model
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
    """Returns whether an index names only .safetensors files of its own folder, all there if `folder` is given.

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
    """Returns whether a config.json is that of a model. True for a damaged one: loading it gives the reason."""
    try:
        content = json.loads(read_small(config))
    except (ValueError, RecursionError):
        return True
    return isinstance(content, dict) and bool(content.get("model_type"))


# --- Schemes


DIGITS = "builtin:digits"


class Scheme(StrEnum):
    """What stands before the colon of a source."""

    BUILTIN = "builtin"
    SYNTHETIC = "synthetic"
    TORCHVISION = "torchvision"
    HUB = "hub"
    SCRATCH = "scratch"
    RUN = "run"

    def name_of(self, source: str) -> str | None:
        """Returns what follows this scheme in `source`; None for other sources."""
        return source.removeprefix(f"{self}:") if source.startswith(f"{self}:") else None

    def of(self, name: str) -> str:
        """Returns the source with this scheme, such as `torchvision:resnet18`."""
        return f"{self}:{name}"


def scheme_of(source: str) -> Scheme | None:
    """Returns the scheme of a source; None for a path or an id on the Hub."""
    head, colon, _name = source.partition(":")
    return Scheme(head) if colon and head in list(Scheme) else None


def unknown_scheme(source: str) -> str:
    """Returns the scheme of a source that is neither a path nor has a known scheme; empty for other sources."""
    head, colon, _name = source.partition(":")
    is_scheme = colon and len(head) > 1 and head.isalpha() and not Path(source).is_absolute()
    return head if is_scheme and scheme_of(source) is None else ""


def hub_data(name: str) -> tuple[str, str]:
    """Splits what follows `hub:`, OWNER/NAME or OWNER/NAME/SUBSET, into data set and subset (empty: the first)."""
    parts = name.split("/", 2)
    return "/".join(parts[:2]), parts[2] if len(parts) == 3 else ""


def parse_synthetic(source: str) -> tuple[int, int] | None:
    """Returns samples and maximum length of `synthetic:512x128` or `synthetic:512x64-128`; None for other sources."""
    sizes = _synthetic_sizes(source)
    return (sizes[0], sizes[2]) if sizes else None


def synthetic_lengths(source: str) -> tuple[int, int] | None:
    """Returns minimum and maximum length of random samples; None for other sources."""
    sizes = _synthetic_sizes(source)
    return sizes[1:] if sizes else None


def _synthetic_sizes(source: str) -> tuple[int, int, int] | None:
    """Returns samples, minimum and maximum length."""
    match = re.fullmatch(
        r"([0-9]{1,18})x([0-9]{1,18})(?:-([0-9]{1,18}))?", Scheme.SYNTHETIC.name_of(source) or ""
    )
    if match is None:
        return None
    samples, shortest, longest = (int(part) for part in (match[1], match[2], match[3] or match[2]))
    return (samples, shortest, longest) if samples > 0 and 0 < shortest <= longest else None


def synthetic(samples: int, length: int, shortest: int | None = None) -> str:
    """Returns the source of random samples of `length` tokens or pixels, or of `shortest` to `length`."""
    lengths = str(length) if shortest in (None, length) else f"{shortest}-{length}"
    return Scheme.SYNTHETIC.of(f"{samples}x{lengths}")


def short_name(source: str) -> str:
    """Returns what follows the scheme, or the last part of a path or id; of a folder `model`, its parent's name."""
    scheme = scheme_of(source)
    if scheme in (None, Scheme.RUN):  # a run may be named by its path
        path = Path(source.removeprefix(f"{Scheme.RUN}:"))
        return path.parent.name if path.is_absolute() and path.name == "model" else path.name
    return scheme.name_of(source) or source


# --- torchvision models


class VisionModel(msgspec.Struct, frozen=True):
    """A vision model: the smallest image sizes in pixels it can be trained with, and the facts of torchvision's table.

    `smallest_alone` holds for a batch of one image: batch norm needs more than one value per channel, so a single
    image must be larger than 1 x 1 at the end of the network. `megabytes` is the download of its ImageNet weights.
    """

    smallest: int
    smallest_alone: int
    title: str = ""
    parameters: int = 0
    megabytes: int = 0

    @property
    def normalises_batch(self) -> bool:
        return self.smallest_alone > self.smallest


VISION_MODELS: dict[str, VisionModel] = {
    "resnet18": VisionModel(1, 33, "ResNet-18", 11_689_512, 45),
    "mobilenet_v2": VisionModel(1, 33, _("MobileNet V2"), 3_504_872, 14),
    "efficientnet_b0": VisionModel(1, 33, "EfficientNet-B0", 5_288_548, 20),
    "squeezenet1_0": VisionModel(21, 21, "SqueezeNet 1.0", 1_248_424, 5),
    "alexnet": VisionModel(63, 63, "AlexNet", 61_100_840, 233),
    "vgg16": VisionModel(32, 32, "VGG-16", 138_357_544, 528),
}
"""The torchvision models Hone trains, those with the least computation per accuracy first."""


# --- Recommended models of the Hub


class HubModel(msgspec.Struct, frozen=True):
    """A model of the Hub with safetensors weights: facts from its page.

    `megabytes` are those of the weights. `vocabulary` is the number of tokens of a model that writes text, else 0.
    `chats`: it has learned to answer. `is_multilingual`: it knows all languages that Hone speaks, and others.
    """

    title: str
    parameters: int
    megabytes: int
    licence: str
    vocabulary: int = 0
    chats: bool = False
    is_multilingual: bool = False


APACHE = "Apache 2.0"
HUB_MODELS: dict[str, HubModel] = {
    "sentence-transformers/all-MiniLM-L6-v2": HubModel("MiniLM-L6", 22_700_000, 91, APACHE),
    "distilbert/distilbert-base-uncased": HubModel("DistilBERT", 67_000_000, 268, APACHE),
    "google-bert/bert-base-cased": HubModel("BERT", 108_300_000, 436, APACHE),
    "FacebookAI/roberta-base": HubModel("RoBERTa", 124_600_000, 499, "MIT"),
    "answerdotai/ModernBERT-base": HubModel("ModernBERT", 149_000_000, 599, APACHE),
    "FacebookAI/xlm-roberta-base": HubModel("XLM-RoBERTa", 278_000_000, 1116, "MIT", is_multilingual=True),
    "HuggingFaceTB/SmolLM2-135M": HubModel("SmolLM2 135M", 134_500_000, 269, APACHE, 49_152),
    "openai-community/gpt2": HubModel("GPT-2", 124_400_000, 548, "MIT", 50_257),
    "HuggingFaceTB/SmolLM2-360M": HubModel("SmolLM2 360M", 361_800_000, 724, APACHE, 49_152),
    "Qwen/Qwen2.5-0.5B": HubModel("Qwen2.5 0.5B", 494_000_000, 988, APACHE, 151_936, is_multilingual=True),
    "Qwen/Qwen2.5-1.5B": HubModel("Qwen2.5 1.5B", 1_544_000_000, 3087, APACHE, 151_936, is_multilingual=True),
    "HuggingFaceTB/SmolLM2-135M-Instruct": HubModel(
        "SmolLM2 135M Instruct", 134_500_000, 269, APACHE, 49_152, True
    ),
    "HuggingFaceTB/SmolLM2-360M-Instruct": HubModel(
        "SmolLM2 360M Instruct", 361_800_000, 724, APACHE, 49_152, True
    ),
    "Qwen/Qwen2.5-0.5B-Instruct": HubModel(
        "Qwen2.5 0.5B Instruct", 494_000_000, 988, APACHE, 151_936, True, is_multilingual=True
    ),
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": HubModel(
        "TinyLlama 1.1B Chat", 1_100_000_000, 2200, APACHE, 32_000, True
    ),
    "Qwen/Qwen2.5-1.5B-Instruct": HubModel(
        "Qwen2.5 1.5B Instruct", 1_544_000_000, 3087, APACHE, 151_936, True, is_multilingual=True
    ),
}
"""By id, the smallest download of each kind first."""


# --- Models from scratch


LEAST_POSITIONS = 256
"""Positions of a model from scratch, so that longer texts can be tried on it later."""


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
        """Returns the number of weights without a classifier."""
        hidden, inner = self.hidden, self.inner
        if self.writes:
            block = 4 * hidden * hidden + 3 * hidden * inner + 2 * hidden
            return vocabulary * hidden + self.layers * block + hidden
        block = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
        tables = (vocabulary + positions + 2) * hidden + 2 * hidden
        return tables + self.layers * block + hidden * hidden + hidden


SCRATCH_MODELS = {
    "llama-tiny": ScratchModel(_("Llama tiny"), True, layers=2, hidden=64, heads=4, inner=192),
    "llama-small": ScratchModel(_("Llama small"), True, layers=4, hidden=192, heads=6, inner=512),
    "llama-medium": ScratchModel(_("Llama medium"), True, layers=8, hidden=512, heads=8, inner=1376),
    "bert-tiny": ScratchModel(_("BERT tiny"), False, layers=2, hidden=128, heads=2, inner=512),
    "bert-mini": ScratchModel(_("BERT mini"), False, layers=4, hidden=256, heads=4, inner=1024),
    "bert-small": ScratchModel(_("BERT small"), False, layers=4, hidden=512, heads=8, inner=2048),
}
"""By name. The BERT ones have the sizes of https://github.com/google-research/bert#bert."""

TIMED_MODELS = {
    "minilm": ScratchModel(_("MiniLM size"), False, layers=6, hidden=384, heads=12, inner=1536),
    "bert-base": ScratchModel("BERT-base", False, layers=12, hidden=768, heads=12, inner=3072),
    "bert-large": ScratchModel("BERT-large", False, layers=24, hidden=1024, heads=16, inner=4096),
}
"""Sizes for benchmarks without a download; forms don't offer them."""


def is_scratch(source: str) -> bool:
    """Returns whether a model's source is `scratch:NAME`, known or not."""
    return Scheme.SCRATCH.name_of(source) is not None


def scratch_model(source: str) -> ScratchModel | None:
    """Returns the model of `scratch:NAME`; None for other sources and unknown names."""
    name = Scheme.SCRATCH.name_of(source) or ""
    return SCRATCH_MODELS.get(name) or TIMED_MODELS.get(name)


def positions_of(max_length: int) -> int:
    """Returns positions of a model from scratch for texts of `max_length` tokens."""
    return max(LEAST_POSITIONS, max_length)
