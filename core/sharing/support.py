"""What somebody needs who helps with a run, in one file: what was asked, what happened, and the machine.

Tokens, passwords, names, labels and paths are taken out of every file. Examples, what the model said of them, and the
person's own prompts are left out: they are their data. The log may still quote a row of it, so all is shown first.
"""

import getpass
import json
import platform
import re
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import psutil
import tomli_w

from core.base import formats, settings
from core.base.files import is_link, load_toml, open_plain, writing, written_whole
from core.base.language import _
from core.base.settings import VERSION
from core.runs.folder import RunFolder
from core.runs.summary import status_at_end

# --- Takes out of a text what nobody else should read: tokens, passwords


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


# --- What somebody needs who helps with a run, in one file: what was asked, what happened


FIRST_BYTES, LAST_BYTES = 256 << 10, 768 << 10
"""Of a longer file, so much of its beginning and of its end is taken."""

HOLDS_DATA = ("examples_chosen", "predicted")
"""Events that hold examples and what was said of them."""

LEFT_OUT = _("[left out: data]")
_GAP = re.compile(rb"\[[0-9.,]+ [A-Za-z]+ in the middle are left out\]")
_HOST_FIELD = re.compile(r'("host"\s*:\s*)"(?:[^"\\]|\\.)*"?')
_PROMPTS = re.compile(r"(?ms)^(\s*prompts\s*=\s*)\[.*?\]")

WORDS = _(
    "Tokens, passwords, paths, labels, your name and this computer's are taken out. Examples, the model's predictions "
    "and your own prompts are left out. A log can still quote a row of your data, or name a file: look through it."
)


@dataclass(frozen=True)
class SupportFile:
    """One file, redacted. `note` says what of it is left out; empty: nothing."""

    name: str
    text: str = field(repr=False)
    note: str = ""


def collect(run: RunFolder, redactor: Redactor | None = None) -> tuple[SupportFile, ...]:
    """Read and redact what is to be handed on. A file that isn't there is passed over.

    Args:
        run: The run; its folder may be damaged.
        redactor: Takes out what nobody should read; None: for the person who sits here.
    """
    keeper = run.keeper_record()
    plan = status_at_end(run, and_beginning=True).plan
    redact = redactor or Redactor.of_this_computer(
        [keeper.host] if keeper else [], _places(run), plan.labels if plan else ()
    )
    found = [SupportFile("about.txt", _about(run))]
    for path, prepare in _files(run):
        read = _read(path)
        if read is not None:
            text, note = read
            prepared, more = prepare(text)
            found.append(SupportFile(path.name, prepared, " ".join(filter(None, (note, more)))))
    return tuple(SupportFile(one.name, redact(one.text), redact(one.note)) for one in found)


def _places(run: RunFolder) -> Iterator[str]:
    """Where the run, its data and its model lie, and what their files are called."""
    options = run.readable_options()
    sources = (options.data.train, options.data.eval, options.model.source) if options else ()
    for place in (str(run.path.absolute()), *filter(None, sources)):
        if Path(place).is_absolute() or place.startswith("~"):
            yield place
            if not Path(place).name.isalpha():  # else it may be any word
                yield Path(place).name


Prepare = Callable[[bytes], tuple[str, str]]


def _files(run: RunFolder) -> Iterator[tuple[Path, Prepare]]:
    yield run.options_file, _options
    yield run.events_file, _events
    yield run.machine_file, _events
    yield run.log_file, _plain
    yield run.exit_file, _plain
    yield run.keeper_file, _keeper
    yield run.forecast_file, _plain
    yield settings.home() / "hone.log", _plain


def save(files: Iterable[SupportFile], path: Path) -> None:
    """Write the files as one zip, whole or not at all, over whatever is at `path`.

    Raises:
        TargetError: It can't be written there.
        UserError: It can't be written: the disk is full.
    """
    with (
        writing(path),
        written_whole(path) as temporary,
        zipfile.ZipFile(temporary, "x", zipfile.ZIP_DEFLATED) as archive,
    ):
        for file in files:
            entry = zipfile.ZipInfo(f"support/{file.name}", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, f"{f'[{file.note}]{chr(10)}' if file.note else ''}{file.text}".encode())


