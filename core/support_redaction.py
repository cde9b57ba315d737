"""Takes out of a text what nobody else should read: tokens, passwords, and who and where the person is."""

import getpass
import json
import platform
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import quote

SECRET, USER, HOST, PLACE, LABEL = "[secret]", "[user]", "[host]", "[path]", "[label]"
SHORTEST_NAME = 3
"""A shorter name is left as it is: as a word it may be any."""

_QUOTE = r"(?:\\*[\"'])?"
"""A quote, perhaps escaped, as in JSON within JSON."""
_VALUE = r"(?:\\*\"[^\"\n]*\"|\\*'[^'\n]*'|(?:\[secret\]|[^\s\"',;&}\])])+)"
_CALLED = (
    r"(?i:[A-Za-z0-9_.-]*(?:api[_-]?key|secret|passw(?:or)?d|passwd|(?<![A-Za-z])pwd|access[_-]?key|private[_-]?key"
    r"|account[_-]?key|signature|credential|cookie|webhook"
    r"|(?<![A-Za-z])(?:hf|hub|auth|access|refresh|id|session|csrf|api)?[_-]?token(?![A-Za-z]))[A-Za-z0-9_-]{0,64})"
)
SECRETS: dict[str, str] = {
    "private keys": r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    "tokens by how they begin": r"\b(?:hf_|api_org_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|npm_|pypi-|ya29\.)"
    r"[A-Za-z0-9_-]{8,}|\bA(?:KIA|SIA)[A-Z0-9]{12,}|\bAIza[A-Za-z0-9_-]{20,}|\bdapi[0-9a-f]{16,}",
    "JSON web tokens": r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.?[A-Za-z0-9_-]*",
    "webhooks": r"(?<=hooks\.slack\.com/)[A-Za-z0-9/_-]+",
    "passwords in addresses": r"(?i)(?P<keep>\b[a-z][a-z0-9+.-]{0,30}://)[^\s/@\"'<>]+(?=@)",
    "headers": rf"(?i)(?P<keep>\b(?:proxy-)?authorization\b{_QUOTE}\s*[:=]\s*{_QUOTE})"
    r"(?:(?:bearer|basic|token|digest)\s+)?[^\s\"',;}]+",
    "bearers": r"(?i)(?P<keep>\bbearer\s+)[A-Za-z0-9._~+/=-]{6,}",
    "arguments": rf"(?P<keep>(?<![A-Za-z0-9-])--?{_CALLED}\s+){_VALUE}",
    "what is called so": rf"(?P<keep>(?<![A-Za-z0-9_.-]){_CALLED}{_QUOTE}\s*[:=]\s*){_VALUE}",
    "keys of Weights & Biases": r"(?i)(?P<keep>\bwandb:[^\n]{0,80}?\bkey\b\W{1,4}|\bwandb login\s+)\w+",
}
"""What is taken out, by what it is; of a match, `keep` stays. Counts of tokens stay: a number under a name."""

_SECRET = [
    (re.compile(pattern), name in ("arguments", "what is called so")) for name, pattern in SECRETS.items()
]
_OPENING = re.compile(r"\\*[\"']")
_NUMBER = re.compile(r"[\"']?[+-]?[\d.,]+[\"']?|null|None|true|false", re.IGNORECASE)

