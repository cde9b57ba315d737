"""A line that sums up, and a link in it that shows the rest."""

import html
from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QLabel, QWidget

from gui.widgets.roles import Role, set_role

LINK = '<a href="#" style="text-decoration:none">{}</a>'


class Disclosure(QLabel):
    """A calm hint whose details stay folded until they are asked for.

    Args:
        ask: The words of the link that shows the details, such as "Why?".
        parent: Qt's parent.
    """

    def __init__(self, ask: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._ask = ask
        self._summary = ""
        self._details: tuple[str, ...] = ()
        self._is_open = False
        set_role(self, Role.HINT)
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.linkActivated.connect(self._toggle)
        self.hide()

    def show_words(self, summary: str, details: Sequence[str] = ()) -> None:
        """Say a sentence, and keep details behind its link. Whoever owns it shows and hides it."""
        if (summary, tuple(details)) == (self._summary, self._details):
            return
        self._summary, self._details = summary, tuple(details)
        self._paint_words()

    @property
    def summary(self) -> str:
        """The sentence that is always seen."""
        return self._summary

    @property
    def details(self) -> tuple[str, ...]:
        """The lines behind the link."""
        return self._details

    @property
    def is_open(self) -> bool:
        """Whether the details are seen."""
        return self._is_open and bool(self._details)

    def open(self, shown: bool) -> None:
        """Show or fold the details."""
        self._is_open = shown
        self._paint_words()

    def changeEvent(self, event: QEvent) -> None:
        """Give the link the colours that are in force now: Qt keeps those it was written in."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and self._details:
            self.clear()
            self._paint_words()

    def _toggle(self) -> None:
        self.open(not self._is_open)

    def _paint_words(self) -> None:
        flags = Qt.TextInteractionFlag.NoTextInteraction
        parts = [html.escape(self._summary)]
        if self._details:
            flags = (
                Qt.TextInteractionFlag.LinksAccessibleByMouse
                | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
            )
            link = self.tr("Less") if self._is_open else self._ask
            parts[0] += f"&nbsp; {LINK.format(html.escape(link))}"
        if self.is_open:
            parts += map(html.escape, self._details)
        if self.textInteractionFlags() != flags:
            self.setTextInteractionFlags(flags)
        self.setText("<br>".join(parts))
        told = self._details if self.is_open else ()
        self.setAccessibleName(" ".join((self._summary, *told)))
