"""Fetching one file of the Hub: goes on where it ended, tries again when the connection breaks, and checks its hash.

huggingface_hub 2.4.0 begins each file anew after a pause (https://github.com/huggingface/huggingface_hub/pull/4228), so
the bytes are carried here, by plain HTTP with `Range`; its session, headers and errors are used.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from huggingface_hub import errors, get_session
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of its HTTP library, whichever that is
from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]

from core.files import remove

SECONDS = 30.0
"""How long a file may bring no byte before the connection counts as broken."""

WAITS = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each new try, while none brings a byte; one that does starts the count anew."""

BUSY = (408, 429, 500, 502, 503, 504)
"""What the Hub says when it is worth asking again."""

LONGEST_WAIT = 60.0
"""The Hub may ask for some seconds' patience; no more than this is heeded."""

Wait = Callable[[float], None]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A file to fetch: its name, address, bytes, and its hash, by which the cache knows it.

    `is_large`: the hash is SHA-256 of the file. Else it is Git's, SHA-1 of a short heading and the file.
    """

    name: str
    url: str
    size: int
    digest: str
    is_large: bool


class Damaged(Exception):  # noqa: N818 - said of the file
    """What came is not the file that the Hub lists: of another length or another hash."""


def fetch(
    piece: Piece,
    partial: Path,
    headers: Mapping[str, str],
    tell: Callable[[int], None],
    wait: Wait = time.sleep,
) -> None:
    """Bring a file into `partial`, after what is in it already.

    Args:
        piece: The file.
        partial: Where its bytes go; it stays behind when this ends with an error of the network or the disk.
        headers: What goes along with each request.
        tell: Called with how many of its bytes are here.
        wait: Lets time pass before a new try.

    Raises:
        Damaged: What came isn't the file; `partial` is gone.
        HTTPError: The Hub refuses it, or the network does not come back.
        OSError: It can't be written.
    """
    failures = 0
    while (before := _size(partial)) < piece.size or not partial.exists():
        tell(before)
        broken: Exception = Damaged(f"{piece.name} ends before its {piece.size:,} bytes are full")
        try:
            _receive(piece, partial, before, headers, tell)
        except HTTPError as error:
            broken = error
        if _size(partial) > before:
            failures = 0
        elif piece.size == 0:
            break
        elif failures >= len(WAITS) or not _is_worth_a_try(broken):
            raise broken
        else:
            wait(_patience(broken, failures))
            failures += 1
    _check(piece, partial)
    tell(piece.size)


def _receive(
    piece: Piece, partial: Path, begin: int, headers: Mapping[str, str], tell: Callable[[int], None]
) -> None:
    """One request for what is missing."""
    asked = {**headers, "Accept-Encoding": "identity"}
    if begin:
        asked["Range"] = f"bytes={begin}-"
    stream: AbstractContextManager[Any] = get_session().stream(
        "GET", piece.url, headers=asked, timeout=SECONDS, follow_redirects=True
    )
    with stream as response:
        hf_raise_for_status(response)
        if response.status_code != HTTPStatus.PARTIAL_CONTENT:
            begin = 0  # whoever answers knows no ranges
        _refuse_other_length(response, piece, begin, partial)
        with partial.open("r+b" if begin else "wb") as file:
            file.seek(begin)
            _write(response, file, piece, begin, tell)


def _write(response: Any, file: BinaryIO, piece: Piece, begin: int, tell: Callable[[int], None]) -> None:
    here = begin
    for chunk in response.iter_bytes():
        here += len(chunk)
        if here > piece.size:
            file.truncate(0)
            raise Damaged(f"{piece.name} has more than the {piece.size:,} bytes that the Hub lists")
        file.write(chunk)
        file.flush()  # a pause ends this process at once, and must lose nothing
        tell(here)


def _refuse_other_length(response: Any, piece: Piece, begin: int, partial: Path) -> None:
    """Raise where the answer says at once that it is another file, or another part of it."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return  # packed on its way: its length says nothing
    said = response.headers.get("Content-Range", "")
    whole = said.rpartition("/")[2]
    length = int(whole) if whole.isdecimal() else None
    if length is None and response.headers.get("Content-Length", "").isdecimal():
        length = begin + int(response.headers["Content-Length"])
    is_elsewhere = begin and not said.replace("bytes ", "").startswith(f"{begin}-")
    if (length is not None and length != piece.size) or is_elsewhere:
        remove(partial)
        raise Damaged(
            f"{piece.name} has {length:,} bytes, and the Hub lists {piece.size:,}" if length else said
        )


def _check(piece: Piece, partial: Path) -> None:
    """Raise where the file's hash isn't the one that the Hub lists."""
    if not piece.digest:
        return
    found = (
        hashlib.sha256() if piece.is_large else hashlib.sha1(b"blob %d\0" % piece.size, usedforsecurity=False)
    )
    with partial.open("rb") as file:
        while chunk := file.read(1 << 20):
            found.update(chunk)
    if found.hexdigest() != piece.digest:
        remove(partial)
        raise Damaged(f"The hash of {piece.name} isn't the one that the Hub lists")


def _is_worth_a_try(error: Exception) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, errors.HfHubHTTPError):
        return error.response.status_code in BUSY
    return "certificate" not in str(error).lower()


def _patience(error: Exception, failures: int) -> float:
    """Seconds to wait: as long as the Hub asks for, within reason."""
    said = error.response.headers.get("Retry-After", "") if isinstance(error, errors.HfHubHTTPError) else ""
    return min(LONGEST_WAIT, float(said)) if said.isdecimal() else WAITS[failures]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
