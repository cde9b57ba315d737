"""Closing the window while runs train or wait: the person is asked once what becomes of them."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Protocol

from PySide6.QtWidgets import QWidget

from core.base.language import _, ngettext
from core.runs import queue
from core.runs.folder import Action, RunFolder
from core.runs.library import list_runs
from core.runs.status import State
from core.runs.summary import summarize
from gui.base.trash import Question, distinct_titles

log = logging.getLogger("hone")

MOST_NAMES = 4
"""Number of runs that are named."""


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
        Underway(row.run, title, row.state is State.QUEUED) for row, title in zip(rows, titles, strict=True)
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
    is_measuring: bool = False,
) -> Question[Closing]:
    """The question on closing; when the computer shuts down, training can't go on.

    `is_measuring`: a benchmark is running, too.
    """
    measuring = _("Closing the window ends it. Results so far are saved under Earlier results.")
    if not runs:
        ending = {Closing.KEEP_TRAINING: _("End it and close")}
        return Question(_("A benchmark is running"), measuring, ending, parent)
    training = [run for run in runs if not run.is_waiting]
    waiting = [run for run in runs if run.is_waiting]
    if training:
        title = ngettext("“{run}” is training", "{count} runs are training", len(training))
    else:
        title = ngettext("“{run}” is queued", "{count} runs are queued", len(waiting))
    first, *others = training or waiting
    lines = [_names(training)] if len(training) > 1 else []
    if training and waiting:
        lines.append(_("Queued: {runs}").format(runs=_names(waiting)))
    effects = _(
        "Training continues without this window. Pause saves a checkpoint to resume from later. Stop ends "
        "training and saves the model as it is now."
    )
    if is_shutting_down:
        effects = _(
            "Unsaved progress is lost when the computer shuts down. Pause saves a checkpoint to resume from later. "
            "Stop ends training and saves the model as it is now."
        )
    lines.append(effects)
    if waiting:
        if not is_shutting_down:
            lines.append(_("The queue goes on without this window, too: each run starts in its turn."))
        lines.append(_("Pause and Stop also remove queued runs from the queue; they can be started later."))
    if is_measuring:
        lines.append(measuring)
    answers = {
        Closing.KEEP_TRAINING: _("Close, keep training") if training else _("Close, keep the queue"),
        Closing.PAUSE: _("Pause"),
        Closing.STOP: _("Stop and save model"),
    }
    if is_shutting_down:
        answers.pop(Closing.KEEP_TRAINING)
    title = title.format(run=first.title, count=1 + len(others))
    return Question(title, "\n\n".join(lines), answers, parent)


def _names(runs: Sequence[Underway]) -> str:
    names = ", ".join(f"“{run.title}”" for run in runs[:MOST_NAMES])
    if len(runs) <= MOST_NAMES:
        return names
    return _("{runs} and {count} more").format(runs=names, count=len(runs) - MOST_NAMES)


class AskClosing(Protocol):
    """Asks what to do with unfinished runs."""

    def __call__(self, runs: Sequence[Underway], parent: QWidget, *, is_measuring: bool) -> Closing: ...


def may_close(
    runs: Sequence[Underway], parent: QWidget, ask: AskClosing, *, is_measuring: bool = False
) -> bool:
    """Ask about unfinished runs and act on the answer; returns whether the window may close."""
    choice = Closing.KEEP_TRAINING
    if runs or is_measuring:
        choice = ask(runs, parent, is_measuring=is_measuring)
    if choice is Closing.PAUSE:
        request_all(runs, Action.PAUSE)
    elif choice is Closing.STOP:
        request_all(runs, Action.STOP)
    return choice is not Closing.CANCEL


def ask_on_close(runs: Sequence[Underway], parent: QWidget, *, is_measuring: bool = False) -> Closing:
    return question_about(runs, parent, is_measuring=is_measuring).ask(Closing.CANCEL)


def ask_on_shutdown(runs: Sequence[Underway], parent: QWidget, *, is_measuring: bool = False) -> Closing:
    """Ask when the computer shuts down or the person logs out."""
    return question_about(runs, parent, is_shutting_down=True, is_measuring=is_measuring).ask(Closing.CANCEL)
