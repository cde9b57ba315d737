"""Installs PyTorch with CUDA beside a bundle: an environment made by uv, from which the engine runs.

All is in `gpu_folder()`: `env` (the environment), `python` (its interpreter), `cache` (uv's downloads, linked into
`env`), `install.log`, and `installed.json`, written last: without it the environment isn't used.
"""

import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pynvml

from core.base import jobs
from core.base.errors import Fix, UserError
from core.base.files import locked, write_atomically
from core.base.formats import size
from core.base.jobs import GpuEnvironment, JobProgress, TellProgress, gpu_environment, gpu_folder, gpu_python
from core.base.language import _
from core.base.processes import SOURCE_ROOT, is_frozen, kill_with_children, start_worker
from core.base.settings import VERSION, home
from core.monitor.nvidia import driver_version, find_gpu
from core.services import hub

GB = 1 << 30
DOWNLOAD, INSTALLED, FREE_NEEDED = int(2.7 * GB), int(5.6 * GB), int(7.5 * GB)
"""Bytes by the wheels for Linux of CUDA 13: PyTorch 0.5 GB, NVIDIA's libraries 2.0, all others 0.2."""

OF_THE_WINDOW = frozenset({"pyqtgraph", "pyside6-essentials", "send2trash", "wakepy"})
TITLE = _("PyTorch with CUDA wasn't installed")
AGAIN = Fix(_("Install it again: what was downloaded is kept"))

CHECK = """
import json
from core.engine.environment import prepare_torchvision
prepare_torchvision()
import bitsandbytes, torch, torchvision, core.engine.training.train
device = problem = ""
try:
    if torch.cuda.is_available():
        assert torch.ones(8, device="cuda").sum().item() == 8, "the GPU computed a wrong sum"
        device = torch.cuda.get_device_name(0)
except (AssertionError, RuntimeError) as error:
    problem = str(error)
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "device": device, "problem": problem}))
"""
"""Run by the new environment: imports what trains, and computes a little on the GPU."""


class UvProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine's job `fetch-uv` is asked (a folder) and answers (the program in it)."""

    path: str


@dataclass(frozen=True)
class Card:
    """An NVIDIA card; its compute capability and the driver's major version, None where unknown."""

    name: str
    capability: tuple[int, int] | None = None
    driver: int | None = None

    @property
    def torch_backend(self) -> str:
        """Uv's `--torch-backend`: auto goes by the driver alone, and CUDA 13 has no code for cards before Turing."""
        return "cu126" if self.capability is not None and self.capability < (7, 5) else "auto"


@dataclass(frozen=True)
class GpuState:
    """`refusal` says why nothing can be installed; `begun` is the size of an unfinished installation in bytes."""

    refusal: str = ""
    card: Card | None = None
    installed: GpuEnvironment | None = None
    begun: int = 0
    free: int | None = None

    @property
    def is_used(self) -> bool:
        """Whether the engine runs from the environment."""
        return self.installed is not None and self.installed.hone == VERSION

    @property
    def concerns(self) -> bool:
        """Whether there is anything to tell: of a card, or of something on the disk."""
        return self.card is not None or self.installed is not None or bool(self.begun)


def look() -> GpuState:
    """Look at this computer; slow where a driver hangs."""
    refusal, card = unsupported(sys.platform, platform.machine(), frozen=is_frozen()), None
    if not refusal:
        card = find_card()
        refusal = why_not(card)
    installed = gpu_environment()
    begun = size_of(gpu_folder()) if installed is None else 0
    return GpuState(refusal, card, installed, begun, _free_bytes())


def find_card(nvml: Any = pynvml) -> Card | None:
    """The first NVIDIA card; None without one or without its driver."""
    gpu = find_gpu(nvml=nvml)
    return None if gpu is None else Card(gpu.name, gpu.capability(), driver_version(nvml))


def unsupported(system: str, processor: str, *, frozen: bool) -> str:
    """Why nothing can be installed here, whatever the card; empty if it can."""
    if system == "darwin":
        return _("Macs have no CUDA: Hone trains on their GPU (MPS) without it.")
    if processor.lower() not in ("x86_64", "amd64", "aarch64"):
        return _("PyTorch has no CUDA build for this processor ({processor}).").format(processor=processor)
    return (
        ""
        if frozen
        else _("This Hone runs from its source: start.py installs the PyTorch that fits the card.")
    )


