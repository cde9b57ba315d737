"""A file that a person named to be written to: what can't be there is said in a sentence, with what to do instead."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from core.errors import Fix, TargetError, UserError
from core.files import is_folder, is_there, why_missing

FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
WRONG = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP),
    }
)
"""What the system says of a place where another one would do."""

OTHER_FOLDER = Fix("Name a file in another folder")


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
        fix = Fix("Make room on it, or name a file on another disk")
        return UserError(_title(path), f"The disk that {path} is on is full.", (fix,))
    said = f"{path}: {error.strerror or error}"
    if error.errno in WRONG:
        return TargetError(_title(path), said, (OTHER_FOLDER,))
    return UserError(_title(path), said)


def _folder_there(path: Path) -> TargetError:
    return TargetError(_title(path), f"{path} is a folder.", (Fix("Name a file in it"),))


def _no_folder(path: Path) -> TargetError:
    why = why_missing(path.parent, "folder").replace("there is", "There is", 1)
    return TargetError(_title(path), f"{why or f'{path.parent} is no folder'}.", (OTHER_FOLDER,))


def _title(path: Path) -> str:
    return f"{path.name or path} can't be written"
