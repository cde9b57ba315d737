"""What somebody needs who helps with a run, in one file: what was asked, what happened, and the machine.

Tokens, passwords, names, labels and paths are taken out of every file. Examples, what the model said of them, and the
person's own prompts are left out: they are their data. The log may still quote a row of it, so all is shown first.
"""

import platform
import re
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psutil
import tomli_w

from core import figures, settings
from core.files import is_link, load_toml, open_plain, written_whole
from core.run_folder import RunFolder
from core.run_summary import story_at_end
from core.support_redaction import HOST, LABEL, Redactor
from core.targets import writing
from core.version import VERSION

FIRST_BYTES, LAST_BYTES = 256 << 10, 768 << 10
"""Of a longer file, so much of its beginning and of its end is taken."""

HOLDS_DATA = ("examples_chosen", "predicted")
"""Events that hold examples and what was said of them."""

LEFT_OUT = "[left out: data]"
_GAP = re.compile(rb"\[[0-9.,]+ [A-Za-z]+ in the middle are left out\]")
_HOST_FIELD = re.compile(r'("host"\s*:\s*)"(?:[^"\\]|\\.)*"?')
_PROMPTS = re.compile(r"(?ms)^(\s*prompts\s*=\s*)\[.*?\]")

WORDS = (
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
    plan = story_at_end(run, and_beginning=True).plan
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
    left_out = figures.size(size - len(first) - len(last))
    gap = f"[{left_out} in the middle are left out]\n".encode()
    return first + gap + last, f"{left_out} in the middle are left out."


def _plain(content: bytes) -> tuple[str, str]:
    return content.decode("utf-8", "backslashreplace"), ""


def _keeper(content: bytes) -> tuple[str, str]:
    """The keeper's record without this computer's name, which as a word may be too short to be told from others."""
    text, note = _plain(content)
    return _HOST_FIELD.sub(rf'\1"{HOST}"', text), note


def _options(content: bytes) -> tuple[str, str]:
    """The run file without the person's own prompts."""
    text, _ = _plain(content)
    try:
        tree = load_toml(text)
    except (ValueError, RecursionError):
        return _PROMPTS.sub(rf'\1["{LEFT_OUT}"]', text), ""
    output = tree.get("output")
    if not isinstance(output, dict) or not output.get("prompts"):
        return text, ""
    output["prompts"] = [LEFT_OUT]
    return tomli_w.dumps(tree), "Your own prompts are left out."


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
            lines.append(f"[a line of {len(line):,} bytes that is no event]")
        elif isinstance(labels := event.get("labels"), list) and labels:
            lines.append(msgspec.json.encode({**event, "labels": [LABEL] * len(labels)}).decode())
        else:
            lines.append(line.decode("utf-8", "backslashreplace"))
    told = []
    if data:
        told.append(f"{figures.counted(data, 'event')} with examples and predictions left out.")
    if broken:
        told.append(f"{figures.counted(broken, 'line')} that can't be read left out.")
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
    story = story_at_end(run, and_beginning=True)
    lines = {
        "Hone": VERSION,
        "System": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "Python": platform.python_version(),
        "Processors": str(psutil.cpu_count() or "-"),
        "Memory": f"{figures.size(memory.total)}, {figures.size(memory.available)} free",
        "Made": time.strftime("%Y-%m-%d %H:%M"),
        "State of the run": run.state(story).value,
        "Attempts": str(story.attempt),
        "Device": story.what_ran.device_name if story.what_ran else "-",
        **{f"In the run: {name}": version for name, version in story.versions.items()},
    }
    told = "\n".join(f"{name}: {value}" for name, value in lines.items())
    return f"{WORDS}\n\n{told}\n"
