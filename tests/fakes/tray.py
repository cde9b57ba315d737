"""Stands in for the operating system's tray."""

from typing import ClassVar

from PySide6.QtCore import QObject, Signal


class FakeTray(QObject):
    """An icon in the tray that keeps what it was asked to show. `made` are all icons since it was last emptied."""

    messageClicked = Signal()  # noqa: N815 - Qt's name

    made: ClassVar[list["FakeTray"]] = []
    can_notify: ClassVar[bool] = True

    def __init__(self, _icon, parent):
        super().__init__(parent)
        self.shown = []
        self.is_visible = False
        self.made.append(self)

    @classmethod
    def isSystemTrayAvailable(cls):  # noqa: N802 - Qt's name
        return cls.can_notify

    @classmethod
    def supportsMessages(cls):  # noqa: N802 - Qt's name
        return cls.can_notify

    def show(self):
        self.is_visible = True

    def hide(self):
        self.is_visible = False

    def showMessage(self, title, words, _icon, _milliseconds):  # noqa: N802 - Qt's name
        self.shown.append((title, words, self.is_visible))
