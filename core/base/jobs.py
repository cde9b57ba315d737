"""Starting Hone's own processes: a run's keeper, and short questions to the engine."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from core.base.ceiling import Ceiling, RanOut, room_for_reading
from core.base.errors import Fix, UserError
from core.base.files import read_small, write_atomically
from core.base.processes import (
    ASKER,
    SOURCE_ROOT,
    converse,
    describe,
    is_frozen,
    is_out_of_memory,
    kill_with_children,
    out_of_memory_kills,
    own_program,
    signal_name,
    start_worker,
)
from core.base.settings import VERSION, home
from core.base.system import SystemMemory, system_memory

# --- What a GPU pack says of itself, in a file that is written last: without it, it is none


Content = TypeVar("Content", bound=msgspec.Struct)

SCHEMA = 1
MARKER = "pack.json"
FILLED = "filled.json"
"""Written once Python and all libraries are there: a newer Hone that needs the same takes them over."""

LIBRARIES = "libraries"
PYTHON = "python"
OWN = "hone"


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a pack is filled with.

    `python` is Python's version such as 3.11, `build` the build of PyTorch such as cu130 (empty: whichever a folder of
    wheels holds), `requirements` and `pins` are lines as pip takes them.
    """

    python: str
    build: str
    requirements: tuple[str, ...]
    pins: tuple[str, ...] = ()


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """A pack with all its libraries. `interpreter` is a path in the pack's folder, or a full one beside it."""

    needs: Needs
    interpreter: str


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What the check inside a pack found: PyTorch, the CUDA it was built with, the card it computed on.

    `device` is empty where PyTorch reaches no card; `problem` then says why, as far as it told.
    """

    torch: str
    cuda: str | None = None
    device: str = ""
    problem: str = ""


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    """A pack that is done: which Hone made it, what is in it, what the check found, and its bytes."""

    hone: str
    filled: Filled
    checked: Checked
    size: int
    schema: int = SCHEMA


def read_pack(folder: Path) -> Pack | None:
    """The pack in a folder; None: there is none, or it isn't done."""
    found = _read(folder / MARKER, Pack)
    return found if found is not None and found.schema == SCHEMA else None


def read_filled(folder: Path) -> Filled | None:
    """What a pack is filled with, whether or not it is done; None: not known."""
    return _read(folder / FILLED, Filled)


def write(path: Path, content: msgspec.Struct) -> None:
    """Write one of these, whole or not at all."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(content)))


def interpreter_of(folder: Path, filled: Filled) -> Path:
    """The Python that a pack runs on."""
    return folder / filled.interpreter  # a full path stays what it is


def _read(path: Path, kind: type[Content]) -> Content | None:
    try:
        return msgspec.json.decode(read_small(path), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


# --- Where the GPU pack, those in the making, and its downloads lie: all in Hone's own folder


NAME = "gpu-pack"
LOCK = ".gpu-pack.lock"
LOG = "gpu-pack.log"


def pack_folder() -> Path:
    """The pack that the engine runs from, where there is one."""
    return home() / NAME


def cache_folder() -> Path:
    """Downloads of an installation that isn't done: the next one goes on with them."""
    return home() / f"{NAME}.cache"


def new_folder() -> Path:
    """A name for a pack in the making; nobody runs from it."""
    return home() / f"{NAME}.new-{uuid.uuid4().hex[:8]}"


def old_folder() -> Path:
    """A name for a pack that another one has taken the place of."""
    return home() / f"{NAME}.old-{uuid.uuid4().hex[:8]}"


def leftovers() -> list[Path]:
    """Packs that were never done, and old ones of which not all could be deleted."""
    return [path for kind in ("new", "old") for path in home().glob(f"{NAME}.{kind}-*")]


def clear_leftovers() -> None:
    """Delete them, as far as the system lets: a program may still have a file of theirs open."""
    for path in leftovers():
        shutil.rmtree(path, ignore_errors=True)


