"""Ask where Hone is published for the newest release: one HTTPS request, with nothing in it about who asks."""

import http.client
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Any

import truststore

from core.base.errors import Fix, UserError
from core.services import hub
from core.services.hub import ADDRESS, API, Release, ReleaseRequest, compared

RELEASE_SECONDS = 15.0
"""How long each step of the request may take."""

LARGEST_ANSWER = 1 << 20
"""Bytes; a release's description has some thousands."""

NOT_FETCHED = "Hone couldn't ask for a newer release"


def newest_release(request: ReleaseRequest, *, api: str = API) -> Release:
    """The newest release, as https://docs.github.com/en/rest/releases/releases#get-the-latest-release tells it.

    Raises:
        UserError: There is none, Hone works offline, or the request failed; says what to do.
    """
    by = hub.forbidden_by()
    if by:
        raise UserError(
            "Hone works offline", f"{by} forbids it to ask for a newer release.", (Fix(_by_hand(request)),)
        )
    answer = _asked(f"{api}/repos/{request.repository}/releases/latest", request)
    version = answer.get("tag_name") if isinstance(answer, dict) else None
    try:
        standing = compared(request.running, version if isinstance(version, str) else "")
    except ValueError as error:
        raise _failed("The answer isn't one that Hone understands.", request) from error
    page = f"{ADDRESS}/{request.repository}/releases/tag/{version}"
    return Release(version=str(version).removeprefix("v"), page=page, standing=standing)


def _asked(address: str, request: ReleaseRequest) -> Any:
    headers = {"Accept": "application/vnd.github+json", "User-Agent": "Hone"}
    question = urllib.request.Request(address, headers=headers)
    certificates = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the system's: a bundle brings none
    try:
        with urllib.request.urlopen(question, timeout=RELEASE_SECONDS, context=certificates) as answer:
            return json.loads(answer.read(LARGEST_ANSWER))
    except urllib.error.HTTPError as error:
        raise _answered(error, request) from error
    except urllib.error.URLError as error:
        raise _failed(_not_reached(error.reason, address), request) from error
    except (OSError, http.client.HTTPException) as error:
        raise _failed(_not_reached(error, address), request) from error
    except (ValueError, RecursionError) as error:
        raise _failed("The answer isn't one that Hone understands.", request) from error


def _answered(error: urllib.error.HTTPError, request: ReleaseRequest) -> UserError:
    """What an answer means that is none."""
    match error.code:
        case HTTPStatus.NOT_FOUND:
            return UserError(
                "No release was found", f"Nothing has been published at {ADDRESS}/{request.repository} yet."
            )
        case HTTPStatus.FORBIDDEN | HTTPStatus.TOO_MANY_REQUESTS if _is_limited(error):
            return _failed(
                "GitHub has been asked too often from this internet connection, which others may share. "
                f"Ask again in {_wait(error)}.",
                request,
            )
        case HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            return _failed(_PROXY, request)
        case code:
            return _failed(f"GitHub, or a proxy before it, answered with {code} {error.reason}.", request)


_PROXY = "The proxy wants a name and a password: set HTTPS_PROXY to http://name:password@host:port and start Hone anew."


def _not_reached(reason: object, address: str) -> str:
    """Why there was no answer at all."""
    host = address.split("/")[2]
    if isinstance(reason, ssl.SSLError):
        return (
            f"The certificate of {host} can't be verified. The clock of this computer may be wrong, or something "
            "between reads along whose certificate isn't among the system's."
        )
    if "407" in str(reason):
        return _PROXY
    if isinstance(reason, TimeoutError):
        return f"{host} didn't answer in {RELEASE_SECONDS:.0f} seconds. Check the internet connection, then ask again."
    if isinstance(reason, socket.gaierror):
        return f"{host} can't be found: there is no internet connection, or a proxy is needed (HTTPS_PROXY)."
    return f"{host} can't be reached ({reason}). Check the internet connection, and the proxy where you need one."


def _is_limited(error: urllib.error.HTTPError) -> bool:
    """Whether this address has asked too often: https://docs.github.com/en/rest/using-the-rest-api."""
    return error.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in error.headers


def _wait(error: urllib.error.HTTPError) -> str:
    """How long until GitHub answers again, an hour where it doesn't say."""
    until, after = error.headers.get("x-ratelimit-reset", ""), error.headers.get("retry-after", "")
    seconds = float(until) - time.time() if until.isdecimal() else 3600.0
    seconds = float(after) if after.isdecimal() else seconds
    minutes = max(1, min(60, round(seconds / 60)))
    return "a minute" if minutes == 1 else f"{minutes} minutes"


def _failed(why: str, request: ReleaseRequest) -> UserError:
    return UserError(NOT_FETCHED, why, (Fix(_by_hand(request)),))


def _by_hand(request: ReleaseRequest) -> str:
    return f"Look at {ADDRESS}/{request.repository}/releases"
