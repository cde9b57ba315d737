"""Photographs that look the same, or nearly: the same one in another size or compression, or the next of a burst."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageOps

LEAST_SIDE = 64
"""Pixels; smaller images, such as digits, are alike without being the same."""
SIDE = 16
"""The look of an image is the differences between neighbours among this many times this many pixels."""
LEAST_STEP = 6
"""Levels of 255; smaller differences are those of an even background, or of the compression."""
LEAST_STEPS = 80
"""Out of 512; drawings and things on a plain background have fewer, and are alike without being the same."""
MOST_DIFFERENT = 0.12
"""Share of the differences of two images that are in one of them only."""
LEAST_CORRELATION = 0.99
"""Correlation of the 32 x 32 pixels of images with similar looks, which 3 of 180 enlarged digits have by chance."""
MOST_STRETCHED = 1.05
"""How much longer, for its width, one of two images may be: a copy in another size has the same shape."""
WORDS = 2 * SIDE * SIDE // 64
"""64 bits each of a look: a bit for each pixel that is brighter than its neighbour, and for each that is darker."""


def look_of(image: Any) -> bytes:
    """Returns the look of a PIL image, which it decodes; empty for one that is too small, or has too little on it.

    A difference hash, as D. Krawetz describes it ("Kind of Like That", 2013), with a third state for no difference.
    """
    if min(image.size) < LEAST_SIDE:
        return b""
    steps = np.diff(_grey(image, (SIDE + 1, SIDE)).astype(np.int16), axis=1)
    bits = np.stack([steps > LEAST_STEP, steps < -LEAST_STEP])
    return np.packbits(bits).tobytes() if bits.sum() >= LEAST_STEPS else b""


def _grey(image: Any, size: tuple[int, int]) -> Any:
    """Decodes a PIL image, upright, as an array of grey levels."""
    image.draft("L", (4 * SIDE, 4 * SIDE))  # a JPEG is decoded at a fraction of its size
    ImageOps.exif_transpose(image, in_place=True)
    return np.asarray(image.convert("L").resize(size, Image.Resampling.BOX))


def are_alike(one: Any, other: Any) -> bool:
    """Returns whether two PIL images with similar looks are similar themselves."""
    pixels = [_grey(image, (2 * SIDE, 2 * SIDE)).ravel() for image in (one, other)]
    flat, tall = sorted(image.width / image.height for image in (one, other))  # upright by now
    return tall / flat <= MOST_STRETCHED and bool(np.corrcoef(pixels)[0, 1] >= LEAST_CORRELATION)


def pairs_alike(looks: Sequence[bytes], others: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yields the places in `looks` of those like one of `others`, each with the place of the most similar one."""
    known = [place for place, look in enumerate(others) if look]
    if not known:
        return
    table = np.frombuffer(b"".join(others[place] for place in known), np.uint64).reshape(-1, WORDS)
    for place, look in enumerate(looks):
        if not look:
            continue
        one = np.frombuffer(look, np.uint64)
        different = np.bitwise_count(table ^ one).sum(1)
        share = different / np.bitwise_count(table | one).sum(1)
        best = int(share.argmin())
        if share[best] <= MOST_DIFFERENT:
            yield place, known[best]
