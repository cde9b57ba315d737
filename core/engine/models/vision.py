"""Activation checkpointing: which models can compute their activations again, and how a vision model does it.

transformers' models bring it along. torchvision's get it here: a long row of layers is cut into segments of about its
square root, as `torch.utils.checkpoint.checkpoint_sequential` advises, and only what enters a segment is kept.
"""

import copy
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.error import URLError

import msgspec
import torch
from torch.utils.checkpoint import checkpoint

from core.base.errors import Fix, ModelError
from core.base.language import _
from core.engine.data.image_files import IMAGENET_MEAN, IMAGENET_STD, Colours
from core.engine.environment import prepare_torchvision
from core.engine.models import text
from core.engine.models.parts import base_of
from core.engine.models.past_runs import check_run, config_in
from core.engine.models.refusals import explained
from core.engine.models.text import LoadedModel, implementation_for
from core.options import RunOptions
from core.options.choices import Attention
from core.options.past_runs import model_folder
from core.options.sections import ModelOptions
from core.options.sources import VISION_MODELS, Scheme, VisionModel, short_name
from core.services import hub
from core.services.hub import CONFIG

# --- Activation checkpointing: which models can compute their activations again


def can_checkpoint(model: Any) -> bool:
    """Whether activations can be computed again: transformers' models say so, others have Trainer's method or not."""
    supports = getattr(model, "supports_gradient_checkpointing", None)
    return bool(supports) if supports is not None else hasattr(model, "activation_checkpointing_enable")


def check_checkpointing(model: Any) -> None:
    """Stop before training where a model keeps all its activations, whatever it is asked.

    Raises:
        ModelError: It does.
    """
    base = base_of(model)
    if not can_checkpoint(base):
        raise ModelError(
            _("This model can't compute its activations again"),
            _("transformers has no activation checkpointing for {name}.").format(name=type(base).__name__),
            (Fix(_("Keep the activations"), {"memory.activation_checkpointing": False}),),
        )


class CheckpointedRow(torch.nn.Sequential):
    """A row of layers that keeps only what enters each of its segments while it trains. Names stay as they were."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Apply the layers one after the other."""
        if not self.training:
            return super().forward(values)
        for segment in segments(list(self)):
            values = _recomputed(segment, values)
        return values


def segments(layers: list[torch.nn.Module]) -> Iterator[list[torch.nn.Module]]:
    """Cut a row of layers where no layer follows that writes over what enters it: that has to be kept as it was."""
    length = max(1, math.isqrt(len(layers)))
    segment: list[torch.nn.Module] = []
    for layer in layers:
        first = next(part for part in layer.modules() if not any(True for _rest in part.children()))
        if len(segment) >= length and not getattr(first, "inplace", False):
            yield segment
            segment = []
        segment.append(layer)
    if segment:
        yield segment


def checkpoint_rows(network: torch.nn.Module) -> int:
    """Have the feature extractor of a torchvision network compute its activations again.

    Its rows are the layers directly inside the network that are rows of layers themselves; what classifies is left as
    it is: there is nothing after it to make room for.

    Returns:
        How many rows there are.
    """
    rows = [
        (name, part)
        for name, part in network.named_children()
        if isinstance(part, torch.nn.Sequential) and name != "classifier"
    ]
    for name, row in rows:
        checkpointed = CheckpointedRow()
        for place, layer in row.named_children():
            checkpointed.add_module(place, layer)
        setattr(network, name, checkpointed.train(row.training))
    return len(rows)


def _recomputed(layers: list[torch.nn.Module], values: torch.Tensor) -> torch.Tensor:
    def run(entering: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            entering = layer(entering)
        return entering

    options: dict[str, Any] = {"context_fn": lambda: (nullcontext(), _statistics_kept(layers))}
    if torch.compiler.is_compiling():  # a compiled graph changes statistics once, however often it computes
        options = {}
    found: torch.Tensor = checkpoint(run, values, use_reentrant=False, **options)
    return found


@contextmanager
def _statistics_kept(layers: list[torch.nn.Module]) -> Iterator[None]:
    """Leave the running statistics of batch norms alone: the first pass has already counted this batch.

    With a momentum of 0 they stay what they are to the bit. Without the buffers altogether, autograd would save fewer
    tensors than in the first pass, and torch refuses that.
    """
    norms: list[Any] = [
        part
        for layer in layers
        for part in layer.modules()
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)
    ]
    before = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, momentum, batches in before:
            norm.momentum, norm.num_batches_tracked = momentum, batches


# --- torchvision's image models with a head of the right size, in the shape Trainer expects


