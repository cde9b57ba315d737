"""Downloading a model or data set into the Hub's cache: what a run needs of it, and only whole.

Until the last file has come, all lie under names that nobody takes for a model's; then they get their places at once.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from huggingface_hub import constants, errors, get_hf_file_metadata, get_session, hf_hub_download, hf_hub_url
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of its HTTP library, whichever that is
from huggingface_hub.file_download import are_symlinks_supported
from huggingface_hub.utils import WeakFileLock, hf_raise_for_status  # type: ignore[attr-defined]

from core.base.errors import Fix, ModelError
from core.base.files import remove, write_atomically
from core.base.format import size as size_words
from core.base.jobs import JobProgress
from core.engine.hub import search as data_files
from core.engine.hub.account import FAILURES as ACCOUNT_FAILURES
from core.engine.hub.account import Record, Sibling, Subject, offline, told, without_token
from core.engine.hub.search import CARD, ask, card_of, found_of, has_token, headers
from core.services import hub
from core.services.hub import (
    PARTIAL,
    Downloaded,
    DownloadRequest,
    Kind,
    cache_folder,
    partial_files,
    repo_folder,
    wanted,
)

# --- Fetch one file of a model on the Hugging Face Hub: config.json


CONFIG_SECONDS = 10.0
"""How long the Hub may keep silent."""

MOST_CONFIG_BYTES = 8 << 20
"""A config.json beyond this is none. Those with names for tens of thousands of labels have 1 to 2 MB."""

FAILURES = (HTTPError, errors.HFValidationError, OSError)
"""What huggingface_hub raises here; its own errors are among them."""

CONFIG_FAILURES: tuple[tuple[type[Exception], str, str], ...] = (
    (
        errors.HFValidationError,
        "{source} is no name of a model on the Hub",
        "Such a name is “model” or “organisation/model”. A folder is given by its whole path.",
    ),
    (
        errors.OfflineModeIsEnabled,
        "The config.json of {source} was not fetched",
        "HF_HUB_OFFLINE is set, so that nothing is asked of the Hub.",
    ),
    (
        errors.GatedRepoError,
        "{source} is open only to those who have accepted its terms",
        "Accept them at {page}, then log in on this computer: hf auth login",
    ),
    (
        errors.RepositoryNotFoundError,
        "There is no model {source} on {host}, or it is private",
        "Look whether its name is spelled right. A private model needs a login: hf auth login",
    ),
    (
        errors.RemoteEntryNotFoundError,
        "{source} has no config.json",
        "Without one, nobody can tell what kind of model it is. Choose another model.",
    ),
    (errors.HfHubHTTPError, "{host} doesn't hand out the config.json of {source}", "{status}"),
    (HTTPError, "{host} can't be reached", "Is this computer online? ({library})"),
    (errors.LocalEntryNotFoundError, "{host} can't be reached", "Is this computer online? ({library})"),
    (
        errors.FileMetadataError,
        "{host} doesn't answer as the Hub does",
        "Something on the way answers in its place: a proxy, or a network that wants a login first.",
    ),
    (OSError, "The config.json of {source} can't be kept on this computer", "{library}"),
)
"""What to say of each error, the narrowest first."""


def fetch_config(source: str) -> hub.ConfigFetched:
    """Bring a model's config.json to this computer.

    Args:
        source: The model's id on the Hub.

    Raises:
        ModelError: It can't be had: no network, no such model, none without a login, no such file, no room on the disk.
    """
    try:
        # Asked first, and once: hf_hub_download by itself would try for minutes where there is no network.
        found = get_hf_file_metadata(hf_hub_url(source, hub.CONFIG), timeout=CONFIG_SECONDS)
        if found.commit_hash is None:
            raise errors.FileMetadataError("no commit is named")
        if (found.size or 0) > MOST_CONFIG_BYTES:
            raise _too_large(source)
        return hub.ConfigFetched(path=hf_hub_download(source, hub.CONFIG, etag_timeout=CONFIG_SECONDS))
    except FAILURES as error:
        raise not_fetched(source, error) from error


def not_fetched(source: str, error: Exception) -> ModelError:
    """Why config.json isn't here, in words a person can act on; `error` is one of `FAILURES`."""
    title, detail = next(
        (title, detail) for kind, title, detail in CONFIG_FAILURES if isinstance(error, kind)
    )
    known = {
        "source": source,
        "host": hub.host(),
        "page": f"{hub.PUBLIC}/{source}",
        "status": _status(error),
        "library": _first_line_of_library(error),
    }
    return ModelError(title.format(**known), detail.format(**known))


def _too_large(source: str) -> ModelError:
    return ModelError(
        f"The config.json of {source} is too large to be one",
        f"It has more than {MOST_CONFIG_BYTES >> 20} MB and was not fetched. Choose another model.",
    )


def _status(error: Exception) -> str:
    """What the Hub's refusal means; empty where it is none."""
    if not isinstance(error, errors.HfHubHTTPError):
        return ""
    match error.response.status_code:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return "It doesn't accept this computer's login. Log in anew: hf auth login"
        case HTTPStatus.TOO_MANY_REQUESTS:
            return "It was asked too often from here. Try again in some minutes."
        case status:
            return f"It said {status} {error.response.reason_phrase}. Try again later."


