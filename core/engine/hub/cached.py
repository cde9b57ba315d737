"""What of the Hub is in the cache on this computer, and making room there."""

import re

import msgspec
from huggingface_hub import scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from core.base.errors import DataError, ModelError
from core.engine.hub.download import drop_partial
from core.engine.hub.search import is_data
from core.services.hub import (
    Cached,
    CacheReport,
    Kind,
    Removed,
    RemoveRequest,
    cache_folder,
    names_here,
    partial_files,
    weights,
)

KINDS = {kind.value: kind for kind in Kind}

_PART = re.compile(r"model-\d+-of-(\d+)\.safetensors")


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
    repos = {
        (repo.repo_id, kind): Cached(
            id=repo.repo_id,
            kind=kind,
            size=repo.size_on_disk,
            complete=_is_complete(repo.repo_id, kind),
            used=repo.last_accessed,
            changed=repo.last_modified,
        )
        for repo in found.repos
        if (kind := KINDS.get(repo.repo_type)) is not None
    }
    for name, kind in {*repos, *_begun()}:
        files = partial_files(name, kind)
        if files:
            before = repos.get((name, kind), Cached(id=name, kind=kind, size=0))
            repos[name, kind] = _with_partial(before, sum(path.stat().st_size for path in files))
    shown = sorted(
        (repo for repo in repos.values() if repo.size or repo.partial),
        key=lambda repo: -(repo.size + repo.partial),
    )
    total = found.size_on_disk + sum(repo.partial for repo in shown)
    return CacheReport(folder=str(folder), repos=tuple(shown), total=total)


def remove_cached(request: RemoveRequest) -> Removed:
    """Delete a model or data set from the cache, all its versions, or only what is unfinished of it.

    Raises:
        UserError: It isn't there, or can't be deleted.
    """
    error_of = ModelError if request.kind is Kind.MODEL else DataError
    try:
        freed = drop_partial(request.id, request.kind)
        if not request.only_partial:
            freed += _remove_whole(request)
    except (OSError, CacheNotFound, ValueError) as error:
        raise error_of(f"{request.id} can't be deleted", str(error)) from error
    if not freed and not request.only_partial:
        raise error_of(
            f"{request.id} isn't in the cache", "`hone hub --list` says what is; data sets need --data."
        )
    return Removed(freed=freed)


def _remove_whole(request: RemoveRequest) -> int:
    if not cache_folder().is_dir():
        return 0
    found = scan_cache_dir(cache_folder())
    commits = [
        revision.commit_hash
        for repo in found.repos
        if repo.repo_id == request.id and repo.repo_type == request.kind
        for revision in repo.revisions
    ]
    strategy = found.delete_revisions(*commits)
    strategy.execute()
    return int(strategy.expected_freed_size)


def _begun() -> set[tuple[str, Kind]]:
    """Repositories of which Hone has unfinished files."""
    found = set()
    for kind in Kind:
        for folder in cache_folder().glob(f"{kind}s--*"):
            name = folder.name.removeprefix(f"{kind}s--").replace("--", "/")
            if partial_files(name, kind):
                found.add((name, kind))
    return found


def _with_partial(repo: Cached, partial: int) -> Cached:
    is_whole = repo.complete and repo.kind is Kind.MODEL
    return msgspec.structs.replace(repo, partial=partial, complete=is_whole)


def _is_complete(name: str, kind: Kind) -> bool:
    names = names_here(name, kind)
    if kind is Kind.DATASET:
        return any(is_data(one) for one in names)
    needed = weights(names)
    parts = (
        _PART.fullmatch(needed[0]) if needed else None
    )  # all parts are there, or their number says what lacks
    return bool(needed) and "config.json" in names and (parts is None or len(needed) == int(parts[1]))