def _read(path: Path) -> tuple[bytes, str] | None:
    """A file, of a huge one its beginning and its end, cut between lines; None where there is none.

    A stranger who asks for this file may have put links to others of the person's files into the run.
    """
    if is_link(path):
        return None
    try:
        with open_plain(path) as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size <= FIRST_BYTES + LAST_BYTES:
                return file.read(), ""
            first = file.read(FIRST_BYTES)
            file.seek(size - LAST_BYTES)
            last = file.read(LAST_BYTES)
    except OSError:
        return None
    first, last = first[: first.rfind(b"\n") + 1], last[last.find(b"\n") + 1 :]
    left_out = formats.size(size - len(first) - len(last))
    gap = f"[{left_out} in the middle are left out]\n".encode()
    return first + gap + last, _("{left_out} in the middle are left out.").format(left_out=left_out)


def _plain(content: bytes) -> tuple[str, str]:
    return content.decode("utf-8", "backslashreplace"), ""


def _keeper(content: bytes) -> tuple[str, str]:
    """The keeper's record without this computer's name, which as a word may be too short to be told from others."""
    text, note = _plain(content)
    return _HOST_FIELD.sub(rf'\1"{HOST}"', text), note


def _options(content: bytes) -> tuple[str, str]:
    """The run file without the person's own prompts."""
    text, _rest = _plain(content)
    try:
        tree = load_toml(text)
    except (ValueError, RecursionError):
        return _PROMPTS.sub(rf'\1["{LEFT_OUT}"]', text), ""
    output = tree.get("output")
    if not isinstance(output, dict) or not output.get("prompts"):
        return text, ""
    output["prompts"] = [LEFT_OUT]
    return tomli_w.dumps(tree), _("Your own prompts are left out.")


def _events(content: bytes) -> tuple[str, str]:
    """Events without those that hold data; of lines that are no events, nothing but their length."""
    lines, data, broken = [], 0, 0
    for line in content.splitlines():
        event = _event_of(line)
        kind = event.get("type")
        if kind in HOLDS_DATA:
            data += 1
        elif kind is None and line.strip() and not _GAP.fullmatch(line):
            broken += 1
            lines.append(_("[a line of {line:,} bytes that is no event]").format(line=len(line)))
        elif isinstance(labels := event.get("labels"), list) and labels:
            lines.append(msgspec.json.encode({**event, "labels": [LABEL] * len(labels)}).decode())
        else:
            lines.append(line.decode("utf-8", "backslashreplace"))
    told = []
    if data:
        told.append(
            _("{events} with examples and predictions left out.").format(
                events=formats.counted(data, "event")
            )
        )
    if broken:
        told.append(_("{lines} that can't be read left out.").format(lines=formats.counted(broken, "line")))
    return "\n".join(lines) + "\n", " ".join(told)


def _event_of(line: bytes) -> dict[str, Any]:
    """The event on a line; empty where it isn't whole, so that nobody knows what it holds."""
    try:
        found = msgspec.json.decode(line)
    except (ValueError, RecursionError):  # ValueError: no JSON, or no UTF-8
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("type"), str) else {}


def _about(run: RunFolder) -> str:
    """The machine and the versions."""
    memory = psutil.virtual_memory()
    status = status_at_end(run, and_beginning=True)
    lines = {
        "Hone": VERSION,
        "System": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "Python": platform.python_version(),
        "Processors": str(psutil.cpu_count() or "-"),
        "Memory": f"{formats.size(memory.total)}, {formats.size(memory.available)} free",
        "Made": time.strftime("%Y-%m-%d %H:%M"),
        "State of the run": run.state(status).value,
        "Attempts": str(status.attempt),
        "Device": status.what_ran.device_name if status.what_ran else "-",
        **{_("In the run: {name}").format(name=name): version for name, version in status.versions.items()},
    }
    told = "\n".join(f"{name}: {value}" for name, value in lines.items())
    return f"{WORDS}\n\n{told}\n"
