"""The window follows a run of an engine that it knows nothing of."""

from core.runs import start as runs_start
from core.runs.folder import Action
from core.runs.status import State
from gui.charts.history import RunHistory
from gui.run.follower import RunFollowerThread
from tests.fakes import numpy_engine
from tests.fakes.jobs import ROOT
from tests.fakes.numpy_engine import DATA
from tests.fakes.runs import make_folder
from tests.fakes.training import run_options


def test_its_steps_are_drawn_and_a_pause_from_the_window_is_heard(qtbot, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    run = make_folder(
        tmp_path / "run", run_options(train=DATA, max_steps=10**6, learning_rate=0.5, keep_checkpoints=1)
    )
    keeper = runs_start.start(run, [*numpy_engine.COMMAND, "keep", str(run.path)])
    history, states = RunHistory(), list[State]()

    def add(news):
        for batch in news.batches:
            history.add(batch)

    thread = RunFollowerThread(run)
    thread.updated.connect(add)
    thread.state_changed.connect(states.append)
    thread.start()
    try:
        qtbot.waitUntil(lambda: len(history.loss) >= 3 and bool(history.evaluations), timeout=60_000)
        thread.request(Action.PAUSE)
        qtbot.waitUntil(lambda: State.PAUSED in states, timeout=30_000)
    finally:
        thread.stop_following()
        assert thread.wait(5000)
    assert keeper.wait(10) == 0
    assert states[-3:] == [State.TRAINING, State.PAUSING, State.PAUSED]