def why_not(card: Card | None) -> str:
    """Why PyTorch with CUDA can't run on this card; empty if it can.

    CUDA 12 needs driver 525, but has no code for Blackwell; CUDA 13 needs 580
    (https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).
    """
    if card is None:
        return _("No NVIDIA card with a driver was found: install NVIDIA's driver, then start Hone again.")
    needed = 525 if card.capability is not None and card.capability <= (9, 0) else 580
    if card.driver is None or card.driver >= needed:
        return ""
    return _(
        "{name} has driver {driver}, which is too old: install NVIDIA's driver {needed} or newer."
    ).format(name=card.name, driver=card.driver, needed=needed)


def requirements() -> tuple[list[str], list[str]]:
    """What the engine needs and at which versions: requirements and constraints, as pip takes them.

    Raises:
        UserError: This Hone came without the list of its libraries.
    """
    from importlib import metadata  # slow to import

    pins = (
        SOURCE_ROOT / ("pins" if is_frozen() else "packaging") / "constraints.txt"
    )  # see packaging/hone.spec
    try:
        wanted = metadata.requires("hone") or []
        pinned = pins.read_text(encoding="utf-8").splitlines()
    except (metadata.PackageNotFoundError, OSError) as error:
        raise UserError(_("This Hone doesn't say which libraries it needs"), str(error)) from error
    return [line for line in wanted if "extra ==" not in line and name_of(line) not in OF_THE_WINDOW], pinned


def name_of(requirement: str) -> str:
    """The normalised name of its package."""
    found = re.match(r"[\w.-]+", requirement, re.ASCII)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


