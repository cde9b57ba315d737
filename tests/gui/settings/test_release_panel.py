"""Settings on this version and newer ones: asked when the button is pressed, never otherwise."""

from pathlib import Path

import msgspec
import pytest

from core.base.errors import Fix, UserError
from core.base.settings import REPOSITORY, VERSION, Appearance, Settings
from core.services.hub import Release, ReleaseRequest
from core.services.hub import ReleaseStanding as Standing
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.theme import Theme
from gui.settings.page import ReleasePanel, SettingsPage
from tests.fakes.jobs import FakeEngine

ROOT = Path(__file__).resolve().parents[3]
ASKS_THE_NETWORK = {"release", "hub-search", "hub-download", "hub-account", "fetch-config", "export-push"}


@pytest.fixture
def engine():
    return FakeEngine()


@pytest.fixture
def panel(qtbot, engine):
    panel = ReleasePanel(engine, repository="someone/hone")
    qtbot.addWidget(panel)
    panel.show()
    yield panel
    panel.task.close()


def press(qtbot, panel, engine, answer):
    engine.answers["release"] = answer
    panel.button.click()
    assert not panel.button.isEnabled()
    qtbot.waitUntil(panel.button.isEnabled)
    return panel.label.text()


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_pages_name_the_host_that_is_asked(page):
    """Who opens a firewall goes by them."""
    words = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert "asks api.github.com" in words
    assert "asks github.com" not in words


PAGE = "https://github.com/someone/hone/releases/tag/v9.0.0"


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (Standing.OLDER, f"Hone 9.0.0 is available; this is {VERSION}."),
        (Standing.OLDER, f'href="{PAGE}"'),
        (Standing.SAME, "the newest version"),
        (Standing.NEWER, "the newest version published is 9.0.0"),
    ],
)
def test_it_asks_once_when_the_button_is_pressed(qtbot, panel, engine, standing, words):
    assert f"This is Hone {VERSION}, published at " in panel.label.text()
    assert "by asking api.github.com;" in panel.label.text()
    assert engine.requests == []
    assert words in press(qtbot, panel, engine, Release(version="9.0.0", page=PAGE, standing=standing))
    ((job, body),) = engine.requests
    request = msgspec.json.decode(body, type=ReleaseRequest)
    assert (job, request) == ("release", ReleaseRequest(repository="someone/hone", running=VERSION))


def test_what_went_wrong_is_told_as_text_and_asking_again_works(qtbot, panel, engine):
    address = "https://github.com/someone/hone/releases"
    failed = UserError("Not asked", "A proxy <b>said</b> no.", (Fix(f"Look at {address}"),))
    words = press(qtbot, panel, engine, failed)
    assert "A proxy &lt;b&gt;said&lt;/b&gt; no." in words
    assert f'<a href="{address}">' in words
    newest = Release(version=VERSION, page="", standing=Standing.SAME)
    assert "the newest version" in press(qtbot, panel, engine, newest)


def test_closing_meanwhile_leaves_nothing_behind(panel, engine):
    engine.gate.clear()
    panel.button.click()
    assert panel.label.text() == "Asking api.github.com…"
    panel.task.close()
    assert not panel.task.is_running


def test_a_build_without_an_address_says_so_and_has_no_button(qtbot, engine):
    panel = ReleasePanel(engine, repository="")
    qtbot.addWidget(panel)
    assert "no address where newer versions are published" in panel.label.text()
    assert not panel.button.isVisibleTo(panel)


def test_this_source_has_no_address(qtbot, engine):
    """Packaging fills it; in a checkout a person's own Hone must not look for somebody else's."""
    assert REPOSITORY == ""
    page = SettingsPage(Settings(), ask=engine)
    qtbot.addWidget(page)
    assert not page.release.button.isVisibleTo(page)


def test_no_page_asks_the_network_by_itself(qtbot, engine, tmp_path):
    window = MainWindow(Theme(Appearance.LIGHT), Settings(runs_folder=str(tmp_path)), engine)
    qtbot.addWidget(window)
    window.show()
    window.ask_for_devices()
    for place in Place:
        window.go_to(place)
    qtbot.waitUntil(lambda: "devices" in {job for job, _ in engine.requests})
    asked = {job: body for job, body in engine.requests if job in ASKS_THE_NETWORK}
    assert set(asked) <= {"hub-account"}
    assert b'"action":"check"' not in asked.get("hub-account", b"")  # it looks into the keychain only
    window.end_work()
