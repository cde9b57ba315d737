"""The list of runs as a model: its order, its filter, its titles, and what it reports as changed."""

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
from gui.runs.columns import RunColumn
from gui.runs.table import RunsFilter, RunsModel

GB = 1 << 30
DOWN = Qt.SortOrder.DescendingOrder


def summary(name, **known):
    return RunSummary(
        **{"run": RunFolder(Path("/runs") / name), "state": State.FINISHED, "title": name, **known}
    )


ACCURACY = {"metric": "eval_accuracy"}
SLOW = summary("slow", seconds=4800.0, peak_bytes=9 * GB, started=100.0, result=0.9, last=0.9, **ACCURACY)
QUICK = summary("quick", seconds=59.0, peak_bytes=GB // 2, started=300.0, result=0.95, last=0.95, **ACCURACY)
EMPTY = summary("empty")
LOSSES = [summary(str(loss), metric="eval_loss", result=loss, last=loss) for loss in (0.5, 0.1, 0.9)]


@pytest.fixture
def model(qapp):
    model = RunsModel(Theme(Appearance.LIGHT))
    model.show([SLOW, QUICK, EMPTY])
    return model


def names(view):
    return [view.index(row, RunColumn.NAME).data() for row in range(view.rowCount())]


@pytest.mark.parametrize(
    ("summaries", "column", "names_down"),
    [
        ([SLOW, QUICK, EMPTY], RunColumn.TIME, ["slow", "quick", "empty"]),
        ([SLOW, QUICK, EMPTY], RunColumn.MEMORY, ["slow", "quick", "empty"]),
        ([SLOW, QUICK, EMPTY], RunColumn.STARTED, ["quick", "slow", "empty"]),
        ([SLOW, summary("new", state=State.STARTING), QUICK], RunColumn.STARTED, ["new", "quick", "slow"]),
        (LOSSES, RunColumn.METRIC, ["0.1", "0.5", "0.9"]),
    ],
    ids=["time", "memory", "start", "a starting run is the newest", "the lowest loss is the best"],
)
def test_runs_are_sorted_by_values_not_by_their_text(model, summaries, column, names_down, tmp_path):
    model.show(
        [replace(run, run=RunFolder(tmp_path)) if run.state is State.STARTING else run for run in summaries]
    )
    view = RunsFilter(model)
    view.sort(column, DOWN)
    assert names(view) == names_down


@pytest.mark.parametrize(("words", "found"), [("accuracy 95", ["quick"]), ("accuracy nowhere", [])])
def test_the_filter_wants_every_word(model, words, found):
    view = RunsFilter(model)
    view.search(words)
    assert names(view) == found


def test_only_changed_rows_are_reported(model):
    changed = []
    model.dataChanged.connect(lambda first, last, roles: changed.append((first.row(), last.row())))
    model.show([SLOW, replace(QUICK, state=State.CRASHED), EMPTY])
    assert changed == [(1, 1)]
    state = model.index(1, RunColumn.STATE)
    assert state.data() == "Crashed"
    assert isinstance(state.data(Qt.ItemDataRole.DecorationRole), QIcon)


def test_runs_of_one_title_show_when_they_were_made_until_one_is_renamed(model):
    first, second = (summary(f"2026-03-0{day}-0915-a", title="a", started=float(day)) for day in (1, 2))
    model.show([SLOW, first])
    assert names(model) == ["slow", "a"]
    model.show([SLOW, first, second])
    assert len(set(names(model))) == 3
    assert all(name.startswith("a · ") for name in names(model)[1:])
    model.show_some([replace(second, title="b")])
    assert names(model)[2] == "b"
    model.show([SLOW, first, replace(second, title="b")])
    assert names(model)[1:] == ["a", "b"]
