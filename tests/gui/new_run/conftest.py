"""A New run page, beside an engine that answers as a test wants."""

import msgspec
import pytest

from core.base.settings import Appearance
from core.jobs.inspect import DataReport, InspectRequest
from core.options import presets
from core.options.choices import Task
from gui.base.theme import Theme
from gui.new_run.page import NewRunPage
from tests.fakes.data_reports import report_for
from tests.fakes.jobs import FakeEngine
from tests.fakes.memory import FakeMemory


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def shared(qapp):
    """A page, its engine and its memory tools for all tests of a module: making a page takes a fifth of a second."""
    engine, memory = FakeEngine(), FakeMemory()
    page = NewRunPage(Theme(Appearance.LIGHT), engine, memory.tools)
    page.resize(1000, 700)
    yield page, engine, memory
    page.close()
    page.deleteLater()


@pytest.fixture
def engine(shared):
    shared[1].__init__()
    return shared[1]


@pytest.fixture
def memory(shared):
    _page, _engine, memory = shared
    memory.room.__init__()
    memory.dry_runs.__init__()
    memory.forecasts = 0
    memory.timings = {}
    return memory


@pytest.fixture
def page(shared, engine, memory):
    """The page as it opens."""
    page = shared[0]
    questions, fit = (page.questions.data, page.questions.model), page.fit
    for question in (*questions, fit.refined):
        question.set_request(None)
        question.delay_ms = 20
    fit.case = fit._longest = None
    fit._is_paused = False
    fit._measured.clear()
    fit._timings = {}
    page._guessed_from = page._machine = None
    page.fit_actions._confirmed = b""
    page.options.set_machine(None)
    for card in page.options.cards:
        card.more.setChecked(False)
    page.outcome.fit.ladder.link.setChecked(False)
    page.outcome.fit._was_short = False
    page.load_example(presets.find_example("digits"))
    page.show()
    yield page
    engine.gate.set()
    memory.dry_runs.gate.set()
    page.end_work()
    page.hide()


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