def _first_line_of_library(error: Exception) -> str:
    """What a library says, in short; the kind of the error where it says nothing."""
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# --- Fetching one file of the Hub: goes on where it ended


FETCH_SECONDS = 30.0
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
        "GET", piece.url, headers=asked, timeout=FETCH_SECONDS, follow_redirects=True
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


# --- Downloading a model or data set into the Hub's cache: what a run needs of it


TELL_SECONDS = 0.2
"""So often progress is told at most."""

SPARE = 256 << 20
"""Bytes that must be left on the disk beside a download."""

MOST_BYTES_OF_CARD = 4 << 20

Tell = Callable[[JobProgress], None]


@dataclass(frozen=True)
class Plan:
    """What is to come of a repository, at which commit."""

    subject: Subject
    commit: str
    pieces: tuple[Piece, ...]

    @property
    def folder(self) -> Path:
        """The repository's folder in the cache."""
        return repo_folder(self.subject.name, self.subject.kind)

    @property
    def snapshot(self) -> Path:
        """Where the files get their own names."""
        return self.folder / "snapshots" / self.commit

    def partial(self, piece: Piece) -> Path:
        """Where a file's bytes gather."""
        return self.folder / "blobs" / f"{piece.digest}{PARTIAL}"

    def missing(self) -> list[Piece]:
        """The files that aren't in their places yet, the small ones first: what is wrong with them shows soon."""
        absent = [piece for piece in self.pieces if not (self.snapshot / piece.name).exists()]
        return sorted(absent, key=lambda piece: piece.size)

    @property
    def total(self) -> int:
        """Bytes of all of them."""
        return sum(piece.size for piece in self.pieces)


def download(request: DownloadRequest, tell: Tell, wait: Wait = time.sleep) -> Downloaded:
    """Bring a model or data set to this computer, going on with what has come of it before.

    Args:
        request: Which.
        tell: Hears how far it is, a few times a second.
        wait: Lets time pass before the network is tried again.

    Raises:
        UserError: It can't be trained, can't be had, has no room, or what came is damaged.
    """
    subject = Subject(request.id, request.kind, has_token())
    if hub.is_forbidden():
        raise offline(subject)
    plan = _plan(request, subject, wait)
    locks = cache_folder() / ".locks" / plan.folder.name
    try:
        locks.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(locks / "hone.lock", timeout=0.5):
            return _carry_out(plan, tell, wait)
    except TimeoutError:
        raise subject.error(
            f"{request.id} is being downloaded already", "Wait for it, or cancel it where it was started."
        ) from None
    except Damaged as error:
        raise subject.error(
            f"{request.id} came damaged", f"{without_token(str(error))}. Download it again."
        ) from error
    except ACCOUNT_FAILURES as error:
        raise told(error, subject) from error


def drop_partial(name: str, kind: Kind) -> int:
    """Delete what has come of a repository's unfinished files; where nothing else is there, its folder goes as well.

    Returns:
        How many bytes that freed.
    """
    folder = repo_folder(name, kind)
    files = partial_files(name, kind)
    freed = sum(path.stat().st_size for path in files)
    for path in files:
        remove(path)
    if folder.is_dir() and not any(path.is_file() or path.is_symlink() for path in folder.rglob("*")):
        shutil.rmtree(folder)
    return freed


def _carry_out(plan: Plan, tell: Tell, wait: Wait) -> Downloaded:
    (plan.folder / "blobs").mkdir(parents=True, exist_ok=True)
    (plan.folder / "snapshots").mkdir(exist_ok=True)
    missing = plan.missing()
    _refuse_without_room(plan, missing)
    counted = _Counted(plan.total, plan.total - sum(piece.size for piece in missing), tell)
    sent = headers()  # once: each time the keychain is asked
    for piece in missing:
        if not (plan.folder / "blobs" / piece.digest).exists():
            fetch(piece, plan.partial(piece), sent, counted.of(piece), wait)
        counted.finish(piece)
    _place(plan, missing)
    return Downloaded(path=str(plan.snapshot), files=len(plan.pieces), size=plan.total)


class _Counted:
    """Counts bytes over all files, and tells of it a few times a second."""

    def __init__(self, total: int, done: int, tell: Tell) -> None:
        self._total = total
        self._done = done
        self._tell = tell
        self._told = 0.0

    def of(self, piece: Piece) -> Callable[[int], None]:
        """Hears how many bytes of one file are here."""

        def tell(here: int) -> None:
            now = time.monotonic()
            if now - self._told >= TELL_SECONDS:
                self._told = now
                self._tell(JobProgress(done=self._done + here, total=self._total, what=piece.name))

        return tell

    def finish(self, piece: Piece) -> None:
        """One more file is whole."""
        self._done += piece.size
        self._tell(JobProgress(done=self._done, total=self._total, what=piece.name))


