"""The GPU pack in the window: offered with a card, installed in a thread, paused, gone on with, given up, removed."""

import pytest
from PySide6.QtWidgets import QWidget

from core.base.errors import Fix, UserError
from core.base.settings import Settings
from gui.base.background import State
from gui.base.theme import Theme
from gui.new_run.memory_state import MemoryTools
from gui.new_run.page import NewRunPage
from gui.settings.gpu_install import GpuPackPanel, PackWork
from gui.settings.page import SettingsPage
from tests.fakes.asking import FakeEngine
from tests.fakes.gpu_pack import CHECKOUT, OFFERED, OLD_DRIVER, OUTDATED, USED, FakePack


@pytest.fixture
def show(qtbot):
    works = []

    def show(situation=OFFERED, **how):
        tools = FakePack(situation)
        work = PackWork(tools)
        whole = QWidget()
        panel = GpuPackPanel(work, whole, confirm=lambda _: True, **how)
        qtbot.addWidget(whole)
        works.append((work, whole))
        work.look()
        qtbot.waitUntil(lambda: work.situation is not None)
        return panel, work, tools

    yield show
    for work, _ in works:
        work.close()


def half_way(work):
    return lambda: work.progress is not None


def test_a_card_without_cuda_is_offered_the_pack(show):
    panel, _, _ = show(only_offers=True)
    assert panel.isVisibleTo(panel.parentWidget())
    assert "NVIDIA GeForce RTX 3060 is in this computer" in panel.words
    assert "2.70 GB to download" in panel.words
    assert "90.0 GB are free" in panel.words
    assert panel.install.text() == "Install the GPU pack, 2.70 GB"
    assert not panel.line.isVisibleTo(panel)


@pytest.mark.parametrize(("situation", "is_there"), [(CHECKOUT, False), (USED, False), (OUTDATED, True)])
def test_new_run_says_nothing_where_there_is_nothing_to_do(show, situation, is_there):
    panel, _, _ = show(situation, only_offers=True)
    assert panel.isVisibleTo(panel.parentWidget()) is is_there


def test_it_installs_and_tells_that_devices_are_others_now(qtbot, show):
    panel, work, tools = show()
    told = []
    work.installed.connect(lambda: told.append(work.state))
    panel.install.click()
    qtbot.waitUntil(half_way(work))
    assert panel.line.isVisibleTo(panel)
    assert "3.00 GB of 6.00 GB" in panel.line.words
    assert work.title == "Bringing PyTorch and what else trains"
    assert not panel.install.isVisibleTo(panel)
    tools.go_on.set()
    qtbot.waitUntil(lambda: bool(told) and work.situation is USED)
    assert tools.calls == ["install cu130"]
    assert "Hone computes with PyTorch 2.13.0+cu130 and CUDA 13.0 on NVIDIA GeForce RTX 3060" in panel.words
    assert panel.remove.isVisibleTo(panel)
    assert not panel.install.isVisibleTo(panel)


def test_a_pause_keeps_what_has_come_and_it_goes_on(qtbot, show):
    panel, work, tools = show()
    panel.install.click()
    qtbot.waitUntil(half_way(work))
    panel.line.pause.click()
    assert work.state is State.PAUSED
    assert panel.line.pause.text() == "Go on"
    qtbot.waitUntil(lambda: not work._threads)
    assert tools.calls == ["install cu130"]
    panel.line.pause.click()
    tools.go_on.set()
    qtbot.waitUntil(lambda: work.situation is USED)


def test_giving_up_deletes_what_has_come(qtbot, show):
    panel, work, tools = show()
    panel.install.click()
    qtbot.waitUntil(half_way(work))
    panel.line.cancel.click()
    qtbot.waitUntil(lambda: "drop" in tools.calls and work.situation is OFFERED)
    assert panel.install.isVisibleTo(panel)
    assert not panel.line.isVisibleTo(panel)


def test_what_went_wrong_stands_there_with_what_to_do(qtbot, show):
    panel, work, tools = show()
    tools.failure = UserError("The GPU pack wasn't installed", "The disk is full.", (Fix("Make room on it"),))
    panel.install.click()
    qtbot.waitUntil(lambda: work.state is State.FAILED)
    assert panel.words.endswith("The GPU pack wasn't installed\nThe disk is full.\nMake room on it")
    assert panel.line.pause.text() == "Go on"


def test_one_that_could_not_be_renewed_can_be_removed(qtbot, show):
    panel, work, tools = show(OUTDATED)
    tools.failure = UserError("The GPU pack doesn't work any more", "torn in two")
    panel.install.click()
    qtbot.waitUntil(lambda: work.state is State.FAILED)
    assert panel.remove.isVisibleTo(panel)
    panel.remove.click()
    qtbot.waitUntil(lambda: work.situation is OFFERED and work.state is State.IDLE)
    assert tools.calls == ["install cu130", "remove"]
    assert not panel.words.endswith("torn in two")


def test_it_is_removed_when_the_person_is_sure(qtbot, show):
    panel, work, tools = show(USED)
    panel._confirm = lambda _: False
    panel.remove.click()
    assert tools.calls == []
    panel._confirm = lambda _: True
    panel.remove.click()
    qtbot.waitUntil(lambda: work.situation is OFFERED)
    assert tools.calls == ["remove"]


def test_an_old_pack_is_renewed_and_an_old_driver_named(show):
    panel, _, _ = show(OUTDATED)
    assert panel.words == "The GPU pack was made by Hone 0.0.9."
    assert panel.install.text() == "Renew"
    panel, _, _ = show(OLD_DRIVER)
    assert "driver 470, which is too old" in panel.words
    assert not panel.install.isVisibleTo(panel)


def test_closing_ends_what_is_under_way(qtbot, show):
    panel, work, _ = show()
    panel.install.click()
    qtbot.waitUntil(half_way(work))
    work.close()
    assert work.state is State.PAUSED
    assert not work._threads or not any(thread.isRunning() for thread in work._threads)


def test_settings_and_new_run_show_the_same(qtbot):
    work = PackWork(FakePack())
    page = SettingsPage(Settings(), ask=FakeEngine(), gpu_pack=work)
    new_run = NewRunPage(Theme(Settings().appearance), FakeEngine(), MemoryTools())
    qtbot.addWidget(page)
    qtbot.addWidget(new_run)
    new_run.show_gpu_pack(work)
    assert not page.gpu_pack.isVisibleTo(page)
    work.look()
    qtbot.waitUntil(lambda: work.situation is not None)
    assert page.gpu_pack.isVisibleTo(page)
    offers = new_run.findChild(GpuPackPanel)
    assert offers.words == page.gpu_pack.panel.words
    assert offers.isVisibleTo(new_run)
    work.close()
    new_run.close_questions()
    page.close_questions()
