"""Install PyTorch with CUDA for a bundle that came without: an environment made by uv, from which the engine runs.

`gpu_folder()` contains `env` (the environment), `python` (its interpreter), `cache` (uv's downloads, linked into
`env`), `install.log`, and `installed.json`, which is written last: without it the environment isn't used.
"""

import contextlib
import json
import os
import platform
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

from core.base import formats, jobs, uv
from core.base.errors import Fix, UserError, why
from core.base.files import free_bytes, locked, write_atomically
from core.base.jobs import GpuEnvironment, JobProgress, TellProgress, gpu_environment, gpu_folder, gpu_python
from core.base.language import _
from core.base.processes import SOURCE_ROOT, is_frozen, kill_with_children, start_worker
from core.base.settings import VERSION, home
from core.hosts.install import GB, requirements
from core.jobs.uv import UvProgram
from core.monitor.nvidia import driver_version, find_gpu
from core.options import hub

DOWNLOAD, INSTALLED, FREE_NEEDED = int(2.7 * GB), int(5.6 * GB), int(7.5 * GB)
"""Bytes of the wheels of CUDA 13 for Linux: PyTorch 0.5 GB, NVIDIA's libraries 2.0 GB, all others 0.2 GB."""

TITLE = _("PyTorch with CUDA wasn't installed")
AGAIN = Fix(_("Install it again; finished downloads are reused"))

CHECK = """
import json
from core.engine.environment import prepare_torchvision
prepare_torchvision()
import bitsandbytes, torch, torchvision, core.engine.train
device = problem = ""
try:
    if torch.cuda.is_available():
        assert torch.ones(8, device="cuda").sum().item() == 8, "the GPU computed a wrong sum"
        device = torch.cuda.get_device_name(0)
except (AssertionError, RuntimeError) as error:
    problem = str(error)
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "device": device, "problem": problem}))
"""
"""Run in the new environment: imports the training libraries and computes a sum on the GPU."""


@dataclass(frozen=True)
class NvidiaCard:
    """An NVIDIA card, its compute capability and its driver's major version (None if unknown)."""

    name: str
    capability: tuple[int, int] | None = None
    driver: int | None = None

    @property
    def torch_backend(self) -> str:
        return uv.torch_backend(self.capability)


@dataclass(frozen=True)
class GpuState:
    """What is installed, or why nothing can be (`refusal`); `begun` counts bytes of an unfinished installation."""

    refusal: str = ""
    card: NvidiaCard | None = None
    installed: GpuEnvironment | None = None
    begun: int = 0
    free: int | None = None

    @property
    def is_used(self) -> bool:
        return self.installed is not None and self.installed.hone == VERSION

    @property
    def concerns(self) -> bool:
        """Whether there is a card, an installation, or an unfinished one."""
        return self.card is not None or self.installed is not None or bool(self.begun)


def state_text(state: GpuState) -> str:
    """Returns what is installed or can be, in sentences."""
    installed, card = state.installed, state.card
    if state.is_used and installed is not None:
        text = _("Hone uses PyTorch {torch} with CUDA {cuda} on {device}.")
        if not installed.device:
            text = _("PyTorch {torch} with CUDA {cuda} is installed, but found no GPU: {problem}.")
        problem = installed.problem or _("its driver may be too old")
        return text.format(
            torch=installed.torch, cuda=installed.cuda, device=installed.device, problem=problem
        )
    text = ""
    if installed is not None:
        text = _("Hone {version} installed PyTorch with CUDA. Until it is updated, Hone uses the CPU.")
        text = text.format(version=installed.hone)
    if state.refusal or card is None:
        return formats.paragraph(text, state.refusal)
    if installed is None:
        text = _(
            "{card} is in this computer, but Hone came with PyTorch for the CPU. PyTorch with CUDA takes about "
            "{size} to download and {installed} on the disk."
        ).format(
            card=card.name,
            size=formats.memory(DOWNLOAD),
            installed=formats.memory(INSTALLED),
        )
    free = _("{free} are free.").format(free=formats.memory(state.free)) if state.free is not None else ""
    begun = (
        _("{size} are downloaded already.").format(size=formats.memory(state.begun)) if state.begun else ""
    )
    return formats.paragraph(text, free, begun)


