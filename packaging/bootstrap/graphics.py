"""Which build of PyTorch fits the graphics card, and how much room it takes.

PyPI's torch has Metal on a Mac, CUDA 13.0 on Linux and only the CPU on Windows; other builds come from PyTorch's own
index (the builds of 2.13: CUDA 12.6, 12.9, 13.0 and 13.2, see pytorch issue 190355). CUDA 13 left the Maxwell, Pascal
and Volta cards behind, which need 12.6. Written from that documentation: it has not run on Windows or on such a card.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping

INDEX = "https://download.pytorch.org/whl/"
OLDEST_OF_CUDA_13 = 7.5
"""Compute capability of the Turing cards, the oldest that CUDA 13 knows."""
PROBE_SECONDS = 20

GB = 10**9
DISK_NEEDED = 3 * GB
"""Bytes that Hone's libraries take with PyTorch's CPU or Metal build, and the downloads while they are installed."""
DISK_NEEDED_WITH_CUDA = 8 * GB
"""The same with a CUDA build: 6 GB installed, 1.7 GB of downloads."""
CPU_INDEX = INDEX + "cpu"
OF_CPU = "+cpu"
"""How the versions of the CPU builds end that PyTorch's own index has."""


def index_arguments(system: str = sys.platform, capability: float | None = None) -> list[str]:
    """What pip needs to be told to find the right build; nothing where PyPI's is the right one."""
    build = cuda_build(system, capability if capability is not None else compute_capability(system))
    return ["--extra-index-url", INDEX + build] if build else []


def index_arguments_for_cpu(chosen: Callable[[], str], system: str = sys.platform) -> list[str]:
    """What pip needs to be told to find a build without CUDA, whatever card there is.

    Args:
        chosen: Asks pip which version of torch it would take by itself; asked on Linux only, where PyPI's has CUDA.
        system: As in `sys.platform`.
    """
    if system.startswith("linux") and not chosen().endswith(OF_CPU):
        return ["--extra-index-url", CPU_INDEX]
    return []


def cuda_build(system: str, capability: float | None) -> str:
    """The name of the build on PyTorch's index, empty for PyPI's; `capability` is None without an NVIDIA card."""
    if capability is None or system == "darwin":
        return ""
    if capability < OLDEST_OF_CUDA_13:
        return "cu126"
    return "cu130" if system == "win32" else ""


def disk_needed(
    system: str = sys.platform, capability: float | None = None, environ: Mapping[str, str] = os.environ
) -> int:
    """Free bytes it takes to install everything; `capability` is asked of the card where it isn't given.

    On Linux PyPI's torch brings CUDA along with or without a card, unless pip was told to look at PyTorch's CPU index.
    """
    if system == "darwin" or (system.startswith("linux") and _looks_at_cpu_index(environ)):
        return DISK_NEEDED
    if system.startswith("linux"):
        return DISK_NEEDED_WITH_CUDA
    build = cuda_build(system, capability if capability is not None else compute_capability(system))
    return DISK_NEEDED_WITH_CUDA if build else DISK_NEEDED


def _looks_at_cpu_index(environ: Mapping[str, str]) -> bool:
    asked = environ.get("PIP_INDEX_URL", "") + " " + environ.get("PIP_EXTRA_INDEX_URL", "")
    return any(index.rstrip("/") == CPU_INDEX for index in asked.split())


def compute_capability(system: str = sys.platform) -> float | None:
    """Compute capability of the first NVIDIA card, such as 8.6; None without one or without its driver."""
    if system == "darwin":
        return None
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=True,
        )
        return float(answer.stdout.split()[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
