"""How long the samples are: a histogram with the line where they are cut off, and the same in words."""

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from core.data_report import DataReport, Lengths
from gui.theme import SPACING, Theme
from gui.widgets.length_bars import LengthBars, cut_by
from gui.widgets.roles import Role, set_role

TOKENS = "tokens"


class LengthsPane(QWidget):
    """Bars and words; the line follows the option at once, before the data has been counted anew."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lengths: Lengths | None = None
        self._rows = 0
        self._limit: int | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, SPACING // 2, 0, 0)
        layout.setSpacing(SPACING // 2)
        self._words = QLabel()
        self._words.setWordWrap(True)
        set_role(self._words, Role.HINT)
        self._bars = LengthBars(theme)
        layout.addWidget(self._bars, 1)
        layout.addWidget(self._words)

    def show_report(self, report: DataReport | None) -> None:
        """Show the lengths of a report."""
        self._lengths = report.lengths if report is not None else None
        self._rows = sum(self._lengths.counts) if self._lengths else 0
        self._show()

    def set_limit(self, limit: int | None) -> None:
        """Cut off after so many tokens."""
        self._limit = limit
        self._show()

    @property
    def words(self) -> str:
        """What is said below the bars."""
        return self._words.text()

    @property
    def bars(self) -> LengthBars:
        """The histogram."""
        return self._bars

    def _show(self) -> None:
        lengths = self._lengths
        if lengths is None:
            return
        is_cut = lengths.unit == TOKENS and lengths.limit is not None
        limit = (self._limit or lengths.limit) if is_cut else None
        self._bars.show_lengths(lengths, limit)
        words = " ".join(part for part in (self._cut_words(lengths, limit), self._spread(lengths)) if part)
        self._words.setText(words)
        self._bars.setAccessibleName(self.tr("Lengths of the rows: {words}").format(words=words))

    def _cut_words(self, lengths: Lengths, limit: int | None) -> str:
        if limit is None:
            return ""
        count, is_exact = cut_by(lengths, limit)
        if not count:
            return self.tr("None is cut off at {limit:,} {unit}.").format(limit=limit, unit=self._unit())
        words = (
            self.tr("{count:,} of {rows:,} are cut off at {limit:,} {unit}.")
            if is_exact
            else self.tr("About {count:,} of {rows:,} are cut off at {limit:,} {unit}.")
        )
        return words.format(count=count, rows=self._rows, limit=limit, unit=self._unit())

    def _spread(self, lengths: Lengths) -> str:
        words = self.tr("Half have {median:,} {unit} or fewer, the longest has {longest:,}.")
        return words.format(median=lengths.median, longest=lengths.longest, unit=self._unit())

    def _unit(self) -> str:
        is_tokens = self._lengths is None or self._lengths.unit == TOKENS
        return self.tr("tokens") if is_tokens else self.tr("characters")