_REST = r"[^\s\"'<>|,;()\[\]{}“”:"
_POSIX = r"~?/(?=[^/\s])(?!(?<=\d /)s(?![\w/.-])|(?<=\[/)[A-Z_]+\])"
"""But for "5 /s" and "[/INST]"."""
_WINDOWS = r"(?:[A-Za-z]:(?:\\{1,4}|/)|\\{2,4}[A-Za-z0-9_.-]+\\{1,2})"
_WORD = r" +[^\s\"'<>|,;()\[\]{}“”:/\\]+"
_UNENDED = "".join(rf"(?<!\.\w{{{count}}})" for count in range(6))
_TAIL = rf"(?:{_UNENDED}(?:{_WORD}){{0,4}}?{_WORD}(?:[\\/]{_REST}]*|(?<=\.)[A-Za-z]\w{{0,4}}(?![\w.])))*"
"""What follows a blank in a path without quotes: up to another separator or a file ending, within five words."""
_PATHS = re.compile(
    rf"(?P<quote>[\"'])(?:{_POSIX}|{_WINDOWS})(?:[^\"'\n:\\]|\\(?![\"']))*(?=(?P=quote))"  # with spaces
    r"|(?:\bfile:/*|(?<![A-Za-z0-9_/.<\]\\])|(?<=\\[nrt]))"
    rf"(?:{_POSIX}{_REST}\\]*|{_WINDOWS}{_REST}]*){_TAIL}"
    rf"|\[path\](?:/{_REST}\\]*|\\{_REST}]*)"
)
_OF_A_PROGRAM = re.compile(
    r"(?:site-packages|dist-packages|lib[\\/]+python3\.\d+)[\\/]+.*|\b(?:core|gui)[\\/]+[\w\\/]+\.py$"
)
"""The end of a path that says where in a program something happened, and nothing of the person."""


@dataclass(frozen=True)
class Redactor:
    """Redacts texts. `places` are paths and what files are called; `users`, `hosts` and `labels` of the data names."""

    places: tuple[str, ...]
    users: tuple[str, ...]
    hosts: tuple[str, ...]
    labels: tuple[str, ...] = ()

    @classmethod
    def of_this_computer(
        cls, hosts: Iterable[str] = (), places: Iterable[str] = (), labels: Iterable[str] = ()
    ) -> "Redactor":
        """For the person who sits here; `hosts` are other names the computer has had."""
        home = Path.home()
        all_places = dict.fromkeys((*places, str(home), str(home.resolve())))
        names = dict.fromkeys((_user(), home.name))
        all_hosts = dict.fromkeys((platform.node(), *hosts))
        return cls(
            tuple(all_places), tuple(filter(None, names)), tuple(filter(None, all_hosts)), tuple(labels)
        )

    def __call__(self, text: str) -> str:
        """The text with all of it taken out; lines stay lines."""
        text = text.replace("\x00", "")  # a text in UTF-16 would hide a token between its letters
        for pattern, is_named in _SECRET:
            text = pattern.sub(partial(_without_value, is_named), text)
        for pattern, stand_in in self._words:
            text = pattern.sub(stand_in, text)
        text = _PATHS.sub(_without_path, text)
        return self._names.sub(_stand_in(self.hosts), text) if self._names else text

    @cached_property
    def _words(self) -> list[tuple[re.Pattern[str], str]]:
        """The places as paths, JSON and addresses have them, the longest first; and labels where they are quoted."""
        places = [place for place in self.places if len(place.strip("/\\:")) > 1]
        found = (
            (places, r"(?<![A-Za-z0-9_.-])", r"(?![A-Za-z0-9_])", PLACE),
            (self.labels, "(?<=[“‘'])", "(?=[”’'])", LABEL),
        )
        return [
            (re.compile(f"{before}(?:{'|'.join(map(re.escape, forms))}){after}"), stand_in)
            for texts, before, after, stand_in in found
            if (forms := sorted({form for text in texts for form in _written(text)}, key=len, reverse=True))
        ]

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


def _without_value(is_named: bool, found: re.Match[str]) -> str:
    keep = found.groupdict().get("keep") or ""
    value = found[0][len(keep) :]
    if is_named and _NUMBER.fullmatch(value):
        return found[0]
    mark = _OPENING.match(value)
    return f"{keep}{mark[0]}{SECRET}{mark[0]}" if mark else f"{keep}{SECRET}"


def _without_path(found: re.Match[str]) -> str:
    end = _OF_A_PROGRAM.search(found[0])
    return f"{found['quote'] or ''}{PLACE}{f'/{end[0]}' if end else ''}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a number without a name, as in containers
        return ""
