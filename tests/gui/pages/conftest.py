"""A New run page, beside an engine that answers as a test wants."""

import pytest

from core.settings import Appearance
from gui.pages.new_run import NewRunPage
from gui.theme import Theme
from tests.fakes.asking import FakeEngine
from tests.fakes.memory import FakeMemory


@pytest.fixture
def engine():
    return FakeEngine()


@pytest.fixture
def memory():
    return FakeMemory()


@pytest.fixture
def page(qtbot, engine, memory):
    page = NewRunPage(Theme(Appearance.LIGHT), engine, memory.tools)
    qtbot.addWidget(page)
    page.resize(1000, 700)
    page.show()
    yield page
    engine.gate.set()
    memory.dry_runs.gate.set()
    page.close_questions()


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("first\tsecond\tsame\na\tb\t1\n")
    return path


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    for name in ("config.json", "model.safetensors"):
        (path / name).touch()
    return path
