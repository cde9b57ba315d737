"""Which build of PyTorch an NVIDIA card and its driver can run.

From NVIDIA's and PyTorch's documentation: CUDA 13 left cards before Turing behind, and asks for driver 580; programs of
CUDA 12 run from driver 525 on (https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).
PyTorch's cu126 build has no code for Blackwell. None of it was tried on such cards.
"""

import contextlib
import errno
import os
import platform
import re
import shutil
import stat
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import msgspec
import psutil
import pynvml

from core.base import jobs as places
from core.base.errors import Fix, UserError
from core.base.files import is_link, locked
from core.base.jobs import (
    FILLED,
    LIBRARIES,
    MARKER,
    OWN,
    PYTHON,
    Checked,
    Filled,
    Needs,
    Pack,
    Standing,
    decoded,
    has_python,
    name_of,
    needs,
    read_filled,
    script_command,
    standing,
    write,
)
from core.base.processes import SOURCE_ROOT, is_frozen
from core.base.settings import VERSION as HONE_VERSION
from core.base.settings import home
from core.monitor.nvidia import driver_version, find_gpu
from core.services import gpu_pack as trouble
from core.services import hub
from core.services.gpu_pack import Child
from core.services.hub import Progress

# --- Which build of PyTorch an NVIDIA card and its driver can run


TORCH_INDEX = "https://download.pytorch.org/whl/"
"""PyTorch's own index, a folder a build."""

CUDA_13, CUDA_12 = "cu130", "cu126"
OLDEST_OF_CUDA_13 = (7, 5)
NEWEST_OF_CUDA_12 = (9, 0)
DRIVER_OF_CUDA_13 = 580
DRIVER_OF_CUDA_12 = 525


def build_for(capability: tuple[int, int] | None, driver: int | None) -> str:
    """The name of the build; empty: the driver is too old for any that knows the card.

    Args:
        capability: The card's compute capability; None: not known, which counts as that of a recent one.
        driver: The first number of the driver's version; None: not known, which counts as a recent one.
    """
    has_13 = capability is None or capability >= OLDEST_OF_CUDA_13
    has_12 = capability is not None and capability <= NEWEST_OF_CUDA_12
    if has_13 and (driver is None or driver >= DRIVER_OF_CUDA_13):
        return CUDA_13
    if has_12 and (driver is None or driver >= DRIVER_OF_CUDA_12):
        return CUDA_12
    return ""


def driver_wanted(capability: tuple[int, int] | None) -> int:
    """The oldest driver with which a card can be used, by its first number."""
    is_new = capability is None or capability > NEWEST_OF_CUDA_12
    return DRIVER_OF_CUDA_13 if is_new else DRIVER_OF_CUDA_12


def index_of(build: str) -> str:
    """The address of the index with this build."""
    return TORCH_INDEX + build


# --- The program uv, which fills a GPU pack where Hone comes without a Python: which one


VERSION = "0.13.9"
UV_INDEX = "https://pypi.org/pypi"

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


# --- What fills a GPU pack: uv for a bundle, which has no Python of its own


PATIENCE_SECONDS = 120
"""How long uv waits for a server that sends nothing; its own 30 s are too few for slow lines and files of 500 MB."""

UV_NAME = f"uv-{VERSION}-….whl"

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


# --- Whether the GPU pack is to be had on this computer, which one, and how much it takes


GB = 1 << 30
"""As the window and the command line count it."""

DOWNLOAD = int(2.7 * GB)
"""Bytes that come, by the wheels for Linux of CUDA 13: PyTorch 0.5 GB, NVIDIA's libraries 2.0, all others 0.2."""

INSTALLED = int(5.6 * GB)
"""Bytes of a pack that is done; start.py reckons with as much."""

ROOM = int(7.5 * GB)
"""Free bytes that installing it takes."""

PROCESSORS = frozenset({"x86_64", "amd64", "aarch64"})


@dataclass(frozen=True)
class Card:
    """An NVIDIA card: its name, compute capability, and the first number of its driver's version, where they tell."""

    name: str
    capability: tuple[int, int] | None = None
    driver: int | None = None


@dataclass(frozen=True)
class Place:
    """What decides besides the card: the system (`sys.platform`), the processor, and whether this is a bundle."""

    system: str
    processor: str
    frozen: bool


