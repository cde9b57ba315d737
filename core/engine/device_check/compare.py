"""Two computations of the same thing side by side, and how far apart what they give is."""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

SEED = 20240229

Tensors = dict[str, torch.Tensor]
"""What a computation gave, by names a person can read."""


@dataclass(frozen=True)
class Side:
    """Where one of the two computations takes place.

    `device` is torch's name (`cpu`, `mps`, `cuda:0`), `title` the name for people. `threads` is how many of the CPU's
    threads compute. The reference computes half-precision questions in fp32, the candidate in half precision.
    """

    device: str
    title: str
    threads: int
    is_reference: bool = False

    @property
    def kind(self) -> str:
        """`cuda`, `mps` or `cpu`."""
        return self.device.partition(":")[0]

    def compute(self, probe: "Probe") -> Tensors:
        """What `probe` gives here, on the CPU and in float32, its random numbers the same on every side.

        Raises:
            RuntimeError: torch can't compute it here; TypeError and ValueError likewise.
        """
        with _same_random_numbers(), _threads(self.threads), _full_float32(self.kind):
            found = probe(self)
            # first moved, then converted: MPS has no float64, and half precision is widened exactly
            return {name: value.detach().to("cpu").to(torch.float32) for name, value in found.items()}


Probe = Callable[[Side], Tensors]
"""Computes something on a side: builds its model on the CPU, with torch's random numbers, and moves it there."""


@dataclass(frozen=True)
class Difference:
    """The largest relative error of all tensors, and the tensor it is in; infinite where a value is no number."""

    error: float
    tensor: str


def difference(reference: Tensors, candidate: Tensors) -> Difference:
    """The worst of the relative errors of the tensors of the same name.

    Raises:
        ValueError: The two don't hold the same tensors.
    """
    if reference.keys() != candidate.keys() or not reference:
        raise ValueError(f"{sorted(candidate)} can't be compared with {sorted(reference)}")
    errors = {name: relative_error(value, candidate[name]) for name, value in reference.items()}
    worst = max(errors, key=lambda name: errors[name])
    return Difference(errors[worst], worst)


def relative_error(reference: torch.Tensor, candidate: torch.Tensor) -> float:
    """The largest absolute difference, as a share of the reference's largest absolute value.

    A share of the whole tensor's size and not of each value's: where large terms cancel out, a value near zero is
    rounding noise, and its own relative error says nothing.

    Args:
        reference: Any shape.
        candidate: The same shape.

    Returns:
        Infinity where either holds a value that is infinite or no number; the absolute difference where the reference
        is all zeros.
    """
    if not (torch.isfinite(reference).all() and torch.isfinite(candidate).all()):
        return math.inf
    worst = (reference - candidate).abs().max().item()
    scale = reference.abs().max().item()
    return worst / scale if scale else worst


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """The CPU's random numbers from a fixed seed, and afterwards as they were.

    `torch.manual_seed` would set every device's: a run that checks its device first shall train as if it hadn't.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        yield


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _full_float32(kind: str) -> Iterator[None]:
    """Keep cuDNN's convolutions from TF32, their default, whose 10 bits would be found as errors of 1e-3.

    Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
    """
    if kind != "cuda":
        yield
        return
    convolutions = torch.backends.cudnn.conv
    before = convolutions.fp32_precision
    convolutions.fp32_precision = "ieee"
    try:
        yield
    finally:
        convolutions.fp32_precision = before
