"""Where the trained model of a run is, and a button that shows it."""

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from gui import numbers
from gui.theme import SPACING
from gui.widgets.path_line import PathLabel
from gui.widgets.roles import Role, set_role


class RunModel(QWidget):
    """A line with the model's folder; hidden while there is none.

    Signals:
        reveal_pressed: The `Path` of the model's folder, to be shown in the file manager.
    """

    reveal_pressed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._folder: Path | None = None
        self.title = QLabel(self.tr("Trained model"))
        set_role(self.title, Role.MUTED)
        self.path = PathLabel()
        self.button = QPushButton(self.tr("Show the model"))
        set_role(self.button, Role.LINK)
        self.button.clicked.connect(self._reveal)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        for widget in (self.title, self.path, self.button):
            row.addWidget(widget)
        row.addStretch(1)
        self.hide()

    def show_model(self, folder: Path | None, step: int | None = None) -> None:
        """Say that the model is in this folder; None: there is none. `step` is told where it isn't the run's last."""
        self._folder = folder
        of_step = self.tr("Trained model of step {}")
        self.title.setText(self.tr("Trained model") if step is None else of_step.format(numbers.count(step)))
        self.path.setText("" if folder is None else str(folder))
        self.path.setAccessibleName("" if folder is None else self.tr("Trained model: {}").format(folder))
        self.setVisible(folder is not None)

    def _reveal(self) -> None:
        if self._folder is not None:
            self.reveal_pressed.emit(self._folder)