RANDOM = Fix(_("Start with random weights"), {"model.pretrained": False, "model.method": "full"})

CHANNELS_LAST_FROM = 128
"""Pixels from which a CPU's convolutions are faster with the channels last in memory: 0.98 to 1.8 times as fast.

Measured on an AVX-512 processor, forward and backward, bf16 and fp32: at 224 pixels resnet18 1.2, mobilenet_v2 1.2 to
1.4, efficientnet_b0 1.0 to 1.3, squeezenet1_0 1.3 to 1.8, alexnet 1.1. At 64 pixels resnet18 takes a third longer so.
"""


class VisionClassifier(torch.nn.Module):
    """A torchvision network whose forward returns loss and logits.

    forward takes `pixel_values` [batch, 3, H, W] and, for a loss, `labels` [batch]; it returns a dict with `logits`
    [batch, classes] and `loss` (mean cross-entropy). It takes no `**kwargs`, so that Trainer scales accumulated
    losses itself.
    """

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, pixel_values: torch.Tensor, labels: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """Compute logits, and the loss where labels are given."""
        logits = self.network(_laid_out(pixel_values))
        if labels is None:
            return {"logits": logits}
        return {"loss": torch.nn.functional.cross_entropy(logits.float(), labels), "logits": logits}

    def activation_checkpointing_enable(self, **_kwargs: Any) -> None:
        """Compute activations again for the gradients; what Trainer says of how is what `checkpoint_rows` does."""
        checkpoint_rows(self.network)


def _laid_out(pixels: torch.Tensor) -> torch.Tensor:
    """The same numbers in the order in memory that this device convolves fastest.

    Kept to the CPU: on MPS, batch norm goes wrong with channels last (PyTorch issue 175189).
    """
    if pixels.device.type == "cpu" and min(pixels.shape[-2:]) >= CHANNELS_LAST_FROM:
        return pixels.contiguous(memory_format=torch.channels_last)
    return pixels


def load_vision_model(options: ModelOptions, classes: int, seed: int) -> VisionClassifier:
    """Build `torchvision:NAME`, load its published weights if asked, and give it a head for `classes` labels.

    Raises:
        ModelError: The weights can't be downloaded.
    """
    prepare_torchvision()
    import torchvision
    from transformers import set_seed

    name = options.source.partition(":")[2]
    set_seed(seed)
    network = torchvision.models.get_model(name, weights=None)
    if options.pretrained:
        network.load_state_dict(_published_weights(torchvision, name))
    _replace_head(network, classes)
    return VisionClassifier(network)


def _published_weights(torchvision: Any, name: str) -> dict[str, torch.Tensor]:
    """The weights torchvision publishes: checked against their hash, never unpickled as objects."""
    weights = torchvision.models.get_model_weights(name).DEFAULT
    kept = Path(torch.hub.get_dir()) / "checkpoints" / weights.url.rpartition("/")[2]
    if hub.is_forbidden() and not kept.is_file():
        raise ModelError(
            _("The pretrained weights of {name} aren't on this computer").format(name=name),
            _("{forbidden_by} forbids to download them from {url}.").format(
                forbidden_by=hub.forbidden_by(), url=weights.url
            ),
            (RANDOM,),
        )
    try:
        state: dict[str, torch.Tensor] = weights.get_state_dict(
            progress=False, check_hash=True, weights_only=True
        )
    except (URLError, ConnectionError, TimeoutError) as error:
        raise ModelError(
            _("The pretrained weights of {name} can't be downloaded").format(name=name),
            _(
                "{url}: {error}. They are kept after the first download, so later runs need no network."
            ).format(url=weights.url, error=error),
            (RANDOM,),
        ) from error
    except RuntimeError as error:
        raise ModelError(
            _("The downloaded weights of {name} are damaged").format(name=name), str(error)
        ) from error
    return state


def _replace_head(network: Any, classes: int) -> None:
    """Put a fresh last layer in place of the one for ImageNet's 1,000 classes."""
    if hasattr(network, "fc"):
        network.fc = torch.nn.Linear(network.fc.in_features, classes)
        return
    head = network.classifier
    position = max(
        index for index, layer in enumerate(head) if isinstance(layer, torch.nn.Linear | torch.nn.Conv2d)
    )
    old = head[position]
    if isinstance(old, torch.nn.Conv2d):  # squeezenet classifies by a 1 x 1 convolution, pooled afterwards
        head[position] = torch.nn.Conv2d(old.in_channels, classes, kernel_size=1)
    else:
        head[position] = torch.nn.Linear(old.in_features, classes)


