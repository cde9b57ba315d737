"""The token for the Hub, kept in the operating system's keychain, and the Hub's errors in words.

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
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of its HTTP library, whichever that is

from core.base.errors import DataError, ModelError, UserError
from core.base.language import _
from core.services import hub
from core.services.hub import Account, AccountAction, AccountRequest, Kind, TokenPlace

SERVICE, USER = "Hone", "huggingface.co"
"""Service and user name of the token in the keychain."""

KEYCHAINS = {
    "keyring.backends.macOS": _("macOS Keychain"),
    "keyring.backends.Windows": _("Windows Credential Manager"),
    "keyring.backends.SecretService": _("Secret Service"),
    "keyring.backends.libsecret": _("Secret Service"),
    "keyring.backends.kwallet": "KWallet",
}
"""Keychains that the system guards. Other backends of keyring keep passwords in plain files."""

NO_KEYCHAIN = (
    "This computer has no keychain that Hone can reach; on Linux a desktop brings one. Log in with hf auth login, or "
    "set HF_TOKEN: Hone finds both."
)


def find_token() -> tuple[str, TokenPlace]:
    """The token in use and where it was found: in HF_TOKEN, else the keychain, else the file of `hf auth login`."""
    from huggingface_hub import get_token

    token = (os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or "").strip()
    if token:
        return token, TokenPlace.ENVIRONMENT
    keychain = _keychain()
    if keychain is not None:
        with contextlib.suppress(UserError), _unlocked():  # a locked keychain counts as none here
            token = str(keychain.get_password(SERVICE, USER) or "")
            if token:
                return token, TokenPlace.KEYCHAIN
    with contextlib.suppress(OSError):
        token = get_token() or ""
    return token, TokenPlace.FILE if token else TokenPlace.NOWHERE


def lend_token() -> None:
    """Let libraries in this process that ask the Hub use the token in the keychain."""
    token, place = find_token()
    if place is TokenPlace.KEYCHAIN:
        os.environ["HF_TOKEN"] = token


def account(request: AccountRequest) -> Account:
    """Carry out the request and report where a token is now.

    Raises:
        UserError: There is no keychain, it is locked, or the Hub doesn't know the token.
    """
    keychain, name = _keychain(), ""
    match request.action:
        case AccountAction.SAVE:
            _save(keychain, request.token.strip())
        case AccountAction.REMOVE if keychain is not None:
            with _unlocked():
                if keychain.get_password(SERVICE, USER):
                    keychain.delete_password(SERVICE, USER)
        case AccountAction.CHECK:
            name = _owner()
    return Account(
        place=find_token()[1],
        keychain="" if keychain is None else KEYCHAINS[type(keychain).__module__],
        refusal=NO_KEYCHAIN if keychain is None else "",
        name=name,
    )


def _owner() -> str:
    """The name of the token's owner, as the Hub knows it."""
    from core.engine.hub.search import ask

    if not find_token()[0]:
        detail = _("Paste one first: huggingface.co/settings/tokens makes them.")
        raise UserError(_("There is no token to check"), detail)
    return str(ask("/api/whoami-v2", Subject(has_token=True))["name"])


def _save(keychain: Any | None, token: str) -> None:
    if not token or not token.isascii() or any(letter.isspace() for letter in token):
        raise UserError(_("That is no token"), _("A token begins with hf_ and has letters and digits only."))
    if keychain is None:
        raise UserError(_("The token can't be kept"), NO_KEYCHAIN)
    with _unlocked():
        keychain.set_password(SERVICE, USER, token)


@contextmanager
def _unlocked() -> Iterator[None]:
    """Turn the keychain's errors into a UserError without their text, which may quote the token."""
    from keyring.errors import KeyringError

    try:
        yield
    except KeyringError as error:
        raise UserError(
            _("The keychain doesn't let Hone in"),
            _("It may be locked, or you were asked and said no ({name}). Unlock it and try again.").format(
                name=type(error).__name__
            ),
        ) from None


def _keychain() -> Any | None:
    """The backend of a keychain that the system guards; None where there is none."""
    import keyring
    from keyring.backends.chainer import ChainerBackend

    chosen = keyring.get_keyring()
    candidates = chosen.backends if isinstance(chosen, ChainerBackend) else [chosen]
    return next((one for one in candidates if type(one).__module__ in KEYCHAINS), None)


# --- Errors of the Hub, without the token


FAILURES = (HTTPError, errors.HFValidationError, OSError)
"""What huggingface_hub raises here; its own errors are among them."""

SIGN_IN = _("Give Hone your token in Settings, under Hugging Face Hub, or run: hf auth login")

_TOKEN = re.compile(r"\b(?:hf|api)_[A-Za-z0-9_-]{6,}|(?<=Bearer )[^\s\"']+")


@dataclass(frozen=True)
class Subject:
    """What a request is about: a repository, or with an empty name the Hub as a whole."""

    name: str = ""
    kind: Kind = Kind.MODEL
    has_token: bool = False

    @property
    def title(self) -> str:
        return self.name or hub.host()

    def error(self, title: str, detail: str) -> UserError:
        """An error about it, with every token taken out."""
        kind = ModelError if self.kind is Kind.MODEL else DataError
        return kind(without_token(title), without_token(detail))


