"""The page Try it with a fake process: two models answer, answers are stopped, refusals, and memory that is freed."""

from pathlib import Path
from threading import Event

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication, QImage
from PySide6.QtWidgets import QPushButton

from core.base.settings import Appearance
from core.jobs.chat import Which
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions
from core.runs.events import Example, ExamplesChosen, encode
from core.runs.folder import RunFolder
from core.runs.queue import LiveRun
from core.runs.status import State
from core.services.chat import LoadVerdict, TryProcess
from gui.base.theme import Theme
from gui.run.header import RunAction
from gui.try_it.image import PAUSE_MS, DrawingPad
from gui.try_it.page import TryPage
from tests.fakes.try_process import command

BOTH = LoadVerdict(tuple(Which))


class FakeModels:
    """Starts fake processes, and says whether there is memory for them."""

    def __init__(self):
        self.scenario, self.verdict, self.loads, self.questions = "chat", BOTH, [], []

    def start(self, load):
        self.loads.append(load)
        return TryProcess(load, command(self.scenario))

    def room_for(self, _chosen, wanted, _folder, *, on_cpu):
        self.questions.append((wanted, on_cpu))
        return LoadVerdict(wanted) if on_cpu or self.verdict is BOTH else self.verdict


def make_run(folder, task, title, *examples):
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


PAIR = Example(given="good\nbad", expected="yes", texts=("Good –\n it is", "BAD"), where="row 7 of pairs.csv")
CONVERSATION = Example(given="<user>one?<assistant>", expected="two"), Example(given="Mine", is_own=True)


@pytest.fixture
def models():
    return FakeModels()


@pytest.fixture
def folder(tmp_path):
    runs = tmp_path / "runs"
    make_run(runs / "1-chat", Task.CHAT, "Handwritten digits", *CONVERSATION)
    make_run(runs / "2-texts", Task.TEXT_CLASSIFICATION, "Pairs", PAIR)
    two = (Example(image="0.png", expected="nought"), Example(image="1.png", expected="one"))
    images = make_run(runs / "3-images", Task.IMAGE_CLASSIFICATION, "Images", *two)
    for image in two:
        black = QImage(8, 8, QImage.Format.Format_Grayscale8)
        black.fill(0)
        black.save(str(images.path / image.image))
    return runs


@pytest.fixture
def page(qtbot, folder, models):
    page = TryPage(Theme(Appearance.LIGHT), lambda: folder, models.start, models.room_for)
    qtbot.addWidget(page)
    page.resize(900, 700)
    page.show()
    yield page
    page.end_work()


def choose(qtbot, page, run):
    page.show_run(RunFolder(run))
    qtbot.waitUntil(lambda: page.choice.chosen is not None and page.choice.chosen.run.path == run)


def is_busy(page):
    return page._room.is_running or any(column.is_busy for column in page.columns.values())


def wait(qtbot, page):
    qtbot.waitUntil(lambda: not is_busy(page), timeout=20_000)


def ask(qtbot, page, text):
    page.input.text.setPlainText(text)
    page.input.button.click()
    wait(qtbot, page)


def press(page, words):
    next(button for button in page.strip.findChildren(QPushButton) if words in button.text()).click()


def messages(page, which):
    """The messages of a column: who speaks, and what."""
    lines = page.columns[which].transcript.messages
    parts = [lines.itemAt(place).widget() for place in range(lines.count() - 1)]
    return [(part.speaker.text(), part.words.text()) for part in parts]


def is_loaded(page):
    return [column.is_loaded for column in page.columns.values()]


