"""Which build of PyTorch fits the graphics card, and how much room it takes.

PyPI's torch has Metal on a Mac, CUDA 13.0 on Linux and only the CPU on Windows; other builds come from PyTorch's own
index. Written from its documentation: it has not run on Windows or on a card before Turing.
"""

from __future__ import annotations

import os
import subprocess
import sys

from core.base import uv

CPU_INDEX = "https://download.pytorch.org/whl/cpu/"
PROBE_SECONDS = 20

GB = 10**9
DISK_NEEDED = 3 * GB
"""Bytes that Hone's libraries take with PyTorch's CPU or Metal build, and the downloads while they are installed."""
DISK_NEEDED_WITH_CUDA = 8 * GB
"""The same with a CUDA build: 6 GB installed, 1.7 GB of downloads."""


def torch_backend(for_bundle: bool, system: str = sys.platform) -> str:
    """The value of uv's `--torch-backend`; empty where the package index has the right build or the only one in reach.

    Args:
        for_bundle: Whether it is for building programs, which carry the build for the CPU, whatever card there is.
        system: As in `sys.platform`.
    """
    chosen = os.environ.get("UV_TORCH_BACKEND", "")
    if chosen or system == "darwin":
        return chosen
    capability = None if for_bundle else compute_capability()
    wanted = "cpu" if capability is None else uv.torch_backend(capability)
    return wanted if wanted == uv.BEFORE_TURING or reaches(CPU_INDEX) else ""


def disk_needed(backend: str, system: str = sys.platform) -> int:
    """Free bytes it takes to install everything; on Linux PyPI's torch brings CUDA along with or without a card."""
    is_small = backend == "cpu" or (not backend and not system.startswith("linux"))
    return DISK_NEEDED if is_small else DISK_NEEDED_WITH_CUDA


def reaches(address: str) -> bool:
    """Whether an address answers: some networks reach a package index and nothing else."""
    try:
        uv.read(address)
    except OSError:
        return False
    return True


def compute_capability() -> tuple[int, int] | None:
    """Compute capability of the NVIDIA card, such as (8, 6); None without one or without its driver."""
    try:
        answer = subprocess.run(
            uv.CAPABILITY_QUERY.split(), capture_output=True, text=True, timeout=PROBE_SECONDS, check=True
        )
        return uv.capability_of(answer.stdout)
    except (OSError, subprocess.SubprocessError):
        return None
