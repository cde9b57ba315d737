"""Installing the GPU pack: made beside, checked from inside, and only then given its name.

A pause, a failure, or an end of Hone at any moment leaves the pack as it was, and downloads for the next attempt. Only
one that doesn't pass the check isn't used any more.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec
import psutil

from core import hub
from core.errors import Fix, UserError
from core.gpu_pack import places, trouble, what
from core.gpu_pack.child import Child
from core.gpu_pack.needs import needs
from core.gpu_pack.pack import FILLED, MARKER, OWN, Checked, Filled, Needs, Pack, read_filled, write
from core.gpu_pack.tools import PipTool, Tool, UvTool
from core.gpu_pack.using import has_python, script_command, standing
from core.hub_questions import Progress
from core.locks import locked
from core.processes import SOURCE_ROOT, is_frozen
from core.settings import home
from core.version import VERSION

CHECKED = (
    "core.engine.torchvision_ops:prepare_torchvision",
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
        room: int = what.ROOM,
        total: int = what.INSTALLED,
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
        pack = Pack(hone=VERSION, filled=filled, checked=checked, size=places.size_of(folder))
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
        free = what.free_bytes()
        needed = self._room - places.size_of(places.cache_folder())
        if free is not None and free < needed:
            raise trouble.no_room(free, needed, home())


def installation(wheels: Path | None = None, offer: what.Offer | None = None) -> Install:
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
    offer = offer or what.look().offer
    if not offer.stands:
        raise UserError("There is no GPU pack for this computer", offer.refusal)
    by = hub.forbidden_by()
    if by:
        raise UserError(
            "Hone works offline",
            f"{by} forbids it to download the GPU pack.",
            (Fix("Allow it, or take it from a folder: hone gpu-pack install --from FOLDER"),),
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
