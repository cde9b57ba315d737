"""Downloading models and data sets into the Hub's cache, listing what is there, and removing it.

Until the last file is whole, all have names that no program takes for a model's; then they get their places at once.
`snapshot_download` starts a broken off file again (https://github.com/huggingface/huggingface_hub/pull/4228), so files
are fetched with huggingface_hub's `http_get`, which continues it.
"""

import hashlib
import io
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from huggingface_hub import (
    constants,
    errors,
    get_hf_file_metadata,
    hf_hub_download,
    hf_hub_url,
    scan_cache_dir,
)
from huggingface_hub.errors import CacheNotFound
from huggingface_hub.file_download import are_symlinks_supported, http_get
from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

from core.base.errors import DataError, Fix, ModelError
from core.base.files import remove, write_atomically
from core.base.formats import size as size_words
from core.base.jobs import JobProgress, TellProgress
from core.engine.hub.account import FAILURES, Subject, find_token, offline, told, without_token
from core.engine.hub.search import (
    CARD,
    Record,
    Sibling,
    ask,
    card_of,
    chosen,
    found_of,
    headers,
    is_data,
    subsets,
)
from core.services import hub
from core.services.hub import (
    PARTIAL,
    Cached,
    CacheReport,
    Downloaded,
    DownloadRequest,
    Kind,
    Removed,
    RemoveRequest,
    cache_folder,
    names_here,
    partial_files,
    repo_folder,
    wanted,
    weights,
)

CONFIG_SECONDS = 10.0
MOST_CONFIG_BYTES = 8 << 20
"""A larger config.json is none: those that name tens of thousands of labels have 1 to 2 MB."""

TELL_SECONDS = 0.2
SPARE = 256 << 20
"""Bytes that must stay free on the disk."""

MOST_CARD_BYTES = 4 << 20
KINDS = {kind.value: kind for kind in Kind}
PART = re.compile(r"model-\d+-of-(\d+)\.safetensors")

# As they come: in pieces of 10 MiB a slow line would show no progress, and a pause lose up to that much.
constants.DOWNLOAD_CHUNK_SIZE = None  # type: ignore[assignment]


def fetch_config(source: str) -> hub.ConfigFetched:
    """Fetch the config.json of a model.

    Raises:
        ModelError: It can't be had.
    """
    subject = Subject(source, has_token=bool(find_token()[0]))
    try:
        # Asked first, and once: hf_hub_download by itself would try for minutes where there is no network.
        found = get_hf_file_metadata(hf_hub_url(source, hub.CONFIG), timeout=CONFIG_SECONDS)
        if found.commit_hash is None:
            raise errors.FileMetadataError("no commit is named")
        if (found.size or 0) > MOST_CONFIG_BYTES:
            detail = f"It has more than {MOST_CONFIG_BYTES >> 20} MB. Choose another model."
            raise ModelError(f"The config.json of {source} is too large to be one", detail)
        return hub.ConfigFetched(path=hf_hub_download(source, hub.CONFIG, etag_timeout=CONFIG_SECONDS))
    except errors.RemoteEntryNotFoundError as error:
        detail = "Without one, its architecture isn't known. Choose another model."
        raise ModelError(f"{source} has no config.json", detail) from error
    except FAILURES as error:
        raise told(error, subject) from error


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A file to fetch. `digest` names its blob in the cache: SHA-256 if `is_large`, else Git's SHA-1."""

    name: str
    url: str
    size: int
    digest: str
    is_large: bool


class Damaged(Exception):  # noqa: N818 - said of the file
    """What came is not the file that the Hub lists."""


class _Partial(io.FileIO):
    """An unfinished file, written without a buffer: a pause ends the process, and must lose nothing."""

    def __init__(self, path: Path, tell: Callable[[int], None]) -> None:
        super().__init__(path, "r+b" if path.exists() else "w+b")
        self.seek(0, os.SEEK_END)
        self._tell = tell

    def write(self, content: Any) -> int:
        left = memoryview(content)
        while left:
            left = left[super().write(left) :]
        self._tell(self.tell())
        return len(content)


