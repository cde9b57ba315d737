"""What a traced run holds beside its tensors: libraries and data, a GPU's context, what the allocator has unused."""

import psutil

from core.base.errors import DataError
from core.memory.overhead import CUDA_CONTEXT, FIRST_USE, MPS_DRIVER
from core.options import RunOptions

TEXT_COPIES = 3
"""Bytes for each byte of the texts: the texts themselves, what Arrow keeps of reading them, and their tokens (6 bytes
a token of about 4 letters: ids in 32 bits, masks and types in 8)."""


def libraries_bytes(options: RunOptions) -> int:
    """What this process holds with the libraries a run imports, before there is any model or data.

    The process that trains imports the same, so this is measured rather than estimated.
    """
    from core.engine.train import load_libraries

    load_libraries(options)
    return int(psutil.Process().memory_info().rss)


def overhead_bytes(kind: str, libraries: int, data: int) -> int:
    """All that stands beside what the allocator holds.

    Args:
        kind: `cuda`, `mps` or `cpu`.
        libraries: What the process holds before model and data.
        data: What it holds of the data; it counts where the device's memory is the process's.
    """
    process = libraries + FIRST_USE + data
    return {"cuda": CUDA_CONTEXT, "mps": process + MPS_DRIVER}.get(kind, process)


def data_bytes(options: RunOptions, text_bytes: int) -> int:
    """What a run holds of its data all the time."""
    if options.task.reads_text:
        return TEXT_COPIES * text_bytes
    try:
        return _image_bytes(options)
    except DataError:
        return 0


def _image_bytes(options: RunOptions) -> int:
    """Pixels that are kept in memory, resized at once where a run does so; images in files are read one by one."""
    from core.engine.data.image_files import RESIZED_AT_ONCE_BYTES, ImagePixels
    from core.engine.data.images import find_images

    if not options.data.train:
        return 0
    columns = (options.data.image_column, options.data.label_column)
    found = find_images(options.data.train, 0, *columns, open_all=False)
    total = 0
    for part in (found.train, found.eval):
        if isinstance(part, ImagePixels):
            resized = len(part.pixels) * part.pixels.shape[1] * options.data.image_size**2
            total += resized if resized <= RESIZED_AT_ONCE_BYTES else part.pixels.nbytes
    return total
