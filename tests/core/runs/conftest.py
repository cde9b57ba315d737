"""A home of its own for each test, and a new run."""

import pytest

from tests.fakes.runs import new_run


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    path = tmp_path / "home"
    monkeypatch.setenv("HONE_HOME", str(path))
    return path


@pytest.fixture
def run(tmp_path):
    return new_run(tmp_path / "runs")
