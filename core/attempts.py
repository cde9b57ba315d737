"""Attempts of a run: the first, and one more each time it is resumed."""

from pathlib import Path

from core.event_files import EventReader
from core.events import RunStarted


def next_attempt(events_file: Path) -> int:
    """The number of the attempt about to start: one more than the file tells of."""
    return 1 + sum(isinstance(event, RunStarted) for event in EventReader(events_file).read_all())
