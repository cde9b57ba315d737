"""Which NVIDIA GPU a run gets: one numbering for the form, the engine and the figures.

GPUs are numbered by slot, as the driver does, among those the person left visible. PyTorch alone would number them by
speed, and wrap a model in DataParallel where it sees several.
"""

import os
from collections.abc import MutableMapping


def number_by_slot(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have CUDA count GPUs as the driver does; to be set before torch is imported."""
    environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"


def gpu_for(device: str, visible: str | None) -> str:
    """The one GPU that a run on `device` may see.

    Args:
        device: As in `device.name`: `auto`, `cuda`, `cuda:1`, `mps`, `cpu`.
        visible: CUDA_VISIBLE_DEVICES as the person set it, None where unset: `cuda:1` is the second of these.

    Returns:
        Its number or UUID, as CUDA_VISIBLE_DEVICES takes it; empty where the run may see none.
    """
    if device in ("cpu", "mps"):
        return ""
    index = int(device.removeprefix("cuda:")) if device.startswith("cuda:") else 0
    if visible is None:
        return str(index)
    listed = [name.strip() for name in visible.split(",") if name.strip()]
    return listed[index] if index < len(listed) else ""
