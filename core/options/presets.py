"""Presets, examples, the last form, recent data, and defaults of each task.

Presets and examples are run files in `resources/presets` and `resources/examples`.
"""

import contextlib
import gzip
import logging
import re
import tomllib
import zlib
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from core.base import settings
from core.base.files import is_there, open_plain, read_record, write_atomically
from core.base.language import LANGUAGE, translated
from core.options import SCHEMA, Tree, run_file
from core.options.catalogue import options_by_path, value_at
from core.options.choices import Task
from core.options.sources import Scheme, scheme_of

# --- Last form


log = logging.getLogger("hone")


def keep(tree: Tree) -> None:
    """Saves the values of the form; failure is only logged."""
    try:
        content = tomli_w.dumps(tree).encode()
        _last_form_file().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_last_form_file(), content)
    except (OSError, ValueError) as error:  # ValueError: a path with a lone surrogate
        log.warning("the form can't be saved: %s", error)


def find_last_form() -> Tree | None:
    """Returns the values saved last; None if there are none, or the file is damaged or of another schema."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        tree = tomllib.loads(_last_form_file().read_text(encoding="utf-8"))
        if tree.get("schema") == SCHEMA and tree.get("task") in [task.value for task in Task]:
            return tree
    return None


def _last_form_file() -> Path:
    return settings.home() / "new-run.toml"


# --- Presets and examples


RESOURCES = Path(__file__).resolve().parents[2] / "resources"


@dataclass(frozen=True)
class Preset:
    """A preset or an example."""

    name: str
    title: str
    help: str
    tree: Tree


@cache
def presets() -> tuple[Preset, ...]:
    """Returns all presets, in the order of the numbers in their file names."""
    folder = RESOURCES / "presets"
    return tuple(_read(path, path.stem.partition("-")[2]) for path in sorted(folder.glob("*.hone")))


def find_preset(name: str) -> Preset | None:
    """Returns the preset of a name such as `fits-in-8-gb`; None if there is none."""
    return next((preset for preset in presets() if preset.name == name), None)


def changes(tree: Tree, wanted: Tree) -> dict[str, Any]:
    """Returns the values of `wanted` by path that `tree` doesn't have, in which missing options have their defaults."""
    values = {path: value_at(wanted, path) for path in options_by_path()}
    return {
        path: value
        for path, value in values.items()
        if value is not None and value_at(tree, path, options_by_path()[path].default) != value
    }


@cache
def examples() -> tuple[Preset, ...]:
    """Returns all examples, by name; those in the person's language stand for others of their names.

    Their paths are absolute; files that don't come with Hone don't exist.
    """
    folder = RESOURCES / "examples"
    paths = {path.stem: path for path in (*folder.glob("*.hone"), *(folder / LANGUAGE).glob("*.hone"))}
    found = []
    for name, path in sorted(paths.items()):
        tree = run_file.read_tree(path)
        tree["output"]["name"] = translated(tree["output"]["name"])
        found.append(replace(_read(path, name), tree=tree))
    return tuple(found)


def find_example(name: str) -> Preset:
    """Returns the example of a name such as `digits`; raises KeyError if there is none."""
    return {example.name: example for example in examples()}[name]


def comes_complete(example: Preset) -> bool:
    """Returns whether neither data nor a model is missing on a computer with nothing but Hone."""
    data, model = value_at(example.tree, "data.train"), value_at(example.tree, "model.source")
    is_pretrained = scheme_of(model) is Scheme.TORCHVISION and value_at(
        example.tree, "model.pretrained", True
    )
    return bool(scheme_of(model)) and not is_pretrained and (bool(scheme_of(data)) or is_there(Path(data)))


def _read(path: Path, name: str) -> Preset:
    title, explanation = map(translated, words_of(path))
    return Preset(name, title, explanation, tomllib.loads(path.read_text(encoding="utf-8")))


def words_of(path: Path) -> tuple[str, str]:
    """Returns the title and the explanation that a preset or an example begins with, in comments."""
    title, *rest = takewhile(str.strip, path.read_text(encoding="utf-8").splitlines())
    return title.lstrip("# "), " ".join(line.lstrip("# ") for line in rest)


