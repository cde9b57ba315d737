"""A keychain in this process, where keyring looks for the system's."""

from typing import ClassVar

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked
from PySide6.QtCore import QObject, Signal

# --- Stands in for the operating system's tray


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


# --- A keychain in this process, where keyring looks for the system's


class FakeKeychain(KeyringBackend):
    """Keeps passwords in `kept`; a locked one lets nobody in, and its error quotes what it was given."""

    priority = 1.0  # type: ignore[assignment]  # as keyring's documentation says it

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        self._refuse("")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._refuse(password)
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._refuse("")
        del self.kept[service, username]

    def _refuse(self, password: str) -> None:
        if self.is_locked:
            raise KeyringLocked(f"locked: {password}")


class PlainFile(FakeKeychain):
    """As those of keyring's that keep passwords unguarded."""


FakeKeychain.__module__ = "keyring.backends.macOS"
