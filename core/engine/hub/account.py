"""The person's token for the Hub: kept in the operating system's keychain, or found where other programs keep it.

Hone writes a token nowhere else: not into settings, run files, events or logs.
"""

import os
from collections.abc import Callable
from typing import Any

from core.errors import UserError
from core.hub_questions import Account, AccountAction, AccountRequest, TokenPlace

SERVICE, USER = "Hone", "huggingface.co"
"""Under which names the token stands in the keychain."""

KEYCHAINS = {
    "keyring.backends.macOS": "macOS Keychain",
    "keyring.backends.Windows": "Windows Credential Manager",
    "keyring.backends.SecretService": "Secret Service",
    "keyring.backends.libsecret": "Secret Service",
    "keyring.backends.kwallet": "KWallet",
}
"""What counts as a keychain: those that the system guards. Others of keyring's keep passwords in plain files."""

NO_KEYCHAIN = (
    "This computer has no keychain that Hone can reach; on Linux a desktop brings one. Log in with hf auth login, or "
    "set HF_TOKEN: Hone finds both."
)


def find_token() -> tuple[str, TokenPlace]:
    """The token in use, and where it was found: HF_TOKEN goes first, then the keychain, then `hf auth login`'s file."""
    from huggingface_hub import get_token

    said = (os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or "").strip()
    if said:
        return said, TokenPlace.ENVIRONMENT
    kept = _kept_token()
    if kept:
        return kept, TokenPlace.KEYCHAIN
    try:
        found = get_token() or ""
    except OSError:
        found = ""
    return found, TokenPlace.FILE if found else TokenPlace.NOWHERE


def lend_token() -> None:
    """Let libraries in this process that ask the Hub use the token in the keychain."""
    token, place = find_token()
    if place is TokenPlace.KEYCHAIN:
        os.environ["HF_TOKEN"] = token


def account(request: AccountRequest) -> Account:
    """Do what is asked about the token, and say where it stands.

    Raises:
        UserError: There is no keychain, it is locked, or the Hub doesn't know the token.
    """
    match request.action:
        case AccountAction.SAVE:
            _save(request.token)
        case AccountAction.REMOVE:
            _remove()
        case AccountAction.CHECK:
            return _look(name=_whose())
    return _look()


def _look(name: str = "") -> Account:
    keychain = _keychain()
    return Account(
        place=find_token()[1],
        keychain="" if keychain is None else _title(keychain),
        refusal=NO_KEYCHAIN if keychain is None else "",
        name=name,
    )


def _whose() -> str:
    """The name of the token's owner, as the Hub knows it."""
    from core.engine.hub.asking import ask
    from core.engine.hub.records import Person
    from core.engine.hub.words import Subject

    if not find_token()[0]:
        raise UserError(
            "There is no token to check", "Paste one first: huggingface.co/settings/tokens makes them."
        )
    return ask("/api/whoami-v2", Person, Subject(has_token=True)).name


def _save(token: str) -> None:
    token = token.strip()
    if not token or not token.isascii() or any(letter.isspace() for letter in token):
        raise UserError("That is no token", "A token begins with hf_ and has letters and digits only.")
    keychain = _keychain()
    if keychain is None:
        raise UserError("The token can't be kept", NO_KEYCHAIN)
    _guarded(lambda: keychain.set_password(SERVICE, USER, token))


def _remove() -> None:
    keychain = _keychain()
    if keychain is not None and _guarded(lambda: keychain.get_password(SERVICE, USER)):
        _guarded(lambda: keychain.delete_password(SERVICE, USER))


def _kept_token() -> str:
    keychain = _keychain()
    if keychain is None:
        return ""
    try:
        return str(_guarded(lambda: keychain.get_password(SERVICE, USER)) or "")
    except UserError:  # a locked keychain is as none, for what asks without one
        return ""


def _guarded(action: Callable[[], Any]) -> Any:
    from keyring.errors import KeyringError

    try:
        return action()
    except KeyringError as error:  # its words may quote what was to be kept: they are not passed on
        raise UserError(
            "The keychain doesn't let Hone in",
            f"It may be locked, or you were asked and said no ({type(error).__name__}). Unlock it and try again.",
        ) from None


def _keychain() -> Any | None:
    """The door to a keychain that the system guards; None where there is none."""
    import keyring
    from keyring.backends.chainer import ChainerBackend

    chosen = keyring.get_keyring()
    candidates = chosen.backends if isinstance(chosen, ChainerBackend) else [chosen]
    return next((one for one in candidates if type(one).__module__ in KEYCHAINS), None)


def _title(keychain: Any) -> str:
    return KEYCHAINS[type(keychain).__module__]
