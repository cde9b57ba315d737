"""A Hub on this computer, for this process and those it starts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.tiny_on_hub import a_hub
from tests.fakes.whole_hub import WholeHub


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "hub"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WholeHub]:
    with a_hub(tmp_path, monkeypatch) as serving:
        yield serving
