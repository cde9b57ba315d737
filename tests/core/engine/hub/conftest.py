"""A Hub on this computer, for this process and those it starts."""

import pytest

from tests.fakes.hub import a_hub


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "hub"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with a_hub(tmp_path, monkeypatch) as serving:
        yield serving
