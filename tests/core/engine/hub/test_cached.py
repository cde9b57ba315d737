"""What is in the cache, and making room there."""

from pathlib import Path

import pytest

from core.base.errors import UserError
from core.engine.hub.download import cached, download, remove_cached
from core.services.hub import DownloadRequest, Kind, RemoveRequest
from tests.fakes.tiny_on_hub import CONFIG, TINY, WEIGHTS, blob
from tests.fakes.whole_hub import Repo, WholeHub

ALL = len(WEIGHTS) + len(CONFIG) + len(TINY["tokenizer.json"])


def bring() -> None:
    download(DownloadRequest(id="org/tiny"), lambda _: None)


def test_without_a_cache_there_is_nothing(hub: WholeHub) -> None:
    assert (cached().repos, cached().total) == ((), 0)


def test_what_is_there_with_its_size(hub: WholeHub) -> None:
    bring()
    hub.repos["datasets", "org/rows"] = Repo({"train.csv": b"a,b\n"})
    download(DownloadRequest(id="org/rows", kind=Kind.DATASET), lambda _: None)
    report = cached()
    assert [(repo.id, repo.kind, repo.size) for repo in report.repos] == [
        ("org/tiny", Kind.MODEL, ALL),
        ("org/rows", Kind.DATASET, 4),
    ]
    assert report.total == ALL + 4
    assert report.repos[0].changed > 1_700_000_000


def test_what_was_begun_only_is_told_too(hub: WholeHub, cache: Path) -> None:
    begun = blob(cache, WEIGHTS)
    begun.parent.mkdir(parents=True)
    begun.write_bytes(b"x" * 10)
    (repo,) = cached().repos
    assert (repo.id, repo.size, repo.partial) == ("org/tiny", 0, 10)


def test_it_can_be_deleted(hub: WholeHub, cache: Path) -> None:
    bring()
    assert remove_cached(RemoveRequest(id="org/tiny")).freed == ALL
    assert not (cache / "models--org--tiny").exists()
    assert cached().repos == ()


def test_only_what_is_unfinished_can_be_deleted(hub: WholeHub, cache: Path) -> None:
    bring()
    blob(cache, b"next").write_bytes(b"12345")
    assert remove_cached(RemoveRequest(id="org/tiny", only_partial=True)).freed == 5
    assert cached().repos[0].size == ALL


def test_what_isn_t_there_can_t_be_deleted(hub: WholeHub) -> None:
    with pytest.raises(UserError, match="isn't in the cache"):
        remove_cached(RemoveRequest(id="org/other"))