@dataclass(frozen=True)
class Offer:
    """What can be installed: the build for `card`, and the bytes it takes. `refusal` says why nothing can.

    `card` is None where there is none, or where nothing is to be had with one either.
    """

    refusal: str = ""
    card: Card | None = None
    build: str = ""
    download: int = DOWNLOAD
    installed: int = INSTALLED
    room: int = ROOM

    @property
    def stands(self) -> bool:
        """Whether there is something to install."""
        return not self.refusal


@dataclass(frozen=True)
class Situation:
    """All there is to say: the offer, the pack that is there, bytes begun of one, and the free ones of the disk."""

    offer: Offer
    standing: Standing
    begun: int = 0
    free: int | None = None

    @property
    def concerns(self) -> bool:
        """Whether a person may want to hear of it: there is a card to use, or a pack to run from or to remove."""
        return self.offer.card is not None or self.standing.is_there or bool(self.begun)


def look() -> Situation:
    """Look at this computer; a driver that hangs keeps it waiting, and a pack in the making takes a second to weigh."""
    place = Place(sys.platform, platform.machine(), is_frozen())
    card = None if _why_not(place) else find_card()
    unfinished = [path for path in (places.cache_folder(), *places.leftovers()) if path.is_dir()]
    return Situation(offer(place, card), standing(), places.size_of(*unfinished), free_bytes())


def offer(place: Place, card: Card | None) -> Offer:
    """What can be installed on a computer."""
    refusal = _why_not(place)
    if refusal:
        return Offer(refusal)
    if card is None:
        return Offer(
            "No NVIDIA card, or no driver for it, was found: install NVIDIA's driver, then start Hone again."
        )
    build = build_for(card.capability, card.driver)
    if not build:
        wanted = driver_wanted(card.capability)
        return Offer(
            f"{card.name} has driver {card.driver}, which is too old: install NVIDIA's driver {wanted} or newer.",
            card,
        )
    return Offer(card=card, build=build)


def find_card(nvml: Any = pynvml) -> Card | None:
    """The first NVIDIA card; None: there is none, or no driver."""
    gpu = find_gpu(nvml=nvml)
    return None if gpu is None else Card(gpu.name, gpu.capability(), driver_version(nvml))


def free_bytes() -> int | None:
    """Free bytes of the disk that the pack goes to; None: not known."""
    folder = home()
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _why_not(place: Place) -> str:
    """Why there is no pack for this place, whatever card is in it; empty: there is one."""
    if place.system == "darwin":
        return "Macs have no CUDA: Hone trains on their GPU (MPS) as it is."
    if place.processor.lower() not in PROCESSORS:
        return f"PyTorch has no CUDA build for this processor ({place.processor})."
    if not place.frozen:
        return "This Hone runs from its source: start.py installs the PyTorch that fits the card."
    return ""


# --- Installing the GPU pack: made beside, checked from inside, and only then given its name


CHECKED = (
    "core.engine.environment:prepare_torchvision",
    "torchvision",
    "bitsandbytes",
    "core.engine.train",
)
"""What the check does besides importing PyTorch: each library that has a build for CUDA, and what trains."""

OWN_PACKAGES = ("core", "resources")
OWN_NEW = f"{OWN}.new"
"""Hone's own source in a pack while it is checked."""


class Step(StrEnum):
    """What is done at the moment."""

    PYTHON = "Python"
    LIBRARIES = "libraries"
    CHECK = "check"


class PackProgress(Progress, frozen=True, kw_only=True):
    """How far it is; `total` is 0 where it can't be known."""

    step: Step


Tell = Callable[[PackProgress], None]


class _NotWorkingError(Exception):
    """A pack didn't pass the check; holds what was printed."""


