"""The model of a run as it was trained, in fp32 on the CPU, whatever it was trained on."""

from pathlib import Path
from typing import Any

import msgspec
import torch

from core.engine.data.image_transform import ImageTransform
from core.engine.models.image_models import RECIPE, VisionRecipe
from core.engine.models.past_runs import base_of, config_beside, with_matrices
from core.engine.models.refusals import explained
from core.engine.models.text_models import read_pretrained
from core.engine.models.vision_models import VisionClassifier, load_vision_model
from core.errors import ModelError
from core.export_offers import ExportSource
from core.sources import Scheme
from core.vision_models import VISION_MODELS


def load_trained(source: ExportSource) -> Any:
    """The model in evaluation mode: whole, or with its LoRA matrices beside the weights, which are not packed.

    Raises:
        ModelError: Its files are missing or damaged, or what its LoRA matrices belong to is gone.
    """
    with torch.random.fork_rng():
        return _loaded(source).eval().requires_grad_(False)


def _loaded(source: ExportSource) -> Any:
    if not source.is_adapter:
        return (
            load_network(source.folder)
            if source.network
            else read_pretrained(str(source.folder), source.options.task)
        )
    return with_matrices(_network_beside(source) if source.network else load_base(source), source.folder)


def load_base(source: ExportSource) -> Any:
    """What LoRA matrices were trained beside, in full precision also where it was packed, with the head they name.

    Raises:
        ModelError: It is gone, or can't be loaded.
    """
    from transformers import AutoConfig

    base = base_of(source.folder)
    with explained(base):
        config = AutoConfig.from_pretrained(config_beside(source.folder), trust_remote_code=False)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    if source.options.task.reads_images:
        config.architectures = []  # DeiT and LeViT have a second form with a teacher
    return read_pretrained(base, source.options.task, config, ignore_mismatched_sizes=True)


def load_network(folder: Path) -> VisionClassifier:
    """A network of torchvision's from a run's folder.

    Raises:
        ModelError: Its files are missing or damaged.
    """
    from safetensors.torch import load_file

    recipe = read_recipe(folder)
    model = _bare_network(recipe)
    with explained(str(folder)):
        model.load_state_dict(load_file(folder / "model.safetensors"))
    return model


def _bare_network(recipe: VisionRecipe) -> VisionClassifier:
    """The network without what it has learned, as torchvision itself makes it for so many labels."""
    import torchvision

    name = Scheme.TORCHVISION.name_of(recipe.architecture) or ""
    if name not in VISION_MODELS:
        raise ModelError("The model is of an unknown kind", recipe.architecture)
    return VisionClassifier(torchvision.models.get_model(name, weights=None, num_classes=len(recipe.labels)))


def _network_beside(source: ExportSource) -> VisionClassifier:
    """What LoRA matrices were trained beside: made again as the run made it, by its seed where it began at random."""
    recipe = read_recipe(source.folder)
    asked = msgspec.structs.replace(source.options.model, source=recipe.architecture)
    return load_vision_model(asked, len(recipe.labels), source.options.training.seed)


def read_recipe(folder: Path) -> VisionRecipe:
    """What it takes to use a model of images, which a checkpoint of an older Hone lacks: the run's model has it then.

    Raises:
        ModelError: It isn't there, or can't be read.
    """
    path, kept = folder / RECIPE, folder.parent.parent / "model" / RECIPE
    if not path.is_file() and folder.parent.name == "checkpoints" and kept.is_file():
        path = kept
    try:
        return msgspec.json.decode(path.read_bytes(), type=VisionRecipe)
    except OSError as error:
        raise ModelError(
            f"The model in {folder} isn't whole",
            f"{path.name} is missing, which says what it takes and labels: {error.strerror}. An older Hone wrote it "
            "only beside a model: resume the run, and it is written when it ends.",
        ) from error
    except msgspec.MsgspecError as error:
        raise ModelError(f"The model in {folder} isn't whole", f"{path}: {error}") from error


def image_transform(source: ExportSource) -> ImageTransform:
    """How images become what the model sees."""
    recipe = read_recipe(source.folder)
    return ImageTransform(recipe.image_size, recipe.mean, recipe.std)


def merged(model: Any) -> Any:
    """A model with its LoRA matrices worked into its weights; any other as it is."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
