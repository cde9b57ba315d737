"""The labels of the data: how many examples each has, and a box for its name."""

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QLineEdit, QSizePolicy, QVBoxLayout, QWidget

from core.base.language import _
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.widgets.bars import Meter
from gui.widgets.labels import ElidedLabel, text_label
from gui.widgets.layout import PageScroll, clear, fill

MARGINS = (0, SPACING // 2, 0, 0)
NAME_LETTERS, BOX_LETTERS = 24, 18


class LabelsPane(QWidget):
    """A line for each label, the rarest first: what is too rare is what the person has to see."""

    named = Signal(str, str)  # a label, and its name; empty: none

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._counts: Mapping[str, int] = {}
        self._is_editable = False
        self.boxes: dict[str, QLineEdit] = {}
        content = QWidget()
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(SPACING)
        self._grid.setVerticalSpacing(SPACING // 2)
        self._grid.setColumnStretch(2, 1)
        self._help = text_label(
            _("The trained model answers with these names. Without a name it answers with the label."),
            Role.HINT,
        )
        fill(QVBoxLayout(content), self._grid, None, margins=(0, 0, SPACING, 0))
        fill(QVBoxLayout(self), self._help, (PageScroll(content), 1), margins=MARGINS, spacing=SPACING)

    def show_labels(self, counts: Mapping[str, int], names: Mapping[str, str], *, is_editable: bool) -> None:
        """Show how many examples each label has, and the names given to them, which may be edited."""
        if (counts, is_editable) != (self._counts, self._is_editable):
            self._counts, self._is_editable = dict(counts), is_editable
            self._build()
        self._help.setVisible(is_editable)
        for label, box in self.boxes.items():
            if not box.hasFocus():
                box.setText(names.get(label, ""))

    def focus_first(self) -> None:
        """Let the person type the first name."""
        next(iter(self.boxes.values())).setFocus()

    def _build(self) -> None:
        clear(self._grid)
        self.boxes.clear()
        most = max(self._counts.values(), default=0)
        letter = self.fontMetrics().averageCharWidth()
        ordered = sorted(self._counts.items(), key=lambda pair: pair[1])
        for line, (label, count) in enumerate(ordered):
            text = " ".join(label.split())
            name, meter, figure = ElidedLabel(text), Meter(self._theme, "run", text), QLabel(f"{count:,}")
            meter.show_share(count / most if most else 0.0, "run")
            name.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
            name.setMaximumWidth(NAME_LETTERS * letter)
            figure.setAlignment(Qt.AlignmentFlag.AlignTrailing | Qt.AlignmentFlag.AlignVCenter)
            for part in (name, figure):
                set_role(part, Role.MUTED)
            for column, widget in ((0, name), (2, meter), (3, figure)):
                self._grid.addWidget(widget, line, column)
            if self._is_editable:
                box = self.boxes[label] = QLineEdit(placeholderText=_("Name"))
                box.setAccessibleName(_("Name of label {label}").format(label=text))
                box.setFixedWidth(BOX_LETTERS * letter)
                box.setAcceptDrops(False)  # a file dropped anywhere is the data
                box.editingFinished.connect(partial(self._on_edited, label))
                name.setBuddy(box)
                self._grid.addWidget(box, line, 1)
        spoken = ", ".join(f"{label}: {count:,}" for label, count in ordered)
        self.setAccessibleName(_("Examples per label: {counts}").format(counts=spoken))

    def _on_edited(self, label: str) -> None:
        self.named.emit(label, self.boxes[label].text().strip())