# --- Recent data


MOST_RECENT = 8


def recent() -> tuple[str, ...]:
    """Returns recent values of `data.train`, newest first, without files that no longer exist or come with Hone."""
    own = (source for source in _saved() if not Path(source).is_relative_to(RESOURCES))
    return tuple(source for source in own if scheme_of(source) or Path(source).exists())


def remember(source: str) -> None:
    """Puts a file, folder or data set of the Hub first; other sources are not saved."""
    is_path = scheme_of(source) is None and Path(source).is_absolute()
    before = _saved()
    sources = [source, *(other for other in before if other != source)][:MOST_RECENT]
    if not (is_path or scheme_of(source) is Scheme.HUB) or sources == before:
        return
    try:
        _recent_data_file().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_recent_data_file(), msgspec.json.encode(sources))
    except OSError as error:
        log.warning("recent data can't be saved: %s", error)


def _saved() -> list[str]:
    return (read_record(_recent_data_file(), list[str]) or [])[:MOST_RECENT]


def _recent_data_file() -> Path:
    return settings.home() / "recent-data.json"


# --- Guess the task


SAMPLED_BYTES = 64 << 10
SAMPLED_FILES = 200
SAMPLED_ENTRIES = 2000

IMAGE_FORMATS = {
    **{".avif": "AVIF", ".bmp": "BMP", ".gif": "GIF", ".heic": "HEIF", ".heif": "HEIF", ".jpeg": "JPEG"},
    **{".jpg": "JPEG", ".png": "PNG", ".tif": "TIFF", ".tiff": "TIFF", ".webp": "WEBP"},
}
"""Pillow's formats by file name ending; on its own Pillow would run Ghostscript on PostScript."""
WORD_ENDINGS = frozenset({".conll", ".conllu", ".conll2003", ".bio", ".iob", ".iob2"})
MARKDOWN_ENDINGS = frozenset({".md", ".markdown"})
PROSE_ENDINGS = frozenset({".txt", ".text"}) | MARKDOWN_ENDINGS
JSON_ENDINGS = frozenset({".json", ".jsonl", ".ndjson"})
TABLE_ENDINGS = frozenset({".csv", ".tsv", ".tab", ".parquet", ".pq"})
DATA_ENDINGS = IMAGE_FORMATS.keys() | WORD_ENDINGS | PROSE_ENDINGS | JSON_ENDINGS | TABLE_ENDINGS
"""File name endings of data; compressed files have `.gz` as well."""

_TAG = re.compile(r"O|[BIESLU]-\S+")
_KEY = re.compile(r'"([A-Za-z_]{2,24})"\s*:')
_CHAT_KEYS = frozenset(
    {
        *("messages", "conversations", "conversation", "instruction", "completion", "dialogue"),
        *("mapping", "chat_messages"),  # exports of ChatGPT and Claude
    }
)
WHATSAPP_LINE = re.compile(
    r"\u200e?(?P<bracket>\[)?(?P<date>\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./-]\d{1,2}[./-]\d{1,2}(?=,)),?\s"
    r"\d{1,2}[:.]\d\d(?(bracket)(?:[:.]\d\d)?)(?:\s[^\W\d]\.?\s?[^\W\d]\.?)?(?(bracket)\]|\s-)\s"
    r"(?:(?P<name>[^:]{1,60}):\s)?(?P<text>.*)"
)
"""A message as WhatsApp exports it: `[31.12.23, 22:15:03] Anna: Hi`, `12/31/23, 10:15 PM - Anna: Hi`."""
_WHATSAPP_SHARE = 0.5


def find_task(source: str) -> Task | None:
    """Returns the task that a source suits by its name and beginning.

    Returns None if unknown, as for a table, whose columns may hold anything, or a file that can't be read.
    """
    if scheme_of(source) is not None:
        return Task.IMAGE_CLASSIFICATION if scheme_of(source) is Scheme.BUILTIN else None
    path = Path(source)
    try:
        return _of_folder(path) if path.is_dir() else _of_file(path)
    except (OSError, EOFError, zlib.error):
        return None


