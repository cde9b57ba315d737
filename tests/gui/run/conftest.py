"""A run, its view and its page, for the tests of this folder."""

import pytest
from PySide6.QtWidgets import QApplication

from core.base.settings import Appearance
from gui.base.theme import Theme
from gui.run.page import RunPage, RunView
from tests.fakes.runs import make_folder


@pytest.fixture
def run(tmp_path):
    return make_folder(tmp_path / "run")


@pytest.fixture
def show(qtbot, run):
    """Opens a view of the run and waits for a state."""
    shown = []

    def make(state, **how):
        view = RunView(Theme(Appearance.LIGHT), run, **how)
        shown.append(view)
        qtbot.addWidget(view)
        view.resize(1000, 780)
        view.show()
        if state is not None:
            qtbot.waitUntil(lambda: view.state is state, timeout=10_000)
            QApplication.processEvents()  # a button is shown an event after its layout has it
        return view

    yield make
    for view in shown:
        view.close_view()


@pytest.fixture
def page(qtbot):
    page = RunPage(Theme(Appearance.LIGHT))
    qtbot.addWidget(page)
    page.resize(1000, 780)
    page.show()
    yield page
    page.end_work()
