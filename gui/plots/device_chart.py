"""The chart of what the processor does that trains: how busy it is, what it draws, how warm it is, how fast it runs."""

import math

import numpy as np
from PySide6.QtCore import QCoreApplication

from core.machine.throttling import Throttle
from gui import numbers
from gui.models.device_history import DevicePicture
from gui.models.run_history import RunHistory
from gui.numbers import NumberFormat
from gui.plots.axes import PERCENT, clock_text
from gui.plots.chart import Chart, Reading, Span, Stage
from gui.plots.lines import Line
from gui.plots.pressure_band import PressureBand
from gui.plots.series import Series
from gui.plots.x_scale import CLOCK_SCALE, SHORTEST_CLOCK, XScale
from gui.theme import Tokens


class DeviceChart(Chart):
    """One height for figures of several kinds: each in percent of its limit, a temperature in degrees Celsius.

    Power and clock count against what the device may have at most; where nobody tells, against the most so far. The
    legend and the box at the cursor have the figures themselves.
    """

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self._band = PressureBand()
        super().__init__(QCoreApplication.translate("DeviceChart", "Device"), stage, history, PERCENT)
        self.add_decoration(self._band)

    def refresh(self) -> None:
        """Take in figures that were told for the first time."""
        wanted = self._wanted_lines()
        if wanted != self.lines:
            self.set_lines(wanted)
        super().refresh()

    def x_scale(self) -> XScale:
        """Time, always: a device is warm between steps, too."""
        return CLOCK_SCALE

    def x_span(self) -> Span:
        """From the start until now."""
        return 0.0, max(SHORTEST_CLOCK, self.history.last_clock)

    def y_span(self, drawn: Span) -> Span:
        """From nothing to the limit."""
        return 0.0, max(100.0, drawn[1])

    def readings(self, x: float | None) -> list[Reading]:
        """Busy, temperature, power, clock; and that it is held back."""
        picture = self._picture
        found: list[Reading] = []
        reasons = self._reasons_at(x)
        if reasons:
            found.append(Reading(self.tr("held back: {}").format(", ".join(reasons)), "warn"))
        told: tuple[tuple[Series, NumberFormat, str], ...] = (
            (picture.busy, numbers.whole_percent, "run"),
            (picture.temperature, _celsius, "optimizer"),
            (picture.power, _watts, "gradients"),
            (picture.clock, _gigahertz, "others"),
        )
        for series, write, colour in told:
            value = series.read(x)
            if value is not None and math.isfinite(value):
                words = self.tr("busy {}") if series is picture.busy else "{}"
                found.append(Reading(words.format(write(value)), colour))
        return found if x is None else [*found, Reading(clock_text(x))]

    def details(self, x: float) -> list[tuple[str, str]]:
        """All that is known of a moment."""
        picture, devices = self._picture, self.history.devices
        cpu = devices.cpu.busy if picture is not devices.cpu else Series()
        values: tuple[tuple[str, Series, NumberFormat], ...] = (
            (self.tr("busy"), picture.busy, numbers.whole_percent),
            (self.tr("temperature"), picture.temperature, _celsius),
            (self.tr("power"), picture.power, lambda value: self._of(value, picture.power_limit, "W")),
            (self.tr("clock"), picture.clock, lambda value: self._of(value, picture.clock_limit, "MHz")),
            (self.tr("thermal state"), picture.thermal, self._thermal_words),
            (self.tr("CPU busy"), cpu, numbers.whole_percent),
            (self.tr("battery"), devices.battery, numbers.whole_percent),
            (self.tr("free on disk"), devices.disk_free, numbers.memory),
        )
        reasons = self._reasons_at(x)
        return [
            (clock_text(x), picture.name),
            *(
                (name, write(value))
                for name, series, write in values
                if (value := series.at(x)) is not None and math.isfinite(value)
            ),
            *([(self.tr("held back"), ", ".join(reasons))] if reasons else []),
        ]

    def empty_text(self) -> str:
        """Samples come once a second."""
        if len(self._picture):
            return ""
        return self.tr("Never measured") if self.is_over else self.tr("Not measured yet")

    def decorate(self, x: Span, y: Span) -> None:
        """Draw where the device was held back."""
        spans = [found for found in self._picture.throttled if found[1] >= x[0] and found[0] <= x[1]]
        begins, ends = (np.array([found[edge] for found in spans]) for edge in (0, 1))
        size = self._canvas.columns(), self._canvas.rows()
        self._band.show_stretches((begins, ends + 1.0, np.ones(len(spans))), x, y, size)

    def colour(self, tokens: Tokens) -> None:
        """Amber is for what holds it back."""
        self._band.paint_with(tokens)

    @property
    def _picture(self) -> DevicePicture:
        return self.history.devices.picture

    def _wanted_lines(self) -> list[Line]:
        picture = self._picture
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
        picture = self._picture
        moment = picture.last_clock if x is None else x
        stretches = reversed(picture.throttled)
        found = next((reasons for low, high, reasons in stretches if low <= moment <= high + 1.0), ())
        words = self._throttle_words()
        return tuple(words.get(reason, reason) for reason in found)

    def _throttle_words(self) -> dict[str, str]:
        return {
            Throttle.POWER_CAP: self.tr("its power limit"),
            Throttle.POWER_BRAKE: self.tr("the power supply"),
            Throttle.THERMAL_SOFTWARE: self.tr("heat"),
            Throttle.THERMAL_HARDWARE: self.tr("great heat"),
            Throttle.HARDWARE: self.tr("heat or power"),
            Throttle.PRESSURE: self.tr("heat"),
            Throttle.HOT: self.tr("heat"),
        }

    def _of(self, value: float, limit: float | None, unit: str) -> str:
        words = numbers.three_figures(value)
        if limit is None:
            return f"{words} {unit}"
        return self.tr("{} of {} {}").format(words, numbers.three_figures(limit), unit)

    def _thermal_words(self, level: float) -> str:
        words = (
            self.tr("normal"),
            self.tr("warm"),
            self.tr("hot, slowed down"),
            self.tr("very hot, slowed down much"),
            self.tr("too hot to work"),
        )
        return words[max(0, min(len(words) - 1, round(level)))]


def _share_of(series: Series, limit: float | None) -> float:
    """What a value is multiplied by to be percent of its limit, or of the most so far."""
    most = limit or (series.extremes() or (0.0, 0.0))[1]
    return 100.0 / most if most > 0 else 1.0


def _celsius(value: float) -> str:
    return f"{value:.0f} °C"


def _watts(value: float) -> str:
    return f"{numbers.three_figures(value)} W"


def _gigahertz(megahertz: float) -> str:
    return f"{megahertz / 1000:.2f} GHz"
