"""The chart of what the processor does that trains: how busy it is, what it draws, how warm it is, how fast it runs."""

import math

import numpy as np

from core.base import formats
from core.base.formats import NumberFormat
from core.base.language import _
from core.runs.events import Throttle
from gui.base.tokens import Tokens
from gui.charts.axes import BYTES, CLOCK_SCALE, PERCENT, SHORTEST_CLOCK, XScale, clock_text
from gui.charts.chart import Chart, Stage
from gui.charts.history import LEVELS, DevicePicture, MemoryPicture, RunHistory
from gui.charts.overlays import CeilingLine, PressureBand, Reading, Span, marks, phase_text, stretches
from gui.charts.series import Line, Look, Series


class ClockChart(Chart):
    """Base of the charts that always lie over time, as memory and processors are busy between steps, too."""

    @property
    def shown(self) -> DevicePicture | MemoryPicture:
        """What is drawn."""
        raise NotImplementedError

    def x_scale(self) -> XScale:
        return CLOCK_SCALE

    def x_span(self) -> Span:
        return 0.0, max(SHORTEST_CLOCK, self.history.last_clock)

    def empty_text(self) -> str:
        if len(self.shown):
            return ""
        return _("Never measured") if self.is_over else _("Not measured yet")


class DeviceChart(ClockChart):
    """One height for figures of several kinds: each in percent of its limit, a temperature in degrees Celsius.

    Power and clock count against what the device may have at most; where nobody tells, against the most so far. The
    legend and the box at the cursor have the figures themselves.
    """

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self._band = PressureBand()
        super().__init__(_("Device"), stage, history, PERCENT)
        self.add_decoration(self._band)

    def y_span(self, drawn: Span) -> Span:
        return 0.0, max(100.0, drawn[1])

    def readings(self, x: float | None) -> list[Reading]:
        picture = self.shown
        found: list[Reading] = []
        reasons = self._reasons_at(x)
        if reasons:
            found.append(Reading(_("held back: {}").format(", ".join(reasons)), "warn"))
        told: tuple[tuple[Series, NumberFormat, str], ...] = (
            (picture.busy, formats.whole_percent, "run"),
            (picture.temperature, _celsius, "optimizer"),
            (picture.power, _watts, "gradients"),
            (picture.clock, _gigahertz, "others"),
        )
        for series, write, colour in told:
            value = series.at(x)
            if value is not None and math.isfinite(value):
                words = _("busy {}") if series is picture.busy else "{}"
                found.append(Reading(words.format(write(value)), colour))
        return found if x is None else [*found, Reading(clock_text(x))]

    def details(self, x: float) -> list[tuple[str, str]]:
        picture, devices = self.shown, self.history.devices
        cpu = devices.cpu.busy if picture is not devices.cpu else Series()
        values: tuple[tuple[str, Series, NumberFormat], ...] = (
            (_("busy"), picture.busy, formats.whole_percent),
            (_("temperature"), picture.temperature, _celsius),
            (_("power"), picture.power, lambda value: self._of(value, picture.power_limit, "W")),
            (_("clock"), picture.clock, lambda value: self._of(value, picture.clock_limit, "MHz")),
            (_("thermal state"), picture.thermal, self._thermal_text),
            (_("CPU busy"), cpu, formats.whole_percent),
            (_("battery"), devices.battery, formats.whole_percent),
            (_("free on disk"), devices.disk_free, formats.memory),
        )
        reasons = self._reasons_at(x)
        return [
            (clock_text(x), picture.name),
            *(
                (name, write(value))
                for name, series, write in values
                if (value := series.at(x)) is not None and math.isfinite(value)
            ),
            *([(_("held back"), ", ".join(reasons))] if reasons else []),
        ]

    def decorate(self, x: Span, y: Span) -> None:
        spans = [found for found in self.shown.throttled if found[1] >= x[0] and found[0] <= x[1]]
        begins, ends = (np.array([found[edge] for found in spans]) for edge in (0, 1))
        self._band.draw((begins, ends + 1.0, np.ones(len(spans))), x, y, self._canvas)

    def colour(self, tokens: Tokens) -> None:
        self._band.paint_with(tokens)

    @property
    def shown(self) -> DevicePicture:
        return self.history.devices.picture

    def wanted_lines(self) -> list[Line]:
        picture = self.shown
        wanted = (
            (picture.clock, "others", _share_of(picture.clock, picture.clock_limit), "clock_mhz"),
            (picture.power, "gradients", _share_of(picture.power, picture.power_limit), "power_watts"),
            (picture.temperature, "optimizer", 1.0, "temperature_celsius"),
            (picture.busy, "run", 100.0, "busy"),
        )
        return [
            Line("", series, colour, factor=factor, column=column)
            for series, colour, factor, column in wanted
            if len(series)
        ]

    def _reasons_at(self, x: float | None) -> tuple[str, ...]:
        """What holds it back there, or at the end, in the person's language."""
        picture = self.shown
        moment = picture.last_clock if x is None else x
        stretches = reversed(picture.throttled)
        found = next((reasons for low, high, reasons in stretches if low <= moment <= high + 1.0), ())
        words = self._throttle_text()
        return tuple(words.get(reason, reason) for reason in found)

    def _throttle_text(self) -> dict[str, str]:
        return {
            Throttle.POWER_CAP: _("its power limit"),
            Throttle.POWER_BRAKE: _("the power supply"),
            Throttle.THERMAL_SOFTWARE: _("heat"),
            Throttle.THERMAL_HARDWARE: _("great heat"),
            Throttle.HARDWARE: _("heat or power"),
            Throttle.PRESSURE: _("heat"),
            Throttle.HOT: _("heat"),
        }

    def _of(self, value: float, limit: float | None, unit: str) -> str:
        words = formats.three_figures(value)
        if limit is None:
            return f"{words} {unit}"
        return _("{} of {} {}").format(words, formats.three_figures(limit), unit)

    def _thermal_text(self, level: float) -> str:
        words = (
            _("normal"),
            _("warm"),
            _("hot, slowed down"),
            _("very hot, slowed down much"),
            _("too hot to work"),
        )
        return words[max(0, min(len(words) - 1, round(level)))]