# --- Models that classify images, torchvision's and transformers' alike


PREPROCESSOR = "preprocessor_config.json"
RECIPE = "hone.json"
BILINEAR = 2
"""Pillow's number for it, as preprocessor_config.json has it."""


class VisionRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """`hone.json` beside the weights: what it takes to use them. `image_size` is in pixels, square."""

    architecture: str
    labels: tuple[str, ...]
    image_size: int
    mean: Colours
    std: Colours


@dataclass(frozen=True)
class ImageModel:
    """What is known of a model before it is loaded: the name of torchvision's `network`, or the `config` of another.

    `mean` and `std` are those of the images it was trained on, pixels from 0 to 1; `is_told` says whether the model
    brings them, or ImageNet's are taken. `weights` is the file of a past run's weights, for a network of torchvision's.
    """

    source: str
    network: str = ""
    config: Any = None
    weights: Path | None = None
    mean: Colours = IMAGENET_MEAN
    std: Colours = IMAGENET_STD
    is_told: bool = True

    @property
    def architecture(self) -> str:
        """What the model is, apart from what it has learned."""
        return Scheme.TORCHVISION.of(self.network) if self.network else self.source


def find_image_model(options: RunOptions) -> ImageModel:
    """Read the config of a transformers model, and how it wants images normalised.

    Raises:
        ModelError: There is no such model, or it doesn't classify colour images.
    """
    source = options.model.source
    network = Scheme.TORCHVISION.name_of(source)
    if network is not None:
        return ImageModel(source, network)
    check_run(source, options.task)
    folder = model_folder(source)
    if folder is not None and not (folder / CONFIG).is_file():
        return _of_past_run(source, folder)
    config = text.load_config(options)
    channels = getattr(config, "num_channels", 3)
    if channels != 3:
        raise ModelError(
            _("{source} sees images of {channels} channels").format(
                source=short_name(source), channels=channels
            ),
            _(
                "{source}: Hone gives a model images in red, green and blue. Choose a model for "
                "colour images."
            ).format(source=source),
        )
    config.architectures = []  # DeiT and LeViT have a second form with a teacher, which can't be trained
    return _with_normalisation(ImageModel(source, config=config))


def _of_past_run(source: str, folder: Path) -> ImageModel:
    """A network of torchvision's that a past run has trained.

    Raises:
        ModelError: Its files are missing or damaged, or hold LoRA matrices alone.
    """
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ModelError(
            _("The model of {source} isn't whole").format(source=short_name(source)),
            _(
                "There is no {name} in {folder}: it has LoRA matrices only, or was deleted in part. "
                "Choose a run "
                "that trained all weights, or the last layer."
            ).format(name=weights.name, folder=folder),
        )
    try:
        recipe = msgspec.json.decode((folder / RECIPE).read_bytes(), type=VisionRecipe)
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(
            _("The model of {source} isn't whole").format(source=short_name(source)),
            f"{folder / RECIPE}: {error}",
        ) from error
    network = Scheme.TORCHVISION.name_of(recipe.architecture) or ""
    if network not in VISION_MODELS:
        raise ModelError(
            _("{source} is of an unknown kind").format(source=short_name(source)),
            f"{folder}: {recipe.architecture}",
        )
    return ImageModel(source, network, weights=weights, mean=recipe.mean, std=recipe.std)


def load_image_model(options: RunOptions, found: ImageModel, labels: tuple[str, ...]) -> LoadedModel:
    """Load the model with a head for `labels`, its weights in fp32.

    Raises:
        ModelError: There are no safe weights, they are damaged or don't fit, or can't be downloaded.
    """
    if found.config is None:
        return LoadedModel(_load_network(options, found, len(labels)))
    return text.load_model(options, found.config, labels, None)


def _load_network(options: RunOptions, found: ImageModel, classes: int) -> torch.nn.Module:
    """A network of torchvision's; of a past run's weights all that fit, a head for other labels starts afresh."""
    from safetensors.torch import load_file

    learned = found.weights if options.model.pretrained else None
    asked = msgspec.structs.replace(
        options.model,
        source=found.architecture,
        pretrained=options.model.pretrained and learned is None,
    )
    model = load_vision_model(asked, classes, options.training.seed)
    if learned is not None:
        with explained(str(learned.parent)):
            saved = load_file(learned)
        shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
        fitting = {name: tensor for name, tensor in saved.items() if shapes.get(name) == tensor.shape}
        model.load_state_dict(fitting, strict=False)
    return model


