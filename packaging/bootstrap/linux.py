"""What a Linux bundle needs of the system: shared libraries, their Debian packages, and the oldest C library."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from bootstrap.errors import SetupError
from bootstrap.system_libraries import ALWAYS, ON_WAYLAND, ON_X11

ELF = b"\x7fELF"
AT_ONCE = 100
"""Files that objdump, which PyInstaller needs as well, is given at a time."""

C_LIBRARY = "libc6"
OF_C_LIBRARY = re.compile(
    r"^(ld-linux[\w.-]*|lib(c|m|dl|rt|pthread|util|resolv|nsl|anl|BrokenLocale))\.so\.\d+$"
)
OTHERS = {
    "libgcc_s.so.1": "libgcc-s1",
    "libstdc++.so.6": "libstdc++6",
    "libz.so.1": "zlib1g",
    "libX11.so.6": "libx11-6",
    "libXext.so.6": "libxext6",
    "libxcb.so.1": "libxcb1",
    "libdrm.so.2": "libdrm2",
    "libgbm.so.1": "libgbm1",
    "libfreetype.so.6": "libfreetype6",
    "libICE.so.6": "libice6",
    "libSM.so.6": "libsm6",
    "libGLX.so.0": "libglx0",
    "libOpenGL.so.0": "libopengl0",
    "libgio-2.0.so.0": "libglib2.0-0",
    "libgobject-2.0.so.0": "libglib2.0-0",
    "libwayland-egl.so.1": "libwayland-egl1",
    "libwayland-server.so.0": "libwayland-server0",
    "libgomp.so.1": "libgomp1",
}
PACKAGES = {**ALWAYS, **ON_WAYLAND, **ON_X11, **OTHERS}
"""By the name of the file."""

OPTIONAL = re.compile(r"^lib(c10_cuda|torch_cuda|cuda|cudart|nvidia|gtk-3|gdk-3)[.-]")
"""Asked for by what is left alone where it doesn't load: torchvision's parts for NVIDIA cards, GTK's look."""


def debian_packages(folder: Path) -> list[str]:
    """The packages a bundle takes libraries from, in order, the C library with the oldest version that will do.

    Raises:
        SetupError: A library is taken from the system, and its package isn't known here.
    """
    files = list(elf_files(folder))
    packages, unknown = packages_of(taken_from_system(folder, files))
    if unknown:
        raise SetupError(
            f"The bundle takes libraries from the system whose packages aren't known: {', '.join(unknown)}. "
            "Name them in packaging/bootstrap/linux.py."
        )
    needed = ".".join(str(number) for number in glibc_needed(files))
    return [f"{C_LIBRARY} (>= {needed})", *sorted(packages - {C_LIBRARY})]


def packages_of(libraries: Iterable[str]) -> tuple[set[str], list[str]]:
    """The packages that hold some libraries, and the libraries of which nobody knows."""
    found: set[str] = set()
    unknown = []
    for name in sorted(libraries):
        if OF_C_LIBRARY.match(name):
            found.add(C_LIBRARY)
        elif name in PACKAGES:
            found.add(PACKAGES[name])
        elif not OPTIONAL.match(name):
            unknown.append(name)
    return found, unknown


def taken_from_system(folder: Path, files: list[Path]) -> set[str]:
    """The libraries that a bundle's files name and that are not among them.

    The program itself takes all from the system: it is loaded before it can say where its own libraries lie.
    """
    own = {file.name for file in files}
    programs = [file for file in files if file.parent == folder]
    return (needed_by(files) - own) | needed_by(programs)


def elf_files(folder: Path) -> Iterator[Path]:
    """Every program and shared library in a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and (path.suffix in ("", ".so") or ".so." in path.name):
            with path.open("rb") as file:
                if file.read(len(ELF)) == ELF:
                    yield path


def needed_by(files: list[Path]) -> set[str]:
    """The names of the libraries that files are linked with."""
    found: set[str] = set()
    for start in range(0, len(files), AT_ONCE):
        part = [str(file) for file in files[start : start + AT_ONCE]]
        said = subprocess.run(
            ["objdump", "-p", *part], capture_output=True, text=True, errors="replace", check=False
        )
        found |= set(re.findall(r"^\s*NEEDED\s+(\S+)", said.stdout, re.MULTILINE))
    return found


def glibc_needed(files: Iterable[Path]) -> tuple[int, ...]:
    """The newest version of the C library's symbols that the files name, such as (2, 34)."""
    newest: tuple[int, ...] = (2, 17)
    for file in files:
        for version in re.findall(rb"GLIBC_(\d+\.\d+)\x00", file.read_bytes()):
            newest = max(newest, tuple(int(part) for part in version.split(b".")))
    return newest


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
    needed = glibc_needed(elf_files(folder))
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
