"""Downloading into the Hub's cache, listing and removing what is there, and uploading an export.

Unfinished files have names that no program takes for a model's; when the last one is complete, all are put in place.
`snapshot_download` starts an interrupted file from its beginning
(https://github.com/huggingface/huggingface_hub/pull/4228); huggingface_hub's `http_get` continues it.
"""

import hashlib
import io
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from huggingface_hub import (
    HfApi,
    constants,
    errors,
    get_hf_file_metadata,
    hf_hub_download,
    hf_hub_url,
    scan_cache_dir,
)
from huggingface_hub.errors import CacheNotFound
from huggingface_hub.file_download import are_symlinks_supported, http_get
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

from core.base import settings
from core.base.errors import Fix, ModelError, UserError
from core.base.files import remove, write_atomically
from core.base.formats import memory, paragraph
from core.base.language import _
from core.engine.hub.api import FAILURES, Subject, as_user_error, ask, headers, info, offline, without_token
from core.engine.hub.search import CARD, card_of, chosen, found_of, is_data, subsets
from core.engine.hub.token import find_token
from core.jobs import hub as hub_jobs
from core.jobs.export import Pushed, PushRequest
from core.jobs.hub import NO_TOKEN
from core.options import hub

# --- Uploading an export to a new repository, all files in one commit


def push(request: PushRequest, tell: Callable[[str], None]) -> Pushed:
    """Creates the repository and uploads the files.

    Raises:
        UserError: There is no token, or it may not write; the name is taken; the Hub can't be reached; or Hone works
            offline. A created repository stays, empty.
    """
    token, subject, repo = find_token()[0], Subject(request.repo), request.repo
    if hub.is_forbidden():
        raise offline(subject)
    if not token:
        raise UserError(_("Uploading to {host} requires a token").format(host=hub.host()), NO_TOKEN)
    api = HfApi(endpoint=constants.ENDPOINT, token=token, library_name="hone")
    tell(_("Creating {repo}").format(repo=repo))
    try:
        api.create_repo(repo, private=request.private, repo_type="model")
    except FAILURES as error:
        if _status(error) == HTTPStatus.CONFLICT:
            raise UserError(
                _("There is a model {repo} already").format(repo=repo),
                _("Hone uploads to new repositories only, so that nothing is overwritten."),
                (Fix(_("Choose another name, or delete that one on the Hub")),),
            ) from error
        raise _refused(error, subject) from error
    tell(_("Uploading the files"))
    folder = Path(request.folder)
    try:
        api.upload_folder(repo_id=repo, folder_path=folder, commit_message=_("Exported with Hone"))
    except (*FAILURES, RuntimeError, ValueError) as error:  # the upload of large files has errors of its own
        failure = _refused(error, subject)
        left = _("{page} was created and is empty.").format(page=hub.page_of(repo, hub.RepoKind.MODEL))
        raise UserError(failure.title, paragraph(failure.detail, left), failure.fixes) from error
    return Pushed(url=hub.page_of(repo, hub.RepoKind.MODEL))


def _refused(error: Exception, subject: Subject) -> UserError:
    if _status(error) == HTTPStatus.FORBIDDEN:
        return subject.error(
            _("The token may not write to {repo}").format(repo=subject.name),
            _(
                "Create a token with write permission at huggingface.co/settings/tokens, and add it in Settings."
            ),
        )
    if isinstance(error, FAILURES):
        return as_user_error(error, subject)
    return UserError(_("The files could not be uploaded"), without_token(str(error)))


def _status(error: Exception) -> int | None:
    return error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None


# --- Limits


CONFIG_SECONDS = 10.0
MAX_CONFIG_BYTES = 8 << 20
"""A larger file isn't a config.json: those that name tens of thousands of labels have 1 to 2 MB."""

MAX_CARD_BYTES = 4 << 20
REPORT_SECONDS = 0.2
SPARE = 256 << 20
"""Bytes that must stay free on the disk."""

OnProgress = Callable[[int, int, str], None]
"""Called with the bytes so far, the total, and the name of the file."""

# No fixed chunks: with 10 MiB each, a slow connection would show no progress, and a pause lose up to that much.
constants.DOWNLOAD_CHUNK_SIZE = None  # type: ignore[assignment]