class Install:
    """Installs the pack once, or renews one whose libraries are right.

    Args:
        wanted: What it is filled with.
        child: Runs the programs.
        tool: What fills it.
        checked: Modules that the check imports besides PyTorch.
        room: Free bytes it takes.
        total: Bytes that come in all, about; 0: not known.
    """

    def __init__(
        self,
        wanted: Needs,
        child: Child,
        tool: Tool,
        *,
        checked: Sequence[str] = CHECKED,
        room: int = ROOM,
        total: int = INSTALLED,
    ) -> None:
        self._wanted, self._child, self._tool = wanted, child, tool
        self._checked, self._room, self._total = checked, room, total
        self._log = log_file()

    def run(self, tell: Tell) -> Pack:
        """Install it, waiting until it is done.

        Args:
            tell: Hears how far it is, about every second.

        Raises:
            UserError: It can't be installed; what has come is kept.
            JobCancelled: `kill` was called.
            EngineCrashed: The engine's job that fetches uv broke.
        """
        try:
            with _alone():
                places.clear_leftovers()
                _refuse_use(places.pack_folder())
                if self._can_renew():
                    return self._renew(tell)
                self._refuse_full_disk()
                return self._make(places.new_folder(), tell)
        except OSError as error:
            raise trouble.refused(error, self._log) from error

    def kill(self) -> None:
        """End it at once, from any thread, also before it has begun; downloads are kept."""
        self._child.kill()

    def _can_renew(self) -> bool:
        filled = read_filled(places.pack_folder())
        return (
            filled is not None and filled.needs == self._wanted and has_python(places.pack_folder(), filled)
        )

    def _renew(self, tell: Tell) -> Pack:
        """Give a pack this Hone's source. One that doesn't work with it counts for nothing: it has to be made anew."""
        folder = places.pack_folder()
        filled = read_filled(folder)
        assert filled is not None, "seen by _can_renew"
        try:
            return self._finish(folder, filled, tell)
        except _NotWorkingError as error:
            for name in (MARKER, FILLED):
                (folder / name).unlink(missing_ok=True)
            raise trouble.works_no_more(str(error), self._log) from error

    def _make(self, folder: Path, tell: Tell) -> Pack:
        folder.mkdir(parents=True)
        try:
            filled = self._fill(folder, tell)
            pack = self._finish(folder, filled, tell)
            _put_in_place(folder)
        except _NotWorkingError as error:
            raise trouble.not_working(str(error), self._log) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # it has its name, or isn't wanted
        shutil.rmtree(places.cache_folder(), ignore_errors=True)
        return pack

    def _fill(self, folder: Path, tell: Tell) -> Filled:
        tell(PackProgress(done=0, total=0, step=Step.PYTHON))
        places.cache_folder().mkdir(exist_ok=True)
        interpreter = self._tool.bring_python(folder, self._wanted, self._run)
        growing = self._tool.growing or folder

        def watch() -> None:
            done = places.size_of(growing)
            tell(PackProgress(done=min(done, self._total or done), total=self._total, step=Step.LIBRARIES))

        watch()
        self._tool.bring_libraries(
            folder, interpreter, self._wanted, lambda command, more: self._run(command, more, watch)
        )
        filled = Filled(needs=self._wanted, interpreter=interpreter)
        write(folder / FILLED, filled)
        return filled

    def _finish(self, folder: Path, filled: Filled, tell: Tell) -> Pack:
        """Check all with Hone's own source, then take that in and say so; until then a pack stays what it was."""
        tell(PackProgress(done=0, total=0, step=Step.CHECK))
        new = folder / OWN_NEW
        try:
            if is_frozen():
                copy_own(SOURCE_ROOT, new)
            checked = self._check(folder, filled, new if is_frozen() else None)
            _refuse_use(folder)  # an older Hone may have begun to run from it meanwhile
            self._child.refuse_killed()
            (folder / MARKER).unlink(
                missing_ok=True
            )  # it may tell of another Hone than the source that comes now
            if is_frozen():
                shutil.rmtree(folder / OWN, ignore_errors=True)
                new.rename(folder / OWN)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        pack = Pack(hone=HONE_VERSION, filled=filled, checked=checked, size=places.size_of(folder))
        write(folder / MARKER, pack)
        return pack

    def _check(self, folder: Path, filled: Filled, own: Path | None) -> Checked:
        command = script_command(folder, filled, "check.py", *self._checked, own=own)
        try:
            code, said = self._child.run(command)
        except OSError as error:  # its Python can't be started
            raise _NotWorkingError(str(error)) from error
        try:
            checked = msgspec.json.decode(said.strip().rpartition("\n")[2].encode(), type=Checked)
        except msgspec.MsgspecError:
            checked = None
        if code != 0 or checked is None:
            raise _NotWorkingError(said)
        if self._wanted.build and not checked.cuda:
            raise _NotWorkingError(f"PyTorch {checked.torch} came without CUDA.")
        return checked

    def _run(
        self, command: Sequence[str], environment: dict[str, str], watch: Callable[[], None] = lambda: None
    ) -> None:
        code, said = self._child.run(command, watch, environment)
        if code != 0:
            raise trouble.explain(said, self._log)

    def _refuse_full_disk(self) -> None:
        """Raises UserError where there isn't enough room for what is still to come."""
        free = free_bytes()
        needed = self._room - places.size_of(places.cache_folder())
        if free is not None and free < needed:
            raise trouble.no_room(free, needed, home())