def test_both_models_answer_in_conversations_of_their_own(qtbot, page, folder, models):
    choose(qtbot, page, folder / "1-chat")
    qtbot.waitUntil(lambda: sum(load.run.endswith("1-chat") for load in models.loads) == 2)
    ask(qtbot, page, "Hello")
    ask(qtbot, page, "And then?")
    assert messages(page, Which.TRAINED)[2:] == [
        ("You", "And then?"),
        ("Handwritten digits", "Answer 2 of Handwritten digits, drawn with 0."),
    ]
    assert messages(page, Which.BEFORE)[3] == ("resnet18", "Answer 2 of resnet18, drawn with 0.")
    assert "CPU, fp32" in page.columns[Which.BEFORE].state.text()
    page.input.clear_link.click()
    assert messages(page, Which.TRAINED) == []
    page.input.settings.seed.setValue(9)
    ask(qtbot, page, "Hello")
    assert messages(page, Which.TRAINED)[1][1] == "Answer 1 of Handwritten digits, drawn with 9."
    assert sum(load.run.endswith("1-chat") for load in models.loads) == 2
    own, held_out = page.input.examples.buttons
    assert (own.text(), held_out.text()) == ("Mine", "one?")
    for button, shown in ((own, ("You", "Mine")), (held_out, ("Input", "<user>one?<assistant>"))):
        button.click()
        wait(qtbot, page)
        assert messages(page, Which.TRAINED)[0] == shown


def test_an_adapter_is_switched_off_in_the_process_of_the_trained_model(qtbot, page, folder, models):
    run = make_run(folder / "4-adapter", Task.CHAT, "Adapter", *CONVERSATION)
    (run.model / "adapter_config.json").write_text("{}")

    def show(shown):
        page.shown.set_value(shown)
        page._show_columns()

    choose(qtbot, page, run.path)
    show(Which.BEFORE.value)
    ask(qtbot, page, "Hello")
    show("both")
    ask(qtbot, page, "And you?")
    show(Which.TRAINED.value)
    ask(qtbot, page, "Still there?")
    assert [load.which for load in models.loads if load.run == str(run.path)] == [Which.TRAINED]
    said = {which: [text for _name, text in messages(page, which)[1::2]] for which in Which}
    expected = [f"Answer {turn} of {{name}}, drawn with 0." for turn in (1, 2)]
    assert said[Which.TRAINED] == [text.format(name="Handwritten digits") for text in expected]
    assert said[Which.BEFORE] == [text.format(name="resnet18") for text in expected]
    page.columns[Which.TRAINED].end()
    assert is_loaded(page) == [False, False]


def test_a_text_stays_in_its_field_until_a_loaded_model_takes_it(qtbot, page, folder, models):
    page.activateWindow()
    models.scenario = "hang"
    choose(qtbot, page, folder / "1-chat")
    qtbot.waitUntil(page.input.text.hasFocus)
    page.input.text.setPlainText("Hello")
    qtbot.keyClick(page.input.text, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: is_busy(page))
    page.input.button.click()
    wait(qtbot, page)
    assert page.input.text.toPlainText() == "Hello"
    models.scenario = "chat"
    qtbot.keyClick(page.input.text, Qt.Key.Key_Return)
    wait(qtbot, page)
    assert page.input.text.toPlainText() == ""
    assert messages(page, Which.TRAINED)[-1][1].startswith("Answer 1")


def test_a_classifier_answers_with_bars_a_number_or_labelled_words(qtbot, page, folder, models):
    choose(qtbot, page, folder / "2-texts")
    assert page.input.second.isVisible()
    page.input.examples.buttons[0].click()
    wait(qtbot, page)
    prediction = page.columns[Which.BEFORE].prediction
    assert prediction.bars.isVisible()
    assert "yes: 90.0 %" in prediction.bars.accessibleName()
    assert "True label: yes" in prediction.answer.below.text()
    assert "2 read" in prediction.answer.below.text()
    assert prediction.asked.words.text() == "Good –\n it is\nBAD", "the text of the data, not of the tokens"
    assert prediction.asked.below.text() == "row 7 of pairs.csv"
    assert (page.input.text.toPlainText(), page.input.second.toPlainText()) == ("Good –\n it is", "BAD")
    page.input.second.hide()
    ask(qtbot, page, "number")
    assert (prediction.number.text(), prediction.bars.isVisible()) == ("3.25", False)
    ask(qtbot, page, "words")
    assert "words<small" in prediction.labelled.text()
    assert "3.25" in prediction.earlier.text()
    ask(qtbot, page, "crash")
    assert "This is a bug" in prediction.answer.below.text()
    ask(qtbot, page, "fine")
    assert prediction.bars.isVisible()
    assert sum(load.run.endswith("2-texts") for load in models.loads) == 4


