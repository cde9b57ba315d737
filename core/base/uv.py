"""uv, which installs Python packages: how it is fetched, what it is told, and why it failed.

start.py, PyTorch with CUDA beside a bundle and other computers install with it. Standard library only, in syntax that
Python 3.8 reads; `python -m core.base.uv FOLDER` fetches it and prints its path.
"""

from __future__ import annotations

import configparser
import hashlib
import html
import os
import platform
import re
import sys
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from core.base.language import _

if TYPE_CHECKING:
    import ssl

# --- Fetch it

VERSION = "0.13.9"
PROGRAM = "uv.exe" if sys.platform == "win32" else "uv"
WHEELS = {
    ("linux", "x86_64"): (
        "uv-0.13.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    ),
    ("linux", "aarch64"): (
        "uv-0.13.9-py3-none-manylinux_2_28_aarch64.whl",
        "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
    ),
    ("darwin", "arm64"): (
        "uv-0.13.9-py3-none-macosx_11_0_arm64.whl",
        "66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63",
    ),
    ("win32", "amd64"): (
        "uv-0.13.9-py3-none-win_amd64.whl",
        "6a44b2ed8111d2f60d2b92627c5dccda3f7ed7570b18ce115e569cd68c28246b",
    ),
}
"""Name and SHA-256 of the wheel, by system and processor."""

PYPI = "https://pypi.org/simple"
SECONDS = 15.0
"""Timeout of each step of a request."""


def read(address: str, certificates: ssl.SSLContext | None = None) -> bytes:
    """Downloads a file with the login in its address, and with the proxies and certificates that uv is told of.

    Args:
        address: As `https://name:password@host/path`; name and password are sent to that host alone.
        certificates: Those that are trusted; None: what Python trusts.

    Raises:
        OSError: It can't be read.
    """
    import ssl  # these are slow to import
    from base64 import b64encode
    from http.client import HTTPException
    from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

    told, parts = _told(), urlsplit(address)
    request = Request(parts._replace(netloc=host(address)).geturl(), headers={"User-Agent": "Hone"})
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        request.add_unredirected_header("Authorization", f"Basic {b64encode(login).decode()}")
    certificates = certificates or ssl.create_default_context()
    if Path(told.get("SSL_CERT_FILE", "")).is_file():
        certificates.load_verify_locations(told["SSL_CERT_FILE"])
    if {host(address), parts.hostname} & {*told.get("UV_INSECURE_HOST", "").split()}:
        certificates.check_hostname = False  # the hash protects what is downloaded
        certificates.verify_mode = ssl.CERT_NONE
    proxies = {kind: told.get(f"{kind.upper()}_PROXY", "") for kind in ("http", "https")}
    proxy = ProxyHandler({kind: proxy for kind, proxy in proxies.items() if proxy})
    try:
        opener = build_opener(proxy, HTTPSHandler(context=certificates))
        with opener.open(request, timeout=SECONDS) as answer:
            return bytes(answer.read())
    except HTTPException as error:
        raise OSError(str(error)) from error


def host(address: str) -> str:
    """Returns host and port of an address, without the name and password that a message must not show."""
    return urlsplit(address).netloc.rpartition("@")[2]


def fetch(folder: Path, index: str, read: Callable[[str], bytes] = read) -> Path:
    """Downloads uv into a folder, unless it is there, in one version that is checked against its hash.

    Args:
        folder: Made if it isn't there.
        index: A package index (https://packaging.python.org/en/latest/specifications/simple-repository-api/),
            asked where no folder of wheels that uv is told of has it; empty to ask none.
        read: Downloads from an address.

    Raises:
        LookupError: There is none for this system.
        ValueError: Its hash is wrong.
        OSError: It can't be read or written; and what else `read` raises.
    """
    program = folder / f"{VERSION}-{PROGRAM}"
    if program.is_file():
        return program
    name, digest = wheel()
    packed = _from_folders(name) or _from_index(name, index, read)
    if not packed:
        raise LookupError(f"there is none for {sys.platform} on {platform.machine()}")
    if hashlib.sha256(packed).hexdigest() != digest:
        raise ValueError(f"hash mismatch of {name}")
    with zipfile.ZipFile(BytesIO(packed)) as archive:
        content = archive.read(f"uv-{VERSION}.data/scripts/{PROGRAM}")
    folder.mkdir(parents=True, exist_ok=True)
    part = program.with_name(f"{program.name}.part")
    part.write_bytes(content)
    part.chmod(0o755)
    part.replace(program)
    return program


def _from_folders(name: str) -> bytes:
    """Returns a wheel from the folders of wheels that uv is told of; empty if none has it."""
    from urllib.request import url2pathname  # slow to import

    for folder in filter(None, _told().get("UV_FIND_LINKS", "").split(",")):
        path = url2pathname(urlsplit(folder).path) if folder.startswith("file:") else folder
        if Path(path, name).is_file():
            return Path(path, name).read_bytes()
    return b""


def _from_index(name: str, index: str, read: Callable[[str], bytes]) -> bytes:
    """Returns a wheel from an index, whose login counts for all of its host, as for pip; empty if it has none."""
    if not name or not index:
        return b""
    page = f"{index.rstrip('/')}/uv/"
    for link in map(html.unescape, re.findall(r'href="([^"]+)"', read(page).decode(errors="replace"))):
        parts = urlsplit(urljoin(page, link))
        if unquote(parts.path).rpartition("/")[2] == name:
            of_index = urlsplit(page)
            if (parts.scheme, host(parts.geturl())) == (of_index.scheme, host(page)):
                parts = parts._replace(netloc=of_index.netloc)
            return read(parts.geturl())
    return b""


def wheel() -> tuple[str, str]:
    """Returns name and SHA-256 of the wheel for this system; empty if there is none."""
    return WHEELS.get((sys.platform, platform.machine().lower()), ("", ""))


def index() -> str:
    """Returns the package index that uv and pip install from; empty where they install from folders of wheels alone."""
    told = _told()
    alone = told.get("UV_NO_INDEX", "").lower() in ("1", "on", "t", "true", "y", "yes")
    return "" if alone else told.get("UV_DEFAULT_INDEX", PYPI)


# --- What it is told

VENV = ("venv", "--clear", "--python")
"""Arguments that make an environment; a Python and a folder follow."""

INSTALL = ("pip", "install", "--python")
"""Arguments that install packages; the Python of an environment and what is wanted follow."""

SETTINGS = {
    "UV_HTTP_TIMEOUT": "120",
    "UV_PYTHON_INSTALL_BIN": "0",
    "UV_PYTHON_INSTALL_REGISTRY": "0",
    "UV_SYSTEM_CERTS": "1",
}
"""Variables for uv: a longer timeout than its 30 s, a Python of its own that stays out of the system's way."""

CAPABILITY_QUERY = "nvidia-smi --query-gpu=compute_cap --format=csv,noheader"
"""The command that prints the compute capability of each NVIDIA card, such as 8.6, a line each."""

OLDEST_OF_CUDA_13 = (7, 5)
"""Compute capability of the Turing cards, the oldest that CUDA 13 has code for."""


BEFORE_TURING = "cu126"


def torch_backend(capability: tuple[int, int] | None) -> str:
    """Returns the value of uv's `--torch-backend` for an NVIDIA card: `auto` looks at its driver alone."""
    return BEFORE_TURING if capability is not None and capability < OLDEST_OF_CUDA_13 else "auto"


def capability_of(printed: str) -> tuple[int, int] | None:
    """Returns the lowest compute capability that `CAPABILITY_QUERY` printed; None if there is none."""
    found = re.findall(r"^(\d{1,2})\.(\d)\s*$", printed, re.MULTILINE | re.ASCII)
    return min(((int(major), int(minor)) for major, minor in found), default=None)


OF_PIP = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "HTTPS_PROXY",
}
"""Settings of pip, and the variables that tell the same to uv, which reads nothing of pip's."""


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns variables for uv that aren't set already: `SETTINGS`, the system's proxies, and what pip is told."""
    from urllib.request import getproxies  # slow to import

    told = pip_settings(environ)
    wanted = {**SETTINGS, **{f"{kind.upper()}_PROXY": address for kind, address in getproxies().items()}}
    wanted.update({OF_PIP[name]: value for name, value in told.items()})
    if "proxy" in told:  # urllib reads no ALL_PROXY
        wanted["HTTP_PROXY"] = told["proxy"]
    if "trusted-host" in told:
        wanted["UV_INSECURE_HOST"] = " ".join(told["trusted-host"].split())
    if "find-links" in told:
        wanted["UV_FIND_LINKS"] = ",".join(told["find-links"].split())
    if "extra-index-url" in told:  # as pip, take the newest of all
        wanted["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    known = {name.upper() for name in environ}
    return {name: value for name, value in wanted.items() if name not in known}


def _told() -> dict[str, str]:
    """Returns all variables for uv, in capitals."""
    return {name.upper(): value for name, value in {**environment(), **os.environ}.items()}


def pip_settings(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns what pip's files and variables say of `OF_PIP` (https://pip.pypa.io/en/stable/topics/configuration/)."""
    found = {"cert": environ.get("REQUESTS_CA_BUNDLE", "")}  # which pip reads, and uv doesn't
    for file in _pip_files(environ):
        config = configparser.RawConfigParser(strict=False)
        try:
            config.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue  # pip itself says what is wrong with it
        for section in ("global", "install"):
            if config.has_section(section):
                found.update({name.replace("_", "-"): value for name, value in config.items(section)})
    for name in OF_PIP:
        value = environ.get(f"PIP_{name.upper().replace('-', '_')}")
        if value is not None:
            found[name] = value
    return {name: found[name] for name in OF_PIP if found.get(name)}