def installation(wheels: Path | None = None, offer: Offer | None = None) -> Install:
    """What installs the pack on this computer.

    Args:
        wheels: A folder with all that is needed; None: the internet.
        offer: What `what.look` has found; None: it is looked for.

    Raises:
        UserError: It isn't to be had here, or Hone works offline.
    """
    child = Child(log_file())
    if wheels is not None:
        if not wheels.is_dir():
            raise UserError("The GPU pack can't be taken from there", f"There is no folder {wheels}.")
        # What is in the folder is asked for as it is: which build that is, whoever filled it knows.
        wanted = needs("")
        if not is_frozen():
            return Install(wanted, child, PipTool(wheels.absolute()), total=0)
        tool = UvTool(child, wheels.absolute())
        tool.refuse_lacking(wanted)
        return Install(wanted, child, tool, total=0)
    found = standing()
    filled = read_filled(places.pack_folder())
    if found.can_renew and not found.is_used and filled is not None:
        return Install(filled.needs, child, UvTool(child))
    offer = offer or look().offer
    if not offer.stands:
        raise UserError("There is no GPU pack for this computer", offer.refusal)
    by = hub.forbidden_by()
    if by:
        raise UserError(
            "Hone works offline",
            f"{by} forbids it to download the GPU pack.",
            (Fix("Allow it, or take it from a folder: hone gpu --install --from FOLDER"),),
        )
    return Install(needs(offer.build), child, UvTool(child), room=offer.room, total=offer.installed)


def remove() -> int:
    """Delete the pack, and what has come of one that isn't done; returns the bytes freed.

    Raises:
        UserError: Something runs from it, another Hone installs it, or not all can be deleted.
    """
    with _alone():
        folder = places.pack_folder()
        _refuse_use(folder)
        all_of_it = [folder, places.cache_folder(), *places.leftovers()]
        before = places.size_of(*all_of_it)
        try:
            (folder / MARKER).unlink(missing_ok=True)  # first: what is left, where something is, is no pack
            for path in all_of_it:
                if path.is_dir():
                    shutil.rmtree(path)
        except OSError as error:
            said = f"{error.filename or folder}: {error.strerror or error}"
            raise UserError("Not all of the GPU pack could be deleted", said) from error
        log_file().unlink(missing_ok=True)
        return before


def drop_begun() -> int:
    """Delete what has come of a pack that isn't done; returns the bytes freed. A pack that is done stays.

    Raises:
        UserError: Another Hone installs it.
    """
    with _alone():
        begun = [places.cache_folder(), *places.leftovers()]
        before = places.size_of(*begun)
        for path in begun:
            shutil.rmtree(path, ignore_errors=True)
        return before


def log_file() -> Path:
    """Where what uv and pip print is kept."""
    return home() / places.LOG


def copy_own(root: Path, target: Path) -> None:
    """Copy Hone's own source from a bundle, where it lies among other libraries."""
    shutil.rmtree(target, ignore_errors=True)
    for name in OWN_PACKAGES:
        shutil.copytree(root / name, target / name, ignore=shutil.ignore_patterns("*.pyc", "__pycache__"))


def _put_in_place(folder: Path) -> None:
    """Give a pack its name; the one before goes."""
    final, old = places.pack_folder(), places.old_folder()
    if final.exists():
        final.rename(old)
    try:
        folder.rename(final)
    except OSError:
        if old.exists():
            old.rename(final)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _refuse_use(folder: Path) -> None:
    """Raises UserError where a process runs from a pack."""
    inside = f"{folder}{os.sep}"
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if any(word.startswith(inside) for word in process.cmdline()):
                raise trouble.in_use(folder)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let one Hone at a time touch the pack; raises UserError where another one does."""
    home().mkdir(parents=True, exist_ok=True)
    try:
        with locked(home(), 0.0, places.LOCK):
            yield
    except TimeoutError as error:
        raise trouble.busy() from error
