"""The texts of a chart, its legend and the box at the cursor, and a history that takes single events."""

from core.runs.events import Event
from gui.charts.chart import Chart
from gui.charts.history import BatchBuilder, RunHistory


class EventHistory(RunHistory):
    """A history of events that are applied one by one."""

    def __init__(self) -> None:
        super().__init__()
        self._builder = BatchBuilder()

    def apply(self, event: Event) -> None:
        self._builder.add([event])
        for batch in self._builder.build():
            self.add(batch)


def legend_of(chart: Chart) -> str:
    chart.redraw()
    return chart.canvas.accessibleDescription()


def box_at(chart: Chart, x: float) -> dict[str, str]:
    """The values in the box at the position `x` of the series, by their names."""
    readings = [*chart.position_readings(x), *chart.readings(x), *chart.details(x)]
    return {reading.name: reading.value for reading in readings if reading.name}
