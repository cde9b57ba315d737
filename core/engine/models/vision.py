"""Models that classify images, torchvision's and transformers', and activation checkpointing of torchvision's."""

import copy
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError

import msgspec
import torch
from torch.utils.checkpoint import checkpoint

from core.base.errors import Fix, ModelError, why
from core.base.language import _
from core.engine.data.image_files import IMAGENET_MEAN, IMAGENET_STD, Colours, ImageTransform
from core.engine.devices.computing import same_random_numbers
from core.engine.environment import prepare_torchvision
from core.engine.models import text
from core.engine.models.parts import base_of, frozen_dtype, hold_frozen
from core.engine.models.past_runs import check_run, config_in
from core.engine.models.refusals import explained
from core.engine.models.text import LoadedModel
from core.options import RunOptions, hub
from core.options.choices import Attention, ImageFit
from core.options.hub import CONFIG
from core.options.past_runs import model_folder
from core.options.sections import ModelOptions
from core.options.sources import VISION_MODELS, Scheme, VisionModel, short_name

# --- Activation checkpointing


def can_checkpoint(model: Any) -> bool:
    supports = getattr(model, "supports_gradient_checkpointing", None)  # of transformers' models
    return bool(supports) if supports is not None else hasattr(model, "activation_checkpointing_enable")


def check_checkpointing(model: Any) -> None:
    """Raises a ModelError if the model doesn't support activation checkpointing."""
    base = base_of(model)
    if not can_checkpoint(base):
        raise ModelError(
            _("This model doesn't support activation checkpointing"),
            _("transformers has not implemented it for {name}.").format(name=type(base).__name__),
            (Fix(_("Turn off activation checkpointing"), {"memory.activation_checkpointing": False}),),
        )


class CheckpointedRow(torch.nn.Sequential):
    """A Sequential that keeps only the inputs of its segments while it trains."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return super().forward(values)
        for segment in segments(list(self)):
            # a compiled graph updates statistics once, however often it computes
            contexts = partial(_contexts, segment, values.device.type)
            options = {} if torch.compiler.is_compiling() else {"context_fn": contexts}
            values = checkpoint(partial(_apply, segment), values, use_reentrant=False, **options)
        return values


def _apply(layers: list[torch.nn.Module], values: torch.Tensor) -> torch.Tensor:
    for layer in layers:
        values = layer(values)
    return values


def segments(layers: list[torch.nn.Module]) -> Iterator[list[torch.nn.Module]]:
    """Cuts layers into segments of about the square root of their number, as `checkpoint_sequential` advises.

    None begins with an in-place layer: the input of a segment has to stay as it was.
    """
    length = max(1, math.isqrt(len(layers)))
    segment: list[torch.nn.Module] = []
    for layer in layers:
        first = next(part for part in layer.modules() if not any(True for _child in part.children()))
        if len(segment) >= length and not getattr(first, "inplace", False):
            yield segment
            segment = []
        segment.append(layer)
    if segment:
        yield segment


def checkpoint_rows(network: torch.nn.Module) -> None:
    """Uses activation checkpointing in each Sequential directly inside a torchvision network, but its classifier."""
    for name, row in list(network.named_children()):
        if isinstance(row, torch.nn.Sequential) and name != "classifier":
            checkpointed = CheckpointedRow()
            for child, layer in row.named_children():
                checkpointed.add_module(child, layer)
            setattr(network, name, checkpointed.train(row.training))


def _contexts(
    layers: list[torch.nn.Module], kind: str
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    first, again = same_random_numbers(kind)
    return first, _recomputing(layers, again)


@contextmanager
def _recomputing(layers: list[torch.nn.Module], same_numbers: AbstractContextManager[None]) -> Iterator[None]:
    """Keeps the running statistics of batch norms from being updated: the first pass has counted this batch.

    A momentum of 0 keeps them bit for bit. Without the buffers, autograd would save fewer tensors than in the first
    pass, which torch refuses.
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
        with same_numbers:
            yield
    finally:
        for norm, momentum, batches in before:
            norm.momentum, norm.num_batches_tracked = momentum, batches


