"""How far a benchmark is, on a terminal: a bar with the time left, and a line for each pass that is measured."""

import time
from typing import TextIO

from tqdm import tqdm

from core import figures
from core.bench import words
from core.bench.result import Result, Row
from core.bench.running import Underway
from core.commands.output import say
from core.figures import visible

BAR = "{desc} |{bar}| {n_fmt} of {total_fmt}{postfix}"


class BenchProgress:
    """Shows how far a benchmark is. `begin` may be called from another thread.

    Args:
        stream: Where to write; a bar is drawn if it is a terminal, else a line a pass.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: tqdm | None = None
        self._underway: Underway | None = None
        self._began = 0.0

    def begin(self, underway: Underway) -> None:
        """A pass begins."""
        self._underway, self._began = underway, time.monotonic()
        if self._stream.isatty():
            self._draw()
        else:
            say(f"{_what(underway)} ({underway.done + 1} of {underway.total}){self._left()}", self._stream)

    def tick(self) -> None:
        """Let the time left run down."""
        if self._bar is not None:
            self._draw()

    def measured(self, result: Result, place: int) -> None:
        """A pass is made, of the row at a place."""
        text = visible(f"  {_came_to(result.rows[place])}")
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            say(text, self._stream)

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _draw(self) -> None:
        underway = self._underway
        if underway is None:
            return
        if self._bar is None:
            tqdm.monitor_interval = 0  # no watching thread for a bar that is fed twice a second
            self._bar = tqdm(total=underway.total, file=self._stream, dynamic_ncols=True, bar_format=BAR)
        self._bar.total, self._bar.n = underway.total, underway.done
        self._bar.set_description_str(visible(_what(underway)), refresh=False)
        self._bar.set_postfix_str(self._left().removeprefix(", "), refresh=False)
        self._bar.refresh()

    def _left(self) -> str:
        if self._underway is None or self._underway.seconds_left is None:
            return ""
        left = self._underway.seconds_left - (time.monotonic() - self._began)
        return f", about {figures.duration(left)} left" if left >= 1 else ""


def _what(underway: Underway) -> str:
    rung = underway.rung
    title = words.with_side(rung, rung.title)
    return f"{title}, pass {underway.number_of_pass}"


def _came_to(row: Row) -> str:
    """What the newest pass of a row came to."""
    newest, title = row.passes[-1], words.with_side(row.rung, row.rung.title)
    if newest.failure:
        return f"{title}: {newest.failure}"
    pace = row.samples_per_second
    told = f"{words.figure(pace.median)} samples/s, " if pace else ""
    return f"{title}: {told}{figures.size(newest.sample.peak if newest.sample else None)}"
