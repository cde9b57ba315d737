"""What `model.source`, `data.train` and `data.eval` may say in place of a path.

Data: `builtin:digits`, `synthetic:512x128`, `synthetic:512x64-128` (texts of 64 to 128 tokens), `hub:OWNER/NAME` or
`hub:OWNER/NAME/SUBSET`. Models: `torchvision:resnet18`, `scratch:NAME` (a small model from nothing), `run:NAME` (the
model of a past run).

Every scheme and every rule of reading one stands here and nowhere else.
"""

from enum import StrEnum
from pathlib import Path

DIGITS = "builtin:digits"


class Scheme(StrEnum):
    """What stands before the colon."""

    BUILTIN = "builtin"
    SYNTHETIC = "synthetic"
    TORCHVISION = "torchvision"
    HUB = "hub"
    SCRATCH = "scratch"
    RUN = "run"

    def name_of(self, source: str) -> str | None:
        """What follows this scheme in `source`; None where `source` is something else."""
        return source.removeprefix(f"{self}:") if source.startswith(f"{self}:") else None

    def of(self, name: str) -> str:
        """The source with this scheme, such as `torchvision:resnet18`."""
        return f"{self}:{name}"


def scheme_of(source: str) -> Scheme | None:
    """The scheme of a source; None for a path or an id on the Hub."""
    head, colon, _ = source.partition(":")
    return Scheme(head) if colon and head in list(Scheme) else None


def unknown_scheme(source: str) -> str:
    """What stands before the colon of a source that isn't a path and has no known scheme; empty for all others."""
    head, colon, _ = source.partition(":")
    is_plain = colon and len(head) > 1 and head.isalpha() and not Path(source).is_absolute()
    return head if is_plain and scheme_of(source) is None else ""


def hub_data(name: str) -> tuple[str, str]:
    """The data set and its subset, empty for the first, of what follows `hub:`: OWNER/NAME or OWNER/NAME/SUBSET."""
    parts = name.split("/", 2)
    return "/".join(parts[:2]), parts[2] if len(parts) == 3 else ""


def parse_synthetic(source: str) -> tuple[int, int] | None:
    """Samples and length of `synthetic:512x128`, of `synthetic:512x64-128` the longest; None where it isn't that."""
    found = _parse_synthetic(source)
    return (found[0], found[2]) if found else None


def synthetic_lengths(source: str) -> tuple[int, int] | None:
    """The fewest and the most tokens of random samples, which may be the same; None where `source` isn't such."""
    found = _parse_synthetic(source)
    return found[1:] if found else None


def _parse_synthetic(source: str) -> tuple[int, int, int] | None:
    """Samples, shortest and longest."""
    samples, _, length = (Scheme.SYNTHETIC.name_of(source) or "").partition("x")
    shortest, dash, longest = length.partition("-")
    parts = (samples, shortest, longest if dash else shortest)
    if not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):
        return None
    found = (int(parts[0]), int(parts[1]), int(parts[2]))
    return found if found[0] > 0 and 0 < found[1] <= found[2] else None


def synthetic(samples: int, length: int, shortest: int | None = None) -> str:
    """The source of so many random samples, each of so many tokens or pixels, or of `shortest` to `length`."""
    lengths = str(length) if shortest in (None, length) else f"{shortest}-{length}"
    return Scheme.SYNTHETIC.of(f"{samples}x{lengths}")


def short_name(source: str) -> str:
    """What follows the scheme, or the last part of a path or id; a folder called `model` goes by the one it lies in."""
    scheme = scheme_of(source)
    if scheme in (None, Scheme.RUN):  # a run may be named by its path
        path = Path(source.removeprefix(f"{Scheme.RUN}:"))
        return path.parent.name if path.is_absolute() and path.name == "model" else path.name
    return scheme.name_of(source) or source
