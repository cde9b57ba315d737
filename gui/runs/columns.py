"""The columns of the list of runs, and its rows: texts, sort keys and search, computed once."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from core.base import formats
from core.base.language import _
from core.options.choices import device_title, model_title
from core.runs.status import State
from core.runs.summary import RunSummary
from gui.run.words import state_title

NOTHING = float("-inf")


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
    SIZE = 9
    TAGS = 10


@dataclass(frozen=True)
class ColumnKind:
    """How a column reads: its title, a row's text, and the raw value it sorts by.

    `sample` is as long a text as is usual in it; empty where texts may have any length. `help` is the title's tip.
    """

    title: str
    text: Callable[["RunRow"], str]
    raw: Callable[["RunRow"], float | str]
    is_number: bool = False
    sample: str = ""
    help: str = ""


def columns() -> dict[Column, ColumnKind]:
    """All columns, their titles in the language in force."""
    return {
        Column.NAME: ColumnKind(
            _("Name"),
            lambda row: row.title or row.summary.title,
            lambda row: row.summary.title.casefold(),
        ),
        Column.STATE: ColumnKind(
            _("State"),
            lambda row: state_title(row.summary.state),
            lambda row: list(State).index(row.summary.state),
            sample=state_title(State.FINISHED),
        ),
        Column.MODEL: ColumnKind(
            _("Model"),
            lambda row: model_title(row.summary.model),
            lambda row: model_title(row.summary.model).casefold(),
        ),
        Column.DATA: ColumnKind(
            _("Data"), lambda row: row.summary.data, lambda row: row.summary.data.casefold()
        ),
        Column.DEVICE: ColumnKind(
            _("Device"),
            lambda row: device_title(row.summary.device),
            lambda row: row.summary.device,
            sample="CUDA",
        ),
        Column.METRIC: ColumnKind(
            _("Best result"),
            lambda row: _metric_text(row.summary),
            lambda row: _metric_raw(row.summary),
            is_number=True,
            sample="0.123 loss",
            help=_("The best of all evaluations"),
        ),
        Column.TIME: ColumnKind(
            _("Time"),
            lambda row: formats.duration(row.summary.seconds),
            lambda row: _or_nothing(row.summary.seconds),
            is_number=True,
            sample=formats.duration(59 * 60 + 59),
        ),
        Column.MEMORY: ColumnKind(
            _("Memory"),
            lambda row: formats.memory(row.summary.peak_bytes),
            lambda row: _or_nothing(row.summary.peak_bytes),
            is_number=True,
            sample="88.8 GB",
            help=_("The most memory the run has held"),
        ),
        Column.STARTED: ColumnKind(
            _("Started"),
            lambda row: formats.moment(row.summary.started),
            lambda row: _asked_or_started(row.summary),
            sample=formats.moment(time.time()),
        ),
        Column.SIZE: ColumnKind(
            _("On disk"),
            lambda row: formats.memory(row.size),
            lambda row: _or_nothing(row.size),
            is_number=True,
            sample="88.8 GB",
            help=_("What the run's folder takes on disk: its checkpoints and its model, mostly"),
        ),
        Column.TAGS: ColumnKind(
            _("Tags"),
            lambda row: "  ".join(row.summary.tags),
            lambda row: " ".join(row.summary.tags).casefold(),
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
        return formats.MISSING
    value = formats.metric_format(row.metric)(row.best)
    return value if formats.is_share(row.metric) else f"{value} {formats.metric_title(row.metric).lower()}"


def metric_in_full(row: RunSummary) -> str:
    """The best result with its name: `F1 81.4 %`; empty where there is none."""
    if row.metric is None or row.best is None:
        return ""
    return f"{formats.metric_title(row.metric)} {formats.metric_format(row.metric)(row.best)}"


def _metric_raw(row: RunSummary) -> float:
    """Better sorts higher, whether that is a larger share or a smaller loss."""
    if row.metric is None or row.best is None:
        return NOTHING
    return row.best if formats.is_share(row.metric) else -row.best


FIELDS = ("name", "state", "model", "data", "device", "tag", "note")
"""What a word such as `tag:night` may look at alone."""


class RunRow:
    """A run, and its texts and sort keys by column. It never changes.

    Args:
        summary: The run.
        size: Bytes it takes on disk; None: not counted yet.
        title: Tells it apart from other runs with its title; empty where there are none.
        columns: What is made of it.
    """

    def __init__(
        self, summary: RunSummary, size: int | None, title: str, columns: Mapping[Column, ColumnKind]
    ) -> None:
        self.summary, self.size, self.title = summary, size, title
        self.texts = [kind.text(self) for kind in columns.values()]
        self.raws = [kind.raw(self) for kind in columns.values()]

    def holds(self, word: str) -> bool:
        """Whether a word, in lower case, occurs in it: anywhere, or in the field it names."""
        field, colon, value = word.partition(":")
        return value in self._fields[field] if colon and field in self._fields else word in self._words

    @cached_property
    def _words(self) -> str:
        summary = self.summary
        every = (*self.texts, metric_in_full(summary), summary.note, summary.run.name)
        return " ".join(every).casefold()

    @cached_property
    def _fields(self) -> dict[str, str]:
        found = self.summary
        values = (
            f"{found.title} {found.run.name}",
            f"{state_title(found.state)} {found.state}",
            f"{model_title(found.model)} {found.model}",
            found.data,
            f"{found.device} {self.texts[Column.DEVICE]}",
            " ".join(found.tags),
            found.note,
        )
        return {name: value.casefold() for name, value in zip(FIELDS, values, strict=True)}
