"""The person's token for the Hub: kept in the operating system's keychain, or found where other programs keep it.

Hone writes a token nowhere else: not into settings, run files, events or logs.
"""

import errno
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from huggingface_hub import errors
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of its HTTP library, whichever that is

from core.base.errors import DataError, ModelError, UserError
from core.services import hub
from core.services.hub import Account, AccountAction, AccountRequest, Kind, TokenPlace

# --- The person's token for the Hub: kept in the operating system's keychain


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
    from core.engine.hub.search import ask

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


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Whose token it is."""

    name: str


# --- What went wrong with the Hub, in words a person can act on; no token is in them


FAILURES = (HTTPError, errors.HFValidationError, OSError)
"""What huggingface_hub raises here; its own errors are among them."""

SIGN_IN = "Give Hone your token in Settings, under Hugging Face Hub, or run: hf auth login"

_TOKEN = re.compile(r"\b(?:hf|api)_[A-Za-z0-9_-]{6,}|(?<=Bearer )[^\s\"']+")


@dataclass(frozen=True)
class Subject:
    """What was asked about: a repository, or with an empty name the Hub as a whole."""

    name: str = ""
    kind: Kind = Kind.MODEL
    has_token: bool = False

    @property
    def title(self) -> str:
        """The repository, or the Hub."""
        return self.name or hub.host()

    @property
    def noun(self) -> str:
        """What it is called: a model, a data set."""
        return "model" if self.kind is Kind.MODEL else "data set"

    @property
    def page(self) -> str:
        """Where it is shown on the web."""
        return page_of(self.name, self.kind)

    def error(self, title: str, detail: str) -> UserError:
        """The error of this subject, with no token in it."""
        kind = ModelError if self.kind is Kind.MODEL else DataError
        return kind(without_token(title), without_token(detail))


def page_of(name: str, kind: Kind) -> str:
    """The address of a repository's page."""
    return f"{hub.PUBLIC}/{'' if kind is Kind.MODEL else 'datasets/'}{name}"


def without_token(text: str) -> str:
    """A text with everything that looks like a token taken out."""
    return _TOKEN.sub("(token)", text)


def told(error: Exception, subject: Subject) -> UserError:
    """The error in words; `error` is one of `FAILURES`."""
    if isinstance(error, errors.OfflineModeIsEnabled):
        return offline(subject)
    if isinstance(error, errors.FileMetadataError):
        return not_the_hub(subject)
    title, detail = _said_by_the_hub(error, subject) or _said_here(error, subject)
    return subject.error(title, detail)


def _said_by_the_hub(error: Exception, subject: Subject) -> tuple[str, str] | None:
    """Title and detail of what the Hub answers; None where it gave no answer."""
    title, detail = f"{hub.host()} refuses {subject.title}", ""
    match error:
        case errors.GatedRepoError():
            title = f"{subject.title} is open only to those who accepted its terms"
            detail = _gated(subject)
        case errors.RepositoryNotFoundError():
            hidden = "your token doesn't let you see it" if subject.has_token else "it is private"
            title = f"There is no {subject.noun} {subject.title} on {hub.host()}, or {hidden}"
            detail = f"Is its name spelled right? It may have been taken down. For a private one: {SIGN_IN}"
        case errors.RevisionNotFoundError() | errors.RemoteEntryNotFoundError():
            title = f"{subject.title} has changed meanwhile"
            detail = "A file that it listed is gone. Download it again."
        case errors.LocalEntryNotFoundError():
            return None
        case errors.HfHubHTTPError():
            detail = _refusal(error)
        case _:
            return None
    return title, detail


def _said_here(error: Exception, subject: Subject) -> tuple[str, str]:
    """Title and detail of what the network or this computer says."""
    match error:
        case errors.HFValidationError():
            return (
                f"“{subject.name}” is no name on the Hub",
                "Such a name is “model” or “owner/model”: letters, digits, “-”, “_” and “.”.",
            )
        case HTTPError() | errors.LocalEntryNotFoundError():
            return f"{hub.host()} can't be reached", _unreachable(error)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return "The disk is full", f"{_first_line(error)}. What has come is kept: make room and go on."
    return f"{subject.title} can't be kept on this computer", _first_line(error)


def offline(subject: Subject) -> UserError:
    """The error where the Hub must not be asked."""
    return subject.error(
        "Hone works offline", f"{hub.forbidden_by()} forbids to ask {hub.host()} for anything."
    )


def not_the_hub(subject: Subject) -> UserError:
    """The error where somebody else answers in the Hub's place."""
    return subject.error(
        f"{hub.host()} doesn't answer as the Hub does",
        "Something on the way answers in its place: a proxy, or a network that wants a login first.",
    )


def _gated(subject: Subject) -> str:
    if not subject.has_token:
        return f"Sign in on {hub.PUBLIC}, open {subject.page}, and accept them there. {SIGN_IN}"
    return (
        f"Open {subject.page} in a browser and accept them, signed in as the one whose token this is. Some owners "
        "answer each request themselves, which can take days; then try again."
    )


def _refusal(error: errors.HfHubHTTPError) -> str:
    """What a status means."""
    match error.response.status_code:
        case HTTPStatus.UNAUTHORIZED:
            return f"It doesn't accept the token: it may have expired or been revoked. {SIGN_IN}"
        case HTTPStatus.FORBIDDEN:
            return "The token has no leave for this. Make one with leave to read, at huggingface.co/settings/tokens."
        case HTTPStatus.TOO_MANY_REQUESTS:
            return "It was asked too often from here. Try again in some minutes; signed in, one may ask more often."
        case status:
            return f"It said {status} {error.response.reason_phrase}. Try again later."


def _unreachable(error: Exception) -> str:
    words = _first_line(error)
    lower = words.lower()
    if "Timeout" in type(error).__name__:
        return f"It kept silent for too long. Is the network slow, or gone? ({words})"
    if _no_such_host(error):
        return f"Its name isn't known here: this computer seems to be offline. ({words})"
    if "certificate" in lower:
        return f"Its certificate isn't trusted: a proxy may listen in, or this computer's clock is wrong. ({words})"
    return f"Is this computer online? ({words})"


def _no_such_host(error: BaseException | None) -> bool:
    """Whether looking up the host's name is what failed: the words of that are the system's, in its language."""
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__ or error.__context__
    return error is not None


def _first_line(error: Exception) -> str:
    """What a library or the system says, in short; the kind of the error where it says nothing."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
