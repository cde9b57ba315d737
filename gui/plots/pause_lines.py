"""What steps waited for, as upright lines between them: evaluations and checkpoints, each as high as it took long."""

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg

from gui.models.run_history import Pause
from gui.plots.x_scale import XScale
from gui.theme import Tokens


class PauseLines(pg.PlotDataItem):
    """Lines from zero up. A pause that takes longer than the picture is high runs out at its top."""

    def __init__(self) -> None:
        super().__init__(connect="pairs")
        self.setZValue(-5)

    def paint_with(self, tokens: Tokens) -> None:
        """Take the colours in force."""
        self.setPen(pg.mkPen(tokens.gradients, width=1))

    def draw(self, pauses: Sequence[Pause], low: float, high: float, columns: int, scale: XScale) -> None:
        """Draw the longest pause of each pixel column.

        Args:
            pauses: All of the run, in their order.
            low: The step at which the picture begins.
            high: The step at which it ends.
            columns: Its pixels.
            scale: Turns steps into places on the axis.
        """
        steps = np.array([float(pause.step) for pause in pauses])
        seconds = np.array([pause.seconds for pause in pauses])
        inside = (steps >= low) & (steps <= high)
        steps, seconds = longest_of_each(steps[inside], seconds[inside], (high - low) / max(1, columns))
        places = scale.to_axis(steps) if len(steps) else steps
        self.setData(np.repeat(places, 2), np.column_stack([np.zeros(len(seconds)), seconds]).ravel())


def longest_of_each(steps: np.ndarray, seconds: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """The longest pause of each stretch of `width` steps. Shapes (n,) in, (k,) out, in the order of steps."""
    if len(steps) <= 1 or width <= 0:
        return steps, seconds
    columns = np.floor(steps / width)
    order = np.lexsort((-seconds, columns))
    _, first = np.unique(columns[order], return_index=True)
    kept = order[first]
    return steps[kept], seconds[kept]


def share_between(pauses: Sequence[Pause], low: float, high: float, begun: float, ended: float) -> float:
    """What pauses after the steps from `low` to `high` take of the seconds from `begun` to `ended`, 0 to 1."""
    taken = sum(pause.seconds for pause in pauses if low <= pause.step <= high)
    return min(1.0, taken / (ended - begun)) if ended > begun else 0.0
