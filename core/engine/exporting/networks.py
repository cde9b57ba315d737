"""torchvision's networks as folders: weights by torchvision's own names, and what it takes to use them."""

import json
from pathlib import Path

import torch

from core.engine.exporting.agreement import EXACT, HALF, MERGED, Tolerance
from core.engine.exporting.rows import Rows
from core.engine.exporting.trained import load_trained, merged, read_recipe
from core.engine.exporting.written import Place, Tell
from core.engine.models.image_models import PREPROCESSOR, preprocessor
from core.export_offers import ExportSource
from core.exporting import NumberFormat
from core.sources import Scheme

PREFIX = "network."
"""Before the names of the weights in a run, whose model is a network within what computes the loss."""


def write_network(source: ExportSource, place: Place, tell: Tell) -> Tolerance:
    """Write the weights, `config.json` (architecture, labels, size and colours of images), and the preprocessor.

    Raises:
        ModelError: The model can't be read.
    """
    from safetensors.torch import save_file

    recipe = read_recipe(source.folder)
    tell("Loading the model")
    model = merged(load_trained(source))
    if place.numbers in (NumberFormat.BF16, NumberFormat.FP16):
        model = model.to(torch.bfloat16 if place.numbers is NumberFormat.BF16 else torch.float16)
    state = {name.removeprefix(PREFIX): value.contiguous() for name, value in model.state_dict().items()}
    tell("Writing the model")
    save_file(state, place.into / "model.safetensors", metadata={"format": "pt"})
    config = {
        "library": "torchvision",
        "architecture": Scheme.TORCHVISION.name_of(recipe.architecture),
        "labels": list(recipe.labels),
        "image_size": recipe.image_size,
        "image_mean": list(recipe.mean),
        "image_std": list(recipe.std),
    }
    (place.into / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (place.into / PREPROCESSOR).write_bytes(preprocessor(recipe.image_size, recipe.mean, recipe.std))
    return HALF.get(place.numbers, MERGED if source.is_adapter else EXACT)


def network_answers(folder: Path, rows: Rows) -> list[torch.Tensor]:
    """The logits of an exported network, loaded as its card says."""
    import torchvision
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_bytes())
    model = torchvision.models.get_model(
        config["architecture"], weights=None, num_classes=len(config["labels"])
    )
    model.load_state_dict(load_file(folder / "model.safetensors"))
    model.eval()
    with torch.no_grad():
        return [model(row.inputs["pixel_values"])[0] for row in rows.rows]
