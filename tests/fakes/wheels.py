"""Folders of wheels that a GPU pack can be made of: a torch that only says its version, or what is installed here."""

import base64
import hashlib
import zipfile
from importlib import metadata
from pathlib import Path

import msgspec

from core.base.jobs import Needs, name_of

VERSION = "2.13.0"
TORCH = """
__version__ = "{version}"


class version:
    cuda = {cuda!r}


class cuda:
    @staticmethod
    def is_available():
        return False
"""
TINY = Needs(python="3.11", build="", requirements=(f"torch=={VERSION}",), pins=("numpy==2.4.6",))


def write_wheel(
    folder: Path, name: str, version: str, files: dict[str, bytes], requires: tuple[str, ...] = ()
) -> Path:
    """A pure wheel with these files; uncompressed, as it is unpacked at once."""
    about = f"{name}-{version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    head += "".join(f"Requires-Dist: {line}\n" for line in requires)
    tag = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {**files, f"{about}/METADATA": head.encode(), f"{about}/WHEEL": tag.encode()}
    record = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*record, f"{about}/RECORD,,", ""]).encode()
    folder.mkdir(exist_ok=True, parents=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        for path, content in files.items():
            packed.writestr(path, content)
    return wheel


def fake_torch(folder: Path, cuda: str | None = None, body: str = TORCH) -> Path:
    """A torch that can be imported and says what it was built for."""
    return write_wheel(
        folder, "torch", VERSION, {"torch/__init__.py": body.format(version=VERSION, cuda=cuda).encode()}
    )


def wheels_of_this_environment(folder: Path, names: list[str]) -> None:
    """Wheels made of what is installed here: these libraries and all that they need."""
    done: set[str] = set()
    left = list(names)
    while left:
        name = name_of(left.pop())
        if name in done:
            continue
        done.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # needed on other systems, or for an extra
            continue
        requires = [line for line in found.requires or () if "extra ==" not in line]
        left += requires
        kept = {
            str(path): path.locate().read_bytes()
            for path in found.files or ()
            if ".." not in path.parts and not path.is_absolute() and "__pycache__" not in path.parts
            if ".dist-info" not in str(path) and path.locate().is_file()
        }
        write_wheel(folder, name.replace("-", "_"), found.version, kept, tuple(requires))


def variant(needs: Needs, **changes: object) -> Needs:
    return msgspec.structs.replace(needs, **changes)


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
