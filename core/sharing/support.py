"""The support file: a run's options, events and logs, and the machine, as a zip for whoever helps.

Tokens, passwords, names, labels and paths are redacted; examples, predictions and the person's own prompts are left
out. The log may still quote a row of data, so all of it is shown first.
"""

import getpass
import json
import platform
import re
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import msgspec
import psutil
import tomli_w

from core.base import formats, settings
from core.base.files import is_link, load_toml, open_plain, writing, written_whole
from core.base.language import _, ngettext
from core.base.settings import VERSION
from core.runs.folder import RunFolder
from core.runs.summary import status_at_end

# --- Redaction


SECRET, USER, HOST, PLACE, LABEL = "[secret]", "[user]", "[host]", "[path]", "[label]"
SHORTEST_NAME = 3
"""Shorter names stay: they may be any word."""

_QUOTE = r"(?:\\*[\"'])?"
"""A quote, possibly escaped, as in JSON within JSON."""
_VALUE = r"(?:\\*\"[^\"\n]*\"|\\*'[^'\n]*'|(?:\[secret\]|[^\s\"',;&}\])])+)"
_CALLED = (
    r"(?i:[A-Za-z0-9_.-]*(?:api[_-]?key|secret|passw(?:or)?d|passwd|(?<![A-Za-z])pwd|access[_-]?key|private[_-]?key"
    r"|account[_-]?key|signature|credential|cookie|webhook"
    r"|(?<![A-Za-z])(?:hf|hub|auth|access|refresh|id|session|csrf|api)?[_-]?token(?![A-Za-z]))[A-Za-z0-9_-]{0,64})"
)
_SECRETS = tuple(
    re.compile(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        # tokens by their prefix
        r"\b(?:hf_|api_org_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|npm_|pypi-|ya29\.)[A-Za-z0-9_-]{8,}"
        r"|\bA(?:KIA|SIA)[A-Z0-9]{12,}|\bAIza[A-Za-z0-9_-]{20,}|\bdapi[0-9a-f]{16,}",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.?[A-Za-z0-9_-]*",  # JSON web tokens
        r"(?<=hooks\.slack\.com/)[A-Za-z0-9/_-]+",
        r"(?i)(?P<keep>\b[a-z][a-z0-9+.-]{0,30}://)[^\s/@\"'<>]+(?=@)",  # passwords in addresses
        rf"(?i)(?P<keep>\b(?:proxy-)?authorization\b{_QUOTE}\s*[:=]\s*{_QUOTE})"
        r"(?:(?:bearer|basic|token|digest)\s+)?[^\s\"',;}]+",
        r"(?i)(?P<keep>\bbearer\s+)[A-Za-z0-9._~+/=-]{6,}",
        rf"(?P<keep>(?P<named>(?<![A-Za-z0-9-]))--?{_CALLED}\s+){_VALUE}",
        rf"(?P<keep>(?P<named>(?<![A-Za-z0-9_.-])){_CALLED}{_QUOTE}\s*[:=]\s*){_VALUE}",
        r"(?i)(?P<keep>\bwandb:[^\n]{0,80}?\bkey\b\W{1,4}|\bwandb login\s+)\w+",
    )
)
"""The group `keep` stays. With a group `named` the value is secret because of its name, unless it is a number."""

_OPENING = re.compile(r"\\*[\"']")
_NUMBER = re.compile(r"[\"']?[+-]?[\d.,]+[\"']?|null|None|true|false", re.IGNORECASE)

_REST = r"[^\s\"'<>|,;()\[\]{}“”:"
_POSIX = r"~?/(?=[^/\s])(?!(?<=\d /)s(?![\w/.-])|(?<=\[/)[A-Z_]+\])"
"""Except "5 /s" and "[/INST]"."""
_WINDOWS = r"(?:[A-Za-z]:(?:\\{1,4}|/)|\\{2,4}[A-Za-z0-9_.-]+\\{1,2})"
_WORD = r" +[^\s\"'<>|,;()\[\]{}“”:/\\]+"
_UNENDED = "".join(rf"(?<!\.\w{{{count}}})" for count in range(6))
_TAIL = rf"(?:{_UNENDED}(?:{_WORD}){{0,4}}?{_WORD}(?:[\\/]{_REST}]*|(?<=\.)[A-Za-z]\w{{0,4}}(?![\w.])))*"
"""In a path without quotes, what follows a space, up to a separator or file ending within five words."""
_PATHS = re.compile(
    rf"(?P<quote>[\"'])(?:{_POSIX}|{_WINDOWS})(?:[^\"'\n:\\]|\\(?![\"']))*(?=(?P=quote))"  # with spaces
    r"|(?:\bfile:/*|(?<![A-Za-z0-9_/.<\]\\])|(?<=\\[nrt]))"
    rf"(?:{_POSIX}{_REST}\\]*|{_WINDOWS}{_REST}]*){_TAIL}"
    rf"|\[path\](?:/{_REST}\\]*|\\{_REST}]*)"
)
_OF_A_PROGRAM = re.compile(
    r"(?:site-packages|dist-packages|lib[\\/]+python3\.\d+)[\\/]+.*|\b(?:core|gui)[\\/]+[\w\\/]+\.py$"
)
"""The end of a path within a program, which identifies nobody."""