def look() -> GpuState:
    """Inspects this computer; slow if a driver hangs."""
    refusal, card = unsupported(sys.platform, platform.machine(), frozen=is_frozen()), None
    if not refusal:
        card = find_card()
        refusal = why_not(card)
    installed = gpu_environment()
    begun = size_of(gpu_folder()) if installed is None else 0
    return GpuState(refusal, card, installed, begun, free_bytes(gpu_folder()))


def find_card(nvml: Any = pynvml) -> NvidiaCard | None:
    """Returns the first NVIDIA card; None without a card or a driver."""
    gpu = find_gpu(nvml=nvml)
    return None if gpu is None else NvidiaCard(gpu.name, gpu.capability(), driver_version(nvml))


def unsupported(system: str, processor: str, *, frozen: bool) -> str:
    """Returns why nothing can be installed on this system; empty if it can."""
    if system == "darwin":
        return _("Macs have no CUDA: Hone trains on their GPU (MPS) without it.")
    if processor.lower() not in ("x86_64", "amd64", "aarch64"):
        return _("PyTorch has no CUDA build for this processor ({processor}).").format(processor=processor)
    return "" if frozen else _("This Hone runs from source: start.py installs PyTorch for the card.")


def why_not(card: NvidiaCard | None) -> str:
    """Returns why PyTorch with CUDA can't run on this card; empty if it can.

    CUDA 12 needs driver 525, but has no code for Blackwell; CUDA 13 needs 580
    (https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).
    """
    if card is None:
        return _("No NVIDIA card with a driver was found: install NVIDIA's driver, then restart Hone.")
    needed = 525 if card.capability is not None and card.capability <= (9, 0) else 580
    if card.driver is None or card.driver >= needed:
        return ""
    return _(
        "{name} has driver {driver}, which is too old: install NVIDIA's driver {needed} or newer."
    ).format(name=card.name, driver=card.driver, needed=needed)


class Install:
    """Makes the environment with a value of uv's `--torch-backend`; for one use. Downloads survive a failure."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._end: Callable[[], None] = lambda: None
        self._is_killed = False

    def run(self, tell: TellProgress) -> GpuEnvironment:
        """Installs, reporting progress about once a second.

        Raises:
            UserError: The installation failed.
            JobCancelled: `kill` was called.
            EngineCrashed: The engine's job that downloads uv crashed.
        """
        folder, cache = gpu_folder(), gpu_folder() / "cache"

        def watch() -> None:
            done = min(size_of(cache), INSTALLED)
            tell(JobProgress(done=done, total=INSTALLED, what=_("Downloading PyTorch with CUDA")))

        try:
            with _exclusive():
                free, needed = free_bytes(gpu_folder()), FREE_NEEDED - size_of(folder)
                if free is not None and free < needed:
                    detail = _("{free} are free on the disk of {home}, {needed} are needed.").format(
                        free=formats.memory(free), home=home(), needed=formats.memory(needed)
                    )
                    raise UserError(TITLE, detail, (Fix(_("Free some disk space")), AGAIN))
                folder.mkdir(exist_ok=True)
                jobs.gpu_marker().unlink(missing_ok=True)
                tell(JobProgress(done=0, total=0, what=_("Downloading uv and Python")))
                program = [self._find_uv(), "--no-config", "--no-progress"]
                python = f"{sys.version_info.major}.{sys.version_info.minor}"
                self._run([*program, *uv.VENV, python, str(folder / "env")])
                lists = {"--requirement": "requirements.txt", "--constraint": "constraints.txt"}
                for name, lines in zip(lists.values(), requirements(), strict=True):
                    (folder / name).write_text("\n".join(lines), encoding="utf-8")
                packages = [word for key, name in lists.items() for word in (key, str(folder / name))]
                command = [*program, *uv.INSTALL, str(gpu_python()), "--only-binary", ":all:"]
                self._run([*command, "--torch-backend", self._backend, *packages], watch)
                tell(JobProgress(done=0, total=0, what=_("Checking that it works")))
                copy_source()
                found = self._check()
                write_atomically(jobs.gpu_marker(), msgspec.json.encode(found))
                return found
        except OSError as error:
            said = f"{error.filename or folder}: {error.strerror or error}"  # English is read by `why_not_installed`
            raise explain(said) from error

    def kill(self) -> None:
        """Ends the installation; may be called from any thread, also before it has begun."""
        with self._lock:
            self._is_killed = True
            self._end()

    def _find_uv(self) -> str:
        """Downloads the tested version of uv, or finds one on the PATH if that fails."""
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
        output = self._run([str(gpu_python()), "-P", "-s", "-c", CHECK])
        answer = json.loads(next(line for line in output.splitlines() if line.startswith('{"torch"')))
        if not answer["cuda"]:
            detail = _("PyTorch {version} came without CUDA.").format(version=answer["torch"])
            raise UserError(TITLE, detail, (Fix(_("Install NVIDIA's newest driver")), AGAIN))
        return GpuEnvironment(hone=VERSION, size=size_of(gpu_folder()), **answer)

    def _run(self, command: list[str], watch: Callable[[], None] = lambda: None) -> str:
        """Runs a program and appends its output to the log; returns the last 64 KiB of the output.

        Raises:
            UserError: The program failed.
        """
        with log_file().open("ab+") as log:
            begin, output = log.tell(), log.fileno()
            with self._starting():
                process = start_worker(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    environment=_uv_environment(),
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
                text = log.read().decode(errors="replace")
        if process.returncode != 0:
            raise explain(text)
        return text

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        """Protects the start of a process against a concurrent `kill`; raises JobCancelled after one."""
        with self._lock:
            if self._is_killed:
                raise jobs.JobCancelled("gpu-install")
            yield


def installation(state: GpuState | None = None) -> Install:
    """Returns the installation for this computer.

    Raises:
        UserError: It is impossible here, or Hone works offline.
    """
    state = state or look()
    if state.refusal or state.card is None:
        raise UserError(_("PyTorch with CUDA can't be installed here"), state.refusal)
    by = hub.forbidden_by()
    if by:
        raise UserError(
            _("Hone works offline"),
            _("{by} forbids downloads.").format(by=by),
            (Fix(_("Allow it in Settings")),),
        )
    return Install(state.card.torch_backend)


def remove() -> int:
    """Deletes the environment and all downloads; returns the freed bytes.

    Raises:
        UserError: The environment is in use, or can't be deleted completely.
    """
    folder = gpu_folder()
    with _exclusive():
        before = size_of(folder)
        jobs.gpu_marker().unlink(missing_ok=True)  # first: a half deleted environment must not be used
        try:
            if folder.is_dir():
                shutil.rmtree(folder)
        except OSError as error:
            detail = f"{error.filename or folder}: {why(error)}"
            raise UserError(_("PyTorch with CUDA could not be deleted completely"), detail) from error
        return before


def log_file() -> Path:
    """Returns the log's path: output of uv and of the check."""
    return gpu_folder() / "install.log"


