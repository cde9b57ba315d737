""" "Fit it for me" and "Measure all", on the real page with dry runs that answer as a test wants."""

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent

from core.base.errors import UserError
from core.memory.model import Parts, Room
from tests.fakes.asking import CPU_ONLY
from tests.fakes.memory import GB, MB, MEASURED, hurry


@pytest.fixture
def short(qtbot, page, memory, model, pairs):
    """A page whose run does not fit as asked: dry runs take a quarter of a gigabyte a sample."""
    hurry(page)
    memory.room.room = Room(free=2 * GB, ceiling=4 * GB)
    memory.dry_runs.answer = by_batch
    page.set_machine(CPU_ONLY)
    tree = {"task": "text-classification", "model": {"source": str(model)}, "data": {"train": str(pairs)}}
    page.load_tree(tree)
    questions = page._questions
    qtbot.waitUntil(lambda: not (questions.data.is_waiting or questions.model.is_waiting))
    return page


def by_batch(options):
    size = options.memory.batch_size * GB // 4
    said = "It didn't fit." if size > 2 * GB else ""
    return msgspec.structs.replace(MEASURED, peak=size, parts=Parts(activations=size), out_of_memory=said)


def test_it_tries_until_something_fits_and_applies_that(qtbot, short, memory):
    before = short.tree()
    qtbot.mouseClick(short._outcome.fit._ladder.fit, Qt.MouseButton.LeftButton)
    sheet = short._fit_actions.sheet
    assert sheet.is_running
    assert not sheet.take.isEnabled()
    qtbot.waitUntil(lambda: not sheet.is_running)
    assert sheet.table.rowCount() > 1
    found = sheet.table.chosen
    row = sheet.table.tries.index(found)
    assert found.changes["memory.batch_size"] < 8
    assert sheet.table.item(row, 3).text() == "✓ fits"
    assert sheet.status.startswith("Found: Batches of ")
    assert short.tree() == before  # nothing changes before it is applied
    sheet.take.click()
    assert short.tree()["memory"]["batch_size"] == found.changes["memory.batch_size"]
    assert short._outcome.fit._basis.text() == "measured just now"
    assert short._fit_actions.sheet is None
    short._changes._undo.click()
    assert short.tree() == before


def test_it_can_be_stopped(qtbot, short, memory):
    memory.dry_runs.gate.clear()
    short._outcome.fit._ladder.fit.click()
    sheet = short._fit_actions.sheet
    qtbot.waitUntil(lambda: sheet.status.startswith("Trying: Batches of "))
    assert len(memory.dry_runs.asked) == 1
    sheet._stop.click()
    qtbot.waitUntil(lambda: not sheet.is_running)
    assert memory.dry_runs.killed == 1
    assert sheet.status == "It was stopped."
    assert not sheet.take.isEnabled()
    sheet.reject()


def test_closing_it_ends_what_runs_and_the_page_goes_on(qtbot, short, memory):
    memory.dry_runs.gate.clear()
    short._outcome.fit._ladder.fit.click()
    qtbot.waitUntil(lambda: len(memory.dry_runs.asked) == 1)
    assert not short._fit.refined._question.is_running  # one thing at a time
    short._fit_actions.sheet.reject()
    assert memory.dry_runs.killed == 1
    assert short._fit.refined.is_waiting


def test_a_window_that_was_minimised_leaves_the_memory_to_the_sheet(qtbot, short, memory):
    memory.dry_runs.gate.clear()
    short._outcome.fit._ladder.fit.click()
    readings = memory.room.readings
    short._outcome.fit.showEvent(_Restored())
    assert memory.room.readings == readings
    short._fit_actions.sheet.reject()
    assert memory.room.readings == readings + 1


class _Restored(QShowEvent):
    """What the desktop sends once a window is no longer minimised."""

    def spontaneous(self):
        return True


def test_what_fits_as_it_is_needs_no_change(qtbot, short, memory):
    memory.dry_runs.answer = MEASURED
    memory.room.room = Room(free=6 * GB, ceiling=8 * GB)
    short._fit.read_room()
    short._outcome.fit._ladder.fit.click()
    sheet = short._fit_actions.sheet
    qtbot.waitUntil(lambda: not sheet.is_running)
    assert "fits as it is" in sheet.status
    assert not sheet.take.isEnabled()
    sheet.reject()


def test_each_remedy_is_measured_and_any_that_fits_can_be_taken(qtbot, short, memory):
    short._outcome.fit._ladder.each.click()
    sheet = short._fit_actions.sheet
    qtbot.waitUntil(lambda: not sheet.is_running)
    titles = [done.title for done in sheet.table.tries]
    assert titles[0] == "As asked"
    assert "Compute activations again" in titles
    (small,) = [done for done in sheet.table.tries if "memory.batch_size" in done.changes]
    sheet.table.choose(next(done for done in sheet.table.tries if done is not small))
    assert not sheet.take.isEnabled()  # it doesn't fit
    sheet.table.choose(small)
    assert sheet.take.isEnabled() == (small.verdict in ("fits", "tight"))
    sheet.reject()


def test_a_run_that_fails_for_another_reason_says_which(qtbot, short, memory):
    memory.dry_runs.answer = UserError("The data is gone")
    short._outcome.fit._ladder.fit.click()
    sheet = short._fit_actions.sheet
    qtbot.waitUntil(lambda: not sheet.is_running)
    assert sheet.table.item(0, 3).text() == "✕ failed"
    assert "The data is gone" in sheet.table.item(0, 0).toolTip()
    assert "another reason than memory" in sheet.status
    sheet.reject()


def test_what_each_remedy_was_measured_to_bring_stays_beside_it(qtbot, short, memory):
    memory.room.room = Room(free=8 * GB, ceiling=16 * GB)
    memory.dry_runs.answer = by_checkpointing
    short._fit.read_room()
    ladder = short._outcome.fit._ladder
    ladder.open(True)
    ladder.each.click()
    sheet = short._fit_actions.sheet
    qtbot.waitUntil(lambda: not sheet.is_running)
    sheet.reject()
    rows = {row.button.accessibleName(): row for row in ladder.rows}
    again = rows["Apply: Compute activations again"]
    assert again.worth.text() == "−312 MB measured · 12 % slower measured"
    assert short._outcome.fit._basis.text() == "measured just now"
    again.button.click()
    assert short._outcome.fit._basis.text() == "measured just now"
    assert short._fit.forecast.parts.total == 2 * GB - 312 * MB


def by_checkpointing(options):
    again = options.memory.activation_checkpointing
    size = 2 * GB - (312 * MB if again else 0)
    seconds = 0.56 if again else 0.5
    return msgspec.structs.replace(
        MEASURED, peak=size, parts=Parts(activations=size), step_seconds=seconds, out_of_memory=""
    )