def size_of(*folders: Path) -> int:
    """Bytes of all files in some folders, a file with several names counted once; what vanishes meanwhile isn't."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for found in (found for folder in folders for found in _files(folder)):
        if found.st_nlink > 1:
            if (found.st_dev, found.st_ino) in seen:
                continue
            seen.add((found.st_dev, found.st_ino))
        total += found.st_size
    return total


def _files(folder: Path) -> Iterator[os.stat_result]:
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                yield Path(parent, name).lstat()
            except OSError:
                continue


# --- What a GPU pack needs: the libraries of Hone but those of its window


OF_THE_WINDOW = frozenset({"pyqtgraph", "pyside6-essentials", "send2trash", "wakepy"})
OF_PYTORCH = frozenset({"torch", "torchvision"})
"""What PyTorch's own index has in a build for each CUDA; their names there end with it: `torch==2.13.0+cu130`."""


def needs(build: str) -> Needs:
    """What a pack of this Hone is filled with.

    Args:
        build: The build of PyTorch, such as cu130; empty: any that a folder of wheels holds.

    Raises:
        UserError: This Hone came without the list of its libraries.
    """
    from importlib import metadata  # takes a moment, which the window needn't wait for

    try:
        asked = metadata.requires("hone") or []
        pins = _pins_file().read_text(encoding="utf-8").splitlines()
    except (metadata.PackageNotFoundError, OSError) as error:
        raise UserError("This Hone doesn't say which libraries it needs", str(error)) from error
    lines = [line for line in asked if "extra ==" not in line and name_of(line) not in OF_THE_WINDOW]
    requirements = tuple(_built(line, build) for line in lines)
    kept = tuple(
        line for line in pins if line and not line.startswith("#") and name_of(line) not in OF_PYTORCH
    )
    major, minor = sys.version_info[:2]
    return Needs(python=f"{major}.{minor}", build=build, requirements=requirements, pins=kept)


def name_of(line: str) -> str:
    """The name of the library that a line is about, as indexes compare names."""
    found = re.match(r"[\w.-]+", line, re.ASCII)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def _built(line: str, build: str) -> str:
    """A requirement, of PyTorch in this build and no other: another index may have the same version without CUDA."""
    return f"{line}+{build}" if build and name_of(line) in OF_PYTORCH else line


def _pins_file() -> Path:
    """The pins; packaging/hone.spec puts them beside Hone's own source in a bundle."""
    folder = "pins" if is_frozen() else "packaging"
    return SOURCE_ROOT / folder / "constraints.txt"


# --- Running the engine from the GPU pack, where there is one that fits this Hone


SCRIPTS = Path("core", "gpu_pack")


@dataclass(frozen=True)
class Standing:
    """The pack on this computer. `refusal` says why the engine doesn't run from it; both are empty where there is none.

    `can_renew`: its libraries are those this Hone needs, and its Python is there, so that little has to be done.
    """

    pack: Pack | None = None
    refusal: str = ""
    can_renew: bool = False

    @property
    def is_there(self) -> bool:
        """Whether something is there, of use or not."""
        return self.pack is not None or bool(self.refusal)

    @property
    def is_used(self) -> bool:
        """Whether the engine runs from it."""
        return self.pack is not None and not self.refusal


def standing(folder: Path | None = None) -> Standing:
    """How the pack stands that lies in `folder`, which is Hone's own place for it unless another is named."""
    folder = folder or pack_folder()
    if not folder.is_dir():
        return Standing()
    pack, filled = read_pack(folder), read_filled(folder)
    can_renew = _fits(filled) and has_python(folder, filled)
    if pack is None:
        return Standing(None, "The GPU pack isn't complete: renew it in Settings.", can_renew)
    if pack.hone != VERSION:
        return Standing(
            pack,
            f"The GPU pack was made by Hone {pack.hone}, and this is {VERSION}: renew it in Settings. Until then "
            "Hone computes without it.",
            can_renew,
        )
    if not _fits(pack.filled):
        return Standing(pack, "The GPU pack has other libraries than this Hone needs: renew it in Settings.")
    if not has_python(folder, pack.filled):
        return Standing(pack, "The Python of the GPU pack is gone: renew it in Settings.")
    return Standing(pack)


def engine_program(*arguments: str) -> list[str] | None:
    """What starts the engine from the pack with these arguments; None: it runs without one."""
    folder = pack_folder()
    found = standing(folder)
    if found.pack is None or not found.is_used:
        return None
    return script_command(folder, found.pack.filled, "launch.py", *arguments)


