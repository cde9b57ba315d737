"""A New run page, beside an engine that answers as a test wants."""

import msgspec
import pytest

from core.base.settings import Appearance
from core.options.choices import Task
from core.services.inspect import DataReport, InspectRequest
from gui.base.background import DebouncedTask
from gui.base.theme import Theme
from gui.new_run.page import NewRunPage
from tests.fakes.asking import FakeEngine
from tests.fakes.data_reports import report_for
from tests.fakes.memory import FakeMemory


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(DebouncedTask, "patience_ms", 20)


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


@pytest.fixture
def answers(engine):
    """Looks at the data as the engine would: by task, with the roles of speakers the form knows."""

    def look(request: bytes) -> DataReport:
        asked = msgspec.json.decode(request, type=InspectRequest)
        report = report_for(Task(asked.asked["task"]), asked.source)
        known = asked.asked["data"]["roles"]
        limit = asked.asked["data"]["max_length"]
        left = [
            finding
            for finding in report.findings
            if not (finding.code == "unknown-role" and "bob" in known)
            and not (finding.code == "cut-answer" and limit >= 640)
            and finding.code != "empty-answer"
        ]
        return msgspec.structs.replace(report, findings=tuple(left))

    engine.answers["inspect"] = look
    return engine


@pytest.fixture
def talks(tmp_path):
    path = tmp_path / "talks.json"
    path.write_text('[{"instruction": "Add", "input": "1 1", "output": "2"}]')
    return path
