"""Images that need no file: the digits that come with scikit-learn, and random ones."""

import torch

from core.engine.data.image_sets import FoundImages, ImagePixels

POOL_BYTES = 64 * 2**20


def digits() -> FoundImages:
    """The 1,797 handwritten digits of scikit-learn: scans of 8 x 8 pixels with 17 levels of grey.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998 (its test set).
    """
    from sklearn.datasets import load_digits

    bundled = load_digits()
    pixels = torch.from_numpy(bundled.images).mul(255 / 16).round().to(torch.uint8)
    names = [str(label) for label in bundled.target]
    return FoundImages(ImagePixels(pixels[:, None], names, "the digits"), "scikit-learn digits")


def synthetic(samples: int, size: int, seed: int) -> FoundImages:
    """Random colour images of `size` x `size` pixels in two classes, for timing.

    At most 64 MiB of them are drawn; more samples show the same images again, so that the data costs nothing.
    """
    drawn = max(1, min(samples, POOL_BYTES // (3 * size * size)))
    generator = torch.Generator().manual_seed(seed)
    pool = torch.randint(0, 256, (drawn, 3, size, size), dtype=torch.uint8, generator=generator)
    names = [str(number % 2) for number in range(samples)]
    return FoundImages(ImagePixels(pool, names, "the synthetic images"), "synthetic")
