"""One row of the list of runs as it is shown, sorted and searched: worked out once, however often it is asked for."""

from collections.abc import Mapping
from functools import cached_property

from core.run_summary import RunSummary
from gui.models.runs_columns import Column, ColumnKind, RunRow, metric_in_full
from gui.names import model_title
from gui.states import state_title

FIELDS = ("name", "state", "model", "data", "device", "tag", "note")
"""What a word such as `tag:night` may look at alone."""


class ShownRow:
    """A row and what each column makes of it. It never changes."""

    def __init__(self, row: RunRow, columns: Mapping[Column, ColumnKind]) -> None:
        self.row = row
        self.texts = [kind.text(row) for kind in columns.values()]
        self.raws = [kind.raw(row) for kind in columns.values()]

    @property
    def summary(self) -> RunSummary:
        """The run."""
        return self.row.summary

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
