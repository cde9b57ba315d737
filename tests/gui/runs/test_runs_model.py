from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QIcon

from core.base.settings import Appearance
from core.runs.folder import RunFolder
from core.runs.status import State
from core.runs.summary import RunSummary
from gui.base.theme import Theme
from gui.runs.columns import Column
from gui.runs.table import RunsFilter, RunsModel


def summary(name, **known):
    return RunSummary(run=RunFolder(Path("/runs") / name), state=State.FINISHED, title=name, **known)


SLOW = summary(
    "slow", seconds=4800.0, peak_bytes=9 * 1024**3, started=100.0, metric="eval_accuracy", best=0.9
)
QUICK = summary(
    "quick", seconds=59.0, peak_bytes=900 * 1024**2, started=300.0, metric="eval_accuracy", best=0.95
)
EMPTY = summary("empty")


@pytest.fixture
def model(qapp):
    model = RunsModel(Theme(Appearance.LIGHT))
    model.show([SLOW, QUICK, EMPTY])
    return model


def names(view):
    return [view.index(row, Column.NAME).data() for row in range(view.rowCount())]


@pytest.mark.parametrize("column", [Column.TIME, Column.MEMORY, Column.STARTED])
def test_sorts_by_raw_values_not_by_their_text(model, column):
    view = RunsFilter(model)
    view.sort(column, Qt.SortOrder.AscendingOrder)
    assert names(view) == (
        ["empty", "slow", "quick"] if column is Column.STARTED else ["empty", "quick", "slow"]
    )


def test_a_run_that_is_starting_is_the_newest(model, tmp_path):
    starting = RunSummary(run=RunFolder(tmp_path), state=State.STARTING, title="starting")
    model.show([SLOW, starting, QUICK])
    view = RunsFilter(model)
    view.sort(Column.STARTED, Qt.SortOrder.DescendingOrder)
    assert names(view) == ["starting", "quick", "slow"]


def test_better_sorts_higher_also_for_a_loss(model):
    losses = [summary(str(loss), metric="eval_loss", best=loss) for loss in (0.5, 0.1, 0.9)]
    model.show(losses)
    view = RunsFilter(model)
    view.sort(Column.METRIC, Qt.SortOrder.DescendingOrder)
    assert names(view) == ["0.1", "0.5", "0.9"]


def test_filters_by_every_word(model):
    view = RunsFilter(model)
    view.search("accuracy 95")
    assert names(view) == ["quick"]
    view.search("accuracy nowhere")
    assert names(view) == []


def test_only_changed_rows_are_told(model, qtbot):
    changed = []
    model.dataChanged.connect(lambda first, last, roles: changed.append((first.row(), last.row())))
    model.show([SLOW, replace(QUICK, state=State.CRASHED), EMPTY])
    assert changed == [(1, 1)]
    place = model.index(1, Column.STATE)
    assert place.data() == "Crashed"
    assert isinstance(place.data(Qt.ItemDataRole.DecorationRole), QIcon)


def test_runs_of_one_title_say_when_they_were_made_until_one_is_renamed(model):
    first, second = (
        replace(summary(f"2026-03-0{day}-0915-a"), title="a", started=float(day)) for day in (1, 2)
    )
    model.show([SLOW, first])
    assert names(model) == ["slow", "a"]
    model.show([SLOW, first, second])
    shown = names(model)
    assert shown[0] == "slow"
    assert len(set(shown)) == 3
    assert all(name.startswith("a · ") for name in shown[1:])
    model.show_some([replace(second, title="b")])
    assert names(model)[2] == "b"
    model.show([SLOW, first, replace(second, title="b")])
    assert names(model)[1:] == ["a", "b"]