def fetch_config(source: str) -> hub_jobs.ConfigFetched:
    """Downloads the config.json of a model.

    Raises:
        ModelError: It can't be downloaded.
    """
    subject = Subject(source)
    try:
        # Metadata first: without a network, hf_hub_download by itself would retry for minutes.
        metadata = get_hf_file_metadata(hf_hub_url(source, hub.CONFIG), timeout=CONFIG_SECONDS)
        if metadata.commit_hash is None:
            raise errors.FileMetadataError
        if (metadata.size or 0) > MAX_CONFIG_BYTES:
            detail = _("It has more than {size} MB. Choose another model.").format(
                size=MAX_CONFIG_BYTES >> 20
            )
            raise ModelError(_("The config.json of {source} is too large").format(source=source), detail)
        return hub_jobs.ConfigFetched(path=hf_hub_download(source, hub.CONFIG, etag_timeout=CONFIG_SECONDS))
    except errors.RemoteEntryNotFoundError as error:
        detail = _("Without one, its architecture isn't known. Choose another model.")
        raise ModelError(_("{source} has no config.json").format(source=source), detail) from error
    except FAILURES as error:
        raise as_user_error(error, subject) from error


# --- Downloading


class Damaged(Exception):  # noqa: N818 - said of the file
    """The downloaded file isn't the one that the Hub lists."""


class PartialFile(io.FileIO):
    """An unfinished file, written without a buffer: a pause kills the process and must lose nothing."""

    def __init__(self, path: Path, on_bytes: Callable[[int], None]) -> None:
        super().__init__(path, "r+b" if path.exists() else "w+b")
        self.seek(0, os.SEEK_END)
        self._on_bytes = on_bytes

    def write(self, content: Any) -> int:
        left = memoryview(content)
        while left:
            left = left[super().write(left) :]
        self._on_bytes(self.tell())
        return len(content)


@dataclass(frozen=True)
class RemoteFile:
    """A file to download. `digest` names its blob in the cache: SHA-256 if `is_large`, else Git's SHA-1."""

    name: str
    url: str
    size: int
    digest: str
    is_large: bool

    def fetch(self, path: Path, sent: Mapping[str, str], on_bytes: Callable[[int], None]) -> None:
        """Downloads the file into `path`, after what is there already; `on_bytes` is called with the bytes so far.

        Raises:
            Damaged: The content isn't the file's; `path` is deleted.
            HTTPError: The Hub refuses it, or the network doesn't come back.
            OSError: It can't be written.
        """
        size_matches = True
        with PartialFile(path, on_bytes) as file:
            begin = file.tell()
            on_bytes(begin)
            try:
                if self.size > begin:
                    plain = {**sent, "Accept-Encoding": "identity"}
                    http_get(self.url, file, resume_size=begin, headers=plain, expected_size=self.size)
            except OSError as error:
                if error.errno is not None or "Consistency check" not in str(error):
                    raise
                size_matches = False
        algorithm = hashlib.sha256() if self.is_large else hashlib.sha1(usedforsecurity=False)
        algorithm.update(b"" if self.is_large else b"blob %d\0" % self.size)  # as Git does
        with path.open("rb") as content:
            while chunk := content.read(1 << 20):
                algorithm.update(chunk)
        if size_matches and path.stat().st_size == self.size and algorithm.hexdigest() == self.digest:
            return
        remove(path)
        raise Damaged(
            _("The size or hash of {name} differs from what the Hub lists ({size:,} bytes)").format(
                name=self.name, size=self.size
            )
        )


