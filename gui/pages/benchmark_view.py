"""What the views of both kinds of benchmarks have in common: charts, a table, what is to be known of the figures."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QLabel, QVBoxLayout, QWidget

from core.bench.result import Result
from gui.pages.benchmark_words import mark_words, rows_of
from gui.theme import SPACING, Theme
from gui.widgets.figures_table import FiguresTable, on_card
from gui.widgets.roles import Role, set_role


class BenchView(QWidget):
    """As high as it needs to be; what is around scrolls.

    Signals:
        published_toggled: Whether the person wants figures published by others beside.

    Args:
        theme: The colours.
        name: What the table is called for a screen reader.
        published: Whose figures can be shown beside, in sentences.
        parent: Qt's parent.
        is_picture: Whether nobody can press anything in it.
    """

    published_toggled = Signal(bool)

    def __init__(
        self,
        theme: Theme,
        name: str,
        published: str,
        parent: QWidget | None = None,
        *,
        is_picture: bool = False,
    ) -> None:
        super().__init__(parent)
        self._is_picture = is_picture
        self._result: Result | None = None
        self._underway: str | None = None
        self._published_words = published
        self.table = FiguresTable(name, theme)
        self.published = QCheckBox(self.tr("Show figures published by others beside"))
        self.published.setToolTip(published)
        self.published.toggled.connect(self._toggle)
        self.note = QLabel()
        self.note.setWordWrap(True)
        self.note.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self.note, Role.HINT)

    @property
    def result(self) -> Result | None:
        """What is shown."""
        return self._result

    @property
    def shows_published(self) -> bool:
        """Whether figures published by others stand beside."""
        return self.published.isChecked()

    def show_published(self, are_shown: bool) -> None:
        """Show figures published by others beside, or no longer."""
        self.published.setChecked(are_shown)

    def show_result(self, result: Result, underway: str | None = None) -> None:
        """Show what there is so far.

        Args:
            result: A benchmark of this kind, finished or not.
            underway: The name of the rung that is being measured.
        """
        self._result, self._underway = result, underway
        self._show(result, underway)
        has_published = self._has_published(result)
        self.published.setVisible(has_published and not self._is_picture)
        beside = self._published_words if self.shows_published and has_published else ""
        words = "\n".join(part for part in (mark_words(rows_of(result)), beside) if part)
        self.note.setText(words)
        self.note.setVisible(bool(words))

    def _show(self, result: Result, underway: str | None) -> None:
        """Fill charts and table."""
        raise NotImplementedError

    def _has_published(self, result: Result) -> bool:
        """Whether others have published figures of any of it."""
        raise NotImplementedError

    def _toggle(self, are_shown: bool) -> None:
        if self._result is not None:
            self.show_result(self._result, self._underway)
        self.published_toggled.emit(are_shown)

    def _lay_out(self, charts: QWidget) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING + 4)
        for widget in (charts, on_card(self.table), self.published, self.note):
            column.addWidget(widget)
        column.addStretch(1)