def _share_of(series: Series, limit: float | None) -> float:
    """What a value is multiplied by to be percent of its limit, or of the most so far."""
    most = limit or (series.extremes() or (0.0, 0.0))[1]
    return 100.0 / most if most > 0 else 1.0


def _celsius(value: float) -> str:
    return f"{value:.0f} °C"


def _watts(value: float) -> str:
    return f"{formats.three_figures(value)} W"


def _gigahertz(megahertz: float) -> str:
    return f"{megahertz / 1000:.2f} GHz"


CEILING_IN_PICTURE = 0.25
"""From this share of the ceiling on, the ceiling is drawn; further below it would squash what is in use."""

SAME_CEILING = 0.97
"""A limit of the run that is so near the ceiling needs no line of its own."""

HELD, WHOLE = 0.6, 0.35
"""Strength of the colour where tensors aren't: what is held for them, and the rest of the run."""

LEAST_SWAP = 16 << 20
"""Bytes; below, nothing worth a line lies in swap."""


class MemoryChart(ClockChart):
    """Memory of this run under that of all other programs, and how much there is.

    One picture: that of the graphics card where the run computes on one with a memory of its own, else the computer's.
    """

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self._ceiling, self._limit = CeilingLine(0.995), CeilingLine(0.4)
        self._band = PressureBand()
        super().__init__(_("Memory"), stage, history, BYTES)
        for item in (self._ceiling, self._limit, self._band):
            self.add_decoration(item)

    def y_span(self, drawn: Span) -> Span:
        ceiling = self.shown.ceiling
        if ceiling is not None and drawn[1] >= CEILING_IN_PICTURE * ceiling:
            return 0.0, max(drawn[1], 1.04 * ceiling)
        return 0.0, 1.1 * drawn[1]

    def readings(self, x: float | None) -> list[Reading]:
        picture, memory = self.shown, self.history.memory
        found: list[Reading] = []
        mine, everyone = picture.run.at(x), picture.used.at(x)
        if mine is not None:
            found.append(Reading(_("this run {}").format(formats.memory(mine)), "run"))
        if everyone is not None:
            others = formats.memory(everyone - (mine or 0.0))
            found.append(Reading(_("others {}").format(others), "others"))
        level = memory.pressure.at(x)
        if level is not None and level > 0:
            words = _("pressure {}").format(self._level_word(level))
            found.append(Reading(words, "bad" if level > 1 else "warn"))
        swap = memory.swap.at(x)
        if swap is not None and swap >= LEAST_SWAP:
            found.append(Reading(_("swap {}").format(formats.memory(swap)), "text"))
        if x is None and picture.ceiling is not None and not self._ceiling.isVisible():
            found.append(Reading(_("of {}").format(formats.memory_tick(picture.ceiling))))
        elif everyone is not None and picture.ceiling is not None:
            free = formats.memory(max(0.0, picture.ceiling - everyone))
            found.append(Reading(_("free {}").format(free)))
        return found if x is None else [*found, Reading(clock_text(x))]

    def details(self, x: float) -> list[tuple[str, str]]:
        picture, memory = self.shown, self.history.memory
        phase = self.history.phase_at(x)
        run, used = picture.run.at(x), picture.used.at(x)
        bytes_by_name = [
            (_("tensors"), picture.tensors.at(x)),
            (_("held"), picture.held.at(x)),
            (_("this run"), run),
            (_("others"), None if used is None else used - (run or 0.0)),
            (
                _("free"),
                None if used is None or not picture.ceiling else max(0.0, picture.ceiling - used),
            ),
            (_("main memory"), memory.computer.used.at(x) if memory.is_of_card else None),
            (_("swap"), memory.swap.at(x)),
            (_("compressed"), memory.compressed.at(x)),
        ]
        level = memory.pressure.at(x)
        return [
            (clock_text(x), "" if phase is None else phase_text(phase)),
            *((name, formats.memory(value)) for name, value in bytes_by_name if value is not None),
            *([(_("pressure"), self._level_word(level))] if level is not None and level >= 0 else []),
        ]

    def moments(self) -> list[tuple[float, str]]:
        return [*marks(self.history.phases), *super().moments()]

    def taken_at_top(self, y: Span) -> float:
        return self._ceiling.taken_at_top(y, self._canvas.rows())

    def decorate(self, x: Span, y: Span) -> None:
        memory, picture = self.history.memory, self.shown
        rows = self._canvas.rows()
        has = _("the GPU has {}") if memory.is_of_card else _("this computer has {}")
        self._ceiling.draw(picture.ceiling, has, y, rows)
        limit, ceiling = picture.limit, picture.ceiling
        is_own = limit is not None and (ceiling is None or limit < SAME_CEILING * ceiling)
        self._limit.draw(limit if is_own else None, _("its GPU may have {}"), y, rows)
        short = stretches(*memory.pressure.reduced(*x, self._canvas.columns()))
        self._band.draw(short, x, y, self._canvas)

    def colour(self, tokens: Tokens) -> None:
        self._band.paint_with(tokens)
        for line in (self._ceiling, self._limit):
            line.paint_with(tokens, self._canvas.axis_font)

    @property
    def shown(self) -> MemoryPicture:
        return self.history.memory.picture

    def wanted_lines(self) -> list[Line]:
        picture, swap = self.shown, self.history.memory.swap
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
        if (swap.extremes() or (0.0, 0.0))[1] >= LEAST_SWAP:
            lines.append(Line("", swap, "text", Look.DASHED, column="swap_bytes"))
        return lines

    def _level_word(self, level: float) -> str:
        words = [_("normal"), _("high"), _("critical")]
        return dict(zip(LEVELS.values(), words, strict=True))[level]