def test_a_dropped_image_is_classified(qtbot, page, folder):
    choose(qtbot, page, folder / "3-images")
    assert not page.input.text.isVisible()
    content = QMimeData()
    content.setUrls([QUrl.fromLocalFile(str(folder / "3-images" / "0.png"))])
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    page.input.image.dropEvent(QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, content, left, none))
    qtbot.waitUntil(lambda: is_busy(page))
    wait(qtbot, page)
    assert "seven: 75.0 %" in page.columns[Which.TRAINED].prediction.bars.accessibleName()


def table_of(page, which=Which.TRAINED):
    model = page.columns[which].files.model
    return [
        [model.index(row, column).data() for column in range(model.columnCount())]
        for row in range(model.rowCount())
    ]


def test_several_images_are_answered_in_a_table_that_is_saved(qtbot, page, folder, tmp_path, monkeypatch):
    choose(qtbot, page, folder / "3-images")
    assert page.columns[Which.TRAINED].hint.isVisible()
    images = [folder / "3-images" / name for name in ("0.png", "1.png")]
    page.input.image.take(images)
    qtbot.waitUntil(lambda: is_busy(page))
    wait(qtbot, page)
    answers = page.columns[Which.TRAINED].files
    assert answers.asked.text() == "2 images"
    shown = [str(Path("3-images", name)) for name in ("0.png", "1.png")]
    assert table_of(page) == [[name, "seven", "0.7500"] for name in shown]
    assert "seven: 2" in answers.counts.text()
    assert answers.model.path(1) == images[1]
    saved = tmp_path / "mine"
    monkeypatch.setattr("gui.try_it.answers.QFileDialog.getSaveFileName", lambda *_args: (str(saved), ""))
    answers.save.click()
    assert (
        saved.with_suffix(".csv")
        .read_text(encoding="utf-8-sig")
        .splitlines()[1]
        .endswith("0.png,seven,0.7500")
    )
    page.input.examples.buttons[0].click()
    wait(qtbot, page)
    assert page.columns[Which.TRAINED].prediction.isVisible()
    assert not answers.isVisible()


def test_a_file_of_texts_is_answered_with_its_columns(qtbot, page, folder, tmp_path):
    choose(qtbot, page, folder / "2-texts")
    assert page.input.file_link.isVisible()
    path = tmp_path / "new.csv"
    path.write_text("one,two\na,b\nc,d\n")
    content = QMimeData()
    content.setUrls([QUrl.fromLocalFile(str(path))])
    page.input.text.insertFromMimeData(content)
    qtbot.waitUntil(lambda: is_busy(page))
    wait(qtbot, page)
    answers = page.columns[Which.BEFORE].files
    assert (answers.asked.text(), answers.model.columns) == (
        "new.csv",
        ("predicted", "probability", "one", "two"),
    )
    assert table_of(page, Which.BEFORE)[1] == ["yes", "0.9000", "c", "d"]
    assert page.input.text.toPlainText() == ""
    assert answers.model.path(0) is None
    path.write_text("refuse")
    page.input.text.insertFromMimeData(content)
    qtbot.waitUntil(lambda: is_busy(page))
    wait(qtbot, page)
    assert page.strip.accessibleName() == "new.csv has no column of texts"
    assert not answers.table.isVisible()
    choose(qtbot, page, folder / "1-chat")
    assert not page.input.file_link.isVisible()


