"""The download of uv for PyTorch with CUDA: requests that send nothing that identifies the user."""

import platform
import ssl
import sys
import urllib.error
from http import HTTPStatus
from pathlib import Path

import truststore

from core.base import uv
from core.base.errors import Fix, UserError
from core.base.language import _

PROXY = _("The proxy requires a login: set HTTPS_PROXY to http://name:password@host:port and restart Hone.")


def read(address: str, title: str, *fixes: Fix) -> bytes:
    """Downloads from an address, with the system's certificates: a bundle has none.

    Raises:
        UserError: With this title and these fixes, if it fails.
    """
    try:
        return uv.read(address, truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    except OSError as error:  # URLError and HTTPError are OSErrors
        raise UserError(title, _explain(error, uv.host(address)), fixes) from error


def fetch_uv(folder: Path) -> Path:
    """Downloads uv into a folder, unless it is there, from where it installs packages.

    Raises:
        UserError: There is none for this system, or the download failed.
        OSError: It can't be written.
    """
    index = uv.index()
    title = _("uv, which installs PyTorch with CUDA, couldn't be downloaded")
    fix = Fix(_("Install uv {version} or newer yourself (docs.astral.sh/uv)").format(version=uv.VERSION))
    try:
        return uv.fetch(folder, index, lambda address: read(address, title, fix))
    except LookupError as error:
        detail = _("{host} has no uv {version} for this system ({system}, {machine}).").format(
            host=uv.host(index) or "UV_FIND_LINKS",
            version=uv.VERSION,
            system=sys.platform,
            machine=platform.machine(),
        )
        raise UserError(title, detail, (fix,)) from error
    except ValueError as error:
        name, _hash = uv.wheel()
        raise UserError(title, _("The hash of {name} is wrong.").format(name=name), (fix,)) from error


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
