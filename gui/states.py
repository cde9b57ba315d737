"""The states of a run as a word and a colour."""

from PySide6.QtCore import QCoreApplication

from core.story import State

_translate = QCoreApplication.translate


def state_title(state: State) -> str:
    """One word for a state."""
    titles = {
        State.QUEUED: _translate("run", "Waiting"),
        State.STARTING: _translate("run", "Starting"),
        State.TRAINING: _translate("run", "Training"),
        State.PAUSING: _translate("run", "Pausing"),
        State.PAUSED: _translate("run", "Paused"),
        State.STOPPING: _translate("run", "Stopping"),
        State.STOPPED: _translate("run", "Stopped"),
        State.FINISHED: _translate("run", "Finished"),
        State.FAILED: _translate("run", "Failed"),
        State.CRASHED: _translate("run", "Crashed"),
    }
    return titles[state]


def state_colour(state: State) -> str:
    """The field of `gui.theme.Tokens` that stands for a state."""
    colours = {
        State.QUEUED: "others",
        State.STARTING: "accent",
        State.TRAINING: "accent",
        State.PAUSING: "warn",
        State.PAUSED: "warn",
        State.STOPPING: "warn",
        State.STOPPED: "others",
        State.FINISHED: "ok",
        State.FAILED: "bad",
        State.CRASHED: "bad",
    }
    return colours[state]
