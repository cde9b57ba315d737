"""Files and paths: small files written whole or not at all, texts read as they come, paths looked at without a fall."""

import codecs
import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

PATIENCE_SECONDS = 2.0


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


def read_text(path: Path) -> str:
    """A text in UTF-8, or in UTF-16 with its mark, which is what `>` writes in Windows PowerShell 5.1.

    Raises:
        OSError: It can't be read.
        UnicodeDecodeError: It is neither.
    """
    content = path.read_bytes()
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
    return text.replace("\r\n", "\n")


def is_there(path: Path) -> bool:
    """Whether there is a file or folder at `path`; no where that can't be found out."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def why_missing(path: Path, kind: str = "file or folder") -> str:
    """Why there is nothing to use at `path`, such as "there is no file or folder at ..."; empty where there is."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return f"there is no {kind} at {path}"
    except OSError as error:
        return f"{path} can't be looked at: {error.strerror or error}"
    except ValueError as error:  # a zero byte
        return f"{path!r} is no path: {error}"
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