# --- torchvision's networks


RANDOM = Fix(_("Start with random weights"), {"model.pretrained": False, "model.method": "full"})

CHANNELS_LAST_FROM = 128
"""Pixels from which convolutions on a CPU are faster with channels last: 0.98 to 1.8 times as fast.

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
        """Computes logits, and the loss where labels are given."""
        # on MPS, batch norm is wrong with channels last (PyTorch issue 175189)
        if pixel_values.device.type == "cpu" and min(pixel_values.shape[-2:]) >= CHANNELS_LAST_FROM:
            pixel_values = pixel_values.contiguous(memory_format=torch.channels_last)
        logits = self.network(pixel_values)
        if labels is None:
            return {"logits": logits}
        return {"loss": torch.nn.functional.cross_entropy(logits.float(), labels), "logits": logits}

    def activation_checkpointing_enable(self, **_kwargs: Any) -> None:
        """Turns activation checkpointing on; Trainer calls this."""
        checkpoint_rows(self.network)


def load_vision_model(options: ModelOptions, classes: int, seed: int) -> VisionClassifier:
    """Builds `torchvision:NAME`, loads its published weights if `pretrained`, and gives it a head for `classes` labels.

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
    """Returns the weights torchvision publishes: checked against their hash, never unpickled as objects."""
    weights = torchvision.models.get_model_weights(name).DEFAULT
    cached = Path(torch.hub.get_dir()) / "checkpoints" / weights.url.rpartition("/")[2]
    title = _("The pretrained weights of {name} can't be loaded").format(name=name)
    if hub.is_forbidden() and not cached.is_file():
        raise ModelError(
            title,
            _("They aren't on this computer, and {forbidden_by} forbids downloading {url}.").format(
                forbidden_by=hub.forbidden_by(), url=weights.url
            ),
            (RANDOM,),
        )
    try:
        state: dict[str, torch.Tensor] = weights.get_state_dict(
            progress=False, check_hash=True, weights_only=True
        )
    except (
        URLError,
        ConnectionError,
        TimeoutError,
        RuntimeError,
    ) as error:  # RuntimeError: the hash is wrong
        raise ModelError(title, f"{weights.url}: {error}", (RANDOM,)) from error
    return state


def _replace_head(network: Any, classes: int) -> None:
    """Replaces the layer for ImageNet's 1,000 classes."""
    if hasattr(network, "fc"):
        network.fc = torch.nn.Linear(network.fc.in_features, classes)
        return
    head = network.classifier
    last = max(
        index for index, layer in enumerate(head) if isinstance(layer, torch.nn.Linear | torch.nn.Conv2d)
    )
    old = head[last]
    if isinstance(old, torch.nn.Conv2d):  # squeezenet classifies by a 1 x 1 convolution, pooled afterwards
        head[last] = torch.nn.Conv2d(old.in_channels, classes, kernel_size=1)
    else:
        head[last] = torch.nn.Linear(old.in_features, classes)


# --- Image models, torchvision's and transformers' alike


PREPROCESSOR = "preprocessor_config.json"
RECIPE = "hone.json"
BILINEAR = 2
"""Pillow's number for it, as preprocessor_config.json has it."""


class VisionRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """`hone.json`, saved with the weights: what using them takes. `image_size` is in pixels, square."""

    architecture: str
    labels: tuple[str, ...]
    image_size: int
    mean: Colours
    std: Colours
    image_fit: ImageFit = ImageFit.SQUASH

    @property
    def transform(self) -> ImageTransform:
        """What an image goes through in front of the model."""
        return ImageTransform(self.image_size, self.mean, self.std, self.image_fit)


def read_recipe(folder: Path) -> VisionRecipe:
    """Reads labels, image size and colours of an image model; for a checkpoint without them, of the run's model.

    Raises:
        ModelError: They are missing or damaged.
    """
    path, of_model = folder / RECIPE, folder.parent.parent / "model" / RECIPE
    if not path.is_file() and folder.parent.name == "checkpoints" and of_model.is_file():
        path = of_model
    try:
        return msgspec.json.decode(path.read_bytes(), type=VisionRecipe)
    except (OSError, msgspec.MsgspecError) as error:
        detail = _("Its labels can't be read from {path}: {error}. Resume the run to write them again.")
        raise ModelError(
            _("The model in {folder} is incomplete").format(folder=folder),
            detail.format(path=path, error=why(error) if isinstance(error, OSError) else error),
        ) from error


