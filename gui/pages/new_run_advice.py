"""What to do about a model that is too large, folded below the options that are for it."""

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QHBoxLayout, QWidget

from core.big_models import big_model_advice
from gui.widgets.disclosure import Disclosure
from gui.widgets.form_row import field_indent

_translate = QCoreApplication.translate


class BigModelAdvice(QWidget):
    """The guides' decision tree as a list: the first line that holds is the one to take."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._words = Disclosure(_translate("NewRun", "Which one?"))
        self._words.show_words(
            _translate("NewRun", "For a model that doesn't fit."),
            [
                _translate("NewRun", "{condition}: {advice}").format(
                    condition=found.condition, advice=found.advice
                )
                for found in big_model_advice()
            ],
        )
        self._words.show()
        row = QHBoxLayout(self)
        row.setContentsMargins(field_indent(self), 0, 0, 0)
        row.addWidget(self._words, 1)

    @property
    def words(self) -> Disclosure:
        """The folded list."""
        return self._words
