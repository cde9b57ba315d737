"""The form stands as it was left when Hone is opened again, with a way back to what it starts with."""

import pytest

from core import last_form
from core.settings import Appearance, Settings
from gui.app import keep_form
from gui.kept_form import KeptForm
from gui.pages.new_run import NewRunPage
from gui.theme import Theme
from gui.window import MainWindow
from tests.fakes.asking import FakeEngine
from tests.fakes.memory import FakeMemory


@pytest.fixture(autouse=True)
def own_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


@pytest.fixture
def opened(qtbot):
    """Opens another page, as another start of Hone does, its form kept."""
    pages = []

    def open_page():
        page = NewRunPage(Theme(Appearance.LIGHT), FakeEngine(), FakeMemory().tools)
        qtbot.addWidget(page)
        pages.append(page)
        page.show()
        kept = KeptForm(page, page)
        kept.restore()
        return page, kept

    yield open_page
    for page in pages:
        page.close_questions()


def lead_back(page):
    return page._header._afresh


def test_what_was_never_changed_is_not_kept(opened):
    page, kept = opened()
    kept.keep()
    assert last_form.find() is None
    assert not lead_back(page).isVisible()


def test_the_form_is_as_it_was_left_and_can_be_started_afresh(opened):
    page, kept = opened()
    beginning = page.tree()
    page._options.form.set_values({"training.epochs": 7.0, "memory.batch_size": 5, "data.train": "/no/more"})
    kept.keep()
    left = page.tree()

    page, kept = opened()
    assert page.tree() == left
    assert lead_back(page).isVisible()
    lead_back(page).click()
    assert page.tree() == beginning
    assert not lead_back(page).isVisible()
    page._changes._undo.click()
    assert page.tree() == left


def test_it_is_kept_once_it_rests(qtbot, opened):
    page, kept = opened()
    kept._timer.setInterval(0)
    page._options.form.set_values({"training.epochs": 7.0})
    qtbot.waitUntil(lambda: last_form.find() is not None)
    assert last_form.find()["training"]["epochs"] == 7.0


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
    kept.keep()
    assert not {"text_columns", "label_column"} & set(last_form.find()["data"])
    page, kept = opened()
    assert page.tree()["task"] == "text-classification"
    assert page.tree()["data"]["max_length"] == 99


def test_another_file_is_not_said_to_be_the_form_that_was_left(opened):
    last_form.keep({"schema": 1, "task": "image-classification", "training": {"epochs": 7.0}})
    page, _ = opened()
    assert lead_back(page).isVisible()
    page.load_tree({"task": "image-classification"})
    assert not lead_back(page).isVisible()


def test_the_window_keeps_it_when_hone_ends(qtbot, qapp):
    last_form.keep({"schema": 1, "task": "image-classification", "training": {"epochs": 7.0}})
    window = MainWindow(Theme(Appearance.LIGHT), Settings(), FakeEngine(), tools=FakeMemory().tools)
    qtbot.addWidget(window)
    keep_form(qapp, window)
    assert window.new_run.tree()["training"]["epochs"] == 7.0
    window.new_run._options.form.set_values({"training.epochs": 8.0})
    qapp.aboutToQuit.emit()
    assert last_form.find()["training"]["epochs"] == 8.0
    window.end_work()
