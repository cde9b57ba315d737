from importlib import metadata

import pytest
from PySide6.QtWidgets import QLabel, QPushButton

from core.base.errors import UserError
from core.base.settings import Appearance, Settings
from gui.settings import page as settings_page
from gui.settings.page import SettingsPage
from tests.fakes.jobs import CPU_ONLY


@pytest.fixture
def page(qtbot, tmp_path):
    page = SettingsPage(Settings(runs_folder=str(tmp_path / "runs")))
    qtbot.addWidget(page)
    return page


def test_a_change_keeps_the_other_settings(qtbot, page, tmp_path):
    with qtbot.waitSignal(page.settings_changed) as caught:
        page.appearance.buttons()["dark"].click()
    assert caught.args == [Settings(appearance=Appearance.DARK, runs_folder=str(tmp_path / "runs"))]


def test_what_happens_while_a_run_trains_is_the_persons_choice(page):
    told = []
    page.settings_changed.connect(told.append)
    assert page.keep_awake.isChecked()
    assert page.notify.isChecked()
    page.keep_awake.click()
    page.notify.click()
    assert [(found.keep_awake, found.notify) for found in told] == [(False, True), (False, False)]


def test_it_says_where_runs_go_and_what_hone_runs_on(page, tmp_path):
    assert page.folder.text() == str(tmp_path / "runs")
    page.set_machine(CPU_ONLY)
    rows = dict(page.versions.rows())
    assert rows["PyTorch"] == "2.13.0"
    assert rows["Hone"] == metadata.version("hone")
    devices = dict(page.devices.rows())
    assert devices["CUDA"] == "No NVIDIA driver was found."
    assert devices["CPU"] == "Old processor, up to 16.0 GB"


def press(page, name):
    next(button for button in page.findChildren(QPushButton) if button.accessibleName() == name).click()


def test_a_folder_that_is_not_there_yet_opens_at_the_nearest(page, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(settings_page, "reveal", opened.append)
    press(page, "Open the folder with runs")
    assert opened == [tmp_path]


def test_without_a_file_manager_it_says_where_the_folder_is(page, monkeypatch, tmp_path):
    monkeypatch.setattr(settings_page, "reveal", lambda folder: UserError("Not shown", f"It is {folder}"))
    press(page, "Open the folder with runs")
    assert page.strip.isVisibleTo(page)
    assert f"It is {tmp_path}" in [label.text() for label in page.strip.findChildren(QLabel)]
