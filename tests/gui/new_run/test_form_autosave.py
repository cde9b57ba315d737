"""The form is restored when Hone is opened again, with a way back to what it starts with."""

import pytest

from core.base.settings import Appearance, Settings
from core.options import presets
from core.options.choices import Task
from gui.app.application import FormAutosave
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.theme import Theme
from gui.new_run.page import NewRunPage, starting_tree
from tests.fakes.jobs import FakeEngine
from tests.fakes.memory import FakeMemory
from tests.fakes.on_screen import press
from tests.gui.new_run.steps import TEXTS


@pytest.fixture
def opened(qtbot):
    """Opens another page, as another start of Hone does."""
    pages = []

    def open_page():
        page = NewRunPage(Theme(Appearance.LIGHT), FakeEngine(), FakeMemory().tools)
        qtbot.addWidget(page)
        pages.append(page)
        page.show()
        return page, FormAutosave(page, page)

    yield open_page
    for page in pages:
        page.end_work()


def test_the_form_is_restored_and_can_be_reset_to_the_beginning_of_its_task(qtbot, opened):
    page, autosave = opened()
    autosave.save()
    assert presets.find_last_form() is None, "nothing was changed"
    assert not page.header.reset.isVisible()
    autosave.timer.setInterval(0)
    page.options.form.set_values({"training.epochs": 7.0, "memory.batch_size": 5, "data.train": "/no/more"})
    left = page.tree()
    qtbot.waitUntil(lambda: presets.find_last_form() is not None)

    page, _autosave = opened()
    assert page.tree() == left
    page.header.reset.click()
    tree, beginning = page.tree(), starting_tree(Task.IMAGE_CLASSIFICATION)
    assert (tree["data"]["train"], tree["training"]["epochs"]) == ("", beginning["training"]["epochs"])
    assert not page.header.reset.isVisible()
    press(page.changes, "Undo")
    assert page.tree() == left


def test_a_changed_example_is_restored_as_that_example(qtbot, opened):
    page, autosave = opened()
    page.options.form.set_values({"training.epochs": 7.0})
    autosave.save()
    page, _autosave = opened()
    assert set(page.options.form.changed_from()) == {"training.epochs"}
    assert not page.header.reset.isVisible()


def test_the_window_saves_it_when_hone_ends_without_guessed_columns(qtbot, qapp, pairs, model):
    presets.keep({"schema": 1, "task": "image-classification", "training": {"epochs": 7.0}})
    window = MainWindow(Theme(Appearance.LIGHT), Settings(), FakeEngine(), tools=FakeMemory().tools)
    qtbot.addWidget(window)
    window.pages.go_to(Place.NEW_RUN)
    page, autosave = window.pages.new_run, FormAutosave(window.pages.new_run, window)
    qapp.aboutToQuit.connect(autosave.save)
    assert page.tree()["training"]["epochs"] == 7.0
    data = {"train": str(pairs), "max_length": 99}
    page.load_tree({"task": TEXTS, "model": {"source": str(model)}, "data": data})
    qtbot.waitUntil(lambda: page.tree()["data"].get("label_column") == "same")
    qapp.aboutToQuit.emit()
    saved = presets.find_last_form()
    assert (saved["task"], saved["data"]["max_length"]) == (TEXTS, 99)
    assert not {"text_columns", "label_column"} & set(saved["data"])
    qapp.aboutToQuit.disconnect(autosave.save)
    window.end_work()
