"""Presets, the last form, recent data, and defaults of each task. Presets are run files in `resources/presets`."""

import contextlib
import gzip
import logging
import os
import re
import tomllib
import zlib
from dataclasses import dataclass
from functools import cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from core.base import settings
from core.base.files import write_atomically
from core.options import SCHEMA, Tree
from core.options.catalogue import options_by_path, value_at
from core.options.choices import Task
from core.options.sources import Scheme, scheme_of

# --- Last form


log = logging.getLogger("hone")


def keep(tree: Tree) -> None:
    """Keep the values of a form; where that can't be written, only this is lost."""
    try:
        content = tomli_w.dumps(tree).encode()
        _last_form_file().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_last_form_file(), content)
    except (OSError, ValueError) as error:  # ValueError: half a character in a path, which no UTF-8 holds
        log.warning("the form can't be kept: %s", error)


def find_last_form() -> Tree | None:
    """The values kept last; None where there are none, or the file is damaged or of another Hone."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        tree = tomllib.loads(_last_form_file().read_text(encoding="utf-8"))
        if tree.get("schema") == SCHEMA and tree.get("task") in [task.value for task in Task]:
            return tree
    return None


def _last_form_file() -> Path:
    return settings.home() / "new-run.toml"


# --- Presets


FOLDER = Path(__file__).resolve().parents[2] / "resources" / "presets"


@dataclass(frozen=True)
class Preset:
    """One preset. Its file's first comment line is the title, the comment lines after it the explanation."""

    name: str
    title: str
    help: str
    tree: Tree


@dataclass(frozen=True)
class Difference:
    """One option that a preset changes: its path, and its value before and after."""

    path: str
    before: Any
    after: Any


@cache
def presets() -> tuple[Preset, ...]:
    """All of them, in the order of their files' names."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.hone")))


def find_preset(name: str) -> Preset | None:
    """The preset of this name, such as `fits-in-8-gb`."""
    return next((preset for preset in presets() if preset.name == name), None)


def differences(tree: Tree, preset: Preset) -> tuple[Difference, ...]:
    """What `preset` would change in a form that holds `tree`; options the tree leaves out have their defaults."""
    values = {path: value_at(preset.tree, path) for path in options_by_path()}
    return tuple(
        Difference(path, before, after)
        for path, after in values.items()
        if after is not None and (before := value_at(tree, path, options_by_path()[path].default)) != after
    )


def _read(path: Path) -> Preset:
    text = path.read_text(encoding="utf-8")
    title, *rest = (line.lstrip("# ").rstrip() for line in takewhile(str.strip, text.splitlines()))
    name = path.stem.partition("-")[2]  # the number before it gives the order
    return Preset(name, title, " ".join(rest), tomllib.loads(text))


# --- Recent data


MOST = 8


def recent() -> tuple[str, ...]:
    """Sources as `data.train` takes them, the newest first; those that are gone are left out."""
    return tuple(source for source in _kept() if scheme_of(source) or Path(source).exists())


def remember(source: str) -> None:
    """Put a source first; one that is no file, folder or data set of the Hub is not worth it."""
    is_path = scheme_of(source) is None and Path(source).is_absolute()
    if not (is_path or scheme_of(source) is Scheme.HUB):
        return
    before = _kept()
    kept = [source, *(other for other in before if other != source)][:MOST]
    if kept == before:
        return
    try:
        _recent_data_file().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_recent_data_file(), msgspec.json.encode(kept))
    except OSError as error:
        log.warning("what was trained on can't be kept: %s", error)


def _kept() -> list[str]:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_recent_data_file().read_bytes(), type=list[str])[:MOST]
    return []


def _recent_data_file() -> Path:
    return settings.home() / "recent-data.json"


# --- Guess the task


LOOKED_AT_BYTES = 64 << 10
FIRST_BYTES = 4 << 10
"""So much of a text tells whether its lines are rows."""
LOOKED_AT_FILES = 200
LOOKED_AT_ENTRIES = 2000

IMAGE_FORMATS = {
    **{".bmp": "BMP", ".gif": "GIF", ".jpeg": "JPEG", ".jpg": "JPEG", ".png": "PNG"},
    **{".tif": "TIFF", ".tiff": "TIFF", ".webp": "WEBP"},
}
"""Pillow's name of what an image may hold, by ending: left to the content it starts Ghostscript on PostScript."""
WORD_ENDINGS = frozenset({".conll", ".conllu", ".conll2003", ".bio", ".iob", ".iob2"})
PROSE_ENDINGS = frozenset({".txt", ".md", ".markdown", ".text"})
MARKED_UP = frozenset({".md", ".markdown"})
"""Never a table, whatever their lines look like."""
JSON_ENDINGS = frozenset({".json", ".jsonl", ".ndjson"})
TABLE_ENDINGS = frozenset({".csv", ".tsv", ".tab", ".parquet", ".pq"})
DATA_ENDINGS = IMAGE_FORMATS.keys() | WORD_ENDINGS | PROSE_ENDINGS | JSON_ENDINGS | TABLE_ENDINGS
"""What is called so is meant as data, whether it is there or not; compressed it ends in `.gz`, too."""