def image_model_without_numbers(options: RunOptions, found: ImageModel, classes: int) -> torch.nn.Module:
    """The model on torch's meta device, which holds no numbers.

    Raises:
        ModelError: Its config describes no model.
    """
    if found.config is None:
        with torch.device("meta"):
            architecture = msgspec.structs.replace(options.model, source=found.architecture, pretrained=False)
            return load_vision_model(architecture, classes, options.training.seed)
    config = copy.deepcopy(found.config)
    text.set_labels(config, options.task, tuple(map(str, range(classes))))
    attention = implementation_for(options.model, config, text.class_of(config, options.task))
    if options.model.attention in (Attention.FLASH_2, Attention.FLASH_3):
        attention = Attention.SDPA.value  # keeps as little, and needs no package
    with explained(found.source, builds=True), torch.device("meta"):
        return text.random_model(config, options.task, attn_implementation=attention)


def limits_of(options: RunOptions, found: ImageModel, size: int) -> VisionModel:
    """Whether images of `size` pixels can be trained on: below `smallest` none, below `smallest_alone` no single one.

    Those of torchvision's models are known; of another model it is tried, without numbers.

    Raises:
        ModelError: The model takes images of its own size only, or of no such size.
    """
    if found.config is None:
        return VISION_MODELS[found.network]
    model = image_model_without_numbers(options, found, 2).train()
    _refuse_size(model, found, size)
    return VisionModel(1, 1 if _reason_against(model, 1, size) == "" else size + 1)


def own_size(config: Any) -> int | None:
    """The size of images a model was made for, in pixels; None where its config names none, or no square."""
    size = getattr(config, "image_size", None)
    if isinstance(size, Sequence) and len(set(size)) == 1:
        size = size[0]
    return size if isinstance(size, int) else None


class WrongSize(ModelError):  # noqa: N818 - nothing is wrong with the model
    """A model can't see images of this size; `wanted` is one that it can, or None."""

    def __init__(self, title: str, detail: str, wanted: int | None) -> None:
        super().__init__(title, detail)
        self.wanted = wanted


def _refuse_size(model: Any, found: ImageModel, size: int) -> None:
    reason = _reason_against(model, 2, size)
    if not reason:
        return
    wanted = own_size(found.config)
    fits = wanted is not None and wanted != size and not _reason_against(model, 2, wanted)
    made_for = _("It was made for images of {wanted} pixels. ").format(wanted=wanted) if fits else ""
    raise WrongSize(
        _("{source} can't see images of {size} pixels").format(source=short_name(found.source), size=size),
        _("{made_for}(The library says: {reason})").format(made_for=made_for, reason=reason),
        wanted if fits else None,
    )


def _reason_against(model: Any, batch: int, size: int) -> str:
    """Why a model can't be trained on so many images of a size at a time; empty where it can."""
    try:
        with torch.no_grad():
            model(pixel_values=torch.empty(batch, 3, size, size, device="meta"))
    except (ValueError, RuntimeError) as error:
        return str(error).strip().partition("\n")[0] or type(error).__name__
    return ""


def _with_normalisation(found: ImageModel) -> ImageModel:
    preprocessing = _preprocessor(found.source)
    mean, std = preprocessing.get("image_mean"), preprocessing.get("image_std")
    if preprocessing.get("do_normalize") is False:
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    scale = 255 * float(preprocessing.get("rescale_factor") or 1 / 255)
    offset = 1.0 if preprocessing.get("rescale_offset") else 0.0  # EfficientNet: from -1 to 1 before the mean
    try:
        means = msgspec.convert([(value + offset) / scale for value in mean or ()], Colours)
        spreads = msgspec.convert([value / scale for value in std or ()], Colours)
    except (TypeError, msgspec.ValidationError):
        return replace(found, is_told=False)
    return replace(found, mean=means, std=spreads)


def _preprocessor(source: str) -> dict[str, Any]:
    """What stands in the model's preprocessor_config.json; empty where it has none that can be read."""
    from transformers.utils import cached_file

    try:
        path = cached_file(config_in(source), PREPROCESSOR, _raise_exceptions_for_missing_entries=False)
        told = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def preprocessor(size: int, mean: Sequence[float], std: Sequence[float]) -> bytes:
    """A preprocessor_config.json that says what Hone did with images, for `AutoImageProcessor.from_pretrained`."""
    told = {
        "image_processor_type": "ViTImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"height": size, "width": size},
        "resample": BILINEAR,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(mean),
        "image_std": list(std),
    }
    return json.dumps(told, indent=2).encode()
