"""The texts of a chart: its legend, and the box at the cursor."""

from gui.charts.chart import Chart


def legend_of(chart: Chart) -> str:
    chart.redraw()
    return chart._canvas.accessibleDescription()


def box_at(chart: Chart, x: float) -> dict[str, str]:
    """The values in the box at the position `x` of the series, by their names."""
    readings = [*chart.position_readings(x), *chart.readings(x), *chart.details(x)]
    return {reading.name: reading.value for reading in readings if reading.name}
