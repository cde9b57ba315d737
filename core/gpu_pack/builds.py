"""Which build of PyTorch an NVIDIA card and its driver can run.

From NVIDIA's and PyTorch's documentation: CUDA 13 left cards before Turing behind, and asks for driver 580; programs of
CUDA 12 run from driver 525 on (https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).
PyTorch's cu126 build has no code for Blackwell. None of it was tried on such cards.
"""

INDEX = "https://download.pytorch.org/whl/"
"""PyTorch's own index, a folder a build."""

CUDA_13, CUDA_12 = "cu130", "cu126"
OLDEST_OF_CUDA_13 = (7, 5)
NEWEST_OF_CUDA_12 = (9, 0)
DRIVER_OF_CUDA_13 = 580
DRIVER_OF_CUDA_12 = 525


def build_for(capability: tuple[int, int] | None, driver: int | None) -> str:
    """The name of the build; empty: the driver is too old for any that knows the card.

    Args:
        capability: The card's compute capability; None: not known, which counts as that of a recent one.
        driver: The first number of the driver's version; None: not known, which counts as a recent one.
    """
    has_13 = capability is None or capability >= OLDEST_OF_CUDA_13
    has_12 = capability is not None and capability <= NEWEST_OF_CUDA_12
    if has_13 and (driver is None or driver >= DRIVER_OF_CUDA_13):
        return CUDA_13
    if has_12 and (driver is None or driver >= DRIVER_OF_CUDA_12):
        return CUDA_12
    return ""


def driver_wanted(capability: tuple[int, int] | None) -> int:
    """The oldest driver with which a card can be used, by its first number."""
    is_new = capability is None or capability > NEWEST_OF_CUDA_12
    return DRIVER_OF_CUDA_13 if is_new else DRIVER_OF_CUDA_12


def index_of(build: str) -> str:
    """The address of the index with this build."""
    return INDEX + build
