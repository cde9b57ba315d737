"""A keychain in this process, where keyring looks for the system's."""

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked


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