class Redactor:
    """A function that redacts texts.

    Args:
        labels: Labels of the data, redacted where they are quoted.
    """

    def __init__(
        self,
        places: Iterable[str] = (),
        users: Iterable[str] = (),
        hosts: Iterable[str] = (),
        labels: Iterable[str] = (),
    ) -> None:
        def pattern(texts: Iterable[str], before: str, after: str) -> re.Pattern[str]:
            forms = sorted({form for text in texts for form in _spellings(text)}, key=len, reverse=True)
            return re.compile(f"{before}(?:{'|'.join(map(re.escape, forms)) or '(?!)'}){after}")

        def names(texts: Iterable[str]) -> re.Pattern[str]:
            known = (text for text in texts if len(text) >= SHORTEST_NAME)
            return pattern(known, "(?i)(?<![A-Za-z0-9])", "(?![A-Za-z0-9])")

        long_places = (place for place in places if len(place.strip("/\\:")) > 1)
        self._words = (
            (pattern(long_places, r"(?<![A-Za-z0-9_.-])", "(?![A-Za-z0-9_])"), PLACE),
            (pattern(labels, "(?<=[“‘'])", "(?=[”’'])"), LABEL),
            (re.compile(r'(?<="host":)\s*"(?:[^"\\]|\\.)*"?'), f'"{HOST}"'),  # of the keeper's record
        )
        self._hosts = names(name for host in hosts for name in (host, host.partition(".")[0]))
        self._users = names(users)

    def __call__(self, text: str) -> str:
        text = text.replace("\x00", "")  # a text in UTF-16 would hide a token between its letters
        for secret in _SECRETS:
            text = secret.sub(_without_value, text)
        for pattern, replacement in self._words:
            text = pattern.sub(replacement, text)
        text = _PATHS.sub(_without_path, text)
        return self._users.sub(USER, self._hosts.sub(HOST, text))


def _spellings(text: str) -> Iterator[str]:
    """Yields a text as it is, in JSON and Python, with slashes instead of backslashes, and in an address."""
    yield from (text, text.replace("\\", "/"), text.replace("\\", "\\\\"))
    yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    yield from (quote(text), quote(text.replace("\\", "/")))


def _without_value(match: re.Match[str]) -> str:
    groups = match.groupdict()
    keep = groups.get("keep") or ""
    value = match[0][len(keep) :]
    if "named" in groups and _NUMBER.fullmatch(value):
        return match[0]
    mark = opening[0] if (opening := _OPENING.match(value)) else ""
    return f"{keep}{mark}{SECRET}{mark}"


def _without_path(match: re.Match[str]) -> str:
    end = _OF_A_PROGRAM.search(match[0])
    return f"{match['quote'] or ''}{PLACE}{f'/{end[0]}' if end else ''}"


def _redactor_of(run: RunFolder) -> Redactor:
    """Returns a redactor for this person and computer, and for the places and labels of a run."""
    home, keeper, options = Path.home(), run.keeper_record(), run.readable_options()
    places = [str(home), str(home.resolve())]
    sources = (options.data.train, options.data.eval, options.model.source) if options else ()
    for place in (str(run.path.absolute()), *filter(None, sources)):
        if Path(place).is_absolute() or place.startswith("~"):
            places.append(place)
            if not Path(place).name.isalpha():  # else it may be any word
                places.append(Path(place).name)
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a number without a name, as in containers
        user = ""
    hosts = [platform.node(), *([keeper.host] if keeper else [])]
    plan = status_at_end(run, and_beginning=True).plan
    return Redactor(places, (user, home.name), hosts, plan.labels if plan else ())


# --- The files


FIRST_BYTES, LAST_BYTES = 256 << 10, 768 << 10
"""How much of the start and the end of a longer file is included."""

HOLDS_DATA = ("examples_chosen", "predicted")
"""Events with examples and predictions."""

LEFT_OUT = _("[left out: data]")
_GAP = re.compile(rb"\[[0-9.,]+ [A-Za-z]+ in the middle are left out\]")

WORDS = _(
    "Tokens, passwords, paths, labels, your name and this computer's are removed. Examples, predictions and your own "
    "prompts are left out. A log can still quote an example of your data or name a file: look through it."
)

