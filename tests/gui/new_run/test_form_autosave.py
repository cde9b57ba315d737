"""The form stands as it was left when Hone is opened again, with a way back to what it starts with."""

import pytest

from core.base.settings import Appearance, Settings
from core.options import presets
from gui.app.application import FormAutosave
from gui.app.window import MainWindow
from gui.base.theme import Theme
from gui.new_run.page import NewRunPage
from tests.fakes.jobs import FakeEngine
from tests.fakes.memory import FakeMemory
from tests.gui.new_run.steps import press


@pytest.fixture
def opened(qtbot):
    """Opens another page, as another start of Hone does, its form kept."""
    pages = []

    def open_page():
        page = NewRunPage(Theme(Appearance.LIGHT), FakeEngine(), FakeMemory().tools)
        qtbot.addWidget(page)
        pages.append(page)
        page.show()
        kept = FormAutosave(page, page)
        return page, kept

    yield open_page
    for page in pages:
        page.close_questions()


def lead_back(page):
    return page._header.reset


def test_what_was_never_changed_is_not_kept(opened):
    page, kept = opened()
    kept.save()
    assert presets.find_last_form() is None
    assert not lead_back(page).isVisible()


def test_the_form_is_as_it_was_left_and_can_be_started_afresh(opened):
    page, kept = opened()
    beginning = page.tree()
    page._options.form.set_values({"training.epochs": 7.0, "memory.batch_size": 5, "data.train": "/no/more"})
    kept.save()
    left = page.tree()

    page, kept = opened()
    assert page.tree() == left
    assert lead_back(page).isVisible()
    lead_back(page).click()
    assert page.tree() == beginning
    assert not lead_back(page).isVisible()
    press(page._changes, "Undo")
    assert page.tree() == left


def test_it_is_kept_once_it_rests(qtbot, opened):
    page, kept = opened()
    kept._timer.setInterval(0)
    page._options.form.set_values({"training.epochs": 7.0})
    qtbot.waitUntil(lambda: presets.find_last_form() is not None)
    assert presets.find_last_form()["training"]["epochs"] == 7.0


def test_another_task_comes_back_too_and_guessed_columns_do_not(qtbot, opened, pairs, model):
    page, kept = opened()
    page.load_tree(
        {
            "task": "text-classification",
            "model": {"source": str(model)},
            "data": {"train": str(pairs), "max_length": 99},
        }
    )
    qtbot.waitUntil(lambda: page.tree()["data"].get("label_column") == "same")
    kept.save()
    assert not {"text_columns", "label_column"} & set(presets.find_last_form()["data"])
    page, kept = opened()
    assert page.tree()["task"] == "text-classification"
    assert page.tree()["data"]["max_length"] == 99


def test_the_window_keeps_it_when_hone_ends(qtbot, qapp):
    presets.keep({"schema": 1, "task": "image-classification", "training": {"epochs": 7.0}})
    window = MainWindow(Theme(Appearance.LIGHT), Settings(), FakeEngine(), tools=FakeMemory().tools)
    qtbot.addWidget(window)
    qapp.aboutToQuit.connect(FormAutosave(window.new_run, window).save)
    assert window.new_run.tree()["training"]["epochs"] == 7.0
    window.new_run._options.form.set_values({"training.epochs": 8.0})
    qapp.aboutToQuit.emit()
    assert presets.find_last_form()["training"]["epochs"] == 8.0
    window.end_work()
