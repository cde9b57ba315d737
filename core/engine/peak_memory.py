"""The most memory this process has held, in bytes."""

import sys

import psutil


def peak_bytes() -> int:
    """Peak of what the accelerator's allocator reserved, or of the resident set on a CPU."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_reserved())
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux kilobytes
