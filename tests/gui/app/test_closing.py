"""The question about unfinished runs as the window closes or the computer shuts down, and what becomes of them."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QLabel

from core.runs import queue
from core.runs.events import Action, TurnAwaited
from core.runs.folder import RunFolder
from gui.app import closing
from gui.app.closing import Closing, Underway, may_close, question_about, underway
from tests.fakes.runs import Plot, keep_alive, link, make_folder, write_events, write_story

pytestmark = pytest.mark.usefixtures("own_home")


def unfinished(name, is_waiting=False, is_test=False):
    return Underway(RunFolder(Path(name)), name, is_waiting, is_test)


def requests(run):
    return [request.action for request in run.open_requests()]


@pytest.fixture
def training(tmp_path, own_home):
    run = make_folder(tmp_path / "runs" / "one")
    keep_alive(run)
    write_story(run, Plot(reached=20, start=time.time() - 10))
    return run


@pytest.fixture
def waiting(tmp_path, own_home):
    """A run outside the runs' folder, which only the queue knows of."""
    run = make_folder(tmp_path / "elsewhere" / "two")
    keep_alive(run)
    write_events(run.machine_file, TurnAwaited(time=time.time(), ahead=1, behind="one"))
    queue.enter(run, "cpu", run.keeper_record())
    return run


@pytest.mark.parametrize(
    ("answer", "closes", "requested"),
    [
        (Closing.PAUSE, True, [Action.PAUSE]),
        (Closing.STOP, True, [Action.STOP]),
        (Closing.KEEP_TRAINING, True, []),
        (Closing.CANCEL, False, []),
    ],
)
@pytest.mark.usefixtures("training", "waiting")
def test_the_answer_applies_to_every_run_that_trains_or_waits(qtbot, tmp_path, answer, closes, requested):
    found = underway(tmp_path / "runs")
    question = question_about(found, None)
    qtbot.addWidget(question)
    assert may_close(found, question, lambda _question: answer) == closes
    assert [(run.run.name, run.is_waiting) for run in found] == [("one", False), ("two", True)]
    assert [requests(run.run) for run in found] == [requested] * 2


def test_nothing_is_asked_where_nothing_goes_on():
    assert question_about([], None) is None
    assert may_close([], None, None)


def test_a_folder_that_is_gone_keeps_no_other_run_from_its_request(training, tmp_path):
    gone = unfinished(str(tmp_path / "no such folder"))
    closing.request_all([gone, *underway(tmp_path / "runs")], Action.PAUSE)
    assert requests(training) == [Action.PAUSE]


def test_a_runs_folder_that_cant_be_listed_keeps_no_window_open(make_window, tmp_path, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr("gui.app.closing.list_runs", refuse)
    assert underway(tmp_path / "runs") == []
    assert make_window().close()


@pytest.mark.parametrize(
    ("runs", "title", "parts"),
    [
        ([unfinished("Digits")], "“Digits” is training", []),
        (
            [unfinished("A"), unfinished("B"), unfinished("C", True)],
            "2 runs are training",
            ["“A”, “B”", "Queued: “C”", "each queued run starts", "removed from the queue"],
        ),
        (
            [unfinished("C", True)],
            "“C” is queued",
            ["Each queued run starts in its turn", "can be started later"],
        ),
        (
            [unfinished("A"), unfinished("A, tested on x.csv", is_test=True)],
            "“A” is training",
            ["Being tested: “A, tested on x.csv”", "end a test without a result"],
        ),
        (
            [unfinished("A, tested on x.csv", is_test=True)],
            "“A, tested on x.csv” is not finished",
            ["The test goes on", "has no result"],
        ),
        ([unfinished(f"R{n}") for n in range(6)], "6 runs are training", ["“R3” and 2 more"]),
    ],
    ids=["one", "several", "waiting", "a test, too", "a test", "many"],
)
def test_the_question_names_what_is_unfinished(qtbot, runs, title, parts):
    question = question_about(runs, None)
    qtbot.addWidget(question)
    assert question.text() == title
    assert all(part in question.informativeText() for part in parts)
    assert ("queue" in question.informativeText()) == any(run.is_waiting for run in runs)
    assert ("test" in question.informativeText()) == any(run.is_test for run in runs)


def test_a_test_is_no_training_on_closing(qtbot):
    question = question_about([unfinished("A, tested on x.csv", is_test=True)], None)
    qtbot.addWidget(question)
    assert list(question.says()) == ["Close, keep testing", "End the test"]
    assert "train" not in f"{question.text()}{question.informativeText()}"


@pytest.mark.parametrize(("is_shutting_down", "keeps"), [(False, ["Close, keep the queue"]), (True, [])])
def test_where_nothing_trains_only_the_queue_can_be_left(qtbot, is_shutting_down, keeps):
    runs = [unfinished(name, True) for name in ("A", "B")]
    question = question_about(runs, None, is_shutting_down=is_shutting_down)
    qtbot.addWidget(question)
    assert list(question.says()) == [*keeps, "Remove from the queue"]
    assert question.says()["Remove from the queue"] is Closing.STOP
    assert question.informativeText().startswith("“A”, “B”\n\n")
    assert "rain" not in question.informativeText()
    assert ("shuts down" in question.informativeText()) == is_shutting_down


def test_buttons_give_their_answer_and_names_are_plain_text(qtbot):
    question = question_about([unfinished("a<b>c</b>")], None)
    qtbot.addWidget(question)
    (named,) = [label for label in question.findChildren(QLabel) if "<b>" in label.text()]
    assert named.textFormat() is Qt.TextFormat.PlainText
    assert list(question.says().values()) == [Closing.KEEP_TRAINING, Closing.PAUSE, Closing.STOP]
    assert question.says()[question.defaultButton().text()] is Closing.KEEP_TRAINING
    QTimer.singleShot(0, next(button for button in question.buttons() if button.text() == "Pause").click)
    assert question.ask(Closing.CANCEL) is Closing.PAUSE
    QTimer.singleShot(0, question.reject)
    assert question.ask(Closing.CANCEL) is Closing.CANCEL


def test_a_shutdown_doesnt_offer_to_keep_training(qtbot):
    question = question_about([unfinished("A")], None, is_shutting_down=True)
    qtbot.addWidget(question)
    assert list(question.says().values()) == [Closing.PAUSE, Closing.STOP]
    assert question.says()[question.defaultButton().text()] is Closing.PAUSE


def test_a_shutdown_pauses_runs_where_no_question_is_allowed_and_can_be_called_off_elsewhere(
    make_window, training
):
    asked, cancelled = [], []
    window = make_window(on_close=lambda question: asked.append(question) or Closing.CANCEL)

    def session(is_interactive):
        return SimpleNamespace(
            allowsInteraction=lambda: is_interactive,
            cancel=lambda: cancelled.append(True),
            release=lambda: None,
        )

    window.end_session(session(is_interactive=True))
    assert (cancelled, window.isVisible(), requests(training)) == ([True], True, [])
    assert "shuts down" in asked[0].informativeText()
    window.end_session(session(is_interactive=False))
    assert requests(training) == [Action.PAUSE]


def test_a_shutdown_leaves_runs_on_other_computers_alone(make_window, training):
    link(training)
    window = make_window(on_close=lambda _question: pytest.fail("nothing ends here"))
    session = SimpleNamespace(allowsInteraction=lambda: False, cancel=pytest.fail, release=lambda: None)
    window.end_session(session)
    assert requests(training) == []
