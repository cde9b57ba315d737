"""What came of a run: figures side by side, each under its name."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QSizePolicy, QVBoxLayout, QWidget

from gui.theme import SPACING
from gui.widgets.flow_layout import FlowLayout
from gui.widgets.roles import Role, set_role


class RunFigures(QWidget):
    """Titles above values, in a row, and in a second one where the window is narrow; hidden while there are none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._row = FlowLayout(4 * SPACING, SPACING, self)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self._shown: list[tuple[str, str]] = []
        self.hide()

    def show_figures(self, figures: list[tuple[str, str]]) -> None:
        """Show these titles and values."""
        self.setVisible(bool(figures))
        if figures == self._shown:
            return
        self._shown = figures
        while (item := self._row.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.deleteLater()
        for title, value in figures:
            self._row.addWidget(_figure(title, value))

    @property
    def text(self) -> str:
        """Everything shown, as one line."""
        return ", ".join(f"{title} {value}" for title, value in self._shown)


def _figure(title: str, value: str) -> QWidget:
    name, figure = QLabel(title), QLabel(value)
    set_role(name, Role.MUTED)
    set_role(figure, Role.STRONG)
    figure.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    figure.setAccessibleName(f"{title}: {value}")
    made = QWidget()
    column = QVBoxLayout(made)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    column.addWidget(name)
    column.addWidget(figure)
    return made
