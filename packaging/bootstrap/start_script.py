"""The script that starts a bundle on Linux, told which C library the bundle needs: one as new as where it was built."""

from __future__ import annotations

from pathlib import Path

from bootstrap import shared_libraries
from bootstrap.errors import SetupError

NAME = "start-hone.sh"

SYSTEMS = {
    "Ubuntu": {"22.04": 35, "24.04": 39},
    "Debian": {"12": 36, "13": 41},
    "Fedora": {str(number): number - 1 for number in range(35, 44)},
    "RHEL": {"9": 34, "10": 39},
}
"""The minor version of glibc 2 that some systems came with, the oldest first."""


def put_into(folder: Path, template: Path) -> Path:
    """Write the script beside a bundle's program; returns where it is.

    Args:
        folder: The bundle's.
        template: The script as it is kept.

    Raises:
        SetupError: The bundle needs a C library that no Linux has.
    """
    needed = shared_libraries.glibc_needed(shared_libraries.elf_files(folder))
    script = folder / NAME
    script.write_text(filled(template.read_text(encoding="utf-8"), needed), encoding="utf-8", newline="\n")
    script.chmod(0o755)
    return script


def filled(text: str, needed: tuple[int, ...]) -> str:
    """The script's text with the version in it, such as (2, 35), and with what systems have it.

    Raises:
        SetupError: It isn't a version of glibc 2, the only ones there are.
    """
    if len(needed) != 2 or needed[0] != 2:
        raise SetupError(f"The bundle asks for glibc {'.'.join(map(str, needed))}, which isn't known here.")
    return text.replace("@OLDEST@", str(needed[1])).replace("@SYSTEMS@", systems_with(needed[1]))


def systems_with(minor: int) -> str:
    """The first of each kind of system that came with glibc 2.`minor` or a newer one, as in a sentence."""
    first = (
        next((f"{name} {version}" for version, has in versions.items() if has >= minor), "")
        for name, versions in SYSTEMS.items()
    )
    return ", ".join(name for name in first if name)
