"""What is chosen for all charts of a run page: over what they lie, how losses are smoothed, which part is shown."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from gui.plots.shared_view import SharedView, Smoothing, XKind
from gui.theme import SPACING
from gui.widgets.roles import Role, set_flag, set_role
from gui.widgets.segmented import Segment, Segmented


class ChartBar(QWidget):
    """A line of controls above the charts. It says what the view says, and changes it."""

    def __init__(self, view: SharedView, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self.x_kind = Segmented(
            (
                Segment(XKind.STEP, self.tr("Steps"), self.tr("Draw over training steps")),
                Segment(XKind.EPOCH, self.tr("Epochs"), self.tr("Draw over passes through the data")),
                Segment(
                    XKind.TIME,
                    self.tr("Time"),
                    self.tr("Draw over the time since the start, as memory and device always are"),
                ),
            )
        )
        self.x_kind.setAccessibleName(self.tr("Charts over"))
        self.smoothing = Segmented(
            (
                Segment(Smoothing.OFF, self.tr("Off"), self.tr("The loss of each step as it came")),
                Segment(Smoothing.LIGHT, self.tr("Light"), self.tr("Over about the last 20 steps")),
                Segment(Smoothing.STRONG, self.tr("Strong"), self.tr("Over about the last 100 steps")),
            )
        )
        self.smoothing.setAccessibleName(self.tr("Smoothing of the loss"))
        self.follow = _link(self.tr("Follow the end"))
        self.follow.setCheckable(True)
        set_flag(self.follow, "stays", True)
        self.follow.setToolTip(
            self.tr(
                "Show the newest part and move along with it. Drag across a chart to choose how much of it."
            )
        )
        self.show_all = _link(self.tr("Whole run"))
        self.show_all.setToolTip(self.tr("A double click on a chart does the same"))
        self._lay_out()
        self.x_kind.chosen.connect(self._lie_over)
        self.smoothing.chosen.connect(self._smooth)
        self.follow.toggled.connect(view.follow)
        self.show_all.clicked.connect(self._show_all)
        view.changed.connect(self._tell)
        self._tell()

    def offer_following(self, is_live: bool) -> None:
        """A run that is over has no end to follow."""
        self.follow.setVisible(is_live)
        if not is_live:
            self._view.follow(False)

    def _lay_out(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        row.addWidget(self.x_kind)
        row.addSpacing(SPACING)
        row.addWidget(_label(self.tr("Smoothing")))
        row.addWidget(self.smoothing)
        row.addStretch(1)
        row.addWidget(self.follow)
        row.addWidget(self.show_all)

    def _lie_over(self, kind: str) -> None:
        self._view.lie_over(XKind(kind))

    def _smooth(self, smoothing: str) -> None:
        self._view.smooth(Smoothing(smoothing))

    def _show_all(self) -> None:
        self._view.zoom_to(None)

    def _tell(self) -> None:
        self.x_kind.set_value(self._view.x_kind)
        self.smoothing.set_value(self._view.smoothing)
        self.follow.setChecked(self._view.follows)
        self.show_all.setEnabled(self._view.stretch is not None)


def _label(words: str) -> QLabel:
    label = QLabel(words, alignment=Qt.AlignmentFlag.AlignVCenter)
    set_role(label, Role.MUTED)
    return label


def _link(words: str) -> QPushButton:
    button = QPushButton(words)
    set_role(button, Role.LINK)
    return button
