"""The environment in `.venv`: made once, filled from the pins, left alone while nothing changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bootstrap import graphics
from bootstrap.errors import SetupError
from bootstrap.installer import Installer
from core.base import uv

STAMP = "hone-setup.json"
FOR_BUNDLES = "bundle"
"""The extra that builds programs; these carry PyTorch for the CPU, so its environment has that one."""


class Environment(NamedTuple):
    """A virtual environment and the checkout it is for."""

    root: Path

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.root / ".venv"

    @property
    def python(self) -> str:
        """Its interpreter."""
        return self.program("python")

    def program(self, name: str) -> str:
        """The path of a program installed in it; Windows keeps them in another folder."""
        if sys.platform == "win32":
            return str(self.folder / "Scripts" / f"{name}.exe")
        return str(self.folder / "bin" / name)


class Stamp(NamedTuple):
    """What an environment was filled from: a hash of the pins and the Python, and the extras installed."""

    inputs: str
    extras: frozenset[str]


def set_up(root: Path, extras: Iterable[str], installer: Installer) -> Environment:
    """Make `.venv` ready to run this checkout; takes no time where it is.

    Raises:
        SetupError: It can't be made; says why and what to do.
    """
    environment = Environment(root)
    installed = read_stamp(environment.folder)
    wanted = Stamp(hash_of_inputs(root), frozenset(extras))
    is_whole = installed.inputs == wanted.inputs and Path(environment.python).exists()
    if is_whole and wanted.extras <= installed.extras:
        return environment
    print(f"Setting up Hone in {environment.folder}", flush=True)
    if is_whole:
        wanted = Stamp(wanted.inputs, wanted.extras | installed.extras)
        (environment.folder / STAMP).unlink()
    backend = graphics.torch_backend(FOR_BUNDLES in wanted.extras)
    if not is_whole:
        _make(environment, backend, installer)
    _fill(environment, wanted, backend, installer)
    write_stamp(environment.folder, wanted)
    print("Everything is installed.", flush=True)
    return environment


def hash_of_inputs(root: Path) -> str:
    """A hash of everything that decides what gets installed."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {sys.platform} {root}".encode())
    pins = (root / name for name in ("pyproject.toml", "packaging/constraints.txt"))
    for path in (*pins, *sorted(root.glob("resources/locale/*/*/*.po"))):
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def read_stamp(folder: Path) -> Stamp:
    """What the environment was filled from; nothing where it never got that far."""
    try:
        found = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        return Stamp(found["inputs"], frozenset(found["extras"]))
    except (OSError, ValueError, KeyError):
        return Stamp("", frozenset())


def write_stamp(folder: Path, stamp: Stamp) -> None:
    """Note what the environment was filled from, as the last thing of a set-up."""
    content = {"inputs": stamp.inputs, "extras": sorted(stamp.extras)}
    (folder / STAMP).write_text(json.dumps(content) + "\n", encoding="utf-8")


def _make(environment: Environment, backend: str, installer: Installer) -> None:
    """Create the virtual environment, anew where there is one: it may be damaged, copied, or another Python's."""
    folder, root = environment.folder, environment.root
    if Path(sys.prefix).resolve() == folder.resolve():
        raise SetupError(
            f"{folder} has to be made anew, and this Python lives in it. Start again with the Python of the system."
        )
    free, needed = shutil.disk_usage(root).free, graphics.disk_needed(backend)
    if free < needed and not folder.exists():  # what is there makes room
        raise SetupError(
            f"Only {free / 1e9:.1f} GB are free on the disk of {root}, and installing Hone's libraries takes about "
            f"{needed / 1e9:.0f} GB. Free some space, then start again."
        )
    installer(*uv.VENV, sys.executable, str(folder))


def _fill(environment: Environment, wanted: Stamp, backend: str, installer: Installer) -> None:
    """Install the pinned libraries, the project itself as an editable install, and pip for what a person adds."""
    project = f".[{','.join(sorted(wanted.extras))}]" if wanted.extras else "."
    build = ("--torch-backend", backend) if backend else ()
    pins = ("--constraint", str(Path("packaging", "constraints.txt")))
    installer(*uv.INSTALL, environment.python, *pins, *build, "pip", "--editable", project)