class Install:
    """Makes the environment; can be run once. Downloads are kept when it ends early.

    Args:
        backend: uv's `--torch-backend`.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._end: Callable[[], None] = lambda: None
        self._is_killed = False

    def run(self, tell: TellProgress) -> GpuEnvironment:
        """Install, reporting bytes about once a second.

        Raises:
            UserError: It can't be installed.
            JobCancelled: `kill` was called.
            EngineCrashed: The engine's job that fetches uv broke.
        """
        folder, cache = gpu_folder(), gpu_folder() / "cache"

        def watch() -> None:
            done = min(size_of(cache), INSTALLED)
            tell(JobProgress(done=done, total=INSTALLED, what=_("Downloading PyTorch with CUDA")))

        try:
            with _alone():
                free, needed = _free_bytes(), FREE_NEEDED - size_of(folder)
                if free is not None and free < needed:
                    said = _("{free} are free on the disk of {home}, {needed} are needed.").format(
                        free=size(free), home=home(), needed=size(needed)
                    )
                    raise UserError(TITLE, said, (Fix(_("Free some disk space")), AGAIN))
                folder.mkdir(exist_ok=True)
                jobs.gpu_marker().unlink(missing_ok=True)
                tell(JobProgress(done=0, total=0, what=_("Fetching uv and Python")))
                uv = [self._find_uv(), "--no-config", "--no-progress", "--system-certs"]
                python = f"{sys.version_info.major}.{sys.version_info.minor}"
                self._run([*uv, "venv", "--clear", "--python", python, str(folder / "env")])
                lists = {"--requirement": "requirements.txt", "--constraint": "constraints.txt"}
                for name, lines in zip(lists.values(), requirements(), strict=True):
                    (folder / name).write_text("\n".join(lines), encoding="utf-8")
                command = [*uv, "pip", "install", "--python", str(gpu_python()), "--only-binary", ":all:"]
                command += ["--torch-backend", self._backend]
                self._run(
                    command + [word for key, name in lists.items() for word in (key, str(folder / name))],
                    watch,
                )
                tell(JobProgress(done=0, total=0, what=_("Checking that it works")))
                copy_source()
                found = self._check()
                write_atomically(jobs.gpu_marker(), msgspec.json.encode(found))
                return found
        except OSError as error:
            raise explain(f"{error.filename or folder}: {error.strerror or error}") from error

    def kill(self) -> None:
        """End it; may be called from any thread, before it has begun too."""
        with self._lock:
            self._is_killed = True
            self._end()

    def _find_uv(self) -> str:
        """Fetch the version of uv that was tried; one on the PATH serves where that can't be had."""
        with self._starting():
            job = jobs.EngineJob("fetch-uv")
            self._end = job.kill
        try:
            answer = job.ask(msgspec.json.encode(UvProgram(path=str(gpu_folder()))))
            return jobs.decoded("fetch-uv", answer, UvProgram).path
        except UserError:
            found = shutil.which("uv")
            if found is None:
                raise
            return found

    def _check(self) -> GpuEnvironment:
        said = self._run([str(gpu_python()), "-P", "-s", "-c", CHECK])
        answer = json.loads(next(line for line in said.splitlines() if line.startswith('{"torch"')))
        if not answer["cuda"]:
            said = _("PyTorch {answer} came without CUDA.").format(answer=answer["torch"])
            raise UserError(TITLE, said, (Fix(_("Install NVIDIA's newest driver")), AGAIN))
        return GpuEnvironment(hone=VERSION, size=size_of(gpu_folder()), **answer)

    def _run(self, command: list[str], watch: Callable[[], None] = lambda: None) -> str:
        """Run a program with its output appended to the log; returns the end of it.

        Raises:
            UserError: It failed.
        """
        with log_file().open("ab+") as log:
            begin, output = log.tell(), log.fileno()
            with self._starting():
                nothing, variables = subprocess.DEVNULL, _uv_environment()
                process = start_worker(
                    command, stdin=nothing, stdout=output, stderr=output, environment=variables
                )
                self._end = lambda: kill_with_children(process)
            try:
                while process.poll() is None:
                    watch()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(1.0)
            except BaseException:  # Ctrl-C
                kill_with_children(process)
                process.wait()
                raise
            with self._starting():
                log.seek(max(begin, log.seek(0, os.SEEK_END) - (1 << 16)))
                said = log.read().decode(errors="replace")
        if process.returncode != 0:
            raise explain(said)
        return said

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        """Around what `kill` must not miss; raises JobCancelled once it was called."""
        with self._lock:
            if self._is_killed:
                raise jobs.JobCancelled("gpu-install")
            yield


def installation(state: GpuState | None = None) -> Install:
    """What installs PyTorch with CUDA on this computer.

    Raises:
        UserError: It can't be had here, or Hone works offline.
    """
    state = state or look()
    if state.refusal or state.card is None:
        raise UserError(_("PyTorch with CUDA can't be installed here"), state.refusal)
    by = hub.forbidden_by()
    if by:
        raise UserError(
            _("Hone works offline"),
            _("{by} forbids downloading.").format(by=by),
            (Fix(_("Allow it in Settings")),),
        )
    return Install(state.card.torch_backend)


def remove() -> int:
    """Delete the environment and all downloads; returns the bytes freed.

    Raises:
        UserError: It is in use, or not all can be deleted.
    """
    folder = gpu_folder()
    with _alone():
        before = size_of(folder)
        jobs.gpu_marker().unlink(missing_ok=True)  # first: a half deleted environment must not be used
        try:
            if folder.is_dir():
                shutil.rmtree(folder)
        except OSError as error:
            said = f"{error.filename or folder}: {error.strerror or error}"
            raise UserError(_("Not all of PyTorch with CUDA could be deleted"), said) from error
        return before


def log_file() -> Path:
    """What uv and the check printed."""
    return gpu_folder() / "install.log"


def copy_source() -> None:
    """Copy Hone's own source into the environment: in a bundle it lies among other libraries."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    libraries = gpu_folder() / "env" / ("Lib" if os.name == "nt" else f"lib/{version}") / "site-packages"
    ignored = shutil.ignore_patterns("*.pyc", "__pycache__")
    for name in ("core", "resources"):
        shutil.copytree(SOURCE_ROOT / name, libraries / name, ignore=ignored)


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder; a file with several links (uv's cache and the environment) counts once."""
    seen: dict[tuple[int, int], int] = {}
    for parent, _rest, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # deleted meanwhile
                found = Path(parent, name).lstat()
                seen[found.st_dev, found.st_ino] = found.st_size
    return sum(seen.values())


