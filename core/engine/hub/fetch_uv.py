"""Fetch uv, with which a GPU pack is filled: from PyPI, held against a hash that Hone knows."""

import hashlib
import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import truststore

from core.base.errors import Fix, UserError
from core.base.files import write_atomically
from core.services.gpu_install import HASHES, VERSION, UvFetched, UvRequest
from core.services.gpu_install import UV_INDEX as INDEX

UV_SECONDS = 30.0
"""How long each step of a request may take."""

LARGEST = 64 << 20
"""Bytes of an answer; the wheel has 18 MB."""

TITLE = "uv, which installs the GPU pack, couldn't be fetched"


def fetch_uv(request: UvRequest, *, index: str = INDEX) -> UvFetched:
    """Bring uv's wheel here, where it isn't.

    Raises:
        UserError: There is none for this system, or it can't be had; says what to do.
        OSError: It can't be written.
    """
    known = HASHES.get((request.system, request.processor))
    if known is None:
        raise UserError(TITLE, f"None is known for {request.system} on {request.processor}.", _BY_HAND)
    name, wanted = known
    target = Path(request.folder) / name
    if target.is_file() and hashlib.sha256(target.read_bytes()).hexdigest() == wanted:
        return UvFetched(path=str(target))
    content = _read(_address_of(name, index))
    if hashlib.sha256(content).hexdigest() != wanted:
        raise UserError(
            TITLE, "What came isn't the file that Hone knows: it is damaged, or another one.", _BY_HAND
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, content)
    return UvFetched(path=str(target))


_BY_HAND = (
    Fix("Try again later"),
    Fix(f"Install uv {VERSION} or newer yourself (docs.astral.sh/uv): Hone then takes that"),
)


def _address_of(name: str, index: str) -> str:
    """Where a file of uv lies, as https://docs.pypi.org/api/json/ tells it."""
    try:
        files = json.loads(_read(f"{index}/uv/{VERSION}/json"))["urls"]
        return next(str(file["url"]) for file in files if file["filename"] == name)
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise UserError(TITLE, f"{urlsplit(index).netloc} doesn't say where {name} is.", _BY_HAND) from error


def _read(address: str) -> bytes:
    certificates = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the system's: a bundle brings none
    try:
        with urllib.request.urlopen(address, timeout=UV_SECONDS, context=certificates) as answer:
            return bytes(answer.read(LARGEST))
    except urllib.error.HTTPError as error:
        raise UserError(
            TITLE, f"{urlsplit(address).netloc} answered {error.code} {error.reason}.", _BY_HAND
        ) from error
    except OSError as error:  # URLError is one, as is a connection that breaks off
        why = getattr(error, "reason", error)
        raise UserError(
            TITLE,
            f"{urlsplit(address).netloc} can't be reached: {why}",
            (
                Fix("See that this computer is online, and HTTPS_PROXY is set where it needs a proxy"),
                *_BY_HAND,
            ),
        ) from error
