"""What a GPU pack needs: the libraries of Hone but those of its window, each at the version it is pinned to."""

import re
import sys
from pathlib import Path

from core.errors import UserError
from core.gpu_pack.pack import Needs
from core.processes import SOURCE_ROOT, is_frozen

OF_THE_WINDOW = frozenset({"pyqtgraph", "pyside6-essentials", "send2trash", "wakepy"})
OF_PYTORCH = frozenset({"torch", "torchvision"})
"""What PyTorch's own index has in a build for each CUDA; their names there end with it: `torch==2.13.0+cu130`."""


def needs(build: str) -> Needs:
    """What a pack of this Hone is filled with.

    Args:
        build: The build of PyTorch, such as cu130; empty: any that a folder of wheels holds.

    Raises:
        UserError: This Hone came without the list of its libraries.
    """
    from importlib import metadata  # takes a moment, which the window needn't wait for

    try:
        asked = metadata.requires("hone") or []
        pins = _pins_file().read_text(encoding="utf-8").splitlines()
    except (metadata.PackageNotFoundError, OSError) as error:
        raise UserError("This Hone doesn't say which libraries it needs", str(error)) from error
    lines = [line for line in asked if "extra ==" not in line and name_of(line) not in OF_THE_WINDOW]
    requirements = tuple(_built(line, build) for line in lines)
    kept = tuple(
        line for line in pins if line and not line.startswith("#") and name_of(line) not in OF_PYTORCH
    )
    major, minor = sys.version_info[:2]
    return Needs(python=f"{major}.{minor}", build=build, requirements=requirements, pins=kept)


def name_of(line: str) -> str:
    """The name of the library that a line is about, as indexes compare names."""
    found = re.match(r"[\w.-]+", line, re.ASCII)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def _built(line: str, build: str) -> str:
    """A requirement, of PyTorch in this build and no other: another index may have the same version without CUDA."""
    return f"{line}+{build}" if build and name_of(line) in OF_PYTORCH else line


def _pins_file() -> Path:
    """The pins; packaging/hone.spec puts them beside Hone's own source in a bundle."""
    folder = "pins" if is_frozen() else "packaging"
    return SOURCE_ROOT / folder / "constraints.txt"
