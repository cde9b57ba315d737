"""torchvision's image models with a head of the right size, in the shape Trainer expects."""

from pathlib import Path
from typing import Any
from urllib.error import URLError

import torch

from core import hub
from core.engine.models.checkpointing import checkpoint_rows
from core.engine.torchvision_ops import prepare_torchvision
from core.errors import Fix, ModelError
from core.options import ModelOptions

RANDOM = Fix("Start with random weights", {"model.pretrained": False, "model.method": "full"})

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
    if hub.is_forbidden() and not _is_here(weights.url):
        raise ModelError(
            f"The pretrained weights of {name} aren't on this computer",
            f"{hub.forbidden_by()} forbids to download them from {weights.url}.",
            (RANDOM,),
        )
    try:
        state: dict[str, torch.Tensor] = weights.get_state_dict(
            progress=False, check_hash=True, weights_only=True
        )
    except (URLError, ConnectionError, TimeoutError) as error:
        raise ModelError(
            f"The pretrained weights of {name} can't be downloaded",
            f"Hone asked {weights.url} and got: {error}. They are kept after the first download, so later runs need "
            "no network.",
            (RANDOM,),
        ) from error
    except RuntimeError as error:
        raise ModelError(f"The downloaded weights of {name} are damaged", str(error)) from error
    return state


def _is_here(url: str) -> bool:
    """Whether torch's cache has the file of this address."""
    return (Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]).is_file()


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
