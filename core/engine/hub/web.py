"""Requests that don't go through huggingface_hub: the newest release of Hone, and uv for PyTorch with CUDA.

Nothing in them tells who asks.
"""

import hashlib
import http.client
import json
import platform
import re
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
import zipfile
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import truststore

from core.base.errors import Fix, UserError
from core.base.language import _
from core.services import hub
from core.services.hub import ADDRESS, API, Release, ReleaseRequest, ReleaseStanding

SECONDS = 15.0
"""How long each step of a request may take."""

LARGEST = 64 << 20
NOT_UNDERSTOOD = _("The answer isn't one that Hone understands.")
PROXY = "The proxy wants a name and a password: set HTTPS_PROXY to http://name:password@host:port and restart Hone."

UV_VERSION = "0.13.9"
UV = "uv.exe" if sys.platform == "win32" else "uv"
UV_INDEX = "https://pypi.org/pypi"
UV_WHEELS = {
    ("linux", "x86_64"): (
        "uv-0.13.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    ),
    ("linux", "aarch64"): (
        "uv-0.13.9-py3-none-manylinux_2_28_aarch64.whl",
        "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
    ),
    ("win32", "amd64"): (
        "uv-0.13.9-py3-none-win_amd64.whl",
        "6a44b2ed8111d2f60d2b92627c5dccda3f7ed7570b18ce115e569cd68c28246b",
    ),
}
"""By system and processor, the wheel's name and SHA-256."""


def read(address: str, title: str, *fixes: Fix) -> bytes:
    """What is at an HTTPS address, with the certificates of the system: a bundle brings none.

    Raises:
        UserError: With this title and these fixes: it can't be had.
    """
    headers = {"Accept": "application/vnd.github+json", "User-Agent": "Hone"}
    asked = urllib.request.Request(address, headers=headers)
    certificates = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS, context=certificates) as answer:
            return bytes(answer.read(LARGEST))
    except urllib.error.HTTPError as error:
        raise UserError(title, _refusal(error, urlsplit(address).netloc), fixes) from error
    except (OSError, http.client.HTTPException) as error:  # URLError is one
        reason = getattr(error, "reason", error)
        raise UserError(title, _unreachable(reason, urlsplit(address).netloc), fixes) from error


def newest_release(request: ReleaseRequest, *, api: str = API) -> Release:
    """Ask GitHub (https://docs.github.com/en/rest/releases/releases#get-the-latest-release).

    Raises:
        UserError: There is none, Hone works offline, or the request failed.
    """
    by_hand = Fix(
        _("Look at {address}/{repository}/releases").format(address=ADDRESS, repository=request.repository)
    )
    by = hub.forbidden_by()
    if by:
        raise UserError(
            _("Hone works offline"), _("{by} forbids asking for a newer release.").format(by=by), (by_hand,)
        )
    title = _("Hone couldn't ask for a newer release")
    answer = read(f"{api}/repos/{request.repository}/releases/latest", title, by_hand)
    try:
        version = json.loads(answer)["tag_name"]
        running, newest = _numbers(request.running), _numbers(version)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(title, NOT_UNDERSTOOD, (by_hand,)) from error
    standing = ReleaseStanding.OLDER if running < newest else ReleaseStanding.NEWER
    if running == newest:
        standing = ReleaseStanding.SAME
    page = f"{ADDRESS}/{request.repository}/releases/tag/{version}"
    return Release(version=version.removeprefix("v"), page=page, standing=standing)


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version without the zeros at its end: 1.2 and 1.2.0 are the same."""
    return tuple(int(part) for part in re.sub(r"(\.0)+$", "", version.removeprefix("v")).split("."))


def uv_program(folder: Path) -> Path:
    return folder / f"{UV_VERSION}-{UV}"


def fetch_uv(folder: Path, *, index: str = UV_INDEX) -> Path:
    """Put uv into a folder, unless it is there: from PyPI, in the version that was tried, checked against its hash.

    Raises:
        UserError: There is none for this system, or it can't be fetched.
        OSError: It can't be written.
    """
    program = uv_program(folder)
    if program.is_file():
        return program
    title = _("uv, which installs PyTorch with CUDA, couldn't be fetched")
    fix = Fix(
        _("Install uv {uv_version} or newer yourself (docs.astral.sh/uv): Hone then takes that").format(
            uv_version=UV_VERSION
        )
    )
    name, digest = UV_WHEELS.get((sys.platform, platform.machine().lower()), ("", ""))
    listed = read(f"{index}/uv/{UV_VERSION}/json", title, fix)  # https://docs.pypi.org/api/json/
    try:
        address = {file["filename"]: file["url"] for file in json.loads(listed)["urls"]}[name]
    except (ValueError, KeyError, TypeError) as error:
        said = _("{netloc} has no uv {uv_version} for {platform} on {machine}.").format(
            netloc=urlsplit(index).netloc,
            uv_version=UV_VERSION,
            platform=sys.platform,
            machine=platform.machine(),
        )
        raise UserError(title, said, (fix,)) from error
    wheel = read(address, title, fix)
    if hashlib.sha256(wheel).hexdigest() != digest:
        raise UserError(title, _("{name} isn't the file whose hash Hone knows.").format(name=name), (fix,))
    with zipfile.ZipFile(BytesIO(wheel)) as packed:
        content = packed.read(f"uv-{UV_VERSION}.data/scripts/{UV}")
    folder.mkdir(parents=True, exist_ok=True)
    part = program.with_name(f"{program.name}.part")
    part.write_bytes(content)
    part.chmod(0o755)
    part.replace(program)
    return program


def _refusal(error: urllib.error.HTTPError, host: str) -> str:
    match error.code:
        case HTTPStatus.NOT_FOUND:
            return _("{host} answered with 404: nothing is published there.").format(host=host)
        case HTTPStatus.FORBIDDEN | HTTPStatus.TOO_MANY_REQUESTS if (wait := _wait(error)) is not None:
            return _(
                "{host} was asked too often from this internet connection. Try again in {wait} min."
            ).format(host=host, wait=wait)
        case HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            return PROXY
        case code:
            return _("{host}, or a proxy before it, answered with {code} {reason}.").format(
                host=host, code=code, reason=error.reason
            )


def _wait(error: urllib.error.HTTPError) -> int | None:
    """Minutes until a server that limits requests answers again; None: it doesn't limit them.

    https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
    """
    until, after = error.headers.get("x-ratelimit-reset", ""), error.headers.get("retry-after", "")
    if error.headers.get("x-ratelimit-remaining") != "0" and not after:
        return None
    seconds = float(until) - time.time() if until.isdecimal() else 3600.0
    seconds = float(after) if after.isdecimal() else seconds
    return max(1, min(60, round(seconds / 60)))


def _unreachable(reason: object, host: str) -> str:
    if isinstance(reason, ssl.SSLError):
        return _(
            "The certificate of {host} can't be verified. This computer's clock may be wrong, or "
            "a proxy reads along "
            "whose certificate the system doesn't know."
        ).format(host=host)
    if "407" in str(reason):
        return PROXY
    if isinstance(reason, TimeoutError):
        return _("{host} didn't answer in {seconds:.0f} seconds. Check the internet connection.").format(
            host=host, seconds=SECONDS
        )
    if isinstance(reason, socket.gaierror):
        return _(
            "{host} can't be found: there is no internet connection, or a proxy is needed (HTTPS_PROXY)."
        ).format(host=host)
    return _(
        "{host} can't be reached ({reason}). Check the internet connection, and HTTPS_PROXY "
        "if there is a proxy."
    ).format(host=host, reason=reason)
