"""Names that are read from right to left, in sentences: each is kept apart from the words and figures beside it."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel

from core.base.language import isolated
from core.jobs.chat import Which
from core.jobs.inspect import DataReport
from core.options.past_runs import RunNotes
from core.runs import notes
from core.runs.compare import compare
from core.runs.crash import Interrupted
from core.runs.events import TurnAwaited
from core.runs.folder import RunFolder
from core.runs.queue import EndedRun, LiveRun
from core.runs.status import RunStatus, State
from core.runs.trash import TrashItem
from core.runs.words import awaited_text
from core.services.chat import judge
from gui.app.closing import Underway
from gui.app.closing import question_about as question_on_closing
from gui.app.notices import Notices
from gui.base.files import reveal
from gui.base.titles import distinct_titles
from gui.base.trash import note_on
from gui.new_run.data_panel import names_hint
from gui.run.words import question_about as question_of_turn
from gui.runs.queue_card import QueueCard
from tests.fakes.runs import Plot, finish, make_folder, write_story

NAME = "ביקורות 2"
RUN = RunFolder(Path("2026-11-29-1000-run"))
BEHIND = TurnAwaited(ahead=1, behind="one", title=NAME)
MODEL_BEHIND = TurnAwaited(ahead=1, behind="one", title="First", is_source=True)
DATA = DataReport(source="a.csv", format="CSV", rows=2, labels={NAME: 1, "1": 1})


def labels_of(qtbot, widget):
    qtbot.addWidget(widget)
    return "\n".join(label.text() for label in widget.findChildren(QLabel))


def interrupted(qtbot, _folder):
    made = Notices()
    made.show_interrupted([Interrupted(RUN, NAME, 120)])
    return labels_of(qtbot, made) + labels_of(qtbot, made.beside)


def ended(qtbot, _folder):
    made = Notices()
    made.show_end(EndedRun(RUN, NAME, State.FINISHED, RunStatus()))
    return labels_of(qtbot, made) + labels_of(qtbot, made.beside)


def queued(qtbot, _folder):
    card = QueueCard()
    card.show_waiting([LiveRun(RUN, NAME, 0.0, State.QUEUED, awaited=MODEL_BEHIND)])
    return labels_of(qtbot, card)


def compared(_qtbot, folder):
    runs = [make_folder(folder / name) for name in ("a", "b")]
    for run, pace in zip(runs, (1.0, 0.2), strict=True):
        notes.write(run.path, RunNotes(title=NAME))
        plot = Plot(steps=20, reached=20, pace=pace)
        finish(run, plot, write_story(run, plot))
    return compare(runs).conclusion


SENTENCES = {
    "closing": lambda *_: question_on_closing([Underway(RUN, NAME, False, False)], None).text(),
    "several at closing": lambda *_: question_on_closing(
        [Underway(RUN, title, False, False) for title in (NAME, "Digits")], None
    ).informativeText(),
    "turn": lambda *_: question_of_turn(BEHIND, None).text(),
    "waiting": lambda *_: awaited_text(BEHIND),
    "interrupted": interrupted,
    "ended": ended,
    "queue": queued,
    "compared": compared,
    "to the trash": lambda *_: note_on([TrashItem(RUN, NAME, 1 << 20)])[0],
    "two of one name": lambda *_: distinct_titles([(RUN.path, NAME), (Path("2026-11-29-1100-run"), NAME)])[0],
    "a file that is gone": lambda *_: reveal(Path("/nowhere") / NAME).title,
    "try it beside a run": lambda *_: judge({Which.TRAINED: 1}, 1 << 30, [NAME]).title,
    "a label that isn't there": lambda *_: names_hint({"x": "y"}, DATA),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_name_stays_apart_from_what_stands_beside_it(qtbot, tmp_path, name):
    said = SENTENCES[name](qtbot, tmp_path)
    assert isolated(NAME) in said
    assert NAME not in said.replace(isolated(NAME), "")
