"""PyTorch with CUDA in the window: offered with a card, installed in a thread, cancelled, continued, removed."""

import pytest
from PySide6.QtWidgets import QWidget

from core.base.errors import Fix, UserError
from core.base.settings import Settings
from gui.base.theme import Theme
from gui.new_run.memory_state import MemoryTools
from gui.new_run.page import NewRunPage
from gui.settings import gpu_install
from gui.settings.gpu_install import GpuInstaller, GpuPanel
from gui.settings.page import SettingsPage
from tests.fakes.devices import CHECKOUT, OFFERED, OLD_DRIVER, OUTDATED, USED, FakeGpuTools
from tests.fakes.jobs import FakeEngine


@pytest.fixture
def show(qtbot, monkeypatch):
    monkeypatch.setattr(gpu_install.Question, "ask", lambda self, otherwise: True)
    installers = []

    def show(state=OFFERED, **how):
        tools = FakeGpuTools(state)
        installer = GpuInstaller(tools)
        whole = QWidget()
        panel = GpuPanel(installer, **how)
        panel.setParent(whole)
        qtbot.addWidget(whole)
        installers.append((installer, whole))
        installer.look()
        qtbot.waitUntil(lambda: installer.state is not None)
        return panel, installer, tools

    yield show
    for installer, _ in installers:
        installer.close()


def is_shown(widget):
    return not widget.isHidden()


def test_a_card_without_cuda_is_offered_one_button(show):
    panel, _, _ = show(only_offers=True)
    assert is_shown(panel)
    for words in ("NVIDIA GeForce RTX 3060", "2.70 GB to download", "90.0 GB are free"):
        assert words in panel.text.text()
    assert panel.install.text() == "Install, 2.70 GB"
    assert not is_shown(panel.bar)
    assert not is_shown(panel.remove)


@pytest.mark.parametrize(("state", "is_there"), [(CHECKOUT, False), (USED, False), (OUTDATED, True)])
def test_new_run_says_nothing_where_there_is_nothing_to_do(show, state, is_there):
    panel, _, _ = show(state, only_offers=True)
    assert is_shown(panel) is is_there


def test_it_installs_and_tells_that_devices_are_others_now(qtbot, show):
    panel, installer, tools = show()
    with qtbot.waitSignal(installer.installed):
        panel.install.click()
        qtbot.waitUntil(lambda: installer.progress is not None)
        assert is_shown(panel.bar)
        assert "Downloading PyTorch with CUDA · 3.00 GB of 6.00 GB" in panel.step.text()
        assert not is_shown(panel.install)
        assert is_shown(panel.log)
        tools.go_on.set()
    qtbot.waitUntil(lambda: installer.state is USED)
    assert tools.calls == ["install"]
    assert "Hone uses PyTorch 2.13.0+cu130 with CUDA 13.0 on NVIDIA GeForce RTX 3060" in panel.text.text()
    assert is_shown(panel.remove)
    assert not is_shown(panel.install)


def test_a_cancelled_one_can_be_continued(qtbot, show):
    panel, installer, tools = show()
    panel.install.click()
    qtbot.waitUntil(lambda: installer.progress is not None)
    panel.cancel.click()
    qtbot.waitUntil(lambda: not installer.is_installing and installer.state.begun > 0)
    assert panel.install.text() == "Continue"
    assert "1.00 GB are downloaded already" in panel.text.text()
    assert is_shown(panel.remove)
    tools.go_on.set()
    panel.install.click()
    qtbot.waitUntil(lambda: installer.state is USED)


def test_what_went_wrong_is_told_with_what_to_do_and_the_log(qtbot, show):
    panel, installer, tools = show()
    tools.failure = UserError("It wasn't installed", "The disk is full.", (Fix("Free some disk space"),))
    panel.install.click()
    qtbot.waitUntil(lambda: installer.failure is not None)
    assert panel.failure.text() == ("It wasn't installed\nThe disk is full.\nFree some disk space")
    assert is_shown(panel.install)
    assert is_shown(panel.log)


def test_it_is_removed_when_the_person_is_sure(qtbot, show, monkeypatch):
    panel, installer, tools = show(USED)
    monkeypatch.setattr(gpu_install.Question, "ask", lambda self, otherwise: otherwise)
    panel.remove.click()
    assert tools.calls == []
    monkeypatch.setattr(gpu_install.Question, "ask", lambda self, otherwise: True)
    with qtbot.waitSignal(installer.installed):
        panel.remove.click()
    qtbot.waitUntil(lambda: installer.state is OFFERED)
    assert tools.calls == ["remove"]


def test_an_older_one_is_updated_and_an_old_driver_named(show):
    panel, _, _ = show(OUTDATED)
    assert "0.0.9" in panel.text.text()
    assert panel.install.text() == "Update"
    panel, _, _ = show(OLD_DRIVER)
    assert "driver 470, which is too old" in panel.text.text()
    assert not is_shown(panel.install)


def test_settings_and_new_run_show_the_same(qtbot):
    installer = GpuInstaller(FakeGpuTools())
    page = SettingsPage(Settings(), ask=FakeEngine(), gpu=installer)
    new_run = NewRunPage(Theme(Settings().appearance), FakeEngine(), MemoryTools())
    qtbot.addWidget(page)
    qtbot.addWidget(new_run)
    new_run.show_gpu(installer)
    assert not is_shown(page.gpu)
    installer.look()
    qtbot.waitUntil(lambda: installer.state is not None)
    assert is_shown(page.gpu)
    offers = new_run.findChild(GpuPanel)
    assert offers.text.text() == page.gpu.panel.text.text()
    assert is_shown(offers)
    installer.close()
    new_run.close_questions()
    page.close_questions()
