"""A command beside an engine that answers from a table."""

from pathlib import Path

import pytest

from core.cli import memory
from tests.fakes.told_memory import Engine


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    answering = Engine()
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(memory, "run_job", answering.run_job)
    monkeypatch.setattr(memory, "room_of", lambda *_, **__: answering.room)
    return answering