@dataclass(frozen=True)
class ImageModel:
    """What is known of a model before it is loaded.

    Attributes:
        network: torchvision's name of it; empty for a transformers model.
        config: The config of a transformers model.
        weights: The file of a past run's weights, for a torchvision network.
        mean: Of the images it was trained on, pixels from 0 to 1; ImageNet's if unknown.
        std: Likewise.
        has_normalisation: Whether the model comes with mean and std.
        labels: What it has learned to predict; none for torchvision's own weights.
    """

    source: str
    network: str = ""
    config: Any = None
    weights: Path | None = None
    mean: Colours = IMAGENET_MEAN
    std: Colours = IMAGENET_STD
    has_normalisation: bool = True
    labels: tuple[str, ...] = ()

    @property
    def architecture(self) -> str:
        """The source without what the model has learned."""
        return Scheme.TORCHVISION.of(self.network) if self.network else self.source


def find_image_model(options: RunOptions) -> ImageModel:
    """Reads the config of a transformers model, and how it wants images normalized.

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
            _("{source} is not a model for colour images").format(source=short_name(source)),
            _("{source} has {channels} input channels, and Hone's images have 3.").format(
                source=source, channels=channels
            ),
        )
    config.architectures = []  # DeiT and LeViT have a second form with a teacher, which can't be trained
    return _with_normalisation(ImageModel(source, config=config, labels=tuple(config.id2label.values())))


def _of_past_run(source: str, folder: Path) -> ImageModel:
    """Returns a torchvision network that a past run has trained."""
    title = _("The model of {source} can't be trained on").format(source=short_name(source))
    weights = folder / "model.safetensors"
    if not weights.is_file():
        detail = _("There is no {name} in {folder}. Adapters of torchvision models can't be trained on.")
        raise ModelError(title, detail.format(name=weights.name, folder=folder))
    recipe = read_recipe(folder)
    network = Scheme.TORCHVISION.name_of(recipe.architecture) or ""
    if network not in VISION_MODELS:
        raise ModelError(title, f"{folder / RECIPE}: {recipe.architecture}")
    return ImageModel(
        source, network, weights=weights, mean=recipe.mean, std=recipe.std, labels=recipe.labels
    )


def load_image_model(options: RunOptions, model: ImageModel, labels: tuple[str, ...]) -> LoadedModel:
    """Loads the model with a head for `labels`; weights are read, and their format is, as in `text.load_model`.

    Raises:
        ModelError: There are no safe weights, they are damaged or don't fit, or can't be downloaded.
    """
    if model.config is not None:
        return text.load_model(options, model.config, labels, None)
    is_light = options.starts_random or torch.get_default_device().type == "meta"
    trained = None if is_light else model.weights
    architecture = msgspec.structs.replace(
        options.model,
        source=model.architecture,
        pretrained=not is_light and trained is None,
    )
    classifier = load_vision_model(architecture, len(labels), options.training.seed)
    if trained is not None:
        from safetensors.torch import load_file

        with explained(str(trained.parent)):
            saved = load_file(trained)
        shapes = {name: tensor.shape for name, tensor in classifier.state_dict().items()}
        fitting = {name: tensor for name, tensor in saved.items() if shapes.get(name) == tensor.shape}
        classifier.load_state_dict(fitting, strict=False)  # a head for other labels starts afresh
    hold_frozen(classifier, frozen_dtype(options))
    return LoadedModel(classifier)


def image_model_on_meta(options: RunOptions, model: ImageModel, classes: int) -> torch.nn.Module:
    """Returns the model on torch's meta device, without weights.

    Raises:
        ModelError: Its config describes no model.
    """
    if model.config is None:
        with torch.device("meta"):
            architecture = msgspec.structs.replace(options.model, source=model.architecture, pretrained=False)
            return load_vision_model(architecture, classes, options.training.seed)
    config = copy.deepcopy(model.config)
    text.set_labels(config, options.task, tuple(map(str, range(classes))))
    attention = text.attention_for(options, config)
    if options.model.attention in (Attention.FLASH_2, Attention.FLASH_3):
        attention = Attention.SDPA.value  # saves as little for the backward pass, and needs no package
    with explained(model.source, builds=True), torch.device("meta"):
        return text.random_model(config, options.task, attn_implementation=attention)


class WrongSize(ModelError):  # noqa: N818 - nothing is wrong with the model
    """The model doesn't take images of this size; `wanted` is one that it takes, or None."""

    def __init__(self, title: str, detail: str, wanted: int | None) -> None:
        super().__init__(title, detail)
        self.wanted = wanted


