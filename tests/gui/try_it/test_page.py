"""The page Try it with a fake process: two models asked the same, named answers, stops, refusals, and memory let go."""

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QImage
from PySide6.QtWidgets import QPushButton

from core.base.settings import Appearance, Settings
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions
from core.runs.events import Example, ExamplesChosen, encode
from core.runs.folder import RunFolder
from core.runs.queue import LiveRun
from core.runs.status import State
from core.services.chat import TryProcess, Verdict, Which
from gui.app.window import MainWindow
from gui.base.theme import Theme
from gui.run.header import RunAction
from gui.try_it.page import TryPage
from tests.fakes.jobs import FakeEngine
from tests.fakes.try_process import command

BOTH = Verdict(tuple(Which))


def made(folder, task, title, examples=()):
    run = RunFolder(folder)
    run.model.mkdir(parents=True)
    (run.model / "model.safetensors").touch()
    options = RunOptions(
        task=task,
        model=ModelOptions(source="resnet18"),
        data=DataOptions(train="a.csv"),
        output=OutputOptions(name=title),
    )
    run_file.write(options, run.options_file)
    run.events_file.write_bytes(encode(ExamplesChosen(examples=examples, time=0.0, attempt=1)))
    return run


class Models:
    """Starts fake processes, and says whether there is room."""

    def __init__(self):
        self.scenario = "chat"
        self.verdict = BOTH
        self.started = []
        self.asked_for_room = []

    def start(self, load):
        self.started.append(TryProcess(load, command(self.scenario)))
        self.started[-1].load = load
        return self.started[-1]

    def room_for(self, _chosen, wanted, _folder, *, on_cpu):
        self.asked_for_room.append((wanted, on_cpu))
        return Verdict(wanted) if on_cpu or self.verdict is BOTH else self.verdict


@pytest.fixture
def models():
    return Models()


@pytest.fixture
def folder(tmp_path):
    talk = (Example(given="<user>one?<assistant>", expected="two"), Example(given="Mine", is_own=True))
    made(tmp_path / "runs" / "1-chat", Task.CHAT, "Handwritten digits", talk)
    texts = (Example(given="good\nbad", expected="yes"),)
    made(tmp_path / "runs" / "2-texts", Task.TEXT_CLASSIFICATION, "Pairs", texts)
    images = made(
        tmp_path / "runs" / "3-images", Task.IMAGE_CLASSIFICATION, "Images", (Example(image="0.png"),)
    )
    QImage(8, 8, QImage.Format.Format_RGB32).save(str(images.path / "0.png"))
    return tmp_path / "runs"


@pytest.fixture
def page(qtbot, folder, models):
    page = TryPage(Theme(Appearance.LIGHT), lambda: folder, models.start, models.room_for)
    qtbot.addWidget(page)
    page.resize(900, 700)
    page.show()
    yield page
    page.close_questions()


def choose(qtbot, page, run):
    page.show_run(RunFolder(run))
    qtbot.waitUntil(lambda: page._choice.chosen is not None and page._choice.chosen.run.path == run)


def ask(qtbot, page, text):
    page.input.text.setPlainText(text)
    page.input.button.click()
    qtbot.waitUntil(lambda: bool(page.strip.isVisible() or not is_busy(page)), timeout=20_000)


def is_busy(page):
    return page._room.is_running or any(column.is_busy for column in page.columns.values())


def said(page, which):
    """All a column shows: who speaks and what, one after the other."""
    lines = page.columns[which].transcript._lines
    parts = [lines.itemAt(place).widget() for place in range(lines.count() - 1)]
    return [(part.speaker.text(), part.words.text()) for part in parts]


def test_both_models_answer_by_name_and_keep_their_own_conversation(qtbot, page, folder, models):
    choose(qtbot, page, folder / "1-chat")
    assert models.started == []
    ask(qtbot, page, "Hello")
    ask(qtbot, page, "And then?")
    assert said(page, Which.TRAINED)[2:] == [
        ("You", "And then?"),
        ("Handwritten digits", "Answer 2 of Handwritten digits, drawn with 0."),
    ]
    assert said(page, Which.BEFORE)[3] == ("resnet18", "Answer 2 of resnet18, drawn with 0.")
    assert {process.load.which for process in models.started} == set(Which)
    assert "cpu, fp32" in page.columns[Which.BEFORE].state.text()
    page.input.anew.click()
    assert said(page, Which.TRAINED) == []
    page.input.settings.seed.setValue(9)
    ask(qtbot, page, "Hello")
    assert said(page, Which.TRAINED)[1][1] == "Answer 1 of Handwritten digits, drawn with 9."
    assert len(models.started) == 2