def fetch(piece: Piece, partial: Path, sent: Mapping[str, str], tell: Callable[[int], None]) -> None:
    """Fetch a file into `partial`, after what is in it; `tell` is called with its bytes so far.

    Raises:
        Damaged: What came isn't the file; `partial` is gone.
        HTTPError: The Hub refuses it, or the network does not come back.
        OSError: It can't be written.
    """
    with _Partial(partial, tell) as file:
        tell(file.tell())
        try:
            if piece.size > file.tell():
                asked = {**sent, "Accept-Encoding": "identity"}
                begin, whole = file.tell(), piece.size
                http_get(piece.url, file, resume_size=begin, headers=asked, expected_size=whole)
        except OSError as error:
            if error.errno is None and "Consistency check" in str(error):
                _refuse(
                    piece,
                    partial,
                    f"{piece.name} doesn't have the {piece.size:,} bytes that the Hub lists",
                    error,
                )
            raise
    if partial.stat().st_size != piece.size:
        _refuse(piece, partial, f"{piece.name} doesn't have the {piece.size:,} bytes that the Hub lists")
    found = (
        hashlib.sha256() if piece.is_large else hashlib.sha1(b"blob %d\0" % piece.size, usedforsecurity=False)
    )
    with partial.open("rb") as file:
        while chunk := file.read(1 << 20):
            found.update(chunk)
    if piece.digest and found.hexdigest() != piece.digest:
        _refuse(piece, partial, f"The hash of {piece.name} isn't the one that the Hub lists")


def _refuse(piece: Piece, partial: Path, why: str, cause: Exception | None = None) -> None:
    remove(partial)
    raise Damaged(why) from cause


@dataclass(frozen=True)
class Plan:
    """What is to be fetched of a repository, at which commit."""

    subject: Subject
    commit: str
    pieces: tuple[Piece, ...]

    @property
    def folder(self) -> Path:
        return repo_folder(self.subject.name, self.subject.kind)

    @property
    def snapshot(self) -> Path:
        return self.folder / "snapshots" / self.commit

    def partial(self, piece: Piece) -> Path:
        return self.folder / "blobs" / f"{piece.digest}{PARTIAL}"


def download(request: DownloadRequest, tell: TellProgress) -> Downloaded:
    """Download what a run needs of a model or data set, continuing what was begun; `tell` hears bytes and file.

    Raises:
        UserError: It can't be trained or had, has no room, or what came is damaged.
    """
    subject = Subject(request.id, request.kind, bool(find_token()[0]))
    if hub.is_forbidden():
        raise offline(subject)
    try:
        plan = _plan(request, subject)
        locks = cache_folder() / ".locks" / plan.folder.name
        locks.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(locks / "hone.lock", timeout=0.5):
            return _carry_out(plan, tell)
    except TimeoutError:
        detail = "Wait for it, or cancel it where it was started."
        raise subject.error(f"{request.id} is being downloaded already", detail) from None
    except Damaged as error:
        detail = f"{without_token(str(error))}. Download it again."
        raise subject.error(f"{request.id} came damaged", detail) from error
    except FAILURES as error:
        raise told(error, subject) from error


def _plan(request: DownloadRequest, subject: Subject) -> Plan:
    """Ask the Hub for the files, and refuse what can't be trained before any of them comes."""
    if not hub.is_name(request.id):
        raise told(errors.HFValidationError(request.id), subject)
    record = ask(f"/api/{request.kind}s/{request.id}", Record, subject, {"blobs": True})
    judged = found_of(record, request.kind)
    if judged.refusal:
        error = subject.error(f"Hone can't use {request.id}", judged.refusal)
        error.fixes = tuple(Fix(line) for line in (judged.remedy, judged.command) if line)
        raise error
    siblings = {one.rfilename: one for one in record.siblings or ()}

    def plan(names: list[str]) -> Plan:
        return Plan(subject, record.sha, tuple(_piece(siblings[name], record.sha, subject) for name in names))

    if request.kind is Kind.MODEL:
        return plan(wanted(siblings))
    has_card = CARD in siblings and (siblings[CARD].size or 0) < MOST_CARD_BYTES
    card = _card(plan([CARD])) if has_card else {}
    _, splits = chosen(subsets(card, siblings), request.subset, request.id)
    names = sorted({name for files in splits.values() for name in files})
    return plan([*([CARD] if CARD in siblings else []), *names])


