"""The access token for the Hub, stored in the operating system's keychain, and the Hub's errors as messages.

Hone writes a token nowhere else: not into settings, run files, events or logs.
"""

import contextlib
import errno
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from huggingface_hub import errors
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of the HTTP library in use

from core.base.errors import DataError, ModelError, UserError
from core.base.language import _
from core.jobs.hub import Account, AccountAction, AccountRequest, TokenPlace
from core.options import hub
from core.options.hub import Kind

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
    """Return the token in use and its place: HF_TOKEN, else the keychain, else the file of `hf auth login`."""
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
    """Make the token in the keychain available to libraries in this process."""
    token, place = find_token()
    if place is TokenPlace.KEYCHAIN:
        os.environ["HF_TOKEN"] = token


def account(request: AccountRequest) -> Account:
    """Save, remove or check the token, and report where it is now.

    Raises:
        UserError: There is no keychain, it is locked, or the Hub rejects the token.
    """
    keychain, owner = _keychain(), ""
    match request.action:
        case AccountAction.SAVE:
            token = request.token.strip()
            if not token or not token.isascii() or any(letter.isspace() for letter in token):
                detail = _("A token starts with hf_ and has letters and digits only.")
                raise UserError(_("This is not a token"), detail)
            if keychain is None:
                raise UserError(_("The token can't be saved"), NO_KEYCHAIN)
            with _unlocked():
                keychain.set_password(SERVICE, USER, token)
        case AccountAction.REMOVE if keychain is not None:
            with _unlocked():
                if keychain.get_password(SERVICE, USER):
                    keychain.delete_password(SERVICE, USER)
        case AccountAction.CHECK:
            from core.engine.hub.search import ask

            if not find_token()[0]:
                detail = _("Paste a token first. Create one at huggingface.co/settings/tokens.")
                raise UserError(_("There is no token to check"), detail)
            owner = str(ask("/api/whoami-v2", Subject())["name"])
    return Account(
        place=find_token()[1],
        keychain="" if keychain is None else KEYCHAINS[type(keychain).__module__],
        refusal=NO_KEYCHAIN if keychain is None else "",
        name=owner,
    )


@contextmanager
def _unlocked() -> Iterator[None]:
    """Turn the keychain's errors into a UserError without their text, which may quote the token."""
    from keyring.errors import KeyringError

    try:
        yield
    except KeyringError as error:
        detail = _("It may be locked, or access was denied ({name}). Unlock it and try again.")
        detail = detail.format(name=type(error).__name__)
        raise UserError(_("Hone has no access to the keychain"), detail) from None


def _keychain() -> Any | None:
    """Return keyring's backend of a keychain protected by the system, or None."""
    import keyring
    from keyring.backends.chainer import ChainerBackend

    chosen = keyring.get_keyring()
    backends = chosen.backends if isinstance(chosen, ChainerBackend) else [chosen]
    return next((backend for backend in backends if type(backend).__module__ in KEYCHAINS), None)


# --- Errors of the Hub, without the token


FAILURES = (HTTPError, errors.HFValidationError, OSError)
"""What huggingface_hub raises here; its own errors are subclasses."""

SIGN_IN = _("Add your token in Settings, under Hugging Face Hub, or run: hf auth login")

_TOKEN = re.compile(r"\b(?:hf|api)_[A-Za-z0-9_-]{6,}|(?<=Bearer )[^\s\"']+")


@dataclass(frozen=True)
class Subject:
    """What a request is about: a repository, or with an empty name the Hub as a whole."""

    name: str = ""
    kind: Kind = Kind.MODEL

    def error(self, title: str, detail: str) -> UserError:
        """Make an error about it, with every token removed."""
        error_type = ModelError if self.kind is Kind.MODEL else DataError
        return error_type(without_token(title), without_token(detail))


def without_token(text: str) -> str:
    return _TOKEN.sub("(token)", text)


