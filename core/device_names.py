"""What devices are called on screen."""

DEVICE_KINDS = {"cuda": "CUDA", "mps": "MPS", "cpu": "CPU"}


def device_title(name: str) -> str:
    """A device's kind and, where it has one, its number: `CUDA 1`; a name of no known kind stays as it is."""
    kind, _, index = name.partition(":")
    return f"{DEVICE_KINDS[kind]} {index}".rstrip() if kind in DEVICE_KINDS else name
