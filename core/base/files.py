"""Files and paths: small files written whole or not at all, checks of paths that never fail, and locks."""

import codecs
import contextlib
import errno
import os
import re
import shutil
import stat
import sys
import tempfile
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from core.base.errors import Fix, TargetError, UserError, why
from core.base.language import _

Record = TypeVar("Record")

# --- Files


PATIENCE_SECONDS = 2.0

LARGEST_SMALL = 64 << 20
"""Largest record or marker, in bytes; a larger file isn't one."""

LARGEST_TEXT = 1 << 20
"""Largest run file, in bytes."""

_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_TOML = re.compile(
    rf"(?P<deep>(?:{_PART}){{50}})|(?:{_PART})++|[\w-]++|#[^\n]*+"
    r"""|\"""(?:[^"\\]|\\[\s\S]|"(?!""))*+"{0,5}|\'''(?:[^']|'(?!''))*+'{0,5}"""
    r"""|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?"""
)
"""Keys, comments and strings, closed or not: each is matched once, so that time grows linearly with the text."""


def write_atomically(path: Path, content: bytes) -> None:
    """Writes to a temporary file beside `path`, flushes it to disk, then renames it over `path`.

    The file gets the permissions of the person's new files. If it fails, no temporary file is left.
    """
    with written_whole(path) as temporary, temporary.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path` for a new file, which is renamed over `path` or, on failure, deleted.

    For files too large for memory. The file isn't flushed to disk.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        yield temporary
        _patiently(lambda: temporary.replace(path))
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def remove(path: Path) -> None:
    """Deletes a file, if there is one."""
    _patiently(lambda: path.unlink(missing_ok=True))


def open_plain(path: Path) -> BufferedReader:
    """Opens an ordinary file to read its bytes.

    An untrusted folder may hold pipes, which block, and links to devices, which have no end. Files in /proc, some of
    which block, too (/proc/kmsg), have no length: an empty file isn't opened.

    Raises:
        OSError: It doesn't exist, can't be read, or is no ordinary file.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, _("Not an ordinary file"), str(path))
    return path.open("rb") if found.st_size else BufferedReader(BytesIO())


def read_small(path: Path, largest: int = LARGEST_SMALL) -> bytes:
    """Returns all bytes of an ordinary file.

    Raises:
        OSError: It can't be read, is no ordinary file, or is larger than `largest` bytes.
    """
    with open_plain(path) as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def read_record(path: Path, kind: type[Record]) -> Record | None:
    """Returns what a small JSON file holds; None if it is missing or damaged."""
    try:
        return msgspec.json.decode(read_small(path), type=kind)
    except (OSError, ValueError, RecursionError):  # ValueError: no JSON, other fields, or no UTF-8
        return None


def file_inside(folder: Path, name: str) -> Path | None:
    """Returns an ordinary file of a folder by an untrusted relative path.

    Returns None if it is no file, or lies outside of the folder once links are followed.
    """
    try:
        path = (folder / name).resolve()
        is_file = stat.S_ISREG(path.stat().st_mode)
        return path if is_file and path.is_relative_to(folder.resolve()) else None
    except (OSError, ValueError, RuntimeError):  # ValueError: a zero byte; RuntimeError: links in a circle
        return None


def inside(folder: Path, name: str) -> Path:
    """Returns a path in a folder by a relative one with slashes, which isn't trusted; links aren't followed.

    Raises:
        UserError: It would lead elsewhere, here or on Windows.
    """
    path = folder
    for part in name.split("/"):
        path /= part
        if part == ".." or path.name != part or "\0" in part or is_link(path):
            raise UserError(_("“{path}” leads out of its folder").format(path=name))
    return path


def read_text(path: Path) -> str:
    """Reads a text in UTF-8, or in UTF-16 with a byte order mark, which `>` writes in Windows PowerShell 5.1.

    Raises:
        OSError: It can't be read, or is larger than any run file.
        UnicodeDecodeError: It has another encoding.
    """
    content = read_small(path, LARGEST_TEXT)
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
    return text.replace("\r\n", "\n")


def load_toml(text: str) -> dict[str, Any]:
    """Parses an untrusted TOML text.

    Raises:
        ValueError: It isn't TOML, or has a key of fifty parts: tomllib takes time by the square of their number.
        RecursionError: It is nested too deeply.
    """
    if any(found["deep"] for found in _TOML.finditer(text)):
        raise ValueError("a key has more than 50 parts")
    return tomllib.loads(text)


def changed_at(path: Path) -> int:
    """Returns when a file or folder was last written to, in unix nanoseconds; 0 if that can't be found out."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def free_bytes(path: Path) -> int | None:
    """Returns the bytes that are free on the disk where `path` is or would be; None if that can't be found out."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(place).free
    return None


def is_there(path: Path) -> bool:
    """Returns whether there is a file or folder at `path`; False if that can't be found out."""
    return os.path.exists(path)  # noqa: PTH110 - pathlib's raises what a disk reports


def is_folder(path: Path) -> bool:
    """Returns whether there is a folder at `path`, or a link to one; False if that can't be found out."""
    return os.path.isdir(path)  # noqa: PTH112 - as above


def place_of(path: Path) -> str:
    """Returns where a file or folder is once links are followed, in characters that JSON can hold."""
    return os.fsencode(path.resolve()).decode(errors="backslashreplace")


def is_link(path: Path) -> bool:
    """Returns whether a path is a symbolic link, or on Windows a junction."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return False
    is_junction = getattr(found, "st_reparse_tag", 0) == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)
    return stat.S_ISLNK(found.st_mode) or is_junction


def is_plain(path: Path) -> bool:
    """Returns whether `path` is a file, a folder or nothing, and no pipe, socket or device."""
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):
        return True
    return stat.S_ISREG(kind) or stat.S_ISDIR(kind)


def in_unicode(path: Path) -> str:
    """Returns a path as a text that can be encoded: � stands for bytes that aren't UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def why_missing(path: Path, kind: str = "") -> str:
    """Returns why `path` can't be used, such as "there is no file or folder at ..."; empty if it can."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return _("there is no {kind} at {path}").format(kind=kind or _("file or folder"), path=path)
    except OSError as error:
        return _("{path} can't be read: {reason}").format(path=path, reason=why(error))
    except ValueError as error:  # a zero byte
        return _("{path!r} is not a valid path: {error}").format(path=path, error=error)
    return ""


def temporary_prefix(kind: str) -> str:
    """Returns how the name of a temporary file or folder of this process begins, for `remove_left_over`."""
    return f"hone-{kind}-{os.getpid()}-"


_TEMPORARY = re.compile(r"hone-(?:reading|ranks|sample|states)-(\d{1,9})-\w+")


def remove_left_over() -> None:
    """Removes this person's temporary files and folders whose processes were killed before they could do it."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if not (own := _TEMPORARY.fullmatch(entry.name)) or entry.is_symlink():
                continue
            import psutil  # its import takes a while, and hardly ever is something left

            is_own = not hasattr(os, "getuid") or entry.stat(follow_symlinks=False).st_uid == os.getuid()
            if not is_own or psutil.pid_exists(int(own[1])):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                remove(Path(entry.path))


def _patiently(action: Callable[[], object]) -> None:
    """Retries for a while what Windows refuses while another process reads the file."""
    deadline = time.monotonic() + (PATIENCE_SECONDS if os.name == "nt" else 0.0)
    while True:
        try:
            action()
        except PermissionError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.02)
        else:
            return


# --- Locks


LOCK_SECONDS = 10.0
"""How long to wait for a lock. Locks are held for milliseconds."""

LOCK_FILE = ".lock"
"""An empty file that stays in the folder: if it were deleted, two processes could lock two files of that name."""

ENGINE_LOCK = ".engine.lock"
"""The lock of the engine that works on a run, in the run's folder."""

_PAUSE_SECONDS = 0.01
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


@contextlib.contextmanager
def locked(folder: Path, seconds: float = LOCK_SECONDS, name: str = LOCK_FILE) -> Iterator[None]:
    """Locks a folder against other processes and threads; on disks without locks (some network folders) does nothing.

    Raises:
        TimeoutError: The lock was held all the time.
        OSError: The folder can't be written to.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(folder / name, flags, 0o600)
    try:
        _take(file, folder, seconds)
        try:
            yield
        finally:
            _give_back(file)
    finally:
        os.close(file)


def is_locked(folder: Path, name: str) -> bool:
    """Returns whether a lock on a folder is held; False if that can't be found out."""
    try:
        file = os.open(folder / name, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        _try_to_take(file, shared=True)  # two processes that check at once don't see each other's lock
    except OSError as error:
        return error.errno in _TAKEN
    else:
        _give_back(file)
        return False
    finally:
        os.close(file)


def _take(file: int, folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            _try_to_take(file)
        except OSError as error:
            if error.errno not in _TAKEN:
                return
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    errno.ETIMEDOUT, _("Another process has locked it"), str(folder)
                ) from error
            time.sleep(_PAUSE_SECONDS)
        else:
            return


if sys.platform == "win32":
    import msvcrt

    def _try_to_take(file: int, *, shared: bool = False) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _give_back(file: int) -> None:
        with contextlib.suppress(OSError):
            os.lseek(file, 0, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_to_take(file: int, *, shared: bool = False) -> None:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)

    def _give_back(file: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)  # also where a child that is being started has a copy of it


# --- Output paths


FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
WRONG = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP),
    }
)
"""Errors of a place; another one would do."""

OTHER_FOLDER = Fix(_("Name a file in another folder"))


def new_file(path: Path) -> Path:
    """Returns the path of a file that doesn't exist yet, in a folder that does; checked before any work is done for it.

    Raises:
        TargetError: It exists already, or the folder doesn't.
    """
    if error := _wrong_target(path):
        raise error
    if is_there(path):
        raise TargetError(_("{path} is there already; choose another name").format(path=path))
    return path


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Translates OSErrors around code that does nothing but write the file at `path`.

    Raises:
        TargetError: The file can't be written there, but elsewhere.
        UserError: It can't be written for another reason: the disk is full.
    """
    try:
        yield
    except OSError as error:
        raise _wrong_target(path) or _not_written(path, error) from error


def _wrong_target(path: Path) -> TargetError | None:
    title = _("{name} can't be written").format(name=path.name or path)
    if is_folder(path):
        return TargetError(title, _("{path} is a folder.").format(path=path), (Fix(_("Name a file in it")),))
    folder = path.parent
    if not is_folder(folder):
        template = _("{folder} is no folder.") if is_there(folder) else _("There is no folder at {folder}.")
        return TargetError(title, template.format(folder=folder), (OTHER_FOLDER,))
    return None


def _not_written(path: Path, error: OSError) -> UserError:
    title = _("{name} can't be written").format(name=path.name or path)
    if error.errno in FULL:
        fix = Fix(_("Free some space on it, or name a file on another disk"))
        return UserError(title, _("The disk that {path} is on is full.").format(path=path), (fix,))
    detail = f"{path}: {why(error)}"
    if error.errno in WRONG:
        return TargetError(title, detail, (OTHER_FOLDER,))
    return UserError(title, detail)
