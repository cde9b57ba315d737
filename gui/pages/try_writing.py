"""How a model writes on the page Try it: by chance or not, how much, until where; and what it is told before."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QVBoxLayout, QWidget

from core.trying import Writing
from gui.theme import SPACING
from gui.widgets.calm_inputs import CalmDoubleSpinBox, CalmSpinBox
from gui.widgets.flow_layout import FlowLayout
from gui.widgets.roles import Role, set_role

MOST_TOKENS = 32_768
LARGEST_SEED = 2**31 - 1


class WritingSettings(QWidget):
    """The fields; each says in its tool tip what it does."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        plain = Writing()
        self.temperature = CalmDoubleSpinBox()
        self.temperature.setRange(0.0, 2.0)
        self.temperature.setSingleStep(0.1)
        self.temperature.setDecimals(2)
        self.temperature.setValue(plain.temperature)
        self.max_tokens = _whole(1, MOST_TOKENS, plain.max_tokens)
        self.top_p = CalmDoubleSpinBox()
        self.top_p.setRange(0.01, 1.0)
        self.top_p.setSingleStep(0.05)
        self.top_p.setValue(plain.top_p)
        self.seed = _whole(0, LARGEST_SEED, plain.seed)
        self.stop_at = QLineEdit()
        self.stop_at.setPlaceholderText(self.tr("none"))
        self.system = QLineEdit()
        self.system.setPlaceholderText(self.tr("What the assistant is told before the conversation"))
        self._system_row = self._field(self.tr("System prompt"), self.system, "")
        self._lay_out()

    def writing(self) -> Writing:
        """What is chosen."""
        return Writing(
            max_tokens=self.max_tokens.value(),
            temperature=self.temperature.value(),
            top_p=self.top_p.value(),
            seed=self.seed.value(),
            stop_at=(self.stop_at.text(),) if self.stop_at.text() else (),
        )

    def offer_system(self, offered: bool) -> None:
        """Whether the model reads conversations, which may begin with a system prompt."""
        self._system_row.setVisible(offered)

    def _lay_out(self) -> None:
        line = QWidget()
        flow = FlowLayout(2 * SPACING, SPACING, line)
        tips = (
            (self.tr("Temperature"), self.temperature, self._temperature_tip()),
            (self.tr("Most tokens"), self.max_tokens, self.tr("An answer ends after so many tokens.")),
            (
                self.tr("Top-p"),
                self.top_p,
                self.tr("Draws among the likeliest tokens only that come to this share."),
            ),
            (self.tr("Seed"), self.seed, self.tr("The same seed draws the same answer.")),
            (self.tr("Stop at"), self.stop_at, self.tr("Writing ends where this text comes up.")),
        )
        for title, widget, tip in tips:
            flow.addWidget(self._field(title, widget, tip))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING)
        column.addWidget(self._system_row)
        column.addWidget(line)

    def _temperature_tip(self) -> str:
        return self.tr(
            "0: always the likeliest token, so that the same question gets the same answer. Higher: more by chance."
        )

    def _field(self, title: str, widget: QWidget, tip: str) -> QWidget:
        label = QLabel(title)
        label.setBuddy(widget)
        set_role(label, Role.LABEL)
        widget.setAccessibleName(title)
        for part in (label, widget):
            part.setToolTip(tip)
        made = QWidget()
        row = QHBoxLayout(made)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        row.addWidget(label)
        row.addWidget(widget, 1)
        return made


def _whole(least: int, most: int, value: int) -> CalmSpinBox:
    made = CalmSpinBox()
    made.setRange(least, most)
    made.setValue(value)
    made.setAlignment(Qt.AlignmentFlag.AlignLeft)
    return made