def test_an_example_is_asked_at_one_press(qtbot, page, folder):
    choose(qtbot, page, folder / "1-chat")
    own, held_out = page.input.examples.buttons
    assert (own.text(), held_out.text()) == ("Mine", "one?")
    own.click()
    qtbot.waitUntil(lambda: not is_busy(page), timeout=20_000)
    assert said(page, Which.TRAINED)[0] == ("You", "Mine")
    held_out.click()
    qtbot.waitUntil(lambda: not is_busy(page), timeout=20_000)
    assert said(page, Which.TRAINED)[0] == ("Input", "<user>one?<assistant>")


def test_pairs_of_texts_come_to_bars(qtbot, page, folder):
    choose(qtbot, page, folder / "2-texts")
    assert page.input.second.isVisible()
    page.input.examples.buttons[0].click()
    qtbot.waitUntil(lambda: not is_busy(page), timeout=20_000)
    judgement = page.columns[Which.BEFORE].judgement
    assert judgement.answer.speaker.text() == "resnet18"
    assert judgement.bars.isVisible()
    assert "yes: 90.0 %" in judgement.bars.accessibleName()
    assert "Expected: yes" in judgement.answer.below.text()
    assert "2 read" in judgement.answer.below.text()


def test_a_number_and_labelled_words(qtbot, page, folder):
    choose(qtbot, page, folder / "2-texts")
    ask(qtbot, page, "number")
    judgement = page.columns[Which.TRAINED].judgement
    page.input.second.hide()
    ask(qtbot, page, "number")
    assert (judgement.number.text(), judgement.bars.isVisible()) == ("3.25", False)
    ask(qtbot, page, "words")
    assert "words<small" in judgement.labelled.text()