def limits_of(options: RunOptions, model: ImageModel, size: int) -> VisionModel:
    """Returns the smallest images that the model can be trained on, in a batch and alone.

    Known for torchvision's models; a transformers model is tried without weights.

    Raises:
        ModelError: The model doesn't take images of `size` pixels.
    """
    if model.config is None:
        return VISION_MODELS[model.network]
    network = image_model_on_meta(options, model, 2).train()
    if reason := _reason_against(network, 2, size):
        wanted = own_size(model.config)
        if wanted == size or (wanted is not None and _reason_against(network, 2, wanted)):
            wanted = None
        raise WrongSize(
            _("{source} can't process images of {size} pixels").format(
                source=short_name(model.source), size=size
            ),
            reason,
            wanted,
        )
    return VisionModel(1, size + 1 if _reason_against(network, 1, size) else 1)


def own_size(config: Any) -> int | None:
    """Returns the size of images a model was made for, in pixels; None if its config has none, or no square."""
    size = getattr(config, "image_size", None)
    if isinstance(size, Sequence) and len(set(size)) == 1:
        size = size[0]
    return size if isinstance(size, int) else None


def _reason_against(model: Any, batch: int, size: int) -> str:
    """Returns why a model can't be trained on batches of so many images of this size; empty if it can."""
    try:
        with torch.no_grad():
            model(pixel_values=torch.empty(batch, 3, size, size, device="meta"))
    except (ValueError, RuntimeError) as error:
        return str(error).strip().partition("\n")[0] or type(error).__name__
    return ""


def _with_normalisation(model: ImageModel) -> ImageModel:
    """Returns the model with mean and std of its preprocessor_config.json, if it has one that can be read."""
    from transformers.utils import cached_file

    try:
        path = cached_file(config_in(model.source), PREPROCESSOR, _raise_exceptions_for_missing_entries=False)
        content = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
        mean, std = content.get("image_mean"), content.get("image_std")
        if content.get("do_normalize") is False:
            mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        scale = 255 * float(content.get("rescale_factor") or 1 / 255)
        offset = 1.0 if content.get("rescale_offset") else 0.0  # EfficientNet: from -1 to 1 before the mean
        means = msgspec.convert([(value + offset) / scale for value in mean or ()], Colours)
        deviations = msgspec.convert([value / scale for value in std or ()], Colours)
    except (OSError, ValueError, TypeError, AttributeError):  # msgspec's error is a ValueError
        return replace(model, has_normalisation=False)
    return replace(model, mean=means, std=deviations)


def preprocessor(size: int, mean: Sequence[float], std: Sequence[float], fit: ImageFit) -> bytes:
    """Returns a preprocessor_config.json with which `AutoImageProcessor` does what Hone did with images."""
    square = {"height": size, "width": size}
    shape: dict[str, object] = {"image_processor_type": "ViTImageProcessor", "size": square}
    if fit is ImageFit.CROP:
        shape = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": size}}
        shape |= {"do_center_crop": True, "crop_size": square}
    content = {
        **shape,
        "do_convert_rgb": True,
        "do_resize": True,
        "resample": BILINEAR,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(mean),
        "image_std": list(std),
    }
    return json.dumps(content, indent=2).encode()