def _pip_files(environ: Mapping[str, str]) -> list[Path]:
    """Returns where pip looks, what counts most last."""
    home = Path.home()
    if sys.platform == "win32":
        folders = [Path(environ[name], "pip") for name in ("PROGRAMDATA", "APPDATA") if name in environ]
    elif sys.platform == "darwin":
        support = Path("Library", "Application Support", "pip")
        folders = ["/" / support, home / ".config" / "pip", home / support]
    else:
        system = environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")
        own = environ.get("XDG_CONFIG_HOME", home / ".config")
        folders = [*(Path(folder, "pip") for folder in system), Path("/etc"), home / ".pip", Path(own, "pip")]
    name = "pip.ini" if sys.platform == "win32" else "pip.conf"
    chosen = environ.get("PIP_CONFIG_FILE")
    return [*(folder / name for folder in [*folders, Path(sys.prefix)]), *([Path(chosen)] if chosen else [])]


# --- Why it failed

UNREACHED = (
    r"dns error|[Cc]onnect|[Tt]imed? ?out|Name or service|error sending request|"
    r"Network|response body|end of file"
)
SERVER = re.compile(r"https?://(?:[^/\s@]*@)?([\w.:\[\]-]+)|host='([\w.:-]+)'", re.ASCII)
"""The server that an error names, without a name and password."""

