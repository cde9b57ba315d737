"""The Hub's API: requests, and its errors as messages."""

import errno
import re
import socket
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from huggingface_hub import DatasetInfo, ModelInfo, constants, errors, get_session
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status  # type: ignore[attr-defined]

from core.base.errors import DataError, ModelError, UserError, why
from core.base.language import _
from core.engine.hub.token import find_token
from core.options import hub
from core.options.hub import RepoKind

FAILURES = (HTTPError, errors.HFValidationError, OSError)
"""What huggingface_hub raises here; its own errors are subclasses."""


SIGN_IN = _("Add your token in Settings, under Hugging Face Hub, or run: hf auth login")


_TOKEN = re.compile(r"\b(?:hf|api)_[A-Za-z0-9_-]{6,}|(?<=Bearer )[^\s\"']+")


@dataclass(frozen=True)
class Subject:
    """What a request is about: a repository, or with an empty name the Hub as a whole."""

    name: str = ""
    kind: RepoKind = RepoKind.MODEL

    def error(self, title: str, detail: str) -> UserError:
        """Makes an error about the subject, with every token removed."""
        error_type = ModelError if self.kind is RepoKind.MODEL else DataError
        return error_type(without_token(title), without_token(detail))


def without_token(text: str) -> str:
    return _TOKEN.sub("(token)", text)


def as_user_error(error: Exception, subject: Subject) -> UserError:
    """Translates one of `FAILURES` into a message with a remedy."""
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
    """Returns the error where the Hub must not be contacted."""
    detail = _("{by} forbids requests to {host}.").format(by=hub.forbidden_by(), host=hub.host())
    return subject.error(_("Hone works offline"), detail)


def not_the_hub(subject: Subject) -> UserError:
    """Returns the error where something else answers in place of the Hub."""
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
    """Returns the first line of an error's text, or its type."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {why(error)}" if error.filename else why(error)
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


REQUEST_SECONDS = 15.0
"""Timeout of a request."""


Info = ModelInfo | DatasetInfo


def ask(path: str, subject: Subject, params: dict[str, Any] | None = None) -> Any:
    """Sends one request to the Hub's API at `path` (`/api/models`), without retries, and decodes the JSON answer.

    Raises:
        UserError: There is no answer, or it isn't the Hub's.
    """
    if hub.is_forbidden():
        raise offline(subject)
    try:
        response = get_session().get(
            f"{constants.ENDPOINT}{path}", params=params, headers=headers(), timeout=REQUEST_SECONDS
        )
        hf_raise_for_status(response)
    except errors.RepositoryNotFoundError as error:
        message = (error.response.headers.get("X-Error-Message") or "").lower()
        if find_token()[0] and ("credential" in message or "token" in message):
            # for a wrong token, the Hub answers every request with 401
            raise as_user_error(
                errors.HfHubHTTPError(str(error), response=error.response), subject
            ) from error
        raise as_user_error(error, subject) from error
    except FAILURES as error:
        raise as_user_error(error, subject) from error
    try:
        return response.json()
    except ValueError as error:
        raise not_the_hub(subject) from error


def info(record: Any, kind: hub.RepoKind, subject: Subject) -> Info:
    """Parses a record of the API.

    Raises:
        UserError: It isn't one.
    """
    try:
        parsed: Info = (ModelInfo if kind is hub.RepoKind.MODEL else DatasetInfo)(**record)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise not_the_hub(subject) from error
    return parsed


def headers() -> dict[str, str]:
    """Returns HTTP headers, with the token if there is one."""
    made: dict[str, str] = build_hf_headers(token=find_token()[0] or False, library_name="hone")
    return made