def test_what_was_copied_is_pasted_as_an_image(qtbot, page, folder, tmp_path):
    clipboard = QGuiApplication.clipboard()
    clipboard.clear()
    choose(qtbot, page, folder / "3-images")
    assert page.input.pastes() is None
    clipboard.setImage(QImage(str(folder / "3-images" / "0.png")))
    page.input.pastes()()
    qtbot.waitUntil(lambda: is_busy(page))
    wait(qtbot, page)
    assert page.input.image.name.text() == "Pasted image 1.png"
    assert "seven: 75.0 %" in page.columns[Which.TRAINED].prediction.bars.accessibleName()
    content = QMimeData()
    content.setUrls([QUrl.fromLocalFile(str(folder / "3-images" / name)) for name in ("0.png", "1.png")])
    clipboard.setMimeData(content)
    page.input.pastes()()
    qtbot.waitUntil(lambda: is_busy(page))
    wait(qtbot, page)
    assert len(table_of(page)) == 2
    choose(qtbot, page, folder / "1-chat")
    assert page.input.pastes() is None, "a model that writes answers no files"
    clipboard.clear()


def test_an_image_chosen_while_the_models_load_replaces_the_waiting_one(qtbot, page, folder):
    choose(qtbot, page, folder / "3-images")
    for button in page.input.examples.buttons:
        button.click()
        qtbot.waitUntil(lambda: any(column.is_busy for column in page.columns.values()))
    wait(qtbot, page)
    for column in page.columns.values():
        assert "True label: one" in column.prediction.answer.below.text()
        assert column.prediction._said == ["Example 2  →  seven  75 %"]


def test_an_answer_is_not_shown_under_an_image_that_waits_for_a_run_to_end(qtbot, page, folder, models):
    choose(qtbot, page, folder / "3-images")
    first, second = page.input.examples.buttons
    first.click()
    qtbot.waitUntil(lambda: is_busy(page))
    wait(qtbot, page)
    models.verdict = LoadVerdict((), "Digits is running", "It needs the memory.", cpu_helps=True)
    page.take_live(live("Digits"))
    second.click()
    qtbot.waitUntil(lambda: page.strip.accessibleName() == "Digits is running")
    assert not any(column.prediction.bars.isVisible() for column in page.columns.values())
    answers = [column.prediction.answer for column in page.columns.values()]
    press(page, "Try anyway")
    qtbot.waitUntil(
        lambda: all("True label: one" in answer.below.text() for answer in answers), timeout=20_000
    )


def test_a_drawing_is_an_image_in_the_colours_of_the_examples(qtbot):
    pad = DrawingPad()
    qtbot.addWidget(pad)
    example = QImage(8, 8, QImage.Format.Format_Grayscale8)
    example.fill(0)
    pad.show_for(example)
    for y in (30, 82):
        with qtbot.waitSignal(pad.drawn) as caught:
            qtbot.mousePress(pad, Qt.MouseButton.LeftButton, pos=QPoint(20, y))
            qtbot.mouseMove(pad, QPoint(90, y))
            qtbot.mouseRelease(pad, Qt.MouseButton.LeftButton, pos=QPoint(90, y))
    qtbot.mouseClick(pad, Qt.MouseButton.RightButton)
    image = QImage(caught.args[0])
    shades = [image.pixelColor(4, y).lightness() for y in (3, 1, 6)]
    assert shades[0] < 100 < min(shades[1:]), "both strokes, up to the edges and centred"
    with qtbot.waitSignal(pad.drawn):
        pad.undo()
    assert pad.grab().toImage().pixelColor(50, 82).lightness() == 0
    with qtbot.assertNotEmitted(pad.drawn, wait=PAUSE_MS + 100):
        qtbot.mouseClick(pad, Qt.MouseButton.LeftButton)
        pad.clear()


def test_a_cleared_drawing_takes_its_answer_and_its_picture_with_it(qtbot, page, folder):
    choose(qtbot, page, folder / "3-images")
    pad, prediction = page.input.image.pad, page.columns[Which.TRAINED].prediction
    qtbot.mouseClick(pad, Qt.MouseButton.LeftButton, pos=QPoint(40, 40))
    qtbot.waitUntil(prediction.bars.isVisible, timeout=20_000)
    qtbot.mouseClick(page.input.image.clear, Qt.MouseButton.LeftButton)
    assert not any(part.isVisible() for part in (prediction.bars, page.input.image.picture))


