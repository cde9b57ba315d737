"""The program uv, which fills a GPU pack where Hone comes without a Python: which one, and out of its wheel."""

import os
import re
import shutil
import stat
import zipfile
from pathlib import Path

import msgspec

VERSION = "0.13.9"
INDEX = "https://pypi.org/pypi"

HASHES = {
    ("linux", "x86_64"): (
        "uv-0.13.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    ),
    ("linux", "aarch64"): (
        "uv-0.13.9-py3-none-manylinux_2_28_aarch64.whl",
        "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
    ),
    ("win32", "amd64"): (
        "uv-0.13.9-py3-none-win_amd64.whl",
        "6a44b2ed8111d2f60d2b92627c5dccda3f7ed7570b18ce115e569cd68c28246b",
    ),
}
"""By system and processor: the wheel's name, and the SHA-256 of it."""


class UvRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Fetch uv's wheel for this system and processor into this folder, where it isn't there yet."""

    folder: str
    system: str
    processor: str


class UvFetched(msgspec.Struct, frozen=True, kw_only=True):
    """Where the wheel lies now; it is the one whose hash is known."""

    path: str


def program_in(folder: Path) -> Path:
    """Where `unpack_uv` puts the program."""
    return folder / f"uv-{VERSION}" / ("uv.exe" if os.name == "nt" else "uv")


def is_new_enough(said: str) -> bool:
    """Whether a uv that prints this for --version isn't older than the one whose options are known."""
    found = re.match(r"uv (\d+)\.(\d+)\.(\d+)", said, re.ASCII)
    return found is not None and tuple(map(int, found.groups())) >= tuple(map(int, VERSION.split(".")))


def unpack_uv(wheel: Path, folder: Path) -> str:
    """Take the program out of uv's wheel; returns its path.

    Raises:
        OSError: It can't be read or written, or has no program in it.
    """
    target = program_in(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(wheel) as packed:
            name = next(name for name in packed.namelist() if name.endswith(f".data/scripts/{target.name}"))
            with packed.open(name) as source, target.with_suffix(".part").open("wb") as file:
                shutil.copyfileobj(source, file)
    except (zipfile.BadZipFile, StopIteration) as error:
        raise OSError(f"{wheel} is damaged (invalid zip)") from error
    part = target.with_suffix(".part")
    part.chmod(part.stat().st_mode | stat.S_IXUSR)
    part.replace(target)
    return str(target)
