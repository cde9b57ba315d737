"""Words of a stranger's run that look like HTML: the whole window shows them as the text they are."""

import html
import time

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import Qt as GuiQt
from PySide6.QtWidgets import QAbstractItemView, QLabel, QTextBrowser, QWidget

from core.base.errors import Fix
from core.options import RunOptions, past_runs
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions
from core.runs import events, notes
from core.runs.event_log import EventWriter
from core.runs.events import Outcome
from core.runs.folder import ExitRecord, RunFolder
from core.runs.library import create
from core.runs.status import State
from gui.app.sidebar import Place
from tests.fakes.jobs import FakeEngine

EVIL = "<b>EVIL</b><img src='file:///etc/hostname'>"

EVENTS = (
    events.RunStarted(versions={"torch": EVIL}),
    events.RunPlanned(
        total_steps=2,
        epochs=1,
        train_samples=2,
        eval_samples=1,
        effective_batch=1,
        labels=(EVIL, "dog"),
        device=EVIL,
    ),
    events.ExamplesChosen(examples=(events.Example(given=EVIL, expected=EVIL),)),
    events.StepFinished(step=1, epoch=0.5, seconds=0.1, learning_rate=1, samples=1, loss=1.0),
    events.WhatRan(
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
    events.Evaluated(step=1, epoch=0.5, metrics={"eval_loss": 1.0, EVIL: 0.5}, seconds=0.1),
    events.Predicted(step=1, epoch=0.5, said=(events.Said(text=EVIL, sure=0.5, right=True),)),
    events.ConfusionCounted(step=1, labels=(EVIL, "dog"), counts=((1, 0), (0, 1))),
    events.CheckpointSaved(step=1, path=EVIL, bytes=1, seconds=0.1),
    events.MessageRaised(
        id="one",
        level=events.Level.ERROR,
        title=EVIL,
        detail=EVIL,
        fixes=(Fix(EVIL), Fix(EVIL, {"task": EVIL})),
    ),
    events.DeviceSampled(source=events.Source.SYSTEM, name=EVIL, busy=0.5),
    events.PhaseChanged(phase=events.Phase.LOADING_MODEL, detail=EVIL),
)


def strangers_run(folder, *end: events.RunFinished) -> RunFolder:
    """A run with such words wherever a word may stand."""
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=EVIL),
        data=DataOptions(train="builtin:digits", label_column=EVIL),
        output=OutputOptions(name=EVIL),
    )
    run = create(options, folder)
    notes.write(run.path, past_runs.RunNotes(title=EVIL, tags=(EVIL[:11],), text=EVIL))
    EventWriter(run.events_file).write(*EVENTS, *end)
    run.log_file.write_text(EVIL + "\n")
    run.record_exit(ExitRecord(time=time.time(), code=1, signal=None, reason=EVIL, log_tail=EVIL))
    return run


def shown_as_html(window: QWidget) -> list[str]:
    """Where in a window the words act as HTML."""
    found = []
    for widget in [window, *window.findChildren(QWidget)]:
        name = f"{type(widget).__name__} in {type(widget.parent()).__name__}"
        if is_html(widget.toolTip()):
            found.append(f"tip of {name}: {widget.toolTip()[:60]}")
        if isinstance(widget, QLabel) and is_html(widget.text()):
            auto = widget.textFormat() is Qt.TextFormat.AutoText
            if auto or widget.textFormat() in (Qt.TextFormat.RichText, Qt.TextFormat.MarkdownText):
                found.append(f"{name}: {widget.text()[:60]}")
        if isinstance(widget, QTextBrowser) and "EVIL" in widget.toPlainText():
            assert "<b>EVIL" in widget.toPlainText(), name
        if isinstance(widget, QAbstractItemView) and widget.model() is not None:
            found += [f"tip in {name}: {tip[:60]}" for tip in tips(widget) if is_html(tip)]
    return found


def is_html(text: str) -> bool:
    """Whether a text has the words unescaped and Qt would take it for HTML."""
    return "<b>EVIL" in text and GuiQt.mightBeRichText(text)


def tips(view: QAbstractItemView) -> list[str]:
    model, root = view.model(), QModelIndex()
    places = [
        model.index(row, column, root)
        for row in range(model.rowCount(root))
        for column in range(model.columnCount(root))
    ]
    return [tip for place in places if isinstance(tip := model.data(place, Qt.ItemDataRole.ToolTipRole), str)]


def test_words_of_a_stranger_are_shown_as_text(qtbot, make_window, tmp_path):
    assert is_html(EVIL)
    assert not is_html(html.escape(EVIL))
    runs = {
        State.CRASHED: strangers_run(tmp_path / "runs"),
        State.FAILED: strangers_run(tmp_path / "runs", events.RunFinished(state=Outcome.FAILED, steps=1)),
        State.FINISHED: strangers_run(tmp_path / "runs", events.RunFinished(state=Outcome.FINISHED, steps=1)),
    }
    engine = FakeEngine()
    window = make_window(engine)
    asked, found = len(engine.requests), []
    for state, run in runs.items():
        window.pages.show_run(run)
        qtbot.waitUntil(lambda state=state: window.pages.run.view.state is state, timeout=5000)
        assert window.pages.run.view.isVisible()
        found += shown_as_html(window)
        assert {path.name for path in run.path.iterdir()} == {
            *("events.jsonl", "exit.json", "log.txt", "notes.json", "run.toml")
        }
    window.pages.go_to(Place.RUNS)
    qtbot.waitUntil(lambda: window.pages.runs.model.rowCount() == 3, timeout=5000)
    window.pages.runs.table.selectRow(0)
    found += shown_as_html(window)
    window.pages.edit({"task": "text-classification", "model": {"source": EVIL}, "output": {"name": EVIL}})
    found += shown_as_html(window)
    assert found == [], "\n".join(sorted(set(found)))
    assert "train" not in [job for job, _ in engine.requests[asked:]]
