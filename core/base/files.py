"""Files and paths: small files written whole or not at all, texts read as they come, paths looked at without a fall."""

import codecs
import contextlib
import errno
import os
import re
import stat
import sys
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

from core.base.errors import Fix, TargetError, UserError
from core.base.language import _

# --- Files


PATIENCE_SECONDS = 2.0

LARGEST_SMALL = 64 << 20
"""No record or marker has more bytes; what has is none, and would only fill the memory."""

LARGEST_TEXT = 1 << 20
"""The same of run files."""

_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_TOML = re.compile(
    rf"(?P<deep>(?:{_PART}){{50}})|(?:{_PART})++|[\w-]++|#[^\n]*+"
    r"""|\"""(?:[^"\\]|\\[\s\S]|"(?!""))*+"{0,5}|\'''(?:[^']|'(?!''))*+'{0,5}"""
    r"""|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?"""
)
"""Keys, comments and strings, closed or not: each is read past once, so that time grows as the text does."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file beside `path`, flush it to disk, then rename it over `path`.

    The file gets the permissions that the person's new files get. Where it fails, nothing is left beside.
    """
    with written_whole(path) as temporary, temporary.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name beside `path` for a new file, which is renamed over `path` at the end; where that fails, nothing is left.

    For what is too large to be held in memory, and can be made again; what must not be lost flushes it to disk itself.
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
    """Take a file away; nothing happens where there is none."""
    _patiently(lambda: path.unlink(missing_ok=True))


def open_plain(path: Path) -> BufferedReader:
    """Open an ordinary file to read its bytes.

    A folder that a stranger made may hold pipes, which an opening waits for, and links to devices, which have no end.
    Of no length are the files of /proc, too, some of which wait to be read (/proc/kmsg): a file of none isn't opened.

    Raises:
        OSError: There is none, it can't be read, or it is no ordinary file.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, _("Not an ordinary file"), str(path))
    return path.open("rb") if found.st_size else BufferedReader(BytesIO())


def read_small(path: Path, largest: int = LARGEST_SMALL) -> bytes:
    """All bytes of an ordinary file that can't be large.

    Raises:
        OSError: It can't be read, is no ordinary file, or is large all the same.
    """
    with open_plain(path) as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def file_inside(folder: Path, name: str) -> Path | None:
    """An ordinary file of a folder by its relative path; None where it is none or lies elsewhere, links followed.

    For names in files that a stranger may have written.
    """
    try:
        path = (folder / name).resolve()
        is_file = stat.S_ISREG(path.stat().st_mode)
        return path if is_file and path.is_relative_to(folder.resolve()) else None
    except (OSError, ValueError, RuntimeError):  # ValueError: a zero byte; RuntimeError: links in a circle
        return None


def read_text(path: Path) -> str:
    """A text in UTF-8, or in UTF-16 with its mark, which is what `>` writes in Windows PowerShell 5.1.

    Raises:
        OSError: It can't be read, or is larger than any run file.
        UnicodeDecodeError: It is neither.
    """
    content = read_small(path, LARGEST_TEXT)
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
    return text.replace("\r\n", "\n")


def load_toml(text: str) -> dict[str, Any]:
    """What a TOML text that a stranger may have written says.

    Raises:
        ValueError: It isn't TOML, or has a key of fifty parts: tomllib takes time by the square of their number.
        RecursionError: It is nested without end.
    """
    if any(found["deep"] for found in _TOML.finditer(text)):
        raise ValueError("a key has more than 50 parts")
    return tomllib.loads(text)


def is_there(path: Path) -> bool:
    """Whether there is a file or folder at `path`; no where that can't be found out."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def is_folder(path: Path) -> bool:
    """Whether there is a folder at `path`, or a link to one; no where that can't be found out."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def is_link(path: Path) -> bool:
    """Whether a path is a symbolic link, or on Windows a junction: what stands there lies elsewhere."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return False
    is_junction = getattr(found, "st_reparse_tag", 0) == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)
    return stat.S_ISLNK(found.st_mode) or is_junction


