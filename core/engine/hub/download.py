"""Downloading a model or data set into the Hub's cache: what a run needs of it, and only whole.

Until the last file has come, all lie under names that nobody takes for a model's; then they get their places at once.
"""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants, hf_hub_url
from huggingface_hub.file_download import are_symlinks_supported
from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]  # named in its documentation

from core import hub
from core.engine.hub import data_files, fetch
from core.engine.hub.asking import ask, has_token, headers
from core.engine.hub.data_sets import CARD, card_of
from core.engine.hub.fetch import Damaged, Piece
from core.engine.hub.records import Record, Sibling
from core.engine.hub.search import found_of
from core.engine.hub.words import FAILURES, Subject, offline, told, without_token
from core.errors import Fix
from core.figures import size as size_words
from core.files import remove, write_atomically
from core.hub_files import PARTIAL, cache_folder, partial_files, repo_folder
from core.hub_questions import Downloaded, DownloadRequest, Kind, Progress
from core.hub_standing import wanted

TELL_SECONDS = 0.2
"""So often progress is told at most."""

SPARE = 256 << 20
"""Bytes that must be left on the disk beside a download."""

MOST_BYTES_OF_CARD = 4 << 20

Tell = Callable[[Progress], None]


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


def download(request: DownloadRequest, tell: Tell, wait: fetch.Wait = time.sleep) -> Downloaded:
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
    except FAILURES as error:
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


def _carry_out(plan: Plan, tell: Tell, wait: fetch.Wait) -> Downloaded:
    (plan.folder / "blobs").mkdir(parents=True, exist_ok=True)
    (plan.folder / "snapshots").mkdir(exist_ok=True)
    missing = plan.missing()
    _refuse_without_room(plan, missing)
    counted = _Counted(plan.total, plan.total - sum(piece.size for piece in missing), tell)
    sent = headers()  # once: each time the keychain is asked
    for piece in missing:
        if not (plan.folder / "blobs" / piece.digest).exists():
            fetch.fetch(piece, plan.partial(piece), sent, counted.of(piece), wait)
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
                self._tell(Progress(done=self._done + here, total=self._total, file=piece.name))

        return tell

    def finish(self, piece: Piece) -> None:
        """One more file is whole."""
        self._done += piece.size
        self._tell(Progress(done=self._done, total=self._total, file=piece.name))


def _plan(request: DownloadRequest, subject: Subject, wait: fetch.Wait) -> Plan:
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
    request: DownloadRequest, subject: Subject, record: Record, siblings: dict[str, Sibling], wait: fetch.Wait
) -> list[str]:
    """The files of one subset of a data set, after its card, which names them."""
    card: dict[str, object] = {}
    if CARD in siblings and (siblings[CARD].size or 0) < MOST_BYTES_OF_CARD:
        plan = Plan(subject, record.sha, (_piece(siblings[CARD], record.sha, subject),))
        card = _fetched_card(plan, wait)
    _, splits = data_files.chosen(data_files.subsets(card, siblings), request.subset, request.id)
    names = sorted({name for files in splits.values() for name in files})
    return [*([CARD] if CARD in siblings else []), *names]


def _fetched_card(plan: Plan, wait: fetch.Wait) -> dict[str, object]:
    piece = plan.pieces[0]
    if (plan.snapshot / CARD).exists():
        return card_of(plan.snapshot / CARD)
    try:
        (plan.folder / "blobs").mkdir(parents=True, exist_ok=True)
        fetch.fetch(piece, plan.partial(piece), headers(), lambda _: None, wait)
    except Damaged:
        return {}
    except FAILURES as error:
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
            f"{size_words(SPARE)} of which are left alone. `hone hub list` and Settings show what could go.",
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
