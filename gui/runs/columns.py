"""The columns of the list of runs, and its rows."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from core.base import formats
from core.base.language import _, isolated
from core.options.choices import device_title, model_title
from core.runs.status import State
from core.runs.summary import RunSummary
from gui.run.words import state_title

NOTHING = float("-inf")


class RunColumn(IntEnum):
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
class RunColumnKind:
    """A column: title, text of a row, and the raw value it is sorted by.

    `sample` is a text of the usual length; `help` the tool tip of the title.
    """

    title: str
    text: Callable[["RunRow"], str]
    raw: Callable[["RunRow"], float | str]
    is_number: bool = False
    sample: str = ""
    help: str = ""


def state_of(summary: RunSummary) -> str:
    """Return the state, with the progress of a run that trains or is paused."""
    how = {"stopped_early": summary.stopped_early, "is_test": summary.is_test}
    title, share = state_title(summary.state, **how), summary.share
    if not share or (summary.state.is_over and summary.state is not State.PAUSED):
        return title
    return f"{title} {formats.whole_percent(share)}"


def columns() -> dict[RunColumn, RunColumnKind]:
    return {
        RunColumn.NAME: RunColumnKind(
            _("Name"),
            lambda row: isolated(row.title or row.summary.title),
            lambda row: row.summary.title.casefold(),
        ),
        RunColumn.STATE: RunColumnKind(
            _("State"),
            lambda row: state_of(row.summary),
            lambda row: list(State).index(row.summary.state),
            sample=state_title(State.FINISHED, stopped_early=True),
        ),
        RunColumn.MODEL: RunColumnKind(
            _("Model"),
            lambda row: model_title(row.summary.model),
            lambda row: model_title(row.summary.model).casefold(),
        ),
        RunColumn.DATA: RunColumnKind(
            _("Data"), lambda row: row.summary.data, lambda row: row.summary.data.casefold()
        ),
        RunColumn.DEVICE: RunColumnKind(
            _("Device"),
            lambda row: device_title(row.summary.device),
            lambda row: row.summary.device,
            sample="CUDA",
        ),
        RunColumn.METRIC: RunColumnKind(
            _("Result"),
            lambda row: _metric_text(row.summary),
            lambda row: _metric_raw(row.summary),
            is_number=True,
            sample="100.0 % (best)",
            help=_("The result of the model that is kept; while the run trains, that of the last evaluation"),
        ),
        RunColumn.TIME: RunColumnKind(
            _("Time"),
            lambda row: formats.duration(row.summary.seconds),
            lambda row: _or_nothing(row.summary.seconds),
            is_number=True,
            sample=formats.duration(59 * 60 + 59),
        ),
        RunColumn.MEMORY: RunColumnKind(
            _("Memory"),
            lambda row: formats.memory(row.summary.peak_bytes),
            lambda row: _or_nothing(row.summary.peak_bytes),
            is_number=True,
            sample="88.8 GB",
            help=_("Peak memory of the run"),
        ),
        RunColumn.STARTED: RunColumnKind(
            _("Started"),
            lambda row: formats.moment(row.summary.started),
            lambda row: _started(row.summary),
            sample=formats.moment(time.time()),
        ),
        RunColumn.SIZE: RunColumnKind(
            _("On disk"),
            lambda row: formats.memory(row.size),
            lambda row: _or_nothing(row.size),
            is_number=True,
            sample="88.8 GB",
            help=_("Size of the run's folder, mostly of its checkpoints and its model"),
        ),
        RunColumn.TAGS: RunColumnKind(
            _("Tags"),
            lambda row: "  ".join(row.summary.tags),
            lambda row: " ".join(row.summary.tags).casefold(),
        ),
    }


def _or_nothing(value: float | None) -> float:
    return NOTHING if value is None else float(value)


def _started(row: RunSummary) -> float:
    """When the run started; before that, when its options or its folder were written."""
    if row.started is not None:
        return row.started
    for path in (row.run.options_file, row.run.path):
        try:
            return path.stat().st_mtime
        except OSError:
            continue
    return NOTHING


def result_text(row: RunSummary) -> str:
    """The result of the model that is kept, marked if the last evaluation was another; empty without one."""
    if row.metric is None or row.result is None:
        return ""
    value = formats.metric_format(row.metric)(row.result)
    return value if row.result == row.last else _("{value} (best)").format(value=value)


def _metric_text(row: RunSummary) -> str:
    is_plain = row.metric is None or row.result is None or formats.is_share(row.metric)
    name = "" if is_plain else f"{formats.metric_words(row.metric or '')} "
    return f"{name}{result_text(row)}" or formats.MISSING


def metric_in_full(row: RunSummary) -> str:
    """The result with its name: `F1 81.4 %`; empty without one."""
    result = result_text(row)
    return f"{formats.metric_title(row.metric or '')} {result}" if result else ""


def _metric_raw(row: RunSummary) -> float:
    """Return the sort value of a result: higher is better, so a loss is negated."""
    if row.metric is None or row.result is None:
        return NOTHING
    return row.result if formats.is_share(row.metric) else -row.result


class RunRow:
    """An immutable row: the texts and sort keys of a run by column.

    Args:
        size: Bytes on disk; None if not counted yet.
        title: Distinguishes it from other runs with the same title; empty if there are none.
    """

    def __init__(
        self, summary: RunSummary, size: int | None, title: str, columns: Mapping[RunColumn, RunColumnKind]
    ) -> None:
        self.summary, self.size, self.title = summary, size, title
        self.texts = [kind.text(self) for kind in columns.values()]
        self.raws = [kind.raw(self) for kind in columns.values()]

    def contains(self, word: str) -> bool:
        """Whether a lower-case word occurs in any text, or like `tag:night` in one field."""
        field, colon, value = word.partition(":")
        return value in self._fields[field] if colon and field in self._fields else word in self._text

    @cached_property
    def _text(self) -> str:
        summary = self.summary
        return " ".join((*self.texts, metric_in_full(summary), summary.note, summary.run.name)).casefold()

    @cached_property
    def _fields(self) -> dict[str, str]:
        summary = self.summary
        fields = {
            "name": f"{summary.title} {summary.run.name}",
            "state": f"{state_of(summary)} {summary.state}",
            "model": f"{model_title(summary.model)} {summary.model}",
            "data": summary.data,
            "device": f"{summary.device} {self.texts[RunColumn.DEVICE]}",
            "tag": " ".join(summary.tags),
            "note": summary.note,
        }
        return {name: text.casefold() for name, text in fields.items()}