def _plan(request: DownloadRequest, subject: Subject, wait: Wait) -> Plan:
    """Ask the Hub for the list of files, and refuse what can't be trained before any of them comes."""
    if not hub.is_name(request.id):
        raise subject.error(
            f"“{request.id}” is no name on the Hub",
            "Such a name is “model” or “owner/model”: letters, digits, “-”, “_” and “.”.",
        )
    record = ask(f"/api/{request.kind}s/{request.id}", Record, subject, {"blobs": True})
    judged = found_of(record, request.kind)
    if judged.refusal:
        advice = tuple(Fix(line) for line in (judged.remedy, judged.command) if line)
        error = subject.error(f"Hone can't use {request.id}", judged.refusal)
        error.fixes = advice
        raise error
    siblings = {one.rfilename: one for one in record.siblings or ()}
    names = wanted(siblings)
    if request.kind is Kind.DATASET:
        names = _of_subset(request, subject, record, siblings, wait)
    pieces = tuple(_piece(siblings[name], record.sha, subject) for name in names)
    return Plan(subject, record.sha, pieces)


def _of_subset(
    request: DownloadRequest, subject: Subject, record: Record, siblings: dict[str, Sibling], wait: Wait
) -> list[str]:
    """The files of one subset of a data set, after its card, which names them."""
    card: dict[str, object] = {}
    if CARD in siblings and (siblings[CARD].size or 0) < MOST_BYTES_OF_CARD:
        plan = Plan(subject, record.sha, (_piece(siblings[CARD], record.sha, subject),))
        card = _fetched_card(plan, wait)
    _, splits = data_files.chosen(data_files.subsets(card, siblings), request.subset, request.id)
    names = sorted({name for files in splits.values() for name in files})
    return [*([CARD] if CARD in siblings else []), *names]


def _fetched_card(plan: Plan, wait: Wait) -> dict[str, object]:
    piece = plan.pieces[0]
    if (plan.snapshot / CARD).exists():
        return card_of(plan.snapshot / CARD)
    try:
        (plan.folder / "blobs").mkdir(parents=True, exist_ok=True)
        fetch(piece, plan.partial(piece), headers(), lambda _: None, wait)
    except Damaged:
        return {}
    except ACCOUNT_FAILURES as error:
        raise told(error, plan.subject) from error
    return card_of(plan.partial(piece))


def _piece(sibling: Sibling, commit: str, subject: Subject) -> Piece:
    """A file with its address and hash; the hash is what the cache calls it by."""
    large = sibling.lfs
    size = (large.size if large else None) or sibling.size
    digest = large.sha256 if large else sibling.blobId
    if size is None or not (digest.isalnum() and commit.isalnum()):  # both become names of files
        raise subject.error(
            f"{hub.host()} doesn't say enough of {subject.name}",
            f"Size, hash or commit of {sibling.rfilename} is missing.",
        )
    path = Path(sibling.rfilename)
    if ".." in path.parts or path.anchor:  # on Windows C:name is neither absolute nor below a folder
        raise subject.error(f"{subject.name} can't be used", f"A file is called {sibling.rfilename}.")
    kind = None if subject.kind is Kind.MODEL else subject.kind.value
    url = hf_hub_url(
        subject.name, sibling.rfilename, repo_type=kind, revision=commit, endpoint=constants.ENDPOINT
    )
    return Piece(name=sibling.rfilename, url=url, size=size, digest=digest, is_large=large is not None)


def _refuse_without_room(plan: Plan, missing: list[Piece]) -> None:
    begun = sum(path.stat().st_size for path in partial_files(plan.subject.name, plan.subject.kind))
    needed = sum(piece.size for piece in missing) - begun
    free = shutil.disk_usage(plan.folder).free
    if missing and needed + SPARE > free:
        raise plan.subject.error(
            f"There is no room for {plan.subject.name}",
            f"{size_words(needed)} are to come and {size_words(free)} are free where {cache_folder()} lies, "
            f"{size_words(SPARE)} of which are left alone. `hone hub --list` and Settings show what could go.",
        )


def _place(plan: Plan, pieces: list[Piece]) -> None:
    """Give whole files their names, the weights last, then name the commit: only that makes a model of them."""
    for piece in sorted(pieces, key=lambda piece: piece.size):
        _put(plan, piece)
    for path in partial_files(plan.subject.name, plan.subject.kind):
        remove(path)  # of another version, given up
    refs = plan.folder / "refs"
    refs.mkdir(exist_ok=True)
    write_atomically(refs / "main", plan.commit.encode())


def _put(plan: Plan, piece: Piece) -> None:
    """Put a whole file where the cache has it: a link to it by its own name, or the file where links can't be."""
    target = plan.snapshot / piece.name
    blob = plan.folder / "blobs" / piece.digest
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = plan.partial(piece)
    if are_symlinks_supported(cache_folder()):
        if not blob.exists():
            partial.replace(blob)
        if not target.is_symlink():
            target.symlink_to(os.path.relpath(blob, target.parent))
    elif partial.exists():
        partial.replace(target)
    else:
        twins = (plan.snapshot / other.name for other in plan.pieces if other.digest == piece.digest)
        shutil.copyfile(next((twin for twin in twins if twin.exists()), blob), target)
