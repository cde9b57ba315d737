"""Attempts of a run: the first, and one more each time it is resumed."""

from pathlib import Path

from core.event_files import EventReader
from core.events import RunStarted


def next_attempt(events_file: Path) -> int:
    """The number of the attempt about to start: one more than the file tells of."""
    reader = EventReader(events_file)
    attempts = 0
    while not reader.is_at_end:  # in parts: a long run in one piece would fill the keeper's memory
        attempts += sum(isinstance(event, RunStarted) for event in reader.read())
    return attempts + 1
