"""An image as it is, and as the model will see it: two small PNG files for a person to compare."""

from dataclasses import dataclass
from io import BytesIO
from typing import Any

from core.engine.data.image_opening import UNREADABLE, explained, opened
from core.engine.data.image_sets import EncodedImages, ImagePixels, LabelledImages, damaged_image
from core.engine.data.image_transform import ImageTransform, as_rgb, decode_small

SIDE = 256
"""Pixels, at most, of either side."""


@dataclass(frozen=True)
class ImagePreview:
    """PNG files: what the model sees, and what it is made from. `width` and `height` are the original's, in pixels."""

    seen: bytes
    original: bytes
    width: int
    height: int


def preview(images: LabelledImages, index: int, transform: ImageTransform, side: int = SIDE) -> ImagePreview:
    """Show one image before and after its transform; only that one is read.

    Args:
        images: From `find_images(..., open_all=False)`.
        index: Which of them.
        transform: The one training will use: its size, mean and spread.
        side: No PNG gets wider or higher.

    Raises:
        DataError: The image can't be read.
    """
    if isinstance(images, EncodedImages):
        encoded = images.encoded(index)
        try:
            with opened(encoded) as image:
                width, height = image.size
                decode_small(image, 2 * max(side, transform.size))
                seen = transform.from_pil(image)
                return ImagePreview(
                    seen_png(transform, seen, side), _png(_original(image), side), width, height
                )
        except UNREADABLE as error:
            raise damaged_image(images.where(index), explained(encoded, error)) from error
    assert isinstance(images, ImagePixels), "images are stored, or in memory"
    pixels = images.pixels[index % len(images.pixels)]
    height, width = pixels.shape[-2:]
    seen = transform.from_pixels(pixels)
    return ImagePreview(seen_png(transform, seen, side), _png(_from_pixels(pixels), side), width, height)


def seen_png(transform: ImageTransform, pixel_values: Any, side: int = SIDE) -> bytes:
    """A PNG file of what the model sees: floats [3, size, size], normalised by `transform`."""
    return _png(_from_pixels(transform.shown(pixel_values)), side)


def _from_pixels(pixels: Any) -> Any:
    from PIL import Image

    values = pixels.permute(1, 2, 0).numpy()
    return Image.fromarray(values[:, :, 0] if values.shape[-1] == 1 else values)


def _original(image: Any) -> Any:
    """As an image viewer shows it; it stands upright since it was transformed."""
    has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    return image.convert("RGBA") if has_alpha else as_rgb(image)


def _png(image: Any, side: int) -> bytes:
    image.thumbnail((side, side))
    written = BytesIO()
    image.save(written, "PNG")
    return written.getvalue()
