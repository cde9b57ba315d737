"""The card of the other computers: added, checked, made ready, removed."""

import threading

import pytest
from msgspec.structs import replace
from PySide6.QtWidgets import QLineEdit

from core.base import settings
from core.base.errors import ComputerError, Fix
from core.base.jobs import JobProgress
from core.base.processes import source_digest
from core.hosts import computers, install
from core.hosts.computers import CheckedComputer
from core.options import run_file
from core.runs.folder import RunFolder
from gui.settings import computers as settings_computers
from gui.settings.computers import ComputersCard, ComputerSheet
from tests.fakes.jobs import CPU_ONLY
from tests.fakes.runs import OPTIONS, link

BARE = CheckedComputer(time=1_795_230_000.0, system="Linux", free=812 << 30, python="3.12.3", writable=True)
READY = replace(BARE, source=source_digest(), machine=CPU_ONLY)
ASLEEP = ComputerError("no-answer", "workshop doesn't answer", "It sleeps.", (Fix("Wake it up"),))


class FakeComputer:
    """Stands in for `core.hosts.install`: what is found there, and what was done to it."""

    def __init__(self):
        self.found, self.failure, self.calls, self.is_slow = BARE, None, [], False
        self.go_on = threading.Event()

    def check(self, computer, watch=None):
        self.calls.append("check")
        while self.is_slow:
            watch("")
        if self.failure is not None:
            raise self.failure
        computers.save(replace(computer, checked=self.found))
        return self.found

    def install(self, computer, tell):
        self.calls.append("install")
        tell(JobProgress(done=0, total=0, what="Installing Hone on workshop: torch"))
        while not self.go_on.wait(0.02):
            tell(JobProgress(done=0, total=0, what="Installing Hone on workshop: torch"))
        self.found = READY
        return self.check(computer)

    def uninstall(self, computer):
        self.calls.append("uninstall")
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def there(monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    fake = FakeComputer()
    for name in ("check", "install", "uninstall"):
        monkeypatch.setattr(install, name, getattr(fake, name))
    return fake


@pytest.fixture
def card(qtbot, there):
    card = ComputersCard()
    qtbot.addWidget(card)
    card.show()
    yield card
    there.go_on.set()
    card.end_work()


def add(card, **values):
    card.add()
    sheet = card.findChild(ComputerSheet)
    for name, value in {"address": "sam@workshop.local", "name": "workshop", **values}.items():
        line = getattr(sheet, name)
        assert isinstance(line, QLineEdit)
        line.setText(value)
    sheet.save.click()
    return sheet


@pytest.fixture
def row(qtbot, card):
    add(card)
    row = card.rows["workshop"]
    qtbot.waitUntil(lambda: row.check_button.isVisible() and row.computer.checked is not None)
    return row


def test_a_computer_is_added_and_checked_at_once(qtbot, card, there):
    assert "reaches it with ssh" in card.hint.text()
    assert card.hint.isVisible()
    sheet = add(card, address="sam@work shop")
    assert sheet.strip.accessibleName() == "“sam@work shop” can't be an address"
    assert computers.computers() == ()
    sheet.address.setText("sam@workshop.local")
    with qtbot.waitSignal(card.changed):
        sheet.save.click()
    row = card.rows["workshop"]
    qtbot.waitUntil(lambda: row.computer.checked == BARE)
    assert not card.hint.isVisible()
    assert row.place.text() == "sam@workshop.local · hone"
    assert row.found.text().startswith("Hone isn't installed on workshop · Linux · 812 GB free · checked ")
    assert row.install.text() == "Install Hone there"
    sheet = add(card)
    assert sheet.strip.accessibleName() == "There is a computer called workshop already"
    sheet.reject()


def test_hone_is_installed_or_that_is_cancelled(qtbot, card, there, row):
    row.install.click()
    qtbot.waitUntil(lambda: row.step.text() == "Installing Hone on workshop: torch")
    assert row.bar.isVisible()
    assert not row.check_button.isVisible()
    row.cancel.click()
    qtbot.waitUntil(row.install.isEnabled)
    assert not row.bar.isVisible()
    assert row.computer.checked == BARE
    there.go_on.set()
    with qtbot.waitSignal(card.changed):
        row.install.click()
    assert row.found.text().startswith("Ready · Old processor · Linux · ")
    assert not row.install.isVisible()


def test_a_check_that_gets_no_answer_can_be_cancelled(qtbot, there, row):
    there.is_slow = True
    row.check_button.click()
    qtbot.waitUntil(row.cancel.isVisible)
    row.cancel.click()
    qtbot.waitUntil(row.check_button.isEnabled)
    assert row.found.text().startswith("Hone isn't installed on workshop")


def test_another_version_is_updated(qtbot, card, there, row):
    there.found = replace(READY, source="another")
    with qtbot.waitSignal(card.changed):
        row.check_button.click()
    assert row.found.text().startswith("workshop has another version of Hone")
    assert row.install.text() == "Update Hone there"


def test_what_prevents_it_is_said_with_its_remedy(qtbot, card, there, row):
    there.failure = ASLEEP
    row.check_button.click()
    qtbot.waitUntil(row.strip.isVisible)
    assert row.strip.accessibleName() == "workshop doesn't answer"
    assert row.check_button.isEnabled()
    there.failure, there.found = None, replace(BARE, python="")
    with qtbot.waitSignal(card.changed):
        row.check_button.click()
    assert row.strip.accessibleName() == "workshop has no Python that Hone can use"
    assert not row.install.isVisible()


@pytest.fixture
def answer(monkeypatch):
    """Answers the question whether to remove."""
    return lambda given: monkeypatch.setattr(
        settings_computers.Question, "ask", lambda self, otherwise: given
    )


@pytest.mark.parametrize(("given", "calls"), [(False, []), (True, ["uninstall"])])
def test_it_is_removed_here_or_there_too(qtbot, card, there, row, answer, given, calls):  # noqa: PLR0917
    there.calls.clear()
    answer(None)
    row.remove.click()
    assert list(card.rows) == ["workshop"]
    answer(given)
    row.remove.click()
    qtbot.waitUntil(lambda: not card.rows)
    assert computers.computers() == ()
    assert card.hint.isVisible()
    assert there.calls == calls


def test_a_run_that_trains_there_is_named_before_the_computer_is_removed(there, row, monkeypatch):
    run = RunFolder(settings.runs_folder() / "digits")
    run.path.mkdir(parents=True)
    run_file.write(OPTIONS, run.options_file)
    link(run)
    asked = []
    monkeypatch.setattr(
        settings_computers.Question, "ask", lambda self, _otherwise: asked.append(self.informativeText())
    )
    row.remove.click()
    assert "hasn't ended there: without workshop in this list Hone can't follow it" in asked[0]


def test_what_cannot_be_deleted_there_stays_in_the_list(qtbot, card, there, row, answer):
    answer(True)
    there.failure = ASLEEP
    row.remove.click()
    qtbot.waitUntil(row.strip.isVisible)
    assert list(card.rows) == ["workshop"]
    assert len(computers.computers()) == 1


def test_its_address_can_be_changed(qtbot, card, row):
    row.change.click()
    sheet = row.findChild(ComputerSheet)
    assert not sheet.name.isEnabled()
    sheet.address.setText("sam@10.0.0.7")
    with qtbot.waitSignal(card.changed):
        sheet.save.click()
    assert computers.computers()[0].address == "sam@10.0.0.7"
    qtbot.waitUntil(lambda: row.place.text() == "sam@10.0.0.7 · hone")
