"""The chart of memory over time: who holds it, how much there is, and how short of it the computer was."""

from PySide6.QtCore import QCoreApplication

from gui import numbers
from gui.models.memory_history import LEVELS, MemoryPicture
from gui.models.run_history import RunHistory
from gui.plots.axes import BYTES, clock_text
from gui.plots.ceiling_line import CeilingLine
from gui.plots.chart import Chart, Reading, Span, Stage
from gui.plots.lines import Line, Look
from gui.plots.phase_marks import marks, phase_words
from gui.plots.pressure_band import PressureBand
from gui.plots.series import Series
from gui.plots.x_scale import CLOCK_SCALE, SHORTEST_CLOCK, XScale
from gui.theme import Tokens

CEILING_IN_PICTURE = 0.25
"""From this share of the ceiling on, the ceiling is drawn; further below it would squash what is in use."""

SAME_CEILING = 0.97
"""A limit of the run that is so near the ceiling needs no line of its own."""

HELD, WHOLE = 0.6, 0.35
"""Strength of the colour where tensors aren't: what is held for them, and the rest of the run."""

LEAST_SWAP = 16 << 20
"""Bytes; below, nothing worth a line lies in swap."""


class MemoryChart(Chart):
    """Memory of this run under that of all other programs, and how much there is.

    One picture: that of the graphics card where the run computes on one with a memory of its own, else the computer's.
    """

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self._ceiling, self._limit = CeilingLine(0.995), CeilingLine(0.4)
        self._band = PressureBand()
        super().__init__(QCoreApplication.translate("MemoryChart", "Memory"), stage, history, BYTES)
        for item in (self._ceiling, self._limit, self._band):
            self.add_decoration(item)

    def refresh(self) -> None:
        """Take in bands that were measured for the first time."""
        wanted = self._wanted_lines()
        if wanted != self.lines:
            self.set_lines(wanted)
        super().refresh()

    def x_scale(self) -> XScale:
        """Time, always: memory goes on being held between steps."""
        return CLOCK_SCALE

    def x_span(self) -> Span:
        """From the start until now."""
        return 0.0, max(SHORTEST_CLOCK, self.history.last_clock)

    def y_span(self, drawn: Span) -> Span:
        """From zero; up to the ceiling unless that is far away."""
        ceiling = self._picture.ceiling
        if ceiling is not None and drawn[1] >= CEILING_IN_PICTURE * ceiling:
            return 0.0, max(drawn[1], 1.04 * ceiling)
        return 0.0, 1.1 * drawn[1]

    def readings(self, x: float | None) -> list[Reading]:
        """This run, all others, what is free, and what tells of a shortage."""
        picture, memory = self._picture, self.history.memory
        found: list[Reading] = []
        mine, everyone = picture.run.read(x), picture.used.read(x)
        if mine is not None:
            found.append(Reading(self.tr("this run {}").format(numbers.memory(mine)), "run"))
        if everyone is not None:
            others = numbers.memory(everyone - (mine or 0.0))
            found.append(Reading(self.tr("others {}").format(others), "others"))
        level = memory.pressure.read(x)
        if level is not None and level > 0:
            words = self.tr("pressure {}").format(self._level_word(level))
            found.append(Reading(words, "bad" if level > 1 else "warn"))
        swap = memory.swap.read(x)
        if swap is not None and swap >= LEAST_SWAP:
            found.append(Reading(self.tr("swap {}").format(numbers.memory(swap)), "text"))
        if x is None and picture.ceiling is not None and not self._ceiling.isVisible():
            found.append(Reading(self.tr("of {}").format(numbers.memory_tick(picture.ceiling))))
        elif everyone is not None and picture.ceiling is not None:
            free = numbers.memory(max(0.0, picture.ceiling - everyone))
            found.append(Reading(self.tr("free {}").format(free)))
        return found if x is None else [*found, Reading(clock_text(x))]

    def details(self, x: float) -> list[tuple[str, str]]:
        """All that is known of a moment, as names with their values."""
        picture, memory = self._picture, self.history.memory
        phase = self.history.phase_at(x)
        run, used = picture.run.at(x), picture.used.at(x)
        bytes_by_name = [
            (self.tr("tensors"), picture.tensors.at(x)),
            (self.tr("held"), picture.held.at(x)),
            (self.tr("this run"), run),
            (self.tr("others"), None if used is None else used - (run or 0.0)),
            (
                self.tr("free"),
                None if used is None or not picture.ceiling else max(0.0, picture.ceiling - used),
            ),
            (self.tr("main memory"), memory.computer.used.at(x) if memory.is_of_card else None),
            (self.tr("swap"), memory.swap.at(x)),
            (self.tr("compressed"), memory.compressed.at(x)),
        ]
        level = memory.pressure.at(x)
        return [
            (clock_text(x), "" if phase is None else phase_words(phase)),
            *((name, numbers.memory(value)) for name, value in bytes_by_name if value is not None),
            *([(self.tr("pressure"), self._level_word(level))] if level is not None and level >= 0 else []),
        ]

    def empty_text(self) -> str:
        """Samples come once a second."""
        if len(self._picture):
            return ""
        return self.tr("Never measured") if self.is_over else self.tr("Not measured yet")

    def moments(self) -> list[tuple[float, str]]:
        """What loading went on to, too."""
        return [*marks(self.history.phases), *super().moments()]

    def taken_at_top(self, y: Span) -> int:
        """The words on the ceiling, where it is high enough."""
        return self._ceiling.taken_at_top(y, self.picture_rows())

    def decorate(self, x: Span, y: Span) -> None:
        """Draw ceilings and pressure."""
        self._draw_ceilings(y)
        self._band.draw(self.history.memory.pressure, x, y, (self._canvas.columns(), self._canvas.rows()))

    def colour(self, tokens: Tokens) -> None:
        """Red is for ceilings, and for pressure that is critical."""
        self._band.paint_with(tokens)
        font = self._canvas.axis_font
        for line in (self._ceiling, self._limit):
            line.paint_with(tokens, font)

    @property
    def _picture(self) -> MemoryPicture:
        return self.history.memory.picture

    def _wanted_lines(self) -> list[Line]:
        picture, swap = self._picture, self.history.memory.swap
        is_told_by_torch = len(picture.tensors) > 0
        lines = [
            Line("", picture.used, "others", Look.AREA),
            Line("", picture.used, "others", column="all_programs_bytes"),
            Line("", picture.run, "run", Look.AREA, WHOLE if is_told_by_torch else 1.0),
        ]
        if is_told_by_torch:
            lines += [
                Line("", picture.held, "run", Look.AREA, HELD, column="held_bytes"),
                Line("", picture.tensors, "run", Look.AREA, column="tensor_bytes"),
            ]
        lines.append(Line("", picture.run, "run", column="this_run_bytes"))
        if _has_swap(swap):
            lines.append(Line("", swap, "text", Look.DASHED, column="swap_bytes"))
        return lines

    def _draw_ceilings(self, y: Span) -> None:
        memory, picture = self.history.memory, self._picture
        rows = self.picture_rows()
        has = self.tr("the GPU has {}") if memory.is_of_card else self.tr("this computer has {}")
        self._ceiling.draw(picture.ceiling, has, y, rows)
        limit, ceiling = picture.limit, picture.ceiling
        is_own = limit is not None and (ceiling is None or limit < SAME_CEILING * ceiling)
        self._limit.draw(limit if is_own else None, self.tr("its GPU may have {}"), y, rows)

    def _level_word(self, level: float) -> str:
        words = [self.tr("normal"), self.tr("high"), self.tr("critical")]
        return dict(zip(LEVELS.values(), words, strict=True))[level]


def _has_swap(swap: Series) -> bool:
    return len(swap) > 0 and bool((swap.y >= LEAST_SWAP).any())
