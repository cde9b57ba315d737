"""PyTorch with CUDA in the window: offered with a graphics card, installed, cancelled, continued, removed."""

import pytest
from PySide6.QtWidgets import QWidget

from core.base.errors import Fix, UserError
from core.base.settings import Settings
from core.services import gpu_install as services
from gui.base.theme import Theme
from gui.new_run.memory_state import MemoryTools
from gui.new_run.page import NewRunPage
from gui.settings import gpu_install
from gui.settings.gpu_install import GpuInstaller, GpuPanel
from gui.settings.page import SettingsPage
from tests.fakes.devices import CHECKOUT, OFFERED, OLD_DRIVER, OUTDATED, USED, FakeGpuTools
from tests.fakes.jobs import FakeEngine


def use(tools, monkeypatch):
    for name in ("look", "installation", "remove"):
        monkeypatch.setattr(services, name, getattr(tools, name))


@pytest.fixture
def show(qtbot, monkeypatch):
    monkeypatch.setattr(gpu_install.Question, "ask", lambda self, otherwise: True)
    installers = []

    def show(state=OFFERED, **options):
        tools = FakeGpuTools(state)
        use(tools, monkeypatch)
        installer = GpuInstaller()
        whole = QWidget()
        panel = GpuPanel(installer, **options)
        panel.setParent(whole)
        qtbot.addWidget(whole)
        installers.append((installer, whole))
        installer.look()
        qtbot.waitUntil(lambda: installer.state is not None)
        return panel, installer, tools

    yield show
    for installer, _ in installers:
        installer.close()


@pytest.mark.parametrize(
    ("state", "is_offered", "texts", "button"),
    [
        (
            OFFERED,
            True,
            ("NVIDIA GeForce RTX 3060", "2.70 GB to download", "90.0 GB are free"),
            "Install, 2.70 GB",
        ),
        (OUTDATED, True, ("0.0.9",), "Update"),
        (OLD_DRIVER, None, ("driver 470, which is too old",), ""),
        (CHECKOUT, False, (), ""),
        (USED, False, (), ""),
    ],
)
def test_what_is_offered(show, state, is_offered, texts, button):
    panel, _, _ = show(state, only_offers=True)
    if is_offered is not None:
        assert panel.isHidden() is not is_offered
    assert all(text in panel.text.text() for text in texts)
    assert panel.install.isHidden() if not button else panel.install.text() == button
    assert panel.bar.isHidden()


def test_it_is_installed_cancelled_and_continued(qtbot, show):
    panel, installer, tools = show()
    panel.install.click()
    qtbot.waitUntil(lambda: installer.progress is not None)
    assert not panel.bar.isHidden()
    assert "Downloading PyTorch with CUDA · 3.00 GB of 6.00 GB" in panel.step.text()
    assert panel.install.isHidden()
    assert not panel.log.isHidden()
    panel.cancel.click()
    qtbot.waitUntil(lambda: not installer.is_installing and installer.state.begun > 0)
    assert panel.install.text() == "Continue"
    assert "1.00 GB are downloaded already" in panel.text.text()
    assert not panel.remove.isHidden()
    tools.go_on.set()
    with qtbot.waitSignal(installer.installed):  # devices are others now
        panel.install.click()
    qtbot.waitUntil(lambda: installer.state is USED)
    assert "Hone uses PyTorch 2.13.0+cu130 with CUDA 13.0 on NVIDIA GeForce RTX 3060" in panel.text.text()
    assert panel.install.isHidden()


def test_a_failure_is_explained_with_its_remedy_and_the_log(qtbot, show):
    panel, installer, tools = show()
    tools.failure = UserError("It wasn't installed", "The disk is full.", (Fix("Free some disk space"),))
    panel.install.click()
    qtbot.waitUntil(lambda: installer.failure is not None)
    assert panel.failure.text() == "It wasn't installed\nThe disk is full.\nFree some disk space"
    assert not panel.install.isHidden()
    assert not panel.log.isHidden()


def test_it_is_removed_once_the_person_is_sure(qtbot, show, monkeypatch):
    panel, installer, tools = show(USED)
    monkeypatch.setattr(gpu_install.Question, "ask", lambda self, otherwise: otherwise)
    panel.remove.click()
    assert tools.calls == []
    monkeypatch.setattr(gpu_install.Question, "ask", lambda self, otherwise: True)
    with qtbot.waitSignal(installer.installed):
        panel.remove.click()
    qtbot.waitUntil(lambda: installer.state is OFFERED)
    assert tools.calls == ["remove"]


def test_settings_and_new_run_show_the_same(qtbot, monkeypatch):
    use(FakeGpuTools(), monkeypatch)
    installer = GpuInstaller()
    page = SettingsPage(Settings(), ask=FakeEngine(), gpu=installer)
    new_run = NewRunPage(Theme(Settings().appearance), FakeEngine(), MemoryTools())
    qtbot.addWidget(page)
    qtbot.addWidget(new_run)
    new_run.show_gpu(installer)
    assert page.gpu.isHidden()
    installer.look()
    qtbot.waitUntil(lambda: installer.state is not None)
    assert not page.gpu.isHidden()
    offer = new_run.findChild(GpuPanel)
    assert not offer.isHidden()
    assert offer.text.text() == page.gpu.panel.text.text()
    installer.close()
    new_run.end_work()
    page.end_work()