def test_a_dropped_image_is_classified(qtbot, page, folder):
    choose(qtbot, page, folder / "3-images")
    assert not page.input.text.isVisible()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(folder / "3-images" / "0.png"))])
    drop = QDropEvent(
        QPointF(5, 5),
        Qt.DropAction.CopyAction,
        data,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    page.input.image.dropEvent(drop)
    qtbot.waitUntil(lambda: page._room.is_running or is_busy(page))
    qtbot.waitUntil(lambda: not is_busy(page), timeout=20_000)
    assert "seven: 75.0 %" in page.columns[Which.TRAINED].judgement.bars.accessibleName()


def test_a_long_answer_is_stopped_and_kept(qtbot, page, folder):
    choose(qtbot, page, folder / "2-texts")
    page.input.second.hide()
    page.input.text.setPlainText("long")
    page.input.button.click()
    loaded = [column.state for column in page.columns.values()]
    qtbot.waitUntil(lambda: all("fp32" in state.text() for state in loaded), timeout=20_000)
    assert page.input.button.text() == "Stop"
    page.input.button.click()
    qtbot.waitUntil(lambda: not is_busy(page), timeout=20_000)
    assert page.input.button.text() == "Classify"
    assert all(column.is_loaded for column in page.columns.values())


def test_a_model_that_is_gone_says_so_and_the_other_answers(qtbot, page, folder, models):
    models.scenario = "refuse-before"
    choose(qtbot, page, folder / "1-chat")
    ask(qtbot, page, "Hello")
    assert said(page, Which.TRAINED)[1][1].startswith("Answer 1")
    last = page.columns[Which.BEFORE].transcript._answer
    assert "The model before training is gone" in last.below.text()
    assert "Put it back" in last.below.text()
    assert not page.columns[Which.BEFORE].is_loaded


def test_a_crash_is_told_and_the_next_question_loads_again(qtbot, page, folder, models):
    choose(qtbot, page, folder / "2-texts")
    page.input.second.hide()
    ask(qtbot, page, "crash")
    assert "This is a bug" in page.columns[Which.TRAINED].judgement.answer.below.text()
    ask(qtbot, page, "fine")
    assert page.columns[Which.TRAINED].judgement.bars.isVisible()
    assert len(models.started) == 4


def test_it_waits_for_a_run_that_trains_or_goes_on_on_the_cpu(qtbot, page, folder, models):
    models.verdict = Verdict((), "Digits is training", "It needs the memory.", cpu_helps=True)
    choose(qtbot, page, folder / "1-chat")
    ask(qtbot, page, "Hello")
    assert models.started == []
    assert page.input.text.toPlainText() == "Hello"
    button = next(one for one in page.strip.findChildren(QPushButton) if "CPU" in one.text())
    button.click()
    qtbot.waitUntil(lambda: len(said(page, Which.TRAINED)) == 2 and not is_busy(page), timeout=20_000)
    assert models.asked_for_room[-1] == (tuple(Which), True)
    assert all(process.load.on_cpu for process in models.started)
    assert page.input.text.toPlainText() == ""


def test_with_room_for_one_the_other_is_offered(qtbot, page, folder, models):
    models.verdict = Verdict((Which.TRAINED,), "Only one fits", "Memory.")
    choose(qtbot, page, folder / "1-chat")
    ask(qtbot, page, "Hello")
    qtbot.waitUntil(lambda: len(said(page, Which.TRAINED)) == 2 and not is_busy(page), timeout=20_000)
    assert said(page, Which.BEFORE) == []
    models.verdict = BOTH
    offers = [one for one in page.strip.findChildren(QPushButton) if "before" in one.text()]
    offers[0].click()
    assert not page.columns[Which.TRAINED].isVisible()
    assert not page.columns[Which.TRAINED].is_loaded
    ask(qtbot, page, "Hello")
    assert said(page, Which.BEFORE)[1][0] == "resnet18"


def test_a_run_that_starts_gets_the_memory(qtbot, page, folder):
    choose(qtbot, page, folder / "1-chat")
    ask(qtbot, page, "Hello")
    waiting = LiveRun(RunFolder(folder / "4"), "Waiting", 0.0, state=State.QUEUED)
    page.take_live((waiting,))
    assert page.columns[Which.TRAINED].is_loaded
    page.take_live((LiveRun(RunFolder(folder / "4"), "Digits", 0.0, state=State.TRAINING),))
    assert not any(column.is_loaded for column in page.columns.values())
    assert page.strip.accessibleName() == "Digits is training and needs the memory"
    assert not page.strip.isHidden()
    page.take_live((LiveRun(RunFolder(folder / "5"), "Letters", 0.0, state=State.TRAINING),))
    assert page.strip.isHidden(), "what it names trains no longer"
    assert said(page, Which.TRAINED)[1][1].startswith("Answer 1")


def test_models_are_let_go_of_a_while_after_the_page_was_left(qtbot, page, folder):
    choose(qtbot, page, folder / "1-chat")
    ask(qtbot, page, "Hello")
    page.hide()
    assert page._idle.isActive()
    assert page._idle.interval() == 300_000
    page.show()
    assert not page._idle.isActive()
    page.hide()
    page._idle.timeout.emit()
    assert not any(column.is_loaded for column in page.columns.values())


def test_a_run_s_page_leads_here(qtbot, folder):
    window = MainWindow(Theme(Appearance.LIGHT), Settings(runs_folder=str(folder)), FakeEngine())
    qtbot.addWidget(window)
    window.show()
    window.show_run(RunFolder(folder / "2-texts"))
    window.run.view.header.buttons.requested.emit(RunAction.TRY)
    assert window.pages.currentWidget() is window.try_it
    qtbot.waitUntil(lambda: window.try_it.run_list.currentText() == "Pairs")
    window.end_work()


def test_a_run_without_a_model_says_why(qtbot, page, folder):
    empty = RunFolder(folder / "5")
    empty.path.mkdir()
    empty.options_file.write_bytes((folder / "1-chat" / "run.toml").read_bytes())
    page.show_run(empty)
    qtbot.waitUntil(lambda: "can't be tried" in page.empty.text())
    assert page.empty.isVisible()
    assert not page.input.isVisible()