def test_an_image_with_light_and_dark_swapped_can_be_inverted(qtbot, page, folder, tmp_path):
    choose(qtbot, page, folder / "3-images")
    box, image = page.input.image, QImage(20, 20, QImage.Format.Format_Grayscale8)

    def chosen(act):
        with qtbot.waitSignal(box.chosen) as path:
            act()
        wait(qtbot, page)
        return path.args[0]

    for name, shade in (("light", 255), ("dark", 0), ("light", 255)):
        image.fill(shade)
        image.save(str(tmp_path / f"{name}.png"))
        path = chosen(lambda name=name: box._take(str(tmp_path / f"{name}.png")))
        assert box.invert.isVisible() is (name == "light"), "as the model's answer says"
    assert QImage(chosen(box.invert.click)).pixelColor(9, 9).lightness() == 0
    assert box.invert.isVisible()
    assert chosen(box.invert.click) == path


def test_a_long_answer_is_stopped_and_the_models_stay_loaded(qtbot, page, folder):
    choose(qtbot, page, folder / "2-texts")
    page.input.second.hide()
    page.input.text.setPlainText("long")
    page.input.button.click()
    states = [column.state for column in page.columns.values()]
    qtbot.waitUntil(lambda: all("fp32" in state.text() for state in states), timeout=20_000)
    assert page.input.button.text() == "Stop"
    page.input.button.click()
    wait(qtbot, page)
    assert page.input.button.text() == "Classify"
    assert is_loaded(page) == [True, True]


def test_a_model_that_is_gone_shows_why_and_the_other_one_answers(qtbot, page, folder, models):
    models.scenario = "refuse-before"
    choose(qtbot, page, folder / "1-chat")
    ask(qtbot, page, "Hello")
    assert messages(page, Which.TRAINED)[1][1].startswith("Answer 1")
    notes = page.columns[Which.BEFORE].transcript.answer.below.text()
    assert "The model before training is gone" in notes
    assert "Put it back" in notes
    assert is_loaded(page) == [True, False]


def test_while_a_run_trains_it_waits_or_uses_the_cpu(qtbot, page, folder, models):
    models.verdict = LoadVerdict((), "Digits is running", "It needs the memory.", cpu_helps=True)
    choose(qtbot, page, folder / "1-chat")
    page.input.text.setPlainText("Hello")
    page.input.button.click()
    qtbot.waitUntil(page.strip.isVisible)
    assert not any(load.run.endswith("1-chat") for load in models.loads)
    assert page.input.text.toPlainText() == "Hello"
    press(page, "anyway")
    qtbot.waitUntil(lambda: len(messages(page, Which.TRAINED)) == 2 and not is_busy(page), timeout=20_000)
    assert models.questions[-1] == (tuple(Which), True)
    assert all(load.on_cpu for load in models.loads if load.run.endswith("1-chat"))
    assert page.input.text.toPlainText() == ""


def test_a_question_is_shown_at_once_with_what_it_waits_for(qtbot, page, folder, models):
    choose(qtbot, page, folder / "1-chat")
    wait(qtbot, page)
    page._unload()
    seen, verdict = Event(), LoadVerdict((), "Digits is running", "It needs the memory.", cpu_helps=True)
    page._room_for = lambda *_args, **_how: seen.wait(20) and verdict
    column, button = page.columns[Which.TRAINED], page.input.button

    def shown():
        return button.text(), messages(page, Which.TRAINED)[-2:], column.transcript.answer.below.text()

    asked, waits = (
        [("You", "Hello"), ("Handwritten digits", "")],
        "Choose above, or wait until the run has ended.",
    )
    page.input.text.setPlainText("Hello")
    button.click()
    assert shown() == ("Stop", asked, "Checking the memory… 0 s")
    seen.set()
    qtbot.waitUntil(page.strip.isVisible)
    assert shown() == ("Stop", asked, waits)
    page.strip.closed.emit()
    assert shown() == ("Ask", asked, "Stopped.")
    button.click()
    qtbot.waitUntil(lambda: shown() == ("Stop", asked, waits))
    page._room_for, models.scenario = models.room_for, "hang"
    page.take_live(())
    qtbot.waitUntil(lambda: "Loading PyTorch" in shown()[-1])
    assert "Loading" not in column.state.text(), "it is said once"


