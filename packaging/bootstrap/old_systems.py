"""Systems that are too old for the libraries' wheels: uv would only say that it found none."""

from __future__ import annotations

import os
import platform
import sys

OLDEST_MACOS = (14, 0)
OLDEST_GLIBC = (2, 34)
"""By the wheels' own tags: macosx_14_0 of torch, manylinux_2_34 of PySide6."""


def why_not(system: str = sys.platform, mac: str | None = None, libc: str | None = None) -> str:
    """Why Hone can't be set up on this system and what to do; empty where it can.

    Args:
        system: As in `sys.platform`.
        mac: The version of macOS, such as `14.5`; empty: not known.
        libc: The C library of a Linux, such as `glibc 2.36`; empty: another one than glibc.
    """
    if system == "darwin":
        found = _numbers(platform.mac_ver()[0] if mac is None else mac)
        if found and found < OLDEST_MACOS:
            return (
                f"This Mac has macOS {_dotted(found)}, and Hone's libraries need macOS {OLDEST_MACOS[0]} or newer.\n"
                "Update it in System Settings > General > Software Update, then start again."
            )
    if system.startswith("linux"):
        return _of_linux(c_library() if libc is None else libc)
    return ""


def c_library() -> str:
    """The C library of this Linux, such as `glibc 2.36`; empty where it is none of GNU's."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        return ""


def _of_linux(libc: str) -> str:
    name, _, version = libc.partition(" ")
    needed = "Ubuntu 22.04, Debian 12, Fedora 35, RHEL 9 or newer has it."
    if name != "glibc":
        return (
            "This Linux has another C library than GNU's (such as musl, in Alpine), for which PyTorch and Qt aren't "
            f"made; Hone needs glibc {_dotted(OLDEST_GLIBC)}. {needed}"
        )
    if _numbers(version) < OLDEST_GLIBC:
        return f"This Linux has glibc {version}, and Hone's libraries need glibc {_dotted(OLDEST_GLIBC)}.\n{needed}"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in numbers)
