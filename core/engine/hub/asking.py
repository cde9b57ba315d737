"""One request to the Hub's API: with the person's token, once, and read leniently."""

from typing import Any, TypeVar

import msgspec
from huggingface_hub import constants, errors, get_session
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status  # type: ignore[attr-defined]

from core import hub
from core.engine.hub.account import find_token
from core.engine.hub.words import FAILURES, Subject, not_the_hub, offline, told

SECONDS = 15.0
"""How long the Hub may keep silent before a question is given up."""

MOST_BYTES = 64 << 20
"""More than this is no answer to a question."""

Answer = TypeVar("Answer")


def ask(path: str, kind: type[Answer], subject: Subject, params: dict[str, Any] | None = None) -> Answer:
    """What the Hub's API answers at `path` (`/api/models`), as a struct or list of structs.

    Raises:
        UserError: It can't be had, or isn't what the Hub would say.
    """
    if hub.is_forbidden():
        raise offline(subject)
    try:
        content = _content(f"{constants.ENDPOINT}{path}", params)
    except FAILURES as error:
        raise told(_sharper(error), subject) from error
    if len(content) > MOST_BYTES:
        raise not_the_hub(subject)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise not_the_hub(subject) from error


def _content(url: str, params: dict[str, Any] | None) -> bytes:
    """What is answered, read no further than shortly after `MOST_BYTES`."""
    asked = get_session().stream("GET", url, params=params, headers=headers(), timeout=SECONDS)
    content = bytearray()
    with asked as response:
        if response.is_error:
            response.read()  # what the Hub says of it
        hf_raise_for_status(response)
        for part in response.iter_bytes():
            content += part
            if len(content) > MOST_BYTES:
                break
    return bytes(content)


def headers() -> dict[str, str]:
    """What goes along with each request: the token where there is one, and which program asks."""
    token, _ = find_token()
    made: dict[str, str] = build_hf_headers(token=token or False, library_name="hone")
    return made


def has_token() -> bool:
    """Whether requests carry a token."""
    return bool(find_token()[0])


def _sharper(error: Exception) -> Exception:
    """The error as the Hub means it: for a wrong token it says 401 to every question, whatever it is about."""
    if isinstance(error, errors.RepositoryNotFoundError) and has_token():
        said = (error.response.headers.get("X-Error-Message") or "").lower()
        if "credential" in said or "token" in said:
            return errors.HfHubHTTPError(str(error), response=error.response)
    return error
