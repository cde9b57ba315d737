"""What holds for the whole training process: threads, determinism, and how CUDA multiplies fp32 numbers."""

from dataclasses import dataclass

import torch

from core.options import RunOptions


def apply(settled: RunOptions) -> None:
    """Set the threads that compute on the CPU. Trainer sets the other two, from its own arguments."""
    if settled.device.threads is not None:
        torch.set_num_threads(settled.device.threads)


@dataclass(frozen=True)
class ProcessRan:
    """The live settings, in the words of `WhatRan`. `matmul` is empty where the device has one way only."""

    threads: int
    matmul: str
    deterministic: bool


def process_ran(kind: str) -> ProcessRan:
    """Read torch's settings for a device of this kind (`cuda`, `mps`, `cpu`).

    Since torch 2.9 `fp32_precision` is what counts ("none" is fp32); the older `allow_tf32` may contradict it.

    Full determinism means more on a GPU than on a CPU: most CPU kernels give the same bits every time as it is, for one
    number of threads; it takes deterministic kernels for the few others, such as scattered additions, and fills fresh
    memory (https://docs.pytorch.org/docs/stable/notes/randomness.html).
    """
    matmul = ""
    if kind == "cuda":
        matmul = "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "fp32"
    return ProcessRan(
        threads=torch.get_num_threads(),
        matmul=matmul,
        deterministic=torch.are_deterministic_algorithms_enabled(),
    )