def _of_folder(folder: Path) -> Task | None:
    """Returns the task that most files suit among the first in a folder and in its subfolders.

    Images have class folders, unless all that is beside them is a table of their labels.
    """
    levels = (islice(folder.glob(pattern), SAMPLED_ENTRIES) for pattern in ("*", "*/*", "*/*/*"))
    files = list(islice(filter(Path.is_file, chain.from_iterable(levels)), SAMPLED_FILES))
    images = [file for file in files if file.suffix.lower() in IMAGE_FORMATS]
    if any(file.parent == folder and _is_idx(file.name.lower()) for file in files):
        return Task.IMAGE_CLASSIFICATION
    if 2 * len(images) > len(files):
        others = {file.suffix.lower() for file in files} - IMAGE_FORMATS.keys()
        has_classes = any(file.parent != folder for file in images)
        return Task.IMAGE_CLASSIFICATION if has_classes or others <= TABLE_ENDINGS else None
    prose = sum(file.suffix.lower() in PROSE_ENDINGS for file in files)
    return Task.CAUSAL_LM if 2 * prose > len(files) else None


def _is_idx(name: str) -> bool:
    return name.removesuffix(".gz").endswith("ubyte") or ".idx" in name


def _of_file(path: Path) -> Task | None:
    name = path.name.lower().removesuffix(".gz")
    ending = Path(name).suffix
    if _is_idx(name) or ending in IMAGE_FORMATS:
        return Task.IMAGE_CLASSIFICATION
    if ending in WORD_ENDINGS:
        return Task.TOKEN_CLASSIFICATION
    if ending in MARKDOWN_ENDINGS:
        return Task.CAUSAL_LM
    if ending in JSON_ENDINGS and ending == path.suffix.lower():
        return _of_json(_beginning(path))
    return _of_text(_beginning(path)) if ending in PROSE_ENDINGS else None


def _beginning(path: Path) -> str:
    with (
        open_plain(path) as file,
        gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file as content,
    ):
        return content.read(SAMPLED_BYTES).decode("utf-8", errors="replace")


def _of_text(text: str) -> Task | None:
    """Returns the task of a text file: tables and lists of words may end in `.txt` like prose."""
    if text.lstrip("\ufeff \r\n").startswith(("{", "[")):
        return None
    lines = text.splitlines()
    complete = lines[:-1] if len(text.encode()) >= SAMPLED_BYTES else lines
    rows = [line for line in complete if line.strip()]
    words = [row.split() for row in rows if not row.startswith(("#", "-DOCSTART-"))]
    if is_whatsapp(text):
        return Task.CHAT
    widths = {len(row) for row in words}
    if len(widths) == 1 and min(widths) > 1 and all(_TAG.fullmatch(row[-1]) for row in words):
        return Task.TOKEN_CLASSIFICATION
    counts = ({row.count(separator) for row in rows} for separator in "\t,;")
    is_table = len(rows) > 1 and any(len(found) == 1 and min(found) > 0 for found in counts)
    return None if is_table else Task.CAUSAL_LM


def is_whatsapp(text: str) -> bool:
    """Returns whether a text begins as a chat that WhatsApp exports, with two people or more in it."""
    lines = [line for line in text[:SAMPLED_BYTES].splitlines() if line.strip("\ufeff\u200e ")]
    found = list(filter(None, (WHATSAPP_LINE.match(line.lstrip("\ufeff")) for line in lines)))
    names = {match["name"] for match in found if match["name"]}
    return len(names) > 1 and len(found) > _WHATSAPP_SHARE * len(lines)


def _of_json(text: str) -> Task | None:
    keys = {key.lower() for key in _KEY.findall(text)}
    if keys >= {"chosen", "rejected"} or keys >= {"prompt", "completion", "label"}:
        return Task.PREFERENCE
    if keys & _CHAT_KEYS:
        return Task.CHAT
    return Task.TOKEN_CLASSIFICATION if keys & {"tokens", "ner_tags", "words"} else None