def page_of(name: str, kind: Kind) -> str:
    """The address of a repository's page."""
    return f"{hub.PUBLIC}/{'' if kind is Kind.MODEL else 'datasets/'}{name}"


def without_token(text: str) -> str:
    return _TOKEN.sub("(token)", text)


def as_user_error(error: Exception, subject: Subject) -> UserError:
    """What one of `FAILURES` means."""
    title, detail = _("{host} refuses {title}").format(host=hub.host(), title=subject.title), ""
    match error:
        case errors.OfflineModeIsEnabled():
            return offline(subject)
        case errors.FileMetadataError():
            return not_the_hub(subject)
        case errors.GatedRepoError():
            title = _("{title} is open only to those who accepted its terms").format(title=subject.title)
            detail = _gated(subject)
        case errors.RepositoryNotFoundError():
            noun = "model" if subject.kind is Kind.MODEL else _("data set")
            hidden = _("your token doesn't let you see it") if subject.has_token else _("it is private")
            title = _("There is no {noun} {title} on {host}, or {hidden}").format(
                noun=noun, title=subject.title, host=hub.host(), hidden=hidden
            )
            detail = _(
                "Is its name spelled right? It may have been taken down. For a private one: {sign_in}"
            ).format(sign_in=SIGN_IN)
        case errors.RevisionNotFoundError() | errors.RemoteEntryNotFoundError():
            title = _("{title} has changed meanwhile").format(title=subject.title)
            detail = _("A file that it listed is gone. Download it again.")
        case errors.HFValidationError():
            title = _("“{name}” is no name on the Hub").format(name=subject.name)
            detail = _("Such a name is “model” or “owner/model”: letters, digits, “-”, “_” and “.”.")
        case errors.HfHubHTTPError():
            detail = _refusal(error)
        case HTTPError() | errors.LocalEntryNotFoundError():
            title, detail = _("{host} can't be reached").format(host=hub.host()), _unreachable(error)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            title, detail = (
                _("The disk is full"),
                _("{error}. What has come is kept: make room and go on.").format(error=_first_line(error)),
            )
        case _:
            title, detail = (
                _("{title} can't be kept on this computer").format(title=subject.title),
                _first_line(error),
            )
    return subject.error(title, detail)


def offline(subject: Subject) -> UserError:
    """The error where the Hub must not be asked."""
    return subject.error(
        _("Hone works offline"),
        _("{forbidden_by} forbids to ask {host} for anything.").format(
            forbidden_by=hub.forbidden_by(), host=hub.host()
        ),
    )


def not_the_hub(subject: Subject) -> UserError:
    """The error where somebody else answers in the Hub's place."""
    return subject.error(
        _("{host} doesn't answer as the Hub does").format(host=hub.host()),
        _("Something on the way answers in its place: a proxy, or a network that wants a login first."),
    )


def _gated(subject: Subject) -> str:
    page = page_of(subject.name, subject.kind)
    if not subject.has_token:
        return _("Sign in on {public}, open {page}, and accept them there. {sign_in}").format(
            public=hub.PUBLIC, page=page, sign_in=SIGN_IN
        )
    return (
        f"Open {page} in a browser and accept them, signed in as the one whose token this is. Some owners answer each "
        "request themselves, which can take days; then try again."
    )


def _refusal(error: errors.HfHubHTTPError) -> str:
    match error.response.status_code:
        case HTTPStatus.UNAUTHORIZED:
            return _("It doesn't accept the token: it may have expired or been revoked. {sign_in}").format(
                sign_in=SIGN_IN
            )
        case HTTPStatus.FORBIDDEN:
            return _(
                "The token has no leave for this. Make one with leave to read, at "
                "huggingface.co/settings/tokens."
            )
        case HTTPStatus.TOO_MANY_REQUESTS:
            return "It was asked too often from here. Try again in some minutes; signed in, one may ask more often."
        case status:
            return _("It said {status} {reason_phrase}. Try again later.").format(
                status=status, reason_phrase=error.response.reason_phrase
            )


def _unreachable(error: Exception) -> str:
    cause = _first_line(error)
    if "Timeout" in type(error).__name__:
        return _("It kept silent for too long. Is the network slow, or gone? ({cause})").format(cause=cause)
    inner: BaseException | None = error
    while inner is not None:  # the text of a failed look-up is the system's, in its language: go by the type
        if isinstance(inner, socket.gaierror):
            return _("Its name isn't known here: this computer seems to be offline. ({cause})").format(
                cause=cause
            )
        inner = inner.__cause__ or inner.__context__
    if "certificate" in cause.lower():
        return _(
            "Its certificate isn't trusted: a proxy may listen in, or this computer's clock is "
            "wrong. ({cause})"
        ).format(cause=cause)
    return _("Is this computer online? ({cause})").format(cause=cause)


def _first_line(error: Exception) -> str:
    """A library's or the system's text, in short; the kind of the error where there is none."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
