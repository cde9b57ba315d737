"""Takes out of a text what nobody else should read: tokens, passwords, and who and where the person is."""

import getpass
import json
import platform
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

SECRET, USER, HOST, HOME = "[secret]", "[user]", "[host]", "~"
SHORTEST_NAME = 3
"""A shorter user name is taken out of paths alone: as a word it may be any."""

_TOKENS = re.compile(
    r"\bhf_[A-Za-z0-9_-]{4,}"
    r"|\bapi_org_[A-Za-z0-9]{4,}"
    r"|\bsk-[A-Za-z0-9_-]{8,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{8,}|\bgithub_pat_[A-Za-z0-9_]{8,}|\bglpat-[A-Za-z0-9_-]{8,}"
    r"|\bA(?:KIA|SIA)[A-Z0-9]{12,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{8,}"
    r"|\bAIza[A-Za-z0-9_-]{20,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.?[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
"""Tokens as the services that give them out make them."""

_IN_ADDRESS = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)[^\s/@\"'<>]+@")
"""A name and a password before the host of an address."""

_QUOTE = r"(?:\\*[\"'])?"
"""A quote, perhaps escaped, as in JSON within JSON."""

_HEADER = re.compile(
    rf"(?i)(\b(?:proxy-)?authorization\b{_QUOTE}\s*[:=]\s*{_QUOTE})((?:bearer|basic|token|digest)\s+)?"
    r"[^\s\"',;}]+"
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{6,}")
_NAMED = re.compile(
    r"(?i)(?<![A-Za-z0-9_.-])([A-Za-z0-9_.-]*(?:api[_-]?key|secret|passw(?:or)?d|passwd|access[_-]?key|private[_-]?key|credential"
    r"|(?<![A-Za-z])(?:hf|hub|auth|access|refresh|id|session|csrf|api)?[_-]?token(?![A-Za-z])|cookie)"
    rf"[A-Za-z0-9_-]{{0,64}}{_QUOTE}\s*[:=]\s*)"
    r"(\\*\"[^\"\n]*\"|\\*'[^'\n]*'|[^\s\"',;&}\])]+)"
)
"""What is called a key, a password or a token, and is given a value. Counts of tokens are none."""

_OPENING = re.compile(r"\\*[\"']")
_NUMBER = re.compile(r"[\"']?[+-]?[\d.,]+[\"']?|null|None|true|false", re.IGNORECASE)
_HOMES = re.compile(
    r"(?i)((?:/(?:home|Users)/|\b[a-z]:(?:\\\\|\\|/)Users(?:\\\\|\\|/)))([^\s/\\\"':,;<>|)\]]+)"
)
"""The folders of anybody's home."""


@dataclass(frozen=True)
class Redactor:
    """Redacts texts. `homes` are folders that become `~`, `users` and `hosts` names."""

    homes: tuple[str, ...]
    users: tuple[str, ...]
    hosts: tuple[str, ...]

    @classmethod
    def of_this_computer(cls, hosts: Iterable[str] = ()) -> "Redactor":
        """For the person who sits here; `hosts` are other names the computer has had."""
        home = Path.home()
        homes = dict.fromkeys((str(home), str(home.resolve())))
        names = dict.fromkeys((_user(), home.name))
        all_hosts = dict.fromkeys((platform.node(), *hosts))
        return cls(tuple(homes), tuple(filter(None, names)), tuple(filter(None, all_hosts)))

    def __call__(self, text: str) -> str:
        """The text with all of it taken out; lines stay lines."""
        text = text.replace("\x00", "")  # a text in UTF-16 would hide a token between its letters
        text = _TOKENS.sub(SECRET, text)
        text = _IN_ADDRESS.sub(rf"\g<1>{SECRET}@", text)
        text = _HEADER.sub(rf"\g<1>{SECRET}", text)
        text = _BEARER.sub(rf"\g<1>{SECRET}", text)
        text = _NAMED.sub(_without_value, text)
        for form in self._forms_of_homes:
            text = text.replace(form, HOME)
        text = _HOMES.sub(rf"\g<1>{USER}", text)
        return self._names.sub(_stand_in(self.hosts), text) if self._names else text

    @cached_property
    def _forms_of_homes(self) -> tuple[str, ...]:
        """The homes as paths, JSON and addresses have them, the longest first; the root of a disk is no home."""
        homes = [home for home in self.homes if len(home.strip("/\\:")) > 1]
        return tuple(sorted({form for home in homes for form in _written(home)}, key=len, reverse=True))

    @cached_property
    def _names(self) -> re.Pattern[str] | None:
        users = [name for name in self.users if len(name) >= SHORTEST_NAME]
        hosts = [
            name
            for host in self.hosts
            for name in (host, host.partition(".")[0])
            if len(name) >= SHORTEST_NAME
        ]
        forms = sorted({form for name in (*hosts, *users) for form in _written(name)}, key=len, reverse=True)
        if not forms:
            return None
        return re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, forms))})(?![A-Za-z0-9])")


def _written(text: str) -> Iterator[str]:
    """A text as it stands, as JSON and Python write it, with slashes the other way, and in an address."""
    yield text
    yield text.replace("\\", "/")
    yield text.replace("\\", "\\\\")
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield quote(text)
    yield quote(text.replace("\\", "/"))


def _stand_in(hosts: Iterable[str]) -> Callable[[re.Match[str]], str]:
    known = {
        form.lower() for host in hosts for name in (host, host.partition(".")[0]) for form in _written(name)
    }
    return lambda found: HOST if found[0].lower() in known else USER


def _without_value(found: re.Match[str]) -> str:
    value = found[2]
    if _NUMBER.fullmatch(value) or SECRET in value:
        return found[0]
    mark = _OPENING.match(value)
    return f"{found[1]}{mark[0]}{SECRET}{mark[0]}" if mark else f"{found[1]}{SECRET}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a number without a name, as in containers
        return ""
