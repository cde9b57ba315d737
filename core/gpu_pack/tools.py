"""What fills a GPU pack: uv for a bundle, which has no Python of its own, and this Python's pip for a checkout.

uv is taken from the folder of wheels, or fetched in the version that was tried; where it can't be, one that is
installed and not older will do. It brings Python too, checks what it has fetched by hashes that it knows, and keeps
what has come in its cache.
"""

import contextlib
import errno
import os
import platform
import shutil
import sys
import tarfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from core.errors import UserError
from core.files import is_link
from core.gpu_pack import places, trouble
from core.gpu_pack.builds import index_of
from core.gpu_pack.child import Child
from core.gpu_pack.needs import name_of
from core.gpu_pack.pack import LIBRARIES, PYTHON, Needs
from core.gpu_pack.uv import VERSION as UV_VERSION
from core.gpu_pack.uv import UvFetched, UvRequest, is_new_enough, program_in, unpack_uv
from core.jobs import decoded

PATIENCE_SECONDS = 120
"""How long uv waits for a server that sends nothing; its own 30 s are too few for slow lines and files of 500 MB."""

UV_NAME = f"uv-{UV_VERSION}-….whl"

Run = Callable[[Sequence[str], "dict[str, str]"], None]
"""Runs a program to its end; raises UserError where it fails."""


class Tool(Protocol):
    """Fills a pack."""

    def bring_python(self, target: Path, needs: Needs, run: Run) -> str:
        """See to a Python; returns the interpreter's path, within `target` or a full one."""

    def bring_libraries(self, target: Path, interpreter: str, needs: Needs, run: Run) -> None:
        """Put all libraries into the pack's folder for them."""

    @property
    def growing(self) -> Path | None:
        """The folder that grows as libraries come; None: the pack's own."""


class PipTool:
    """Pip of this Python, from a folder of wheels and nothing else.

    Args:
        wheels: The folder.
    """

    def __init__(self, wheels: Path) -> None:
        self._wheels = wheels

    @property
    def growing(self) -> Path | None:
        """Pip unpacks beside, then moves."""
        return None

    def bring_python(self, target: Path, needs: Needs, run: Run) -> str:
        """The Python that this environment was made with: it sees none of the environment's libraries."""
        return getattr(sys, "_base_executable", None) or sys.executable

    def bring_libraries(self, target: Path, interpreter: str, needs: Needs, run: Run) -> None:
        """As `Tool` has it."""
        command = [sys.executable, "-m", "pip", "install", "--isolated", "--no-input", "--no-cache-dir"]
        command += ["--disable-pip-version-check", "--no-compile", "--no-index"]
        command += ["--find-links", str(self._wheels), *write_lists(target, needs)]
        temporary = target / "tmp"
        temporary.mkdir()
        run(
            [*command, "--target", str(target / LIBRARIES)],
            {"PIP_CONFIG_FILE": os.devnull, "TMPDIR": str(temporary)},
        )
        shutil.rmtree(temporary, ignore_errors=True)


