""" "What is this?": each part of the memory by a sentence, a formula and its source, and the largest layers."""

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from core.memory.explanations import PartExplained
from core.memory.forecast import Forecast
from gui.numbers import memory
from gui.pages.new_run_fit_words import basis_help, undivided_words
from gui.theme import SPACING
from gui.widgets.fitting_scroll import PageScroll
from gui.widgets.key_value import Group, KeyValue, Row

SIZE = (680, 600)
MOST_LAYERS = 8

_translate = QCoreApplication.translate


class ExplainedSheet(QDialog):
    """What a forecast consists of.

    Args:
        forecast: What is shown.
        parts: Its parts, explained; none: only the whole is known.
        parent: Qt's parent.
    """

    def __init__(
        self, forecast: Forecast, parts: Sequence[PartExplained], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("What takes the memory"))
        self.resize(*SIZE)
        words = QLabel(" ".join((basis_help(forecast.basis), *forecast.notes)))
        words.setWordWrap(True)
        self.rows = KeyValue()
        self.rows.set_groups(groups(forecast, parts))
        content = QWidget()
        body = QVBoxLayout(content)
        body.setContentsMargins(0, 0, SPACING, 0)
        body.addWidget(self.rows)
        body.addStretch(1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 4)
        layout.addWidget(words)
        layout.addWidget(PageScroll(content), 1)
        layout.addWidget(buttons)


def groups(forecast: Forecast, parts: Sequence[PartExplained]) -> list[Group]:
    """The parts, and the largest layers where they were traced."""
    explained = tuple(Row(part.title, f"{memory(part.bytes)}. {part.sentence}", _how(part)) for part in parts)
    whole = Row(_translate("Fit", "Held in all"), f"{memory(forecast.parts.total)}. {undivided_words()}")
    found = [Group(_translate("Fit", "Parts"), explained or (whole,))]
    if forecast.layers:
        layers = tuple(Row(layer.name, memory(layer.bytes)) for layer in forecast.layers[:MOST_LAYERS])
        found.append(Group(_translate("Fit", "Largest layers"), layers))
    return found


def _how(part: PartExplained) -> str:
    """The formula, and below it where it is from."""
    source = _translate("Fit", "Source: {source}").format(source=part.source) if part.source else ""
    return "\n".join(line for line in (part.formula, source) if line)
