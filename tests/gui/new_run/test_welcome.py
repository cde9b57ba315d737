"""The page of the first start."""

import pytest
from PySide6.QtCore import QThread

from core.options import presets
from core.options.catalogue import with_changes
from core.options.validate import check_tree
from core.runs.summary import Timing, rough_key, summarize, timing_key, timings
from gui.new_run.memory_state import times
from gui.new_run.welcome import WelcomePage, seconds_of
from tests.fakes.runs import Plot, finish, make_folder, write_story


@pytest.mark.parametrize(("batch_size", "is_known"), [(32, True), (8, False)])
def test_the_time_of_an_example_is_that_of_an_earlier_run_of_its_kind(tmp_path, batch_size, is_known):
    example = presets.find_example("digits")
    options, _problems = check_tree(example.tree)
    assert seconds_of(example, timings([])) is None
    options = with_changes(options, {"memory.batch_size": batch_size})
    run, plot = make_folder(tmp_path / "digits-2", options), Plot(steps=225, reached=225, epochs=5)
    finish(run, plot, write_story(run, plot))
    found = seconds_of(example, timings([run]))
    assert found == (pytest.approx(summarize(run).seconds, abs=0.01) if is_known else None)


def test_the_time_at_another_batch_size_says_by_which_run_it_is_known_roughly():
    options, _problems = check_tree(presets.find_example("digits").tree)
    past = {(rough_key(options), "CPU"): Timing("Digits", 1437, 225, 5.0, 600.0, 2.0, 10.0, batch=16)}
    for trained, expected in ((1437, 1000), (None, 1000), (144, 200)):
        ((seconds, words),) = times(options, past, "CPU", trained)
        assert seconds == pytest.approx(expected, rel=0.05)
        assert words == "roughly, by the time that the run “Digits” took per example"
    far = with_changes(options, {"memory.batch_size": 65})
    for one, device in ((far, "CPU"), (options, "GPU"), (options, "")):
        assert times(one, past, device, 1437) == [(None, "")]


def test_past_runs_are_read_beside_the_window(qtbot, tmp_path, monkeypatch):
    options, _problems = check_tree(presets.find_example("digits").tree)
    threads, past = [], {(timing_key(options), ""): Timing("Digits", 1437, 225, 5.0, 600.0, 0.0, 0.0)}
    monkeypatch.setattr(
        "gui.new_run.welcome.timings", lambda _runs: threads.append(QThread.currentThread()) or past
    )
    page = WelcomePage(lambda: tmp_path)
    qtbot.addWidget(page)
    line = page.tiles["digits"].time
    assert line.text() == "About a minute, offline"
    page.show()
    qtbot.waitUntil(lambda: line.text() == "About 10 min on this computer, offline")
    assert page.thread() not in threads


def test_a_tile_is_called_as_its_example_is_on_the_form(qtbot, tmp_path):
    page = WelcomePage(lambda: tmp_path)
    qtbot.addWidget(page)
    assert page.tiles
    for name, tile in page.tiles.items():
        assert tile.accessibleName() == presets.find_example(name).title