class UvTool:
    """uv, for systems where Hone comes without a Python.

    Args:
        child: Ends with it where a fetch is cancelled.
        wheels: A folder to take everything from, uv and an archive `cpython-…install_only….tar.gz` among it; None: the
            internet.
        interpreter: A Python to take; None: one is brought along.
    """

    def __init__(self, child: Child, wheels: Path | None = None, interpreter: str | None = None) -> None:
        self._child = child
        self._wheels = wheels
        self._interpreter = interpreter
        self._cache = places.cache_folder()
        self._program = ""

    @property
    def growing(self) -> Path | None:
        """It unpacks into its cache as it downloads, and links from there."""
        return self._cache

    def refuse_lacking(self, needs: Needs) -> None:
        """Raises UserError that names all that the folder of wheels lacks, before anything is taken from it."""
        if self._wheels is None:
            return
        there = {name_of(wheel.name.partition("-")[0]) for wheel in self._wheels.glob("*.whl")}
        # What has a marker may be for another system; uv looks at that.
        wanted = [name_of(line) for line in needs.requirements if ";" not in line]
        missing = [] if self._interpreter or self._archive(needs) else [archive_name(needs)]
        if self._uv_wheel() is None and self._installed() is None:
            missing.append(UV_NAME)
        missing += [f"{name}-….whl" for name in wanted if name not in there]
        if missing:
            raise trouble.lacking(self._wheels, *missing)

    def bring_python(self, target: Path, needs: Needs, run: Run) -> str:
        """As `Tool` has it."""
        if self._interpreter is not None:
            return self._interpreter
        folder = target / PYTHON
        archive = self._archive(needs)
        if archive is None and self._wheels is not None:
            raise trouble.lacking(self._wheels, archive_name(needs))
        if archive is not None:
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
        else:
            asked = [
                "python",
                "install",
                needs.python,
                "--install-dir",
                str(folder),
                "--no-bin",
                "--no-registry",
            ]
            run([*self._uv(), *asked], self._environment())
        return _interpreter_in(folder, needs.python).relative_to(target).as_posix()

    def bring_libraries(self, target: Path, interpreter: str, needs: Needs, run: Run) -> None:
        """As `Tool` has it."""
        command = [*self._uv(), "pip", "install", "--python", str(target / interpreter)]
        command += ["--target", str(target / LIBRARIES), "--only-binary", ":all:"]
        command += write_lists(target, needs)
        if self._wheels is not None:
            command += ["--offline", "--no-index", "--find-links", str(self._wheels)]
        else:
            # The build is part of PyTorch's version, so no other index can give another one in its place.
            command += ["--index", index_of(needs.build), "--index-strategy", "unsafe-best-match"]
        run(command, self._environment())

    def _archive(self, needs: Needs) -> Path | None:
        """A Python in the folder of wheels, see `archive_name`."""
        found = self._wheels.glob(f"cpython-{needs.python}.*install_only*.tar.gz") if self._wheels else ()
        return next(iter(sorted(found)), None)

    def _uv(self) -> list[str]:
        self._program = self._program or self._unpacked() or self._known()
        return [
            self._program,
            "--no-config",
            "--system-certs",
            "--no-progress",
            "--cache-dir",
            str(self._cache / "uv"),
        ]

    def _uv_wheel(self) -> Path | None:
        """The wheel of uv in the folder; None: there is none, or an older one."""
        found = sorted(self._wheels.glob("uv-*.whl")) if self._wheels else ()
        return next((wheel for wheel in found if is_new_enough(wheel.name.replace("-", " ", 1))), None)

    def _unpacked(self) -> str | None:
        """The program out of its wheel in the folder; None: there is none."""
        wheel = self._uv_wheel()
        return None if wheel is None else unpack_uv(wheel, self._cache)

    def _known(self) -> str:
        """The version that was tried; where it can't be had, the one that is installed, unless it is older."""
        try:
            return self._fetched()
        except UserError:
            installed = self._installed()
            if installed is None:
                raise
            return installed

    def _installed(self) -> str | None:
        """The uv that is installed; None: there is none, or an older one."""
        installed = shutil.which("uv")
        return installed if installed is not None and self._is_new_enough(installed) else None

    def _is_new_enough(self, program: str) -> bool:
        with contextlib.suppress(OSError):
            code, said = self._child.run([program, "--version"])
            return code == 0 and is_new_enough(said)
        return False

    def _fetched(self) -> str:
        if self._wheels is not None:
            raise trouble.lacking(self._wheels, UV_NAME)
        ready = program_in(self._cache)
        if ready.is_file():
            return str(ready)
        request = UvRequest(
            folder=str(self._cache), system=sys.platform, processor=platform.machine().lower()
        )
        fetched = decoded("fetch-uv", self._child.ask("fetch-uv", msgspec.json.encode(request)), UvFetched)
        return unpack_uv(Path(fetched.path), self._cache)

    @staticmethod
    def _environment() -> dict[str, str]:
        """The proxies of the system's settings, which uv asks the environment for, and more patience than it has."""
        found = urllib.request.getproxies()
        known = {name.lower() for name in os.environ}
        proxies = {f"{kind}_proxy": found[kind] for kind in ("http", "https") if kind in found}
        wanted = {**proxies, "uv_http_timeout": str(PATIENCE_SECONDS)}
        return {name.upper(): value for name, value in wanted.items() if name not in known}


def archive_name(needs: Needs) -> str:
    """What an archive of Python is called, as https://github.com/astral-sh/python-build-standalone packs it."""
    return f"cpython-{needs.python}.…-install_only….tar.gz"


def write_lists(folder: Path, needs: Needs) -> list[str]:
    """Write what is wanted and what it is pinned to into a folder; returns the arguments that name both files."""
    wanted, pins = folder / "requirements.txt", folder / "constraints.txt"
    wanted.write_text("\n".join((*needs.requirements, "")), encoding="utf-8")
    pins.write_text("\n".join((*needs.pins, "")), encoding="utf-8")
    return ["--requirement", str(wanted), "--constraint", str(pins)]


def _interpreter_in(folder: Path, version: str) -> Path:
    """The interpreter of the Python in a folder: uv puts a link beside that ends with the minor version."""
    name = Path("python.exe") if os.name == "nt" else Path("bin", f"python{version}")
    homes = [path for path in sorted(folder.iterdir()) if (path / name).is_file() and not is_link(path)]
    if not homes:
        raise FileNotFoundError(errno.ENOENT, "No Python was brought", str(folder))
    return homes[0] / name
