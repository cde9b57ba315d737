"""Words of a stranger's run that look like HTML: all of the window shows them as the text they are."""

import html
import time

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import Qt as GuiQt
from PySide6.QtWidgets import QAbstractItemView, QLabel, QTextBrowser, QWidget

from core.base.errors import Fix
from core.base.settings import Appearance, Settings
from core.options import RunOptions, past_runs
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions
from core.runs.event_log import EventWriter
from core.runs.events import (
    CheckpointSaved,
    ConfusionCounted,
    DeviceSampled,
    Evaluated,
    Example,
    ExamplesChosen,
    Level,
    MessageRaised,
    Outcome,
    Phase,
    PhaseChanged,
    Predicted,
    RunFinished,
    RunPlanned,
    RunStarted,
    Said,
    Source,
    StepFinished,
    WhatRan,
)
from core.runs.folder import ExitRecord, RunFolder
from core.runs.library import create
from core.runs.status import State
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.theme import Theme
from tests.fakes.jobs import FakeEngine

EVIL = "<b>EVIL</b><img src='file:///etc/hostname'>"


def told(outcome: Outcome | None) -> list:
    """A run's events with such words wherever a word may stand."""
    said = (Said(text=EVIL, sure=0.5, right=True),)
    events = [
        RunStarted(versions={"torch": EVIL}),
        RunPlanned(
            total_steps=2,
            epochs=1,
            train_samples=2,
            eval_samples=1,
            effective_batch=1,
            labels=(EVIL, "dog"),
            device=EVIL,
        ),
        ExamplesChosen(examples=(Example(given=EVIL, expected=EVIL),)),
        StepFinished(step=1, epoch=0.5, seconds=0.1, learning_rate=1, samples=1, loss=1.0),
        WhatRan(
            device=EVIL,
            device_name=EVIL,
            parameter_dtype=EVIL,
            autocast_dtype=EVIL,
            optimizer=EVIL,
            optimizer_state_bytes=1,
            trainable_parameters=1,
            total_parameters=1,
            effective_batch=1,
            attention=EVIL,
            reasons={"device.name": EVIL},
            compiled=EVIL,
            adapter=EVIL,
            fell_back=(EVIL,),
        ),
        Evaluated(step=1, epoch=0.5, metrics={"eval_loss": 1.0, EVIL: 0.5}, seconds=0.1),
        Predicted(step=1, epoch=0.5, said=said),
        ConfusionCounted(step=1, labels=(EVIL, "dog"), counts=((1, 0), (0, 1))),
        CheckpointSaved(step=1, path=EVIL, bytes=1, seconds=0.1),
        MessageRaised(
            id="one", level=Level.ERROR, title=EVIL, detail=EVIL, fixes=(Fix(EVIL), Fix(EVIL, {"task": EVIL}))
        ),
        DeviceSampled(source=Source.SYSTEM, name=EVIL, busy=0.5),
        PhaseChanged(phase=Phase.LOADING_MODEL, detail=EVIL),
    ]
    return [*events, RunFinished(state=outcome, steps=1)] if outcome else events


def strangers_run(folder, outcome: Outcome | None) -> RunFolder:
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=EVIL),
        data=DataOptions(train="builtin:digits", label_column=EVIL),
        output=OutputOptions(name=EVIL),
    )
    run = create(options, folder, folder / f"theirs-{outcome}")
    past_runs.write(run.path, past_runs.RunNotes(title=EVIL, tags=(EVIL[:11],), text=EVIL))
    EventWriter(run.events_file).write(*told(outcome))
    run.log_file.write_text(EVIL + "\n")
    run.record_exit(ExitRecord(time=time.time(), code=1, signal=None, reason=EVIL, log_tail=EVIL))
    return run


def shown_as_html(window: QWidget) -> list[str]:
    """Where in a window the words act as HTML."""
    found = []
    for widget in [window, *window.findChildren(QWidget)]:
        name = f"{type(widget).__name__} in {type(widget.parent()).__name__}"
        if is_raw(widget.toolTip()):
            found.append(f"tip of {name}: {widget.toolTip()[:60]}")
        if isinstance(widget, QLabel) and is_raw(widget.text()):
            auto = widget.textFormat() is Qt.TextFormat.AutoText and GuiQt.mightBeRichText(widget.text())
            if auto or widget.textFormat() in (Qt.TextFormat.RichText, Qt.TextFormat.MarkdownText):
                found.append(f"{name}: {widget.text()[:60]}")
        if isinstance(widget, QTextBrowser) and "EVIL" in widget.toPlainText():
            assert "<b>EVIL" in widget.toPlainText(), name
        if isinstance(widget, QAbstractItemView) and widget.model() is not None:
            found += [f"tip in {name}: {tip[:60]}" for tip in tips(widget) if is_raw(tip)]
    return found


def is_raw(text: str) -> bool:
    """Whether a text holds the words as they came and Qt would take it for HTML."""
    return "<b>EVIL" in text and GuiQt.mightBeRichText(text)


def tips(view: QAbstractItemView) -> list[str]:
    model, root = view.model(), QModelIndex()
    places = [
        model.index(row, column, root)
        for row in range(model.rowCount(root))
        for column in range(model.columnCount(root))
    ]
    return [tip for place in places if isinstance(tip := model.data(place, Qt.ItemDataRole.ToolTipRole), str)]


def test_escaped_words_are_told_from_raw_ones():
    assert is_raw(EVIL)
    assert not is_raw(html.escape(EVIL))


@pytest.mark.parametrize("outcome", [None, Outcome.FAILED, Outcome.FINISHED])
def test_words_of_a_stranger_are_shown_as_text(qtbot, tmp_path, outcome):
    run = strangers_run(tmp_path / "runs", outcome)
    engine = FakeEngine()
    window = MainWindow(Theme(Appearance.LIGHT), Settings(runs_folder=str(tmp_path / "runs")), engine)
    qtbot.addWidget(window)
    try:
        window.show()
        asked = len(engine.requests)
        window.show_run(run)
        view = window.run.view
        expected = State.CRASHED if outcome is None else State(outcome.value)
        qtbot.waitUntil(lambda: view.state is expected, timeout=5000)
        found = shown_as_html(window)
        assert view.isVisible()
        window.go_to(Place.RUNS)
        qtbot.waitUntil(lambda: window.runs.model.rowCount() == 1, timeout=5000)
        window.runs.table.selectRow(0)
        found += shown_as_html(window)
        window.edit({"task": "text-classification", "model": {"source": EVIL}, "output": {"name": EVIL}})
        found += shown_as_html(window)
        assert found == [], "\n".join(sorted(set(found)))
        assert "train" not in [job for job, _ in engine.requests[asked:]]
        assert sorted(path.name for path in run.path.iterdir()) == sorted(
            ["events.jsonl", "exit.json", "log.txt", "notes.json", "run.toml"]
        )
    finally:
        window.end_work()