def copy_source() -> None:
    """Copies Hone's source into the environment, apart from the libraries of the bundle."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    libraries = gpu_folder() / "env" / ("Lib" if os.name == "nt" else f"lib/{version}") / "site-packages"
    ignored = shutil.ignore_patterns("*.pyc", "__pycache__")
    for name in ("core", "resources"):
        shutil.copytree(SOURCE_ROOT / name, libraries / name, ignore=ignored)


def size_of(folder: Path) -> int:
    """Returns the bytes of all files in a folder, hard links (between uv's cache and the environment) counted once."""
    seen: dict[tuple[int, int], int] = {}
    for parent, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # deleted meanwhile
                status = Path(parent, name).lstat()
                seen[status.st_dev, status.st_ino] = status.st_size
    return sum(seen.values())


@contextlib.contextmanager
def _exclusive() -> Iterator[None]:
    """Locks the environment against other processes of Hone; fails while an engine runs from it."""
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
        detail = _("Another window or terminal of Hone installs or removes it.")
        raise UserError(_("PyTorch with CUDA is being changed"), detail) from error


def _uv_environment() -> dict[str, str]:
    """Returns uv's variables, with Python and downloads in Hone's folder."""
    own = {"UV_CACHE_DIR": str(gpu_folder() / "cache"), "UV_PYTHON_INSTALL_DIR": str(gpu_folder() / "python")}
    return {"UV_MANAGED_PYTHON": os.environ.get("UV_MANAGED_PYTHON", "1"), **uv.environment(), **own}


def explain(output: str) -> UserError:
    """Returns the error of a failed program, from the end of its output."""
    cause, fix, lines = uv.why_not_installed(output)
    shown = "\n".join(filter(None, (cause, *lines, f"Log: {log_file()}")))
    return UserError(TITLE, shown, (*((Fix(fix),) if fix else ()), AGAIN))