Content = tuple[str, str]
"""Text, and a note on what is left out; empty if nothing is."""


@dataclass(frozen=True)
class SupportFile:
    """One redacted file. `note` says what is left out; empty if nothing is."""

    name: str
    text: str = field(repr=False)
    note: str = ""


def collect(run: RunFolder, redact: Callable[[str], str] | None = None) -> tuple[SupportFile, ...]:
    """Reads and redacts a run's files; missing ones are skipped.

    Args:
        run: The run; its folder may be damaged.
        redact: Redacts a text; default: for this computer and run.
    """
    redact = redact or _redactor_of(run)
    files = [SupportFile("about.txt", redact(_about(run)))]
    sources: tuple[tuple[Path, Callable[[bytes], Content]], ...] = (
        (run.options_file, _options),
        (run.events_file, _events),
        (run.machine_file, _events),
        (run.log_file, _plain),
        (run.exit_file, _plain),
        (run.keeper_file, _plain),
        (run.forecast_file, _plain),
        (settings.home() / "hone.log", _plain),
    )
    for path, prepare in sources:
        if (read := _read(path)) is not None:
            text, note = prepare(read[0])
            files.append(SupportFile(path.name, redact(text), redact(f"{read[1]} {note}".strip())))
    return tuple(files)


def save(files: Iterable[SupportFile], path: Path) -> None:
    """Writes the files as one zip, atomically, over whatever is at `path`.

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
            note = f"[{file.note}]\n" if file.note else ""
            archive.writestr(entry, f"{note}{file.text}".encode())


def _read(path: Path) -> tuple[bytes, str] | None:
    """Reads a file, only start and end of a huge one; returns it with a note on that, or None if there is no file.

    Links are skipped: whoever asks for this file may have put links to other files of the person into the run.
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
    gap = f"{formats.memory(size - len(first) - len(last))} in the middle are left out"
    return b"%s[%s]\n%s" % (first, gap.encode(), last), f"{gap}."


def _plain(content: bytes) -> Content:
    return content.decode("utf-8", "backslashreplace"), ""


def _options(content: bytes) -> Content:
    """Returns the run file without the person's own prompts."""
    text = content.decode("utf-8", "backslashreplace")
    try:
        tree = load_toml(text)
    except (ValueError, RecursionError):
        return "", _("It is damaged, and left out: it may hold your own prompts.")
    output = tree.get("output")
    if not isinstance(output, dict) or not output.get("prompts"):
        return text, ""
    output["prompts"] = [LEFT_OUT]
    return tomli_w.dumps(tree), _("Your own prompts are left out.")


def _events(content: bytes) -> Content:
    """Returns the events without those that hold data; lines that are no events are replaced by their length."""
    lines, data, broken = [], 0, 0
    for line in content.splitlines():
        try:
            event = msgspec.json.decode(line)
            kind = event["type"]
        except (ValueError, RecursionError, TypeError, KeyError):  # ValueError: not JSON, or not UTF-8
            if line.strip() and not _GAP.fullmatch(line):
                broken += 1
                lines.append(f"[{len(line):,} bytes that are no event]")
            else:
                lines.append(line.decode("utf-8", "backslashreplace"))
            continue
        if kind in HOLDS_DATA:
            data += 1
        elif isinstance(labels := event.get("labels"), list) and labels:
            event.pop("of_labels", None)
            lines.append(msgspec.json.encode({**event, "labels": [LABEL] * len(labels)}).decode())
        else:
            lines.append(line.decode())
    notes = []
    if data:
        text = ngettext(
            "{count} event with examples or predictions is left out.",
            "{count} events with examples or predictions are left out.",
            data,
        )
        notes.append(text.format(count=data))
    if broken:
        text = ngettext(
            "{count} unreadable line is left out.", "{count} unreadable lines are left out.", broken
        )
        notes.append(text.format(count=broken))
    return "\n".join(lines) + "\n", formats.paragraph(*notes)


def _about(run: RunFolder) -> str:
    memory = psutil.virtual_memory()
    status = status_at_end(run, and_beginning=True)
    lines = {
        "Hone": VERSION,
        "System": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "Python": platform.python_version(),
        "Processors": psutil.cpu_count() or "-",
        "Memory": f"{formats.memory(memory.total)}, {formats.memory(memory.available)} free",
        "Made": time.strftime("%Y-%m-%d %H:%M"),
        "State of the run": run.state(status).value,
        "Attempts": status.attempt,
        "Device": status.what_ran.device_name if status.what_ran else "-",
        **{f"In the run: {name}": version for name, version in status.versions.items()},
    }
    return "\n".join((WORDS, "", *(f"{name}: {value}" for name, value in lines.items()), ""))