def has_python(folder: Path, filled: Filled | None) -> bool:
    """Whether the Python that a pack runs on is there."""
    return filled is not None and interpreter_of(folder, filled).is_file()


def script_command(
    folder: Path, filled: Filled, script: str, *arguments: str, own: Path | None = None
) -> list[str]:
    """What runs one of the scripts beside this file in a pack's Python, with its libraries and Hone's own source.

    -P: a file torch.py in the working folder would be imported as torch; -s: so would one the person once installed.

    Args:
        folder: The pack.
        filled: What it is filled with.
        script: The script's name.
        arguments: What it is given after both folders.
        own: Hone's own source; None: that of the pack.
    """
    own = own or own_source(folder)
    program = [str(interpreter_of(folder, filled)), "-P", "-s", str(own / SCRIPTS / script)]
    return [*program, str(folder / LIBRARIES), str(own), *arguments]


def own_source(folder: Path) -> Path:
    """Where Hone's own source for a pack is: a bundle's folder holds other libraries too, so its source is copied."""
    return folder / OWN if is_frozen() else SOURCE_ROOT


def _fits(filled: Filled | None) -> bool:
    """Whether a pack holds the libraries that this Hone needs."""
    try:
        return filled is not None and filled.needs == needs(filled.needs.build)
    except UserError:
        return False


# --- Starting Hone's own processes: a run's keeper, and short questions to the engine


ASK_SECONDS = 600.0
"""How long a job may be silent before it is given up: a large file on a slow disk, not for ever."""


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """A `core.base.errors.UserError` on its way out of the engine."""

    title: str
    detail: str = ""
    fixes: tuple[Fix, ...] = ()


class JobFailure(msgspec.Struct, frozen=True, kw_only=True):
    """What a job answers, with exit status 1, when the person can mend what stopped it."""

    error: FailureReport


class JobProgress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """How far a job is, told on a line of its own before the answer; `done` of `total`, of no unit.

    `what` says what it is doing, in a few words; empty where it is one thing only.
    """

    done: int
    total: int
    what: str = ""

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return min(1.0, self.done / self.total) if self.total > 0 else 0.0


Answer = TypeVar("Answer")
TellProgress = Callable[[JobProgress], None]
_PROGRESS = b'{"type":"progress"'
"""What lines begin with that tell how far a job is; the answer is the last line."""


class EngineCrashed(Exception):  # noqa: N818 - said as the window says it
    """An engine job ended without an answer: a bug or a crash. `report` is what it printed to standard error."""

    def __init__(self, job: str, code: int, report: str) -> None:
        super().__init__(f"The engine's job {job!r} gave no answer. {describe(code)}\n{report}".rstrip())
        self.job = job
        self.code = code
        self.report = report


class JobCancelled(Exception):  # noqa: N818 - somebody changed their mind; nothing is wrong
    """An engine job was ended by `EngineJob.kill` before it had answered."""


def engine_command(*arguments: str) -> list[str]:
    """What starts the engine, out of the GPU pack where there is one, with arguments such as `("train", RUN_DIR)`."""
    packed = engine_program(*arguments)
    if packed is not None:
        return packed
    if is_frozen():
        return [own_program(), "--engine", *arguments]
    # -P: or a file torch.py lying in the working folder would be imported as torch
    return [sys.executable, "-P", "-m", "core.engine", *arguments]


