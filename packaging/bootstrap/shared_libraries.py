"""Which shared libraries the files of a Linux bundle take from the system, and the Debian packages that hold them."""

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

OPTIONAL = re.compile(r"^lib(c10_cuda|torch_cuda|cuda|nvidia|gtk-3|gdk-3)[.-]")
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
            "Name them in packaging/bootstrap/shared_libraries.py."
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