def as_user_error(error: Exception, subject: Subject) -> UserError:
    """Translate one of `FAILURES` into a message with a remedy."""
    host, name = hub.host(), subject.name or hub.host()
    title, detail = _("{host} refuses {name}"), ""
    match error:
        case errors.OfflineModeIsEnabled():
            return offline(subject)
        case errors.FileMetadataError():
            return not_the_hub(subject)
        case errors.GatedRepoError():
            title = _("{name} is open only to users who accepted its terms")
            detail = _(
                "Sign in on {page}, accept the terms and try again; some owners review each request, which can take "
                "days. {sign_in}"
            ).format(page=hub.page_of(subject.name, subject.kind), sign_in="" if find_token()[0] else SIGN_IN)
        case errors.RepositoryNotFoundError():
            title = _("{host} has no {name}, or it is private")
            detail = _("Check the spelling. A private one needs a token with access to it. {sign_in}")
            detail = detail.format(sign_in=SIGN_IN)
        case errors.RevisionNotFoundError() | errors.RemoteEntryNotFoundError():
            title, detail = (
                _("{name} has changed on the Hub"),
                _("A listed file is missing. Download it again."),
            )
        case errors.HFValidationError():
            title = _("“{name}” is not a valid name on the Hub")
            detail = _("Names look like “model” or “owner/model”: letters, digits, “-”, “_” and “.”.")
        case errors.HfHubHTTPError():
            detail = _refusal(error)
        case HTTPError() | errors.LocalEntryNotFoundError():
            title, detail = _("{host} can't be reached"), _unreachable(error)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            title = _("The disk is full")
            detail = _("{error}. Free some space and start again: the download continues.")
            detail = detail.format(error=_first_line(error))
        case _:
            title, detail = _("{name} can't be saved on this computer"), _first_line(error)
    return subject.error(title.format(host=host, name=name), detail)


def offline(subject: Subject) -> UserError:
    """The error where the Hub must not be contacted."""
    detail = _("{by} forbids requests to {host}.").format(by=hub.forbidden_by(), host=hub.host())
    return subject.error(_("Hone works offline"), detail)


def not_the_hub(subject: Subject) -> UserError:
    """The error where something else answers in place of the Hub."""
    return subject.error(
        _("{host} doesn't respond as the Hub does").format(host=hub.host()),
        _("A proxy answers in its place, or a network that requires a login first."),
    )


def _refusal(error: errors.HfHubHTTPError) -> str:
    match error.response.status_code:
        case HTTPStatus.UNAUTHORIZED:
            detail = _("It doesn't accept the token, which may have expired or been revoked. {sign_in}")
            return detail.format(sign_in=SIGN_IN)
        case HTTPStatus.FORBIDDEN:
            return _("The token lacks permission to read: create one at huggingface.co/settings/tokens.")
        case HTTPStatus.TOO_MANY_REQUESTS:
            return _("Too many requests. Try again in a few minutes; with a token, the limit is higher.")
        case status:
            detail = _("It answered {status} {reason}. Try again later.")
            return detail.format(status=status, reason=error.response.reason_phrase)


def _unreachable(error: Exception) -> str:
    cause, inner = _first_line(error), [error]
    while chained := inner[-1].__cause__ or inner[-1].__context__:
        inner.append(chained)  # type: ignore[arg-type]
    if "Timeout" in type(error).__name__:
        detail = _("It didn't answer in time. Check the network. ({cause})")
    elif any(isinstance(one, socket.gaierror) for one in inner):  # its text is in the system's language
        detail = _("Its name can't be resolved: this computer seems to be offline. ({cause})")
    elif "certificate" in cause.lower():
        detail = _("Its certificate isn't trusted: a proxy intercepts, or the clock is wrong. ({cause})")
    else:
        detail = _("Is this computer online? ({cause})")
    return detail.format(cause=cause)


def _first_line(error: Exception) -> str:
    """The first line of an error's text, or its type."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
