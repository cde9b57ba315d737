"""The .deb package of a Linux bundle: its folder, a menu entry, an icon, the type of run files, `hone` in the path."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import about
from bootstrap.errors import SetupError

SHOWN = 12
"""How many of the largest parts are listed."""

MB = 1e6


def size_of(path: Path) -> int:
    """Bytes of a file, or of everything in a folder; links count nothing."""
    if path.is_symlink():
        return 0
    if path.is_file():
        return path.stat().st_size
    return sum(
        file.lstat().st_size
        for folder, _, names in os.walk(path)
        for file in (Path(folder) / name for name in names)
        if not file.is_symlink()
    )


def largest_parts(folder: Path, shown: int = SHOWN) -> list[tuple[str, int]]:
    """Name and bytes of the largest things in a folder, largest first, and of all the others together."""
    sizes = sorted(((entry.name, size_of(entry)) for entry in folder.iterdir()), key=lambda part: -part[1])
    rest = sizes[shown:]
    return sizes[:shown] + ([(f"{len(rest)} others", sum(size for _, size in rest))] if rest else [])


def table(folder: Path, shown: int = SHOWN) -> str:
    """The largest parts of a bundle and the sum, a line each."""
    whole = size_of(folder)
    inner = folder / "_internal"
    parts = largest_parts(inner if inner.is_dir() else folder, shown)
    if inner.is_dir():
        parts.append(("the programs themselves", whole - size_of(inner)))
    rows = [*parts, ("all of it", whole)]
    return "\n".join(f"  {size / MB:8,.1f} MB  {size / whole:4.0%}  {name}" for name, size in rows)


PLACE = Path("opt/hone")
"""Where Debian wants programs that don't come from Debian."""

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
COMPRESSION = ("-Zzstd", "-z12")
"""What Debian 12 and Ubuntu 22.04 can unpack. Level 19 takes ten minutes of a core, not one, for a few percent."""


def can_build() -> bool:
    """Whether what makes packages is here."""
    return shutil.which("dpkg-deb") is not None


def build(root: Path, bundle: Path, target: Path, control: Callable[[int], str]) -> Path:
    """Make the package of a bundle's folder; returns `target`.

    Args:
        root: The checkout.
        bundle: The folder PyInstaller made.
        target: The file to write.
        control: Makes the package's description from the bytes it takes when it is installed.

    Raises:
        SetupError: dpkg-deb failed.
    """
    tree = root / "build" / "deb"
    shutil.rmtree(tree, ignore_errors=True)
    lay_out(root, bundle, tree)
    description = tree / "DEBIAN" / "control"
    description.parent.mkdir()
    description.write_text(control(size_of(tree)), encoding="utf-8")
    done = subprocess.run(
        ["dpkg-deb", "--root-owner-group", *COMPRESSION, "--build", str(tree), str(target)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    shutil.rmtree(tree)
    if done.returncode != 0:
        raise SetupError(f"dpkg-deb failed and said:\n{done.stderr.strip()}")
    return target


def lay_out(root: Path, bundle: Path, tree: Path) -> None:
    """Put everything where it goes below `tree`; files of the bundle are linked where that works, to save the room."""
    linux, icons = root / "packaging" / "linux", root / "packaging" / "icons"
    shutil.copytree(bundle, tree / PLACE, symlinks=True, copy_function=link)
    program = tree / "usr/bin/hone"
    program.parent.mkdir(parents=True)
    program.symlink_to(Path("/") / PLACE / "hone")
    _install(linux / "hone.desktop", tree / "usr/share/applications/hone.desktop")
    _install(linux / "hone-mime.xml", tree / "usr/share/mime/packages/hone.xml")
    themed = tree / "usr/share/icons/hicolor"
    _install(root / "resources/icons/hone.svg", themed / "scalable/apps/hone.svg")
    for icon in icons.glob("hone-*.png"):
        side = icon.stem.removeprefix("hone-")
        _install(icon, themed / f"{side}x{side}/apps/hone.png")
    _install(root / "NOTICE", tree / "usr/share/doc/hone/copyright")
    for folder, _, names in os.walk(tree):
        Path(folder).chmod(0o755)
        for name in names:
            _share(Path(folder) / name)


def control_text(version: str, machine: str, size: int, depends: list[str]) -> str:
    """The package's description for dpkg; `size` is what it takes when it is installed, in bytes."""
    fields = {
        "Package": "hone",
        "Version": version,
        "Architecture": ARCHITECTURES.get(machine, machine),
        "Maintainer": f"{about.PUBLISHER} <nobody@localhost>",
        "Installed-Size": str(-(-size // 1024)),
        "Depends": ", ".join(depends),
        "Section": "science",
        "Priority": "optional",
        "Description": about.SUMMARY.rstrip("."),
    }
    lines = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return (
        f"{lines} Hone trains language and image models on the computer it runs on, and shows loss,\n"
        " memory and time of every step while it does. It brings Python, PyTorch for the\n"
        " CPU, and Qt along. Runs and settings of a person are kept when it is removed.\n"
    )


def _install(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def link(source: str, target: str) -> str:
    """Give a file a second name, or copy it where that is on another disk; returns `target`."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _share(path: Path) -> None:
    """Let everybody read a file, and run it where it is a program; nobody but root may write."""
    if path.is_symlink():
        return
    is_program = path.stat().st_mode & 0o100
    path.chmod(0o755 if is_program else 0o644)
