"""Closing the window while runs train or wait: the person is asked once what becomes of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from PySide6.QtWidgets import QWidget

from core.base.formats import enumerated, paragraph
from core.base.language import _, isolated, ngettext
from core.runs import queue
from core.runs.events import Action
from core.runs.folder import RunFolder
from core.runs.library import list_runs
from core.runs.status import State
from core.runs.summary import summarize
from gui.base.questions import Question
from gui.base.titles import distinct_titles

log = logging.getLogger("hone")

MOST_ASKED = 4
"""Number of runs that the question names."""


class Closing(Enum):
    """What to do with unfinished runs when the window closes."""

    KEEP_TRAINING = auto()
    PAUSE = auto()
    STOP = auto()
    CANCEL = auto()


@dataclass(frozen=True)
class Underway:
    """An unfinished run."""

    run: RunFolder
    title: str
    is_waiting: bool = False
    is_test: bool = False


def underway(folder: Path, known: Iterable[RunFolder] | None = None) -> list[Underway]:
    """The runs of a folder and of the queue that train or wait.

    Args:
        known: Runs that have just been found to train or wait, so that the folder need not be read.
    """
    if known is None:
        try:
            known = list_runs(folder)
        except OSError as error:
            log.warning("the runs can't be listed: %s", error)
            known = ()
    runs = {run.path: run for run in (*known, *queue.training(), *queue.waiting())}.values()
    alive = [run for run in runs if run.exit_record() is None and run.keeper_is_alive()]
    rows = [row for row in map(summarize, alive) if not row.state.is_over]
    titles = distinct_titles([(row.run.path, row.title) for row in rows])
    return [
        Underway(row.run, title, row.state is State.QUEUED, row.is_test)
        for row, title in zip(rows, titles, strict=True)
    ]


def request_all(runs: Iterable[Underway], action: Action) -> None:
    """Request the same of each run; one whose folder can't be written to goes on."""
    for one in runs:
        try:
            one.run.request(action)
        except OSError as error:
            log.warning("%s can't be asked to %s: %s", one.run.path, action, error)


def question_about(
    runs: Sequence[Underway],
    parent: QWidget | None,
    *,
    is_shutting_down: bool = False,
) -> Question[Closing] | None:
    """Return the question on closing if anything is unfinished. Training can't go on in a shutdown."""
    if not runs:
        return None
    training = [run for run in runs if not (run.is_waiting or run.is_test)]
    testing = [run for run in runs if run.is_test and not run.is_waiting]
    waiting = [run for run in runs if run.is_waiting]
    first, *others = training or testing or waiting
    lines = [_names([first, *others])] if others else []
    if training:
        title = ngettext("“{run}” is training", "{count} runs are training", len(training))
        goes_on, end = _("Training continues without this window."), _("Stop and save model")
        keep, lost = _("Close, keep training"), _("Unsaved progress is lost when the computer shuts down.")
        effects = _(
            "Pause saves a checkpoint to resume from. Stop ends training and saves the model as it is now."
        )
        if testing:
            lines.append(_("Being tested: {runs}").format(runs=_names(testing)))
            effects = paragraph(effects, _("Both end a test without a result."))
    elif testing:
        title = ngettext("“{run}” is not finished", "{count} tests are not finished", len(testing))
        goes_on, end = _("The test goes on without this window."), _("End the test")
        keep, lost = _("Close, keep testing"), _("Its result is lost when the computer shuts down.")
        effects = _("A test that is ended has no result. It can be started again.")
    else:
        title = ngettext("“{run}” is queued", "{count} runs are queued", len(waiting))
        goes_on, end = (
            _("Each queued run starts in its turn, without this window."),
            _("Remove from the queue"),
        )
        keep, lost = _("Close, keep the queue"), _("The queue ends when the computer shuts down.")
        effects = _("Runs that are removed from the queue can be started later.")
    if waiting and (training or testing):
        goes_on = _("All of them go on without this window: each queued run starts in its turn.")
        effects = paragraph(
            effects, _("Queued runs are then removed from the queue; they can be started later.")
        )
        lines.append(_("Queued: {runs}").format(runs=_names(waiting)))
    lines.append(paragraph(lost if is_shutting_down else goes_on, effects))
    answers = {Closing.KEEP_TRAINING: keep, Closing.PAUSE: _("Pause"), Closing.STOP: end}
    if is_shutting_down:
        answers.pop(Closing.KEEP_TRAINING)
    if not training:
        answers.pop(Closing.PAUSE)  # would be the same
    title = title.format(run=isolated(first.title), count=1 + len(others))
    return Question(title, "\n\n".join(lines), answers, parent)


def _names(runs: Sequence[Underway]) -> str:
    names = enumerated(f"“{isolated(run.title)}”" for run in runs[:MOST_ASKED])
    if len(runs) <= MOST_ASKED:
        return names
    return _("{runs} and {count} more").format(runs=names, count=len(runs) - MOST_ASKED)


AskClosing = Callable[[Question[Closing]], Closing]


def ask_on_close(question: Question[Closing]) -> Closing:
    return question.ask(Closing.CANCEL)


def may_close(runs: Sequence[Underway], question: Question[Closing] | None, ask: AskClosing) -> bool:
    """Ask what becomes of runs, if there is a question, and do so; returns whether the window may close."""
    choice = Closing.KEEP_TRAINING if question is None else ask(question)
    actions = {Closing.PAUSE: Action.PAUSE, Closing.STOP: Action.STOP}
    if choice in actions:
        request_all(runs, actions[choice])
    return choice is not Closing.CANCEL
