"""The strips of a run page: one for each message that still holds."""

from collections.abc import Iterable

import msgspec
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from core.events import MessageRaised
from gui.theme import SPACING
from gui.widgets.message_strip import MessageStrip


class RunMessages(QWidget):
    """Keeps one strip a message id; hidden while there are none.

    Signals:
        fix_chosen: The `core.errors.Fix` that was pressed.
    """

    fix_chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(SPACING)
        self._strips: dict[str, MessageStrip] = {}
        self._shown: dict[str, MessageRaised] = {}
        self.hide()

    def show_messages(self, messages: Iterable[MessageRaised], *, is_over: bool = False) -> None:
        """Show these, in this order; strips of other messages go away. No run that is over can be ended."""
        wanted = {message.id: _after_the_end(message) if is_over else message for message in messages}
        for gone in self._shown.keys() - wanted.keys():
            self._strips.pop(gone).deleteLater()
        for place, (name, message) in enumerate(wanted.items()):
            if self._shown.get(name) != message:
                self._strip(name, place).show_message(
                    message.level, message.title, message.detail, message.fixes
                )
        self._shown = wanted
        self.setVisible(bool(wanted))

    def titles(self) -> list[str]:
        """What stands there now."""
        return [message.title for message in self._shown.values()]

    def _strip(self, name: str, place: int) -> MessageStrip:
        if name not in self._strips:
            strip = MessageStrip(self)
            strip.fix_chosen.connect(self.fix_chosen)
            self._strips[name] = strip
            self._column.insertWidget(place, strip)
        return self._strips[name]


def _after_the_end(message: MessageRaised) -> MessageRaised:
    """The message without what would end the run."""
    left = tuple(fix for fix in message.fixes if fix.action is None or not fix.action.is_end)
    return msgspec.structs.replace(message, fixes=left)