def _free_bytes() -> int | None:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(next(path for path in (home(), *home().parents) if path.is_dir())).free
    return None


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let one Hone at a time change the environment, and none while the engine runs from it."""
    home().mkdir(parents=True, exist_ok=True)
    inside = f"{gpu_folder() / 'env'}{os.sep}"
    try:
        with locked(home(), 0.0, ".gpu.lock"):
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error, OSError):
                    if any(word.startswith(inside) for word in process.cmdline()):
                        fix = Fix(_("Wait until runs are over, or pause them; close Try it and Benchmark"))
                        raise UserError(
                            _("PyTorch with CUDA is in use"),
                            _("Hone runs from {inside}.").format(inside=inside),
                            (fix,),
                        )
            yield
    except TimeoutError as error:
        said = _("Another window or terminal of Hone installs or removes it.")
        raise UserError(_("PyTorch with CUDA is being changed"), said) from error


def _uv_environment() -> dict[str, str]:
    """Uv's folders, more time than its 30 s, and the system's proxies, which uv looks for in the environment only."""
    from urllib.request import getproxies  # slow to import

    proxies = {f"{kind.upper()}_PROXY": address for kind, address in getproxies().items()}
    wanted = {"UV_HTTP_TIMEOUT": "120", "UV_MANAGED_PYTHON": "1", **proxies}
    known = {name.upper() for name in os.environ}
    own = {"UV_CACHE_DIR": str(gpu_folder() / "cache"), "UV_PYTHON_INSTALL_DIR": str(gpu_folder() / "python")}
    own |= {"UV_PYTHON_INSTALL_BIN": "0", "UV_PYTHON_INSTALL_REGISTRY": "0"}
    return {name: value for name, value in wanted.items() if name not in known} | own


_CAUSES = {
    r"No space left|not enough space|os error (28|112)": (_("The disk is full."), _("Free some disk space")),
    r"\b407\b|[Pp]roxy": (
        _("A proxy refused the connection."),
        _("Set HTTPS_PROXY to its address, with name and password if it wants them"),
    ),
    r"certificate|CERTIFICATE|UnknownIssuer": (
        _("The server's certificate isn't trusted by this system."),
        _("Set SSL_CERT_FILE to the certificates of your network"),
    ),
    r"[Nn]o solution found|no version of|not found in the": (
        _("A library that Hone needs has no build for this computer."),
        _("Look for a newer version of Hone"),
    ),
    r"dns error|[Cc]onnect|[Tt]imed? ?out|Name or service|error sending request|Network|response body|end of file": (
        _("The internet can't be reached, or is too slow."),
        _("Check the connection, and set HTTPS_PROXY if there is a proxy"),
    ),
    r"Permission denied|Access is denied|os error (5|13)\b": (
        _("A file couldn't be read or written."),
        _("Check that Hone's folder belongs to you, and that no other program blocks it"),
    ),
    r"[Hh]ash mismatch|[Ii]nvalid zip|CRC|Wheel .* is invalid|corrupt|Failed to (read|extract)|deflate": (
        _("A downloaded file is damaged."),
        _("Remove what was downloaded"),
    ),
}
"""By pattern in what uv prints, the cause and the fix; the first match counts.

Damage comes last: uv says "Failed to extract" also where the connection broke or the disk was full.
"""


def explain(said: str) -> UserError:
    """The error for a program that failed, from the end of what it printed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(error|cause|×|├|╰)|.*\bError\b", line, re.IGNORECASE)]
    shown = (*lines[-3:], f"Log: {log_file()}")
    for text in ("\n".join(errors), said):
        for pattern, (cause, fix) in _CAUSES.items():
            if re.search(pattern, text):
                return UserError(TITLE, "\n".join((cause, *shown)), (Fix(fix), AGAIN))
    return UserError(TITLE, "\n".join(shown), (AGAIN,))
