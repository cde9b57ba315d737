"""The access token for the Hub, stored in the operating system's keychain.

Hone writes it nowhere else: not into settings, run files, events or logs.
"""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from core.base.errors import UserError
from core.base.language import _
from core.jobs.hub import TokenPlace

SERVICE, USER = "Hone", "huggingface.co"
"""Service and user name of the token in the keychain."""


KEYCHAINS = {
    "keyring.backends.macOS": _("macOS Keychain"),
    "keyring.backends.Windows": _("Windows Credential Manager"),
    "keyring.backends.SecretService": _("Secret Service"),
    "keyring.backends.libsecret": _("Secret Service"),
    "keyring.backends.kwallet": "KWallet",
}
"""Keychains protected by the system. Other backends of keyring store passwords in plain files."""


NO_KEYCHAIN = _(
    "Hone found no keychain on this computer; on Linux, a desktop provides one. Run `hf auth login` or set HF_TOKEN: "
    "Hone uses both."
)


def find_token() -> tuple[str, TokenPlace]:
    """Returns the token in use and its place: HF_TOKEN, else the keychain, else the file of `hf auth login`."""
    from huggingface_hub import get_token

    token = (os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or "").strip()
    if token:
        return token, TokenPlace.ENVIRONMENT
    if (keychain := _keychain()) is not None:
        with contextlib.suppress(UserError), _unlocked():  # a locked keychain counts as none
            token = keychain.get_password(SERVICE, USER) or ""
            if token:
                return token, TokenPlace.KEYCHAIN
    with contextlib.suppress(OSError):
        token = get_token() or ""
    return token, TokenPlace.FILE if token else TokenPlace.NOWHERE


def lend_token() -> None:
    """Makes the token in the keychain available to libraries in this process."""
    token, place = find_token()
    if place is TokenPlace.KEYCHAIN:
        os.environ["HF_TOKEN"] = token


@contextmanager
def _unlocked() -> Iterator[None]:
    """Turns the keychain's errors into a UserError without their text, which may quote the token."""
    from keyring.errors import KeyringError

    try:
        yield
    except KeyringError as error:
        detail = _("It may be locked, or access was denied ({name}). Unlock it and try again.")
        detail = detail.format(name=type(error).__name__)
        raise UserError(_("Hone has no access to the keychain"), detail) from None


def _keychain() -> Any | None:
    """Returns keyring's backend of a keychain protected by the system, or None."""
    import keyring
    from keyring.backends.chainer import ChainerBackend

    chosen = keyring.get_keyring()
    backends = chosen.backends if isinstance(chosen, ChainerBackend) else [chosen]
    return next((backend for backend in backends if type(backend).__module__ in KEYCHAINS), None)