class Repository:
    """One commit of a model or data set on the Hub, and its place in the cache."""

    def __init__(self, subject: Subject, commit: str, siblings: list[RepoSibling]) -> None:
        self.subject, self.commit = subject, commit
        self.siblings = {sibling.rfilename: sibling for sibling in siblings}
        self.folder = hub.repo_folder(subject.name, subject.kind)
        self.snapshot = self.folder / "snapshots" / commit

    def file(self, name: str) -> RemoteFile:
        """Raises a UserError if the Hub lists it without size or hash, or under a name outside of the folder."""
        listed, path = self.siblings[name], Path(name)
        size = (listed.lfs.size if listed.lfs else None) or listed.size
        digest = listed.lfs.sha256 if listed.lfs else listed.blob_id or ""
        is_named = digest.isalnum() and self.commit.isalnum()  # both become names of files
        # on Windows C:name is neither absolute nor below a folder
        if size is None or not is_named or ".." in path.parts or path.anchor:
            title = _("{name} can't be used").format(name=self.subject.name)
            raise self.subject.error(
                title, _("The Hub's entry for its file {file} isn't valid.").format(file=name)
            )
        kind = None if self.subject.kind is hub.RepoKind.MODEL else self.subject.kind.value
        url = hf_hub_url(
            self.subject.name, name, repo_type=kind, revision=self.commit, endpoint=constants.ENDPOINT
        )
        return RemoteFile(name, url, size, digest, is_large=listed.lfs is not None)

    def partial(self, file: RemoteFile) -> Path:
        return self.folder / "blobs" / f"{file.digest}{hub.PARTIAL}"

    def needed(self, subset: str) -> list[RemoteFile]:
        """Returns the files a run needs; of a data set, those of one subset and its card."""
        if self.subject.kind is hub.RepoKind.MODEL:
            return [self.file(name) for name in hub.wanted(self.siblings)]
        splits = chosen(subsets(self._card(), self.siblings), subset, self.subject.name)
        names = sorted({name for files in splits.values() for name in files})
        return [self.file(name) for name in ([CARD] if CARD in self.siblings else []) + names]

    def _card(self) -> dict[str, Any]:
        """Returns the card of a data set, which names its subsets."""
        if CARD not in self.siblings or (self.siblings[CARD].size or 0) >= MAX_CARD_BYTES:
            return {}
        path = self.snapshot / CARD
        if not path.exists():
            file = self.file(CARD)
            path = self.partial(file)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                file.fetch(path, headers(), lambda _bytes: None)
            except Damaged:
                return {}
        return card_of(path)

    def fetch(self, files: list[RemoteFile], on_progress: OnProgress) -> None:
        """Downloads what is missing, then puts all of it in place."""
        for name in ("blobs", "snapshots", "refs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        missing = [file for file in files if not (self.snapshot / file.name).exists()]
        missing.sort(key=lambda file: file.size)  # errors in small files show soon; weights come last
        total, left = (sum(file.size for file in some) for some in (files, missing))
        self._check_disk(left)
        done, reported_at = total - left, 0.0
        sent = headers()  # once: each call asks the keychain
        for file in missing:

            def report(here: int, file: RemoteFile = file, before: int = done) -> None:
                nonlocal reported_at
                if (now := time.monotonic()) - reported_at >= REPORT_SECONDS or here == file.size:
                    reported_at = now
                    on_progress(before + here, total, file.name)

            if not (self.folder / "blobs" / file.digest).exists():
                file.fetch(self.partial(file), sent, report)
            report(file.size)
            done += file.size
        for file in missing:
            self._place(file, files)
        for path in hub.partial_files(self.subject.name, self.subject.kind):  # of another version
            remove(path)
        write_atomically(self.folder / "refs" / "main", self.commit.encode())

    def _check_disk(self, left: int) -> None:
        needed = left - hub.partial_bytes(self.subject.name, self.subject.kind)
        free = shutil.disk_usage(self.folder).free
        if left and needed + SPARE > free:
            detail = _(
                "It needs {needed} and {spare} to spare; {free} are free at {folder}. `hone hub --list` and Settings "
                "show what could be deleted."
            ).format(
                needed=memory(needed),
                spare=memory(SPARE),
                free=memory(free),
                folder=settings.hub_cache(),
            )
            raise self.subject.error(
                _("There is not enough disk space for {name}").format(name=self.subject.name), detail
            )

    def _place(self, file: RemoteFile, files: list[RemoteFile]) -> None:
        """Links the blob under the file's own name, or moves it there if links aren't supported."""
        target, blob = self.snapshot / file.name, self.folder / "blobs" / file.digest
        partial = self.partial(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        if are_symlinks_supported(settings.hub_cache()):
            if not blob.exists():
                partial.replace(blob)
            if not target.is_symlink():
                target.symlink_to(os.path.relpath(blob, target.parent))
        elif partial.exists():
            partial.replace(target)
        else:  # another file of the same content has taken it
            twins = (self.snapshot / other.name for other in files if other.digest == file.digest)
            shutil.copyfile(next((twin for twin in twins if twin.exists()), blob), target)


def download(request: hub_jobs.DownloadRequest, on_progress: OnProgress) -> hub_jobs.Downloaded:
    """Downloads what a run needs of a model or data set, continuing an interrupted download.

    Raises:
        UserError: It can't be used or downloaded, the disk is too full, or the content is damaged.
    """
    subject, kind = Subject(request.id, request.kind), request.kind
    if hub.is_forbidden():
        raise offline(subject)
    try:
        if not hub.is_name(request.id):
            raise errors.HFValidationError(request.id)
        record = info(ask(f"/api/{kind}s/{request.id}", subject, {"blobs": True}), kind, subject)
        found = found_of(record)
        if found.refusal:
            refusal = subject.error(_("Hone can't use {id}").format(id=request.id), found.refusal)
            refusal.fixes = (Fix(found.remedy),) if found.remedy else ()
            raise refusal
        repository = Repository(subject, record.sha or "", record.siblings or [])
        files = repository.needed(request.subset)
        locks = settings.hub_cache() / ".locks" / repository.folder.name
        locks.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(locks / "hone.lock", timeout=0.5):
            repository.fetch(files, on_progress)
    except TimeoutError:
        detail = _("Wait until it is done, or cancel it where it was started.")
        raise subject.error(_("{id} is being downloaded already").format(id=request.id), detail) from None
    except Damaged as error:
        detail = _("{error}. Download it again.").format(error=error)
        raise subject.error(_("{id} is damaged").format(id=request.id), detail) from error
    except FAILURES as error:
        raise as_user_error(error, subject) from error
    return hub_jobs.Downloaded(
        path=str(repository.snapshot), files=len(files), size=sum(file.size for file in files)
    )


# --- The cache


def drop_partial(name: str, kind: hub.RepoKind) -> int:
    """Deletes a repository's unfinished files, and its folder if nothing else is in it; returns the bytes freed."""
    folder, freed = hub.repo_folder(name, kind), hub.partial_bytes(name, kind)
    for path in hub.partial_files(name, kind):
        remove(path)
    if folder.is_dir() and not any(path.is_file() or path.is_symlink() for path in folder.rglob("*")):
        shutil.rmtree(folder)
    return freed


def cached() -> hub_jobs.CacheReport:
    """Returns all models and data sets in the cache, the largest first.

    Raises:
        ModelError: It can't be read.
    """
    folder = settings.hub_cache()
    try:
        scanned = scan_cache_dir(folder)
    except CacheNotFound:
        return hub_jobs.CacheReport(folder=str(folder))
    except (OSError, ValueError) as error:
        raise ModelError(_("The Hub's cache can't be read"), str(error)) from error
    finished = {(repo.repo_id, repo.repo_type): repo for repo in scanned.repos}
    repos = []
    for kind in hub.RepoKind:
        for path in folder.glob(f"{kind}s--*"):
            name = path.name.removeprefix(f"{kind}s--").replace("--", "/")
            repo = finished.get((name, kind.value))
            size, partial = (repo.size_on_disk if repo else 0), hub.partial_bytes(name, kind)
            if not size and not partial:
                continue
            here = hub.names_here(name, kind)
            if kind is hub.RepoKind.MODEL:
                complete = hub.CONFIG in here and hub.has_all_weights(here)
            else:
                complete = any(map(is_data, here)) and not partial
            changed = repo.last_modified if repo else 0.0
            repos.append(
                hub_jobs.Cached(
                    id=name, kind=kind, size=size, partial=partial, complete=complete, changed=changed
                )
            )
    repos.sort(key=lambda repo: (-(repo.size + repo.partial), repo.id))
    total = scanned.size_on_disk + sum(repo.partial for repo in repos)
    return hub_jobs.CacheReport(folder=str(folder), repos=tuple(repos), total=total)


def remove_cached(request: hub_jobs.RemoveRequest) -> hub_jobs.Removed:
    """Deletes a model or data set from the cache, all its versions, or only its unfinished files.

    Raises:
        UserError: It isn't there, or can't be deleted.
    """
    subject = Subject(request.id, request.kind)
    try:
        freed = drop_partial(request.id, request.kind)
        if not request.only_partial and settings.hub_cache().is_dir():
            scanned = scan_cache_dir(settings.hub_cache())
            repos = [
                repo for repo in scanned.repos if (repo.repo_id, repo.repo_type) == (request.id, request.kind)
            ]
            commits = [revision.commit_hash for repo in repos for revision in repo.revisions]
            strategy = scanned.delete_revisions(*commits)
            strategy.execute()
            freed += int(strategy.expected_freed_size)
    except (OSError, CacheNotFound, ValueError) as error:
        raise subject.error(_("{id} can't be deleted").format(id=request.id), str(error)) from error
    if not freed and not request.only_partial:
        detail = _("`hone hub --list` shows what is in it; data sets need --data.")
        raise subject.error(_("{id} isn't in the cache").format(id=request.id), detail)
    return hub_jobs.Removed(freed=freed)