def _card(plan: Plan) -> dict[str, Any]:
    """The card of a data set, which names its subsets."""
    (piece,) = plan.pieces
    if not (plan.snapshot / CARD).exists():
        (plan.folder / "blobs").mkdir(parents=True, exist_ok=True)
        try:
            fetch(piece, plan.partial(piece), headers(), lambda _: None)
        except Damaged:
            return {}
        return card_of(plan.partial(piece))
    return card_of(plan.snapshot / CARD)


def _piece(sibling: Sibling, commit: str, subject: Subject) -> Piece:
    large, path = sibling.lfs, Path(sibling.rfilename)
    size = (large.size if large else None) or sibling.size
    digest = large.sha256 if large else sibling.blobId
    if size is None or not (digest.isalnum() and commit.isalnum()):  # both become names of files
        detail = f"Size, hash or commit of {sibling.rfilename} is missing."
        raise subject.error(f"{hub.host()} doesn't say enough of {subject.name}", detail)
    if ".." in path.parts or path.anchor:  # on Windows C:name is neither absolute nor below a folder
        raise subject.error(f"{subject.name} can't be used", f"A file is called {sibling.rfilename}.")
    kind = None if subject.kind is Kind.MODEL else subject.kind.value
    url = hf_hub_url(
        subject.name, sibling.rfilename, repo_type=kind, revision=commit, endpoint=constants.ENDPOINT
    )
    return Piece(name=sibling.rfilename, url=url, size=size, digest=digest, is_large=large is not None)


def _carry_out(plan: Plan, tell: TellProgress) -> Downloaded:
    for name in ("blobs", "snapshots", "refs"):
        (plan.folder / name).mkdir(parents=True, exist_ok=True)
    missing = sorted(
        (piece for piece in plan.pieces if not (plan.snapshot / piece.name).exists()),
        key=lambda piece: piece.size,  # what is wrong with small ones shows soon, and weights come last
    )
    total, left = (sum(piece.size for piece in pieces) for pieces in (plan.pieces, missing))
    _refuse_without_room(plan, left)
    done, last = total - left, 0.0
    sent = headers()  # once: each time the keychain is asked
    for piece in missing:

        def count(here: int, piece: Piece = piece, before: int = done) -> None:
            nonlocal last
            if (now := time.monotonic()) - last >= TELL_SECONDS or here == piece.size:
                last = now
                tell(JobProgress(done=before + here, total=total, what=piece.name))

        if not (plan.folder / "blobs" / piece.digest).exists():
            fetch(piece, plan.partial(piece), sent, count)
        count(piece.size)
        done += piece.size
    for piece in missing:
        _place(plan, piece)
    for path in partial_files(plan.subject.name, plan.subject.kind):
        remove(path)  # of another version, given up
    write_atomically(plan.folder / "refs" / "main", plan.commit.encode())
    return Downloaded(path=str(plan.snapshot), files=len(plan.pieces), size=total)


def _refuse_without_room(plan: Plan, left: int) -> None:
    begun = sum(path.stat().st_size for path in partial_files(plan.subject.name, plan.subject.kind))
    needed, free = left - begun, shutil.disk_usage(plan.folder).free
    if left and needed + SPARE > free:
        raise plan.subject.error(
            f"There is no room for {plan.subject.name}",
            f"{size_words(needed)} are to come and {size_words(free)} are free where {cache_folder()} lies, "
            f"{size_words(SPARE)} of which are left alone. `hone hub --list` and Settings show what could go.",
        )


