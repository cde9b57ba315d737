"""Trainer's names in a run file: put in Hone's words where that can be done, explained where it can't."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from core.catalogue import all_options, options_by_path
from core.options import SECTIONS, Tree
from core.trainer_names import SPELLINGS
from core.trainer_translation import Gone, Known, spelling, translate
from core.tree import copied, put, value_at

PLAIN_KEYS = ("task", "schema")


@dataclass(frozen=True)
class Renamed:
    """A run file in Hone's words. `notes` say which names were put in which words."""

    tree: Tree
    notes: tuple[str, ...]


def in_our_words(tree: Tree) -> Renamed:
    """A copy of `tree` with Trainer's names replaced; those that contradict what else is said stay as they are."""
    copy = copied(tree)
    notes = [*_respelt(copy)]
    for where, name in list(_foreign(copy)):
        home = copy[where] if where else copy
        known = translate(name, home[name])
        if isinstance(known, Known) and not _contradicts(copy, known):
            del home[name]
            put(copy, known.values)
            notes.append(_note(name, known))
    return Renamed(copy, tuple(notes))


def _respelt(tree: Tree) -> Iterator[str]:
    """Put known values such as `adamw_torch` in Hone's words; says which."""
    for path in SPELLINGS:
        value = value_at(tree, path)
        ours = spelling(path, value)
        if ours != value:
            put(tree, {path: ours})
            yield f"{value} is {path} = {ours} here"


def explanation(tree: Tree, where: str, name: str) -> str:
    """What is to be said of a foreign name that could not be replaced; empty for a name nobody knows."""
    if name in _own_names():
        return ""
    home = tree[where] if where else tree
    known = translate(name, home[name])
    if isinstance(known, Gone):
        return f"is Trainer's, and no option of Hone: {known.advice}"
    if known is None or not known.values:
        return ""
    path = next(path for path, value in known.values.items() if value_at(tree, path) not in (None, value))
    asked, other = _shown(known.values[path]), _shown(value_at(tree, path))
    return f"asks for {path} = {asked}, but {path} = {other} is asked for too; keep one"


def _foreign(tree: Tree) -> Iterator[tuple[str, str]]:
    """Every name in the tree that is no option where it stands, and no option of Hone elsewhere: section and name."""
    for key, value in tree.items():
        if key in SECTIONS and isinstance(value, dict):
            for name in value:
                if f"{key}.{name}" not in options_by_path() and name not in _own_names():
                    yield key, name
        elif key not in PLAIN_KEYS and key not in SECTIONS and key not in _own_names():
            yield "", key


def _own_names() -> frozenset[str]:
    return frozenset(option.name for option in all_options())


def _contradicts(tree: Tree, known: Known) -> bool:
    sections = [tree.get(path.partition(".")[0], {}) for path in known.values]
    if not all(isinstance(section, dict) for section in sections):
        return True
    return any(value_at(tree, path) not in (None, value) for path, value in known.values.items())


def _note(name: str, known: Known) -> str:
    words = ", ".join(f"{path} = {_shown(value)}" for path, value in known.values.items())
    return ": ".join(part for part in (f"{name} is {words or 'left out'} here", known.note) if part)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