def is_plain(path: Path) -> bool:
    """Whether what stands at `path` is a file or a folder, and no pipe, socket or device; also where nothing does."""
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):
        return True
    return stat.S_ISREG(kind) or stat.S_ISDIR(kind)


def why_missing(path: Path, kind: str = _("file or folder")) -> str:
    """Why there is nothing to use at `path`, such as "there is no file or folder at ..."; empty where there is."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return _("there is no {kind} at {path}").format(kind=kind, path=path)
    except OSError as error:
        return _("{path} can't be looked at: {strerror}").format(path=path, strerror=error.strerror or error)
    except ValueError as error:  # a zero byte
        return _("{path!r} is no path: {error}").format(path=path, error=error)
    return ""


def without_tilde(text: str) -> Path:
    """A path with `~` and `~name` put in full; as it stands where nobody is called so (`~notes.csv`)."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _patiently(action: Callable[[], object]) -> None:
    """Try again for a while what Windows refuses as long as another process reads the file."""
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
"""How long a lock is waited for. Whoever holds one does so for milliseconds."""

LOCK_FILE = ".lock"
"""An empty file that stays in the folder: taken away, two processes could hold two files of the same name."""

ENGINE_LOCK = ".engine.lock"
"""The same in a run's folder, for the engine that works on it."""

_PAUSE_SECONDS = 0.01
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


@contextlib.contextmanager
def locked(folder: Path, seconds: float = LOCK_SECONDS, name: str = LOCK_FILE) -> Iterator[None]:
    """Keep everybody else out who locks the same folder, threads of this process included.

    A disk that knows no locks (some network folders) keeps nobody out.

    Args:
        folder: An existing folder.
        seconds: How long to wait for whoever holds it.
        name: The file that is locked; another one is another lock.

    Raises:
        TimeoutError: Somebody held it all the time.
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
    """Whether somebody holds a lock on a folder; no where that can't be found out."""
    try:
        file = os.open(folder / name, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        _try_to_take(file, shared=True)  # two that ask at once don't take each other for the holder
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
                    errno.ETIMEDOUT, _("Another process keeps it locked"), str(folder)
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
"""What the system says of a place where another one would do."""

OTHER_FOLDER = Fix(_("Name a file in another folder"))


def new_file(path: Path) -> Path:
    """The path of a file that isn't there yet, in a folder that is: asked before any work is done for it.

    Raises:
        TargetError: Something is there, or the folder isn't.
    """
    if is_folder(path):
        raise _folder_there(path)
    if is_there(path):
        raise TargetError(f"{path} is there already; choose another name")
    if not is_folder(path.parent):
        raise _no_folder(path)
    return path


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around what writes the file at `path` and does nothing else: tells what the system refuses.

    Raises:
        TargetError: The file can't be written there, but elsewhere.
        UserError: It can't be written, for another reason: the disk is full.
    """
    try:
        yield
    except OSError as error:
        raise _told(path, error) from error


def _told(path: Path, error: OSError) -> UserError:
    if is_folder(path):
        return _folder_there(path)
    if not is_folder(path.parent):
        return _no_folder(path)
    if error.errno in FULL:
        fix = Fix(_("Make room on it, or name a file on another disk"))
        return UserError(_title(path), _("The disk that {path} is on is full.").format(path=path), (fix,))
    said = f"{path}: {error.strerror or error}"
    if error.errno in WRONG:
        return TargetError(_title(path), said, (OTHER_FOLDER,))
    return UserError(_title(path), said)


def _folder_there(path: Path) -> TargetError:
    return TargetError(
        _title(path), _("{path} is a folder.").format(path=path), (Fix(_("Name a file in it")),)
    )


def _no_folder(path: Path) -> TargetError:
    why = why_missing(path.parent, "folder").replace("there is", "There is", 1)
    return TargetError(_title(path), f"{why or f'{path.parent} is no folder'}.", (OTHER_FOLDER,))


def _title(path: Path) -> str:
    return _("{name} can't be written").format(name=path.name or path)
