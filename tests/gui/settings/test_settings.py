"""The page Settings and its device check."""

from importlib import metadata

import msgspec
import pytest
from PySide6.QtWidgets import QLabel, QPushButton

from core.base.errors import DeviceError, UserError
from core.base.settings import Appearance, Settings
from core.jobs.devices import DeviceCheckRequest
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.theme import Theme
from gui.settings import page as settings_page
from gui.settings.page import DeviceCheckDialog, SettingsPage
from tests.fakes.jobs import CPU_ONLY, FakeEngine

ASKS_THE_NETWORK = {"hub-search", "hub-download", "hub-account", "fetch-config", "export-push"}


@pytest.fixture
def engine():
    engine = FakeEngine()
    yield engine
    engine.gate.set()


@pytest.fixture
def page(qtbot, engine, tmp_path):
    page = SettingsPage(Settings(runs_folder=str(tmp_path / "runs")), ask=engine)
    qtbot.addWidget(page)
    return page


def test_what_other_computers_take_is_in_the_guide(make_window):
    window = make_window()
    window.pages.go_to(Place.SETTINGS)
    window.pages.settings_page().computers.guide_wanted.emit()
    assert window.commands.guide.browser.source().fileName() == "computers.md"
    window.commands.close_guide()


def test_a_change_keeps_the_other_settings(page, tmp_path):
    changed = []
    page.settings_changed.connect(changed.append)
    for press in (page.appearance.buttons()["dark"], page.keep_awake, page.notify, page.hub.offline):
        press.click()
    expected = Settings(runs_folder=str(tmp_path / "runs"))
    changes = {"appearance": Appearance.DARK}, {"keep_awake": False}, {"notify": False}, {"offline": True}
    for settings, change in zip(changed, changes, strict=True):
        expected = msgspec.structs.replace(expected, **change)
        assert settings == expected


def test_a_language_is_spoken_from_the_next_start_on(page, monkeypatch):
    page.language.buttons()["ko"].click()
    assert not page.next_start.isVisibleTo(page), "HONE_LANGUAGE names another"
    page.language.buttons()[""].click()
    monkeypatch.delenv("HONE_LANGUAGE")
    changed = []
    page.settings_changed.connect(changed.append)
    assert not page.next_start.isVisibleTo(page)
    assert page.language.buttons()["ko"].text() == "한국어"
    page.language.buttons()["ko"].click()
    assert (changed[-1].language, page.next_start.isVisibleTo(page)) == ("ko", True)
    page.language.buttons()[""].click()
    assert (changed[-1].language, page.next_start.isVisibleTo(page)) == ("", False)


def test_it_shows_the_folder_of_runs_versions_and_devices(page, monkeypatch, tmp_path):
    assert page.folder.text() == str(tmp_path / "runs")
    page.set_machine(CPU_ONLY)
    versions, devices = dict(page.versions.rows()), dict(page.devices.rows())
    assert (versions["PyTorch"], versions["Hone"]) == ("2.13.0", metadata.version("hone"))
    assert devices["CUDA"] == "No NVIDIA driver was found."
    assert devices["CPU"] == "Old processor, up to 16.0 GB"
    opened = []
    buttons = {button.accessibleName(): button for button in page.findChildren(QPushButton)}
    monkeypatch.setattr(settings_page, "reveal", opened.append)
    buttons["Open the folder with runs"].click()
    assert opened == [tmp_path], "the nearest folder that exists"
    monkeypatch.setattr(settings_page, "reveal", lambda folder: UserError("Not shown", f"It is {folder}"))
    buttons["Open the folder with runs"].click()
    assert f"It is {tmp_path}" in [label.text() for label in page.strip.findChildren(QLabel)]


@pytest.fixture
def dialog(qtbot, engine, page):
    engine.gate.clear()
    dialog = DeviceCheckDialog(engine, "cpu", page)
    dialog.show()
    return dialog


def test_a_device_check_shows_each_comparison(qtbot, engine, dialog):
    assert dialog.table.isHidden()
    engine.gate.set()
    qtbot.waitUntil(lambda: not dialog.work.is_running)
    job, request = engine.requests[-1]
    assert (job, msgspec.json.decode(request, type=DeviceCheckRequest).device) == ("check-device", "cpu")
    table = dialog.table
    assert [[table.item(row, column).text() for column in range(4)] for row in range(3)] == [
        ["✓ agrees", "Loss", "1.2e-7", "One."],
        ["✕ differs", "Gradients", "0.5", "Two."],
        ["– not run", "Mask", "–", "Three. No time."],
    ]
    assert dialog.strip.accessibleName() == "The gradients differ"


def test_a_device_check_that_fails_is_explained_and_closing_ends_it(qtbot, engine, dialog):
    engine.answers["check-device"] = DeviceError("There is no such device")
    engine.gate.set()
    qtbot.waitUntil(lambda: not dialog.work.is_running)
    assert dialog.strip.accessibleName() == "There is no such device"
    assert dialog.table.isHidden()
    engine.gate.clear()
    again = DeviceCheckDialog(engine, "cpu", dialog.parentWidget())
    again.show()
    with qtbot.waitSignal(again.finished):
        again.reject()
    assert not again.work.is_running


def test_a_release_links_to_the_newer_ones(qtbot, engine, monkeypatch, tmp_path):
    """Packaging fills in the address; a checkout names nobody's releases."""
    for address in ("", "someone/hone"):
        monkeypatch.setattr(settings_page, "REPOSITORY", address)
        page = SettingsPage(Settings(runs_folder=str(tmp_path)), ask=engine)
        qtbot.addWidget(page)
        assert page.releases.isVisibleTo(page) is bool(address)
    assert 'href="https://github.com/someone/hone/releases"' in page.releases.text()


def test_no_page_asks_the_network_by_itself(qtbot, engine, tmp_path):
    window = MainWindow(Theme(Appearance.LIGHT), Settings(runs_folder=str(tmp_path)), engine)
    qtbot.addWidget(window)
    window.show()
    window.ask_for_devices()
    for place in Place:
        window.pages.go_to(place)
    qtbot.waitUntil(lambda: "devices" in {job for job, _ in engine.requests})
    asked = {job: body for job, body in engine.requests if job in ASKS_THE_NETWORK}
    assert set(asked) <= {"hub-account"}
    assert b'"action":"check"' not in asked.get("hub-account", b"")  # it only looks into the keychain
    window.end_work()