def test_a_question_without_memory_for_its_model_is_taken_back(qtbot, page, folder, models):
    models.verdict = LoadVerdict((), "Not enough memory", "It takes 9 GB.")
    choose(qtbot, page, folder / "1-chat")
    ask(qtbot, page, "Hello")
    assert (messages(page, Which.TRAINED), page.input.text.toPlainText()) == ([], "Hello")
    assert page.strip.accessibleName() == "Not enough memory"
    assert page.input.button.text() == "Ask"


def test_with_memory_for_one_model_either_can_be_chosen(qtbot, page, folder, models):
    models.verdict = LoadVerdict((Which.TRAINED,), "Only one fits", "Memory.")
    choose(qtbot, page, folder / "1-chat")
    ask(qtbot, page, "Hello")
    assert len(messages(page, Which.TRAINED)) == 2
    assert messages(page, Which.BEFORE) == []
    models.verdict = BOTH
    press(page, "before")
    assert not page.columns[Which.TRAINED].isVisible()
    assert is_loaded(page) == [False, False]
    ask(qtbot, page, "Hello")
    assert messages(page, Which.BEFORE)[1][0] == "resnet18"


def live(name, state=State.TRAINING):
    return (LiveRun(RunFolder(f"/{name}"), name, 0.0, state=state),)


def test_models_are_unloaded_when_a_run_trains_and_some_time_after_the_page_was_left(qtbot, page, folder):
    choose(qtbot, page, folder / "1-chat")
    ask(qtbot, page, "Hello")
    page.take_live(live("Waiting", State.QUEUED))
    assert is_loaded(page) == [True, True]
    page.take_live(live("Digits"))
    assert is_loaded(page) == [False, False]
    assert page.strip.accessibleName() == "Models unloaded while “Digits” trains"
    page.take_live(live("Letters"))
    assert page.strip.isHidden(), "the run it names is over"
    assert messages(page, Which.TRAINED)[1][1].startswith("Answer 1")
    page.take_live(())
    ask(qtbot, page, "Hello")
    page.hide()
    assert (page.idle.isActive(), page.idle.interval()) == (True, 300_000)
    page.show()
    assert not page.idle.isActive()
    assert is_loaded(page) == [True, True]
    page.hide()
    page.idle.timeout.emit()
    assert is_loaded(page) == [False, False]


def test_the_page_of_a_run_leads_here(qtbot, folder, make_window):
    window = make_window()
    window.pages.show_run(RunFolder(folder / "2-texts"))
    window.pages.run.view.header.buttons.requested.emit(RunAction.TRY)
    assert window.pages.currentWidget() is window.pages.try_it
    qtbot.waitUntil(lambda: window.pages.try_it.run_list.currentText() == "Pairs")


def test_a_run_without_a_model_shows_why(qtbot, page, folder):
    empty = RunFolder(folder / "5")
    empty.path.mkdir()
    empty.options_file.write_bytes((folder / "1-chat" / "run.toml").read_bytes())
    page.show_run(empty)
    qtbot.waitUntil(lambda: "can't be tried" in page.empty.text())
    assert page.empty.isVisible()
    assert not page.input.isVisible()


def test_the_settings_allow_as_long_an_answer_as_the_model_can_write(page):
    settings = page.input.settings
    assert settings.writing().max_tokens == 256
    settings.show_context(256)
    assert settings.writing().max_tokens == 128
    settings.show_context(0)
    assert settings.writing().max_tokens == 256
    settings.max_tokens.setValue(40)
    settings.show_context(256)
    assert settings.writing().max_tokens == 40
