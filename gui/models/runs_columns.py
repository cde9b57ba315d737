"""The columns of the list of runs: what each one shows and sorts by."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from PySide6.QtCore import QCoreApplication

from core.device_names import device_title
from core.run_summary import RunSummary
from core.story import State
from gui import numbers
from gui.names import model_title
from gui.states import state_title

NOTHING = float("-inf")

_translate = QCoreApplication.translate


class Column(IntEnum):
    """The columns, in order."""

    NAME = 0
    STATE = 1
    MODEL = 2
    DATA = 3
    DEVICE = 4
    METRIC = 5
    TIME = 6
    MEMORY = 7
    STARTED = 8


@dataclass(frozen=True)
class ColumnKind:
    """How a column reads: its title, a row's text, and the raw value it sorts by.

    `sample` is as long a text as is usual in it; empty where texts may have any length. `help` is the title's tip.
    """

    title: str
    text: Callable[[RunSummary], str]
    raw: Callable[[RunSummary], float | str]
    is_number: bool = False
    sample: str = ""
    help: str = ""


def columns() -> dict[Column, ColumnKind]:
    """All columns, their titles in the language in force."""
    return {
        Column.NAME: ColumnKind(
            _translate("runs", "Name"), lambda row: row.title, lambda row: row.title.casefold()
        ),
        Column.STATE: ColumnKind(
            _translate("runs", "State"),
            lambda row: state_title(row.state),
            lambda row: list(State).index(row.state),
            sample=state_title(State.FINISHED),
        ),
        Column.MODEL: ColumnKind(
            _translate("runs", "Model"),
            lambda row: model_title(row.model),
            lambda row: model_title(row.model).casefold(),
        ),
        Column.DATA: ColumnKind(
            _translate("runs", "Data"), lambda row: row.data, lambda row: row.data.casefold()
        ),
        Column.DEVICE: ColumnKind(
            _translate("runs", "Device"),
            lambda row: device_title(row.device),
            lambda row: row.device,
            sample="CUDA",
        ),
        Column.METRIC: ColumnKind(
            _translate("runs", "Best result"),
            _metric_text,
            _metric_raw,
            is_number=True,
            sample="0.123 loss",
            help=_translate("runs", "The best of all evaluations"),
        ),
        Column.TIME: ColumnKind(
            _translate("runs", "Time"),
            lambda row: numbers.duration(row.seconds),
            lambda row: _or_nothing(row.seconds),
            is_number=True,
            sample=numbers.duration(59 * 60 + 59),
        ),
        Column.MEMORY: ColumnKind(
            _translate("runs", "Memory"),
            lambda row: numbers.memory(row.peak_bytes),
            lambda row: _or_nothing(row.peak_bytes),
            is_number=True,
            sample="88.8 GB",
            help=_translate("runs", "The most memory the run has held"),
        ),
        Column.STARTED: ColumnKind(
            _translate("runs", "Started"),
            lambda row: numbers.moment(row.started),
            _asked_or_started,
            sample=numbers.moment(time.time()),
        ),
    }


def _or_nothing(value: float | None) -> float:
    return NOTHING if value is None else float(value)


def _asked_or_started(row: RunSummary) -> float:
    """When the run started; of one that is still starting, when its options or its folder were written."""
    if row.started is not None:
        return row.started
    for path in (row.run.options_file, row.run.path):
        try:
            return path.stat().st_mtime
        except OSError:
            continue
    return NOTHING


def _metric_text(row: RunSummary) -> str:
    if row.metric is None or row.best is None:
        return numbers.MISSING
    value = numbers.metric_format(row.metric)(row.best)
    return value if numbers.is_share(row.metric) else f"{value} {numbers.metric_title(row.metric).lower()}"


def metric_in_full(row: RunSummary) -> str:
    """The best result with its name: `F1 81.4 %`; empty where there is none."""
    if row.metric is None or row.best is None:
        return ""
    return f"{numbers.metric_title(row.metric)} {numbers.metric_format(row.metric)(row.best)}"


def _metric_raw(row: RunSummary) -> float:
    """Better sorts higher, whether that is a larger share or a smaller loss."""
    if row.metric is None or row.best is None:
        return NOTHING
    return row.best if numbers.is_share(row.metric) else -row.best
