"""The engine's jobs about the Hub. Each answers one question; a download tells how far it is meanwhile."""

import os
import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec

from core.base.jobs import JobProgress
from core.engine.environment import prepare_fetching
from core.services.export import PushRequest
from core.services.hub import AccountRequest, DownloadRequest, RemoveRequest, SearchRequest

Request = TypeVar("Request", bound=msgspec.Struct)


def search_job() -> msgspec.Struct:
    """Which models or data sets answer to these words?"""
    request = _request(SearchRequest)
    from core.engine.hub.search import search

    return search(request)


def download_job(descriptor: int) -> msgspec.Struct:
    """Bring this here; each line before the answer tells how far it is."""
    request = _request(DownloadRequest)
    from core.engine.hub.download import download

    def tell(progress: JobProgress) -> None:
        os.write(descriptor, msgspec.json.encode(progress) + b"\n")

    return download(request, tell)


def cached_job() -> msgspec.Struct:
    """What is in the cache?"""
    prepare_fetching()
    from core.engine.hub.download import cached

    return cached()


def remove() -> msgspec.Struct:
    """Delete this from the cache."""
    request = _request(RemoveRequest)
    from core.engine.hub.download import remove_cached

    return remove_cached(request)


def push_job(request: PushRequest, tell: Callable[[str], None]) -> msgspec.Struct:
    """Send this folder to the Hub."""
    prepare_fetching()
    from core.engine.hub.push import push

    return push(request, tell)


def account_job() -> msgspec.Struct:
    """Whose token is there, and where?"""
    request = _request(AccountRequest)
    from core.engine.hub.account import account

    return account(request)


QUESTIONS: dict[str, Callable[[], msgspec.Struct]] = {
    "hub-search": search_job,
    "hub-cached": cached_job,
    "hub-remove": remove,
    "hub-account": account_job,
}


def _request(kind: type[Request]) -> Request:
    """What is asked, from standard input; huggingface_hub may be imported afterwards."""
    prepare_fetching()
    return msgspec.json.decode(sys.stdin.buffer.read(), type=kind)