def _place(plan: Plan, piece: Piece) -> None:
    """Put a whole file where the cache has it: a link to it by its own name, or the file where links can't be."""
    target, blob, partial = (
        plan.snapshot / piece.name,
        plan.folder / "blobs" / piece.digest,
        plan.partial(piece),
    )
    target.parent.mkdir(parents=True, exist_ok=True)
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


# --- The cache: what is in it, and removing it


def drop_partial(name: str, kind: Kind) -> int:
    """Delete the unfinished files of a repository, and its folder if nothing else is in it; returns the bytes freed."""
    folder, files = repo_folder(name, kind), partial_files(name, kind)
    freed = sum(path.stat().st_size for path in files)
    for path in files:
        remove(path)
    if folder.is_dir() and not any(path.is_file() or path.is_symlink() for path in folder.rglob("*")):
        shutil.rmtree(folder)
    return freed


def cached() -> CacheReport:
    """All models and data sets in the cache, the largest first.

    Raises:
        ModelError: It can't be read.
    """
    folder = cache_folder()
    try:
        found = scan_cache_dir(folder)
    except CacheNotFound:
        return CacheReport(folder=str(folder))
    except (OSError, ValueError) as error:
        raise ModelError("The Hub's cache can't be read", str(error)) from error
    whole = {(repo.repo_id, KINDS[repo.repo_type]): repo for repo in found.repos if repo.repo_type in KINDS}
    begun = {
        (path.name.removeprefix(f"{kind}s--").replace("--", "/"), kind)
        for kind in Kind
        for path in folder.glob(f"{kind}s--*")
    }
    repos = []
    for name, kind in {*whole, *begun}:
        repo = whole.get((name, kind))
        partial = sum(path.stat().st_size for path in partial_files(name, kind))
        size = repo.size_on_disk if repo is not None else 0
        if size or partial:
            repos.append(
                Cached(
                    id=name,
                    kind=kind,
                    size=size,
                    partial=partial,
                    complete=_is_complete(name, kind) and not (partial and kind is Kind.DATASET),
                    used=repo.last_accessed if repo is not None else 0.0,
                    changed=repo.last_modified if repo is not None else 0.0,
                )
            )
    repos.sort(key=lambda repo: (-(repo.size + repo.partial), repo.id))
    total = found.size_on_disk + sum(repo.partial for repo in repos)
    return CacheReport(folder=str(folder), repos=tuple(repos), total=total)


def _is_complete(name: str, kind: Kind) -> bool:
    names = names_here(name, kind)
    if kind is Kind.DATASET:
        return any(is_data(one) for one in names)
    needed = weights(names)
    parts = PART.fullmatch(needed[0]) if needed else None
    return bool(needed) and "config.json" in names and (parts is None or len(needed) == int(parts[1]))


def remove_cached(request: RemoveRequest) -> Removed:
    """Delete a model or data set from the cache, all its versions, or only what is unfinished of it.

    Raises:
        UserError: It isn't there, or can't be deleted.
    """
    error_of = ModelError if request.kind is Kind.MODEL else DataError
    try:
        freed = drop_partial(request.id, request.kind)
        if not request.only_partial and cache_folder().is_dir():
            found = scan_cache_dir(cache_folder())
            repos = [
                repo for repo in found.repos if (repo.repo_id, repo.repo_type) == (request.id, request.kind)
            ]
            commits = [revision.commit_hash for repo in repos for revision in repo.revisions]
            strategy = found.delete_revisions(*commits)
            strategy.execute()
            freed += int(strategy.expected_freed_size)
    except (OSError, CacheNotFound, ValueError) as error:
        raise error_of(f"{request.id} can't be deleted", str(error)) from error
    if not freed and not request.only_partial:
        raise error_of(
            f"{request.id} isn't in the cache", "`hone hub --list` says what is; data sets need --data."
        )
    return Removed(freed=freed)
