"""The download of uv for PyTorch with CUDA: requests that send nothing that identifies the user."""

import hashlib
import http.client
import json
import platform
import ssl
import sys
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

SECONDS = 15.0
"""Timeout of each step of a request."""

MAX_BYTES = 64 << 20
PROXY = _("The proxy requires a login: set HTTPS_PROXY to http://name:password@host:port and restart Hone.")

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
"""Name and SHA-256 of the wheel, by system and processor."""


def read(address: str, title: str, *fixes: Fix) -> bytes:
    """Download from an HTTPS address, with the system's certificates: a bundle has none.

    Raises:
        UserError: With this title and these fixes, if it fails.
    """
    request = urllib.request.Request(address, headers={"User-Agent": "Hone"})
    certificates = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS, context=certificates) as answer:
            return bytes(answer.read(MAX_BYTES))
    except (OSError, http.client.HTTPException) as error:  # URLError and HTTPError are OSErrors
        raise UserError(title, _explain(error, urlsplit(address).netloc), fixes) from error


def fetch_uv(folder: Path, *, index: str = UV_INDEX) -> Path:
    """Download uv into a folder, unless it is there: from PyPI, a fixed version, checked against its hash.

    Raises:
        UserError: There is none for this system, or the download failed.
        OSError: It can't be written.
    """
    program = folder / f"{UV_VERSION}-{UV}"
    if program.is_file():
        return program
    title = _("uv, which installs PyTorch with CUDA, couldn't be downloaded")
    fix = Fix(_("Install uv {version} or newer yourself (docs.astral.sh/uv)").format(version=UV_VERSION))
    name, digest = UV_WHEELS.get((sys.platform, platform.machine().lower()), ("", ""))
    listed = read(f"{index}/uv/{UV_VERSION}/json", title, fix)  # https://docs.pypi.org/api/json/
    try:
        address = {file["filename"]: file["url"] for file in json.loads(listed)["urls"]}[name]
    except (ValueError, KeyError, TypeError) as error:
        detail = _("{host} has no uv {version} for this system ({system}, {machine}).").format(
            host=urlsplit(index).netloc,
            version=UV_VERSION,
            system=sys.platform,
            machine=platform.machine(),
        )
        raise UserError(title, detail, (fix,)) from error
    wheel = read(address, title, fix)
    if hashlib.sha256(wheel).hexdigest() != digest:
        raise UserError(title, _("The hash of {name} is wrong.").format(name=name), (fix,))
    with zipfile.ZipFile(BytesIO(wheel)) as archive:
        content = archive.read(f"uv-{UV_VERSION}.data/scripts/{UV}")
    folder.mkdir(parents=True, exist_ok=True)
    part = program.with_name(f"{program.name}.part")
    part.write_bytes(content)
    part.chmod(0o755)
    part.replace(program)
    return program


def _explain(error: Exception, host: str) -> str:
    reason = getattr(error, "reason", error)
    if "407" in str(reason) or getattr(error, "code", 0) == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return PROXY
    if isinstance(error, urllib.error.HTTPError):
        return _("{host}, or a proxy, answered {code} {reason}.").format(
            host=host, code=error.code, reason=error.reason
        )
    if isinstance(reason, ssl.SSLError):
        text = _("The certificate of {host} can't be verified: a proxy intercepts, or the clock is wrong.")
    elif isinstance(reason, TimeoutError):
        text = _("{host} didn't answer in time. Check the internet connection.")
    else:
        text = _(
            "{host} can't be reached ({reason}). Check the internet connection, and HTTPS_PROXY for a proxy."
        )
    return text.format(host=host, reason=reason)
