"""The environment in `.venv`: made once, filled from the pins, left alone while nothing changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bootstrap import apt, graphics, pip
from bootstrap.errors import SetupError

STAMP = "hone-setup.json"
FOR_BUNDLES = "bundle"
"""The extra that builds programs; these carry PyTorch for the CPU, so its environment has that one."""
VENV_PACKAGE = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
"""Where Debian and Ubuntu keep the part of Python that makes virtual environments."""


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

    def covers(self, wanted: Stamp) -> bool:
        """Whether nothing has to be installed to get `wanted`."""
        return self.inputs == wanted.inputs and wanted.extras <= self.extras


def set_up(root: Path, extras: Iterable[str] = ()) -> Environment:
    """Make `.venv` ready to run this checkout; takes no time where it is.

    Raises:
        SetupError: It can't be made; says why and what to do.
    """
    environment = Environment(root)
    installed = read_stamp(environment.folder)
    wanted = Stamp(hash_of_inputs(root), frozenset(extras))
    if installed is not None and installed.covers(wanted) and Path(environment.python).exists():
        return environment
    if installed is not None and installed.inputs == wanted.inputs:
        wanted = Stamp(wanted.inputs, wanted.extras | installed.extras)
    print(f"Setting up Hone in {environment.folder}", flush=True)
    _make(environment, wanted)
    _fill(environment, wanted)
    write_stamp(environment.folder, wanted)
    return environment


def hash_of_inputs(root: Path) -> str:
    """A hash of everything that decides what gets installed."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {sys.platform} {root}".encode())
    for name in ("pyproject.toml", "packaging/constraints.txt"):
        digest.update((root / name).read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def read_stamp(folder: Path) -> Stamp | None:
    """What the environment was filled from; None where it never got that far."""
    try:
        found = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        return Stamp(found["inputs"], frozenset(found["extras"]))
    except (OSError, ValueError, KeyError):
        return None


def write_stamp(folder: Path, stamp: Stamp) -> None:
    """Note what the environment was filled from, as the last thing of a set-up."""
    content = {"inputs": stamp.inputs, "extras": sorted(stamp.extras)}
    (folder / STAMP).write_text(json.dumps(content) + "\n", encoding="utf-8")


def _make(environment: Environment, wanted: Stamp) -> None:
    """Create the virtual environment, anew where another Python made the one that is there."""
    folder = environment.folder
    if is_usable(environment):
        _remove(folder / STAMP)
        return
    if Path(sys.prefix).resolve() == folder.resolve():
        raise SetupError(
            f"{folder} has to be made anew, and this Python lives in it. Start again with the Python of the system."
        )
    if folder.exists():
        shutil.rmtree(folder)
    _check_room(
        environment.root, graphics.DISK_NEEDED if FOR_BUNDLES in wanted.extras else graphics.disk_needed()
    )
    said = _create(folder)
    if "ensurepip is not available" in said and apt.may_install():
        apt.install([VENV_PACKAGE])
        said = _create(folder)
    if said:
        raise SetupError(_why_no_venv(said))


def _check_room(root: Path, needed: int) -> None:
    free = shutil.disk_usage(root).free
    if free >= needed:
        return
    text = (
        f"Only {free / 1e9:.1f} GB are free on the disk of {root}, and installing Hone's libraries takes about "
        f"{needed / 1e9:.0f} GB. Free some space, then start again."
    )
    if sys.platform.startswith("linux") and needed > graphics.DISK_NEEDED:
        text += (
            f"\nWithout an NVIDIA card {graphics.DISK_NEEDED / 1e9:.0f} GB are enough, with PyTorch's smaller build:\n"
            f"  PIP_EXTRA_INDEX_URL={graphics.CPU_INDEX} python3 start.py"
        )
    raise SetupError(text)


def _create(folder: Path) -> str:
    """Create the virtual environment; returns what Python said where that failed, else nothing."""
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(folder)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if made.returncode == 0:
        return ""
    shutil.rmtree(folder, ignore_errors=True)
    return made.stdout + made.stderr or "nothing"


def _remove(path: Path) -> None:
    if path.exists():
        path.unlink()


def is_usable(environment: Environment) -> bool:
    """Whether `.venv` was made here by a Python of this version and still starts.

    The programs in it hold its full path, so one that was moved or copied along with its checkout is of no use.
    """
    try:
        made = (environment.folder / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
        answer = subprocess.run(
            [environment.python, "-m", "pip", "--version"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return False
    is_same_version = f"(python {sys.version_info[0]}.{sys.version_info[1]})" in answer.stdout
    return is_same_version and str(environment.folder) in made


def _why_no_venv(said: str) -> str:
    if "ensurepip is not available" in said and sys.platform.startswith("linux"):
        return (
            "This Python can't make virtual environments: Debian and Ubuntu keep that part in a package of its own.\n"
            f"Install it, then start again:\n  sudo apt-get install {VENV_PACKAGE}"
        )
    tail = "\n".join(said.splitlines()[-5:])
    return f"The environment in .venv couldn't be made. Python said:\n{tail}"


def _fill(environment: Environment, wanted: Stamp) -> None:
    """Install the pinned libraries and, last, the project itself as an editable install."""
    constraints = environment.root / "packaging" / "constraints.txt"
    log = environment.folder / "install.log"
    _remove(log)
    tools = [line for line in constraints.read_text(encoding="utf-8").split() if line.startswith(pip.TOOLS)]
    pip.install(environment.python, tools, log, reports_progress=False)
    extras = f"[{','.join(sorted(wanted.extras))}]" if wanted.extras else ""
    if FOR_BUNDLES in wanted.extras:
        index = graphics.index_arguments_for_cpu(
            lambda: pip.chosen_version(environment.python, "torch", constraints)
        )
    else:
        index = graphics.index_arguments()
    arguments = ["--no-build-isolation", "--constraint", str(constraints), *index]
    pip.install(environment.python, [*arguments, "--editable", f"{environment.root}{extras}"], log)
    print("Everything is installed.", flush=True)
