"""Models that classify images, torchvision's and transformers' alike: what is known before loading, and loading."""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

import msgspec
import torch

from core.choices import Attention
from core.engine.data.image_transform import IMAGENET_MEAN, IMAGENET_STD, Colours
from core.engine.models import text_models
from core.engine.models.attention import implementation_for
from core.engine.models.past_runs import check_run, config_in
from core.engine.models.refusals import explained
from core.engine.models.text_models import LoadedModel
from core.engine.models.vision_models import load_vision_model
from core.errors import ModelError
from core.hub import CONFIG
from core.options import RunOptions
from core.run_models import model_folder
from core.sources import Scheme, short_name
from core.vision_models import VISION_MODELS, ImageLimits

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
    config = text_models.load_config(options)
    channels = getattr(config, "num_channels", 3)
    if channels != 3:
        raise ModelError(
            f"{short_name(source)} sees images of {channels} channels",
            f"{source}: Hone gives a model images in red, green and blue. Choose a model for colour images.",
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
            f"The model of {short_name(source)} isn't whole",
            f"There is no {weights.name} in {folder}: it has LoRA matrices only, or was deleted in part. Choose a run "
            "that trained all weights, or the last layer.",
        )
    try:
        recipe = msgspec.json.decode((folder / RECIPE).read_bytes(), type=VisionRecipe)
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(
            f"The model of {short_name(source)} isn't whole", f"{folder / RECIPE}: {error}"
        ) from error
    network = Scheme.TORCHVISION.name_of(recipe.architecture) or ""
    if network not in VISION_MODELS:
        raise ModelError(f"{short_name(source)} is of an unknown kind", f"{folder}: {recipe.architecture}")
    return ImageModel(source, network, weights=weights, mean=recipe.mean, std=recipe.std)


def load_image_model(options: RunOptions, found: ImageModel, labels: tuple[str, ...]) -> LoadedModel:
    """Load the model with a head for `labels`, its weights in fp32.

    Raises:
        ModelError: There are no safe weights, they are damaged or don't fit, or can't be downloaded.
    """
    if found.config is None:
        return LoadedModel(_load_network(options, found, len(labels)))
    return text_models.load_model(options, found.config, labels, None)


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
    text_models.set_labels(config, options.task, tuple(map(str, range(classes))))
    attention = implementation_for(options.model, config, text_models.class_of(config, options.task))
    if options.model.attention in (Attention.FLASH_2, Attention.FLASH_3):
        attention = Attention.SDPA.value  # keeps as little, and needs no package
    with explained(found.source, builds=True), torch.device("meta"):
        return text_models.random_model(config, options.task, attn_implementation=attention)


def limits_of(options: RunOptions, found: ImageModel, size: int) -> ImageLimits:
    """Whether images of `size` pixels can be trained on: below `smallest` none, below `smallest_alone` no single one.

    Those of torchvision's models are known; of another model it is tried, without numbers.

    Raises:
        ModelError: The model takes images of its own size only, or of no such size.
    """
    if found.config is None:
        return VISION_MODELS[found.network]
    model = image_model_without_numbers(options, found, 2).train()
    _refuse_size(model, found, size)
    return ImageLimits(1, 1 if _reason_against(model, 1, size) == "" else size + 1)


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
    made_for = f"It was made for images of {wanted} pixels. " if fits else ""
    raise WrongSize(
        f"{short_name(found.source)} can't see images of {size} pixels",
        f"{made_for}(The library says: {reason})",
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
    told = _preprocessor(found.source)
    mean, std = told.get("image_mean"), told.get("image_std")
    if told.get("do_normalize") is False:
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if not (_is_three(mean) and _is_three(std)):
        return replace(found, is_told=False)
    scale = 255 * float(told.get("rescale_factor") or 1 / 255)
    offset = 1.0 if told.get("rescale_offset") else 0.0  # EfficientNet: from -1 to 1 before the mean is taken
    means = [(value + offset) / scale for value in mean]
    spreads = [value / scale for value in std]
    return replace(found, mean=_three(means), std=_three(spreads))


def _preprocessor(source: str) -> dict[str, Any]:
    """What stands in the model's preprocessor_config.json; empty where it has none that can be read."""
    from transformers.utils import cached_file

    try:
        path = cached_file(config_in(source), PREPROCESSOR, _raise_exceptions_for_missing_entries=False)
        told = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _is_three(values: Any) -> TypeGuard[Sequence[float]]:
    return (
        isinstance(values, Sequence)
        and len(values) == 3
        and all(isinstance(value, int | float) for value in values)
    )


def _three(values: Sequence[float]) -> Colours:
    red, green, blue = values
    return red, green, blue


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
