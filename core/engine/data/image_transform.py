"""From an image as it lies on disk to the numbers a vision model takes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

Colours = tuple[float, float, float]
"""Red, green and blue."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""Red, green and blue of ImageNet's training images, 0 to 1: what torchvision's pretrained weights expect."""

LARGE_PIXELS = 16 * 2**20
"""Beyond it a JPEG is decoded at a half, a quarter or an eighth of its size: less memory, less time."""


@dataclass(frozen=True)
class ImageTransform:
    """Resizes to a square, makes three channels and normalises. `size` is in pixels."""

    size: int
    mean: Colours = IMAGENET_MEAN
    std: Colours = IMAGENET_STD

    def from_pil(self, image: Any) -> torch.Tensor:
        """A PIL image, turned upright as its EXIF says, as floats [3, size, size]."""
        from PIL import Image, ImageOps

        decode_small(image, 2 * self.size)
        ImageOps.exif_transpose(image, in_place=True)  # a copy would double what a large image takes
        upright = as_rgb(image)
        if upright.size != (self.size, self.size):
            upright = upright.resize((self.size, self.size), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(upright, dtype=np.uint8))
        return self.normalise(pixels.permute(2, 0, 1))

    def from_pixels(self, pixels: torch.Tensor) -> torch.Tensor:
        """Bytes [1 or 3, height, width] as floats [3, size, size]."""
        return self.normalise(resize(pixels[None], self.size)[0])

    def normalise(self, pixels: torch.Tensor) -> torch.Tensor:
        """Bytes [1 or 3, height, width] as floats [3, height, width] of about zero mean and unit deviation.

        The steps are those of torchvision's ToTensor and Normalize, in their order. NumPy takes them on one thread:
        torch would spread each over all cores and wait for them, while those are busy training.
        """
        scaled = pixels.numpy().astype(np.float32, order="C")
        scaled /= 255
        values = scaled - np.array(self.mean, np.float32)[:, None, None]
        values /= np.array(self.std, np.float32)[:, None, None]
        return torch.from_numpy(values)

    def shown(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """What the model sees as bytes [3, height, width] again, for a person to look at."""
        mean, std = (torch.tensor(values)[:, None, None] for values in (self.mean, self.std))
        return (pixel_values * std + mean).mul(255).round().clamp(0, 255).to(torch.uint8)


def decode_small(image: Any, side: int) -> None:
    """Have a large JPEG decoded with fewer pixels, `side` or more each way; others come as they are."""
    width, height = image.size
    if image.format == "JPEG" and width * height > LARGE_PIXELS:
        image.draft(None, (side, side))


def resize(pixels: torch.Tensor, size: int) -> torch.Tensor:
    """Resize bytes [samples, channels, height, width] to `size` x `size`, bilinear, antialiased as PIL does it."""
    if pixels.shape[-2:] == (size, size):
        return pixels
    return torch.nn.functional.interpolate(
        pixels, (size, size), mode="bilinear", antialias=True, align_corners=False
    )


def as_rgb(image: Any) -> Any:
    """Three channels of a byte each; PIL's own conversion clips 16-bit greyscale instead of scaling it.

    Transparency is left out, as torchvision and transformers do: the colours beneath it are seen.
    """
    if image.mode == "RGB":
        image.load()
        return image
    if image.mode.startswith("I"):
        from PIL import Image

        values = np.asarray(image).astype(np.float64) / 257  # 65,535 / 255
        image = Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
    return image.convert("RGB")
