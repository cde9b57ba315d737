"""Which columns of the list of runs a person has put away: a small file in Hone's own folder."""

from collections.abc import Iterable

import msgspec

from core import settings
from core.files import write_atomically
from gui.models.runs_columns import Column

FILE = "runs-list.json"


class RunsLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the columns that are put away; those that another Hone has are skipped."""

    hidden: tuple[str, ...] = ()


def hidden_columns() -> frozenset[Column]:
    """The columns that are put away; none where the file is missing or damaged."""
    try:
        kept = msgspec.json.decode((settings.home() / FILE).read_bytes(), type=RunsLayout)
    except (OSError, msgspec.MsgspecError):
        return frozenset()
    return frozenset(column for column in Column if column.name in kept.hidden and column is not Column.NAME)


def keep_hidden(columns: Iterable[Column]) -> None:
    """Remember the columns that are put away.

    Raises:
        OSError: That can't be written.
    """
    layout = RunsLayout(hidden=tuple(column.name for column in sorted(columns)))
    settings.home().mkdir(parents=True, exist_ok=True)
    write_atomically(settings.home() / FILE, msgspec.json.encode(layout))
