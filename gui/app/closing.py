"""Closing the window while runs train or wait: they go on by design, so the person is asked once.

A benchmark that is being measured ends with the window, which is said in the same question.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Protocol

from PySide6.QtWidgets import QWidget

from core.base.language import _
from core.runs import queue
from core.runs.folder import Action, RunFolder
from core.runs.library import list_runs
from core.runs.status import State
from core.runs.summary import summarize
from gui.base.trash import Question, distinct_titles

log = logging.getLogger("hone")

MOST_NAMES = 4
"""So many runs are named; of more the rest is counted."""


class Closing(Enum):
    """What to do with runs that aren't over when the window closes."""

    KEEP_TRAINING = auto()
    PAUSE = auto()
    STOP = auto()
    CANCEL = auto()

    @property
    def action(self) -> Action | None:
        """What each of the runs is asked."""
        return {Closing.PAUSE: Action.PAUSE, Closing.STOP: Action.STOP}.get(self)


@dataclass(frozen=True)
class Underway:
    """A run that isn't over."""

    run: RunFolder
    title: str
    state: State

    @property
    def waits(self) -> bool:
        """Whether it waits for its turn and holds no memory."""
        return self.state is State.QUEUED


def underway(folder: Path, known: Iterable[RunFolder] | None = None) -> list[Underway]:
    """The runs that train or wait: those of a folder, and those of the queue, wherever they are.

    A keeper lives on for a moment after its run is over: that doesn't count.

    Args:
        folder: The runs' folder.
        known: Those that have just been found to train or wait, so that of a thousand that are over no file is read;
            None: nobody has looked yet.
    """
    if known is None:
        try:
            known = list_runs(folder)
        except OSError as error:
            log.warning("the runs can't be listed: %s", error)
            known = ()
    runs = {run.path: run for run in (*known, *queue.training(), *queue.waiting())}.values()
    alive = [run for run in runs if run.exit_record() is None and run.keeper_is_alive()]
    summaries = [summarize(run) for run in alive]
    rows = [row for row in summaries if not row.state.is_over]
    titles = distinct_titles([(row.run.path, row.title) for row in rows])
    return [Underway(row.run, title, row.state) for row, title in zip(rows, titles, strict=True)]


def ask_all(found: Iterable[Underway], action: Action) -> None:
    """Ask each run to do the same; one whose folder can't be written to goes on."""
    for one in found:
        try:
            one.run.request(action)
        except OSError as error:
            log.warning("%s can't be asked to %s: %s", one.run.path, action, error)


def title_for(found: Sequence[Underway]) -> str:
    """What there is: “Digits” is training; 2 runs are training; or that some wait; without any, a benchmark."""
    if not found:
        return _("A benchmark is being measured")
    training = [one for one in found if not one.waits]
    if not training:
        if len(found) == 1:
            return _("“{}” waits for its turn").format(found[0].title)
        return _("{} runs wait for their turn").format(len(found))
    if len(training) == 1:
        return _("“{}” is training").format(training[0].title)
    return _("{} runs are training").format(len(training))


def words_for(
    found: Sequence[Underway], *, is_shutting_down: bool = False, is_measuring: bool = False
) -> str:
    """Which runs there are, and what each answer does; `is_measuring`: a benchmark is under way, too."""
    measuring = _(
        "The benchmark ends with this window; what is measured so far is kept under Earlier results."
    )
    if not found:
        return measuring
    training = [one for one in found if not one.waits]
    waiting = [one for one in found if one.waits]
    lines = []
    if len(training) > 1:
        lines.append(_names(training))
    if waiting and training:
        lines.append(_("Waiting for their turn: {}").format(_names(waiting)))
    if is_shutting_down:
        going_on = _("When the computer shuts down, what was not saved is lost.")
    else:
        going_on = _("Training can go on without this window; open Hone again to see how it does.")
    pausing = _("Pausing saves where it is, and it can be resumed from there later.")
    stopping = _("Stopping ends it and keeps the model as it is.")
    lines.append(f"{going_on} {pausing} {stopping}")
    if len(waiting) == 1:
        lines.append(
            _("Both also take the waiting run out of the queue; it can be resumed or started again later.")
        )
    elif waiting:
        lines.append(
            _("Both also take the waiting runs out of the queue; they can be resumed or started again later.")
        )
    if is_measuring:
        lines.append(measuring)
    return "\n\n".join(lines)


def _names(found: Sequence[Underway]) -> str:
    titles = [f"“{one.title}”" for one in found[:MOST_NAMES]]
    if len(found) > MOST_NAMES:
        titles.append(_("and {} more").format(len(found) - MOST_NAMES))
    return ", ".join(titles)


def question_about(
    found: Sequence[Underway],
    parent: QWidget | None,
    *,
    is_shutting_down: bool = False,
    is_measuring: bool = False,
) -> Question[Closing]:
    """What is asked; as the computer shuts down nothing can go on."""
    if not found:
        ending = {Closing.KEEP_TRAINING: _("End it and close")}
        return Question(title_for(found), words_for(found), ending, parent)
    answers = {
        Closing.KEEP_TRAINING: _("Keep training"),
        Closing.PAUSE: _("Pause"),
        Closing.STOP: _("Stop and keep"),
    }
    if is_shutting_down:
        answers.pop(Closing.KEEP_TRAINING)
    words = words_for(found, is_shutting_down=is_shutting_down, is_measuring=is_measuring)
    return Question(title_for(found), words, answers, parent)


class Asking(Protocol):
    """Asks what to do with runs that aren't over."""

    def __call__(self, found: Sequence[Underway], parent: QWidget, *, is_measuring: bool) -> Closing:
        """`is_measuring`: a benchmark is under way, too."""


def may_close(found: Sequence[Underway], parent: QWidget, ask: Asking, *, is_measuring: bool = False) -> bool:
    """Find out what becomes of the runs that aren't over, and let it happen; returns whether the window may close."""
    asks = bool(found) or is_measuring
    choice = ask(found, parent, is_measuring=is_measuring) if asks else Closing.KEEP_TRAINING
    if choice.action is not None:
        ask_all(found, choice.action)
    return choice is not Closing.CANCEL


def ask_about(found: Sequence[Underway], parent: QWidget, *, is_measuring: bool = False) -> Closing:
    """Ask as the window closes."""
    return question_about(found, parent, is_measuring=is_measuring).ask(Closing.CANCEL)


def ask_at_shutdown(found: Sequence[Underway], parent: QWidget, *, is_measuring: bool = False) -> Closing:
    """Ask as the computer shuts down or the person logs out."""
    asked = question_about(found, parent, is_shutting_down=True, is_measuring=is_measuring)
    return asked.ask(Closing.CANCEL)