def start_asked(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> tuple["subprocess.Popen[bytes]", IO[bytes]]:
    """Start a process that is asked through its standard input and answers on its standard output.

    Args:
        command: What starts it.
        environment: Variables set besides the usual ones.

    Returns:
        The process, and the file that keeps what it prints to standard error; whoever waits for the end closes it.

    Raises:
        OSError: It can't be started.
    """
    messages = tempfile.TemporaryFile()  # noqa: SIM115 - closed by who asked for it
    try:
        process = start_worker(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages.fileno(),
            environment={ASKER: str(os.getpid()), **(environment or {})},
        )
    except BaseException:
        messages.close()
        raise
    return process, messages


class EngineJob:
    """One short engine process that answers one question and ends, under a ceiling of memory and time.

    Args:
        job: Its name, such as `inspect`.
        command: What starts it, where it isn't Hone's own engine.
        limit: Bytes it may hold; `room_for_reading` tells.
        system: Reads the computer's memory.

    Raises:
        OSError: It can't be started.
    """

    def __init__(
        self,
        job: str,
        command: Sequence[str] | None = None,
        *,
        limit: Callable[[SystemMemory], int | None] = room_for_reading,
        system: Callable[[], SystemMemory] = system_memory,
    ) -> None:
        self._job = job
        self._killed = False
        self._kills_before = out_of_memory_kills()
        self._ceiling = Ceiling(limit=limit(system()), system=system)
        try:
            self._process, self._messages = start_asked(
                command or engine_command(job), self._ceiling.environment
            )
        except BaseException:
            self._ceiling.close()
            raise

    @property
    def pid(self) -> int:
        """The number of its process."""
        return int(self._process.pid)

    def ask(
        self, request: bytes = b"", timeout: float = ASK_SECONDS, tell: TellProgress | None = None
    ) -> bytes:
        """Send the request and wait for the answer; may be called once.

        Args:
            request: What is asked.
            timeout: Seconds of silence after which the job is given up, where it says of nothing that it reads it.
            tell: Hears how far the job is, where it says so.

        Raises:
            RanOut: It took too much memory.
            UserError: The engine says what the person can mend, or it was silent for too long.
            EngineCrashed: It ended without an answer.
            JobCancelled: `kill` was called meanwhile.
        """
        ceiling = self._ceiling
        ceiling.seconds = timeout

        def hear(line: bytes) -> None:
            ceiling.hear()
            if line.startswith(_PROGRESS) and tell is not None:
                tell(msgspec.json.decode(line, type=JobProgress))

        with self._messages:
            with ceiling.over_process(self.pid, lambda: kill_with_children(self._process)):
                answer = converse(self._process, request, hear)
            if self._killed:
                raise JobCancelled(self._job)
            if ceiling.over:
                raise ceiling.over
            if self._ran_out():
                raise RanOut("", ceiling.highest, "The operating system ended it for lack of memory.")
            if self._process.returncode != 0:
                self._messages.seek(0)
                raise self._failure(answer, self._messages.read())
        return answer

    def kill(self) -> None:
        """End the job at once; may be called from another thread while `ask` waits."""
        self._killed = True
        kill_with_children(self._process)
        self._ceiling.close()

    def _ran_out(self) -> bool:
        """Whether it ended for lack of memory. macOS counts no such endings: a killed process was most likely one."""
        code, kills = self._process.returncode, out_of_memory_kills()
        if kills is None and sys.platform == "darwin" and signal_name(code) == "SIGKILL":
            return True
        return is_out_of_memory(code, kills=kills != self._kills_before)

    def _failure(self, answer: bytes, messages: bytes) -> Exception:
        code = self._process.returncode
        if code == 1:
            try:
                told = msgspec.json.decode(answer, type=JobFailure).error
            except msgspec.MsgspecError:
                pass
            else:
                return UserError(told.title, told.detail, told.fixes)
        return EngineCrashed(self._job, code, messages.decode(errors="replace"))


def run_job(
    name: str,
    request: msgspec.Struct | None,
    answer: type[Answer],
    on_progress: TellProgress | None = None,
    *,
    timeout: float = ASK_SECONDS,
) -> Answer:
    """Ask the engine one question in a process of its own and wait for the answer.

    Args:
        name: The job.
        request: What is asked; None: the job's name says all.
        answer: The type of the answer.
        on_progress: Hears how far the job is.
        timeout: Seconds of silence after which it is given up.

    Raises:
        OSError: It can't be started.
        UserError: The engine says what a person can do about it, it was silent for too long, or took too much memory.
        EngineCrashed: It ended without an answer.
    """
    content = b"" if request is None else msgspec.json.encode(request)
    return decoded(name, EngineJob(name).ask(content, timeout, on_progress), answer)


def decoded(job: str, answer: bytes, kind: type[Answer]) -> Answer:
    """The answer of a job as what it should be.

    Raises:
        EngineCrashed: It is something else.
    """
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.MsgspecError as error:
        raise EngineCrashed(
            job, 0, f"Its answer can't be read: {error}\n{answer[:2000].decode(errors='replace')}"
        ) from error
