"""Closing the window while a run trains: the run goes on by design, so the person is asked."""

import logging
from enum import Enum, auto
from pathlib import Path

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QMessageBox, QWidget

from core.run_folder import RunFolder
from core.run_summary import summarize
from core.runs import list_runs

log = logging.getLogger("hone")

_translate = QCoreApplication.translate


class Closing(Enum):
    """What to do with runs that train when the window closes."""

    KEEP_TRAINING = auto()
    STOP = auto()
    CANCEL = auto()


def running(folder: Path) -> list[RunFolder]:
    """The runs in a folder that train; none where it can't be read.

    A keeper lives on for a moment after its run is over: that doesn't count.
    """
    try:
        found = list_runs(folder)
    except OSError as error:
        log.warning("the runs can't be listed: %s", error)
        return []
    alive = [run for run in found if run.exit_record() is None and run.keeper_is_alive()]
    return [run for run in alive if not summarize(run).state.is_over]


def words_for(count: int) -> str:
    """What becomes of one run that trains, or of several."""
    if count == 1:
        return _translate(
            "Closing",
            "It can go on without this window; open Hone again to see how it does. Stopping keeps what it has "
            "learned so far.",
        )
    return _translate(
        "Closing",
        "They can go on without this window; open Hone again to see how they do. Stopping keeps what each of them "
        "has learned so far.",
    )


def ask_about(runs: list[RunFolder], parent: QWidget) -> Closing:
    """Ask what to do with runs that train."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    if len(runs) == 1:
        box.setText(_translate("Closing", "A run is training"))
    else:
        box.setText(_translate("Closing", "{count} runs are training").format(count=len(runs)))
    box.setInformativeText(words_for(len(runs)))
    keep = box.addButton(
        _translate("Closing", "Keep training in the background"), QMessageBox.ButtonRole.AcceptRole
    )
    stop = box.addButton(_translate("Closing", "Stop and keep"), QMessageBox.ButtonRole.DestructiveRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(keep)
    box.exec()
    if box.clickedButton() is keep:
        return Closing.KEEP_TRAINING
    return Closing.STOP if box.clickedButton() is stop else Closing.CANCEL