CAUSES = {
    r"No space left|not enough space|os error (28|112)": (_("The disk is full."), _("Free some disk space")),
    r"\b407\b|[Pp]roxy": (
        _("A proxy refused the connection."),
        _("Set HTTPS_PROXY to its address, with name and password if it wants them"),
    ),
    r"certificate|CERTIFICATE|UnknownIssuer": (
        _("The server's certificate isn't trusted by this system."),
        _("Set SSL_CERT_FILE to the certificates of your network"),
    ),
    r"[Nn]o solution found when resolving dependencies|no version of|not found in the": (
        _("A library that Hone needs has no build for this computer."),
        _("Look for a newer version of Hone"),
    ),
    UNREACHED: (
        _("The internet can't be reached, or is too slow."),
        _("Check the connection, and set HTTPS_PROXY if there is a proxy"),
    ),
    r"Permission denied|Access is denied|os error (5|13)\b": (
        _("A file couldn't be read or written."),
        _("Check that Hone's folder belongs to you, and that no other program blocks it"),
    ),
    r"[Hh]ash mismatch|[Ii]nvalid zip|CRC|Wheel .* is invalid|corrupt|Failed to (read|extract)|deflate": (
        _("A downloaded file is damaged."),
        _("Remove what was downloaded"),
    ),
}
"""Cause and fix by pattern in uv's output; the first match counts.

Damage comes last: uv prints "Failed to extract" for broken connections and full disks, too.
"""


def why_not_installed(output: str) -> tuple[str, str, tuple[str, ...]]:
    """Returns the cause and a fix, empty if unknown, and the last lines of what uv printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(error|cause|×|├|╰)|.*\bError\b", line, re.IGNORECASE)]
    for text in ("\n".join(errors), output):
        for pattern, (cause, fix) in CAUSES.items():
            if re.search(pattern, text):
                server = SERVER.search(text) if pattern == UNREACHED else None
                if server is not None:
                    unreached = _("{address} can't be reached, or is too slow.")
                    return unreached.format(address=server[1] or server[2]), fix, tuple(lines[-3:])
                return cause, fix, tuple(lines[-3:])
    return "", "", tuple(lines[-3:])


if __name__ == "__main__":
    try:
        print(fetch(Path(sys.argv[1]), index()))
    except (OSError, LookupError, ValueError) as error:
        source = index()
        place = f"{urlsplit(source).scheme}://{host(source)}" if source else "UV_FIND_LINKS"
        sys.exit(f"error: uv {VERSION} couldn't be downloaded from {place} ({error})")