_TAG = re.compile(r"O|[BIESLU]-\S+")
_KEY = re.compile(r'"([A-Za-z_]{2,24})"\s*:')
_PREFERENCE = frozenset({"chosen", "rejected"})
_CHAT = frozenset({"messages", "conversations", "conversation", "instruction", "completion", "dialogue"})
_WORDS = frozenset({"tokens", "ner_tags", "words"})


def guess_task(source: str) -> Task:
    """The task a source is most likely for; texts to classify where nothing tells."""
    return find_task(source) or Task.TEXT_CLASSIFICATION


def find_task(source: str) -> Task | None:
    """The task a source is for; None where nothing tells, as of a table: its columns may be anything.

    Folders of images, IDX files and the built-in digits are images. A file that can't be opened tells nothing.
    """
    if scheme_of(source) is not None:
        return Task.IMAGE_CLASSIFICATION if scheme_of(source) is Scheme.BUILTIN else None
    path = Path(source)
    try:
        return _of_folder(path) if path.is_dir() else _of_file(path)
    except (OSError, EOFError, zlib.error):
        return None


def _of_folder(folder: Path) -> Task | None:
    """What most of the first files are, in a folder and in the folders right below it."""
    endings: list[str] = []
    for path in sorted(_entries(folder, LOOKED_AT_ENTRIES)):
        files = [path] if path.is_file() else _entries(path, LOOKED_AT_FILES // 10) if path.is_dir() else []
        endings += [file.suffix.lower() for file in files if file.is_file()]
        if len(endings) >= LOOKED_AT_FILES:
            break
    if 2 * sum(ending in IMAGE_FORMATS for ending in endings) > len(endings) or not endings:
        return Task.IMAGE_CLASSIFICATION
    return Task.CAUSAL_LM if 2 * sum(ending in PROSE_ENDINGS for ending in endings) > len(endings) else None


def _entries(folder: Path, most: int) -> list[Path]:
    """The first of what is in a folder, as it comes: of a hundred thousand images not all are listed."""
    with os.scandir(folder) as entries:
        return [Path(entry.path) for entry in islice(entries, most)]


def _of_file(path: Path) -> Task | None:
    name = path.name.lower().removesuffix(".gz")
    ending = Path(name).suffix
    if name.endswith("ubyte") or ".idx" in name or ending in IMAGE_FORMATS:
        return Task.IMAGE_CLASSIFICATION
    if ending in WORD_ENDINGS:
        return Task.TOKEN_CLASSIFICATION
    if ending in PROSE_ENDINGS:
        return Task.CAUSAL_LM if ending in MARKED_UP else _of_text(path)
    return _of_json(path) if ending in JSON_ENDINGS and ending == path.suffix.lower() else None


def _of_text(path: Path) -> Task | None:
    """What a text without an ending of its own is for: tables and lists of words end in `.txt` as prose does."""
    is_compressed = path.suffix.lower() == ".gz"
    with gzip.GzipFile(path) if is_compressed else path.open("rb") as file:
        start = file.read(FIRST_BYTES).decode("utf-8", errors="replace")
    if start.lstrip("\ufeff \r\n").startswith(("{", "[")):
        return None
    lines = start.splitlines()
    whole = lines[:-1] if len(start.encode()) >= FIRST_BYTES else lines
    rows = [line for line in whole if line.strip()]
    words = [row.split() for row in rows if not row.startswith(("#", "-DOCSTART-"))]
    widths = {len(row) for row in words}
    if len(widths) == 1 and min(widths) > 1 and all(_TAG.fullmatch(row[-1]) for row in words):
        return Task.TOKEN_CLASSIFICATION
    counts = ({row.count(separator) for row in rows} for separator in "\t,;")
    is_table = len(rows) > 1 and any(len(found) == 1 and min(found) > 0 for found in counts)
    return None if is_table else Task.CAUSAL_LM


def _of_json(path: Path) -> Task | None:
    with path.open("rb") as file:
        text = file.read(LOOKED_AT_BYTES).decode("utf-8", errors="replace")
    keys = {key.lower() for key in _KEY.findall(text)}
    if keys >= _PREFERENCE:
        return Task.PREFERENCE
    if keys & _CHAT:
        return Task.CHAT
    return Task.TOKEN_CLASSIFICATION if keys & _WORDS else None
