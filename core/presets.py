"""Presets: a few options that belong together, laid over what is in the form.

They are run files in `resources/presets`.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.catalogue import options_by_path
from core.options import SECTIONS, Tree
from core.tree import value_at

FOLDER = Path(__file__).resolve().parent.parent / "resources" / "presets"


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


def find(name: str) -> Preset | None:
    """The preset of this name, such as `fits-in-8-gb`."""
    return next((preset for preset in presets() if preset.name == name), None)


def differences(tree: Tree, preset: Preset) -> tuple[Difference, ...]:
    """What `preset` would change in a form that holds `tree`; options the tree leaves out have their defaults."""
    return tuple(
        Difference(path, before, after)
        for path, after in _values(preset.tree)
        if (before := value_at(tree, path, options_by_path()[path].default)) != after
    )


def _read(path: Path) -> Preset:
    text = path.read_text(encoding="utf-8")
    comments = [
        line.lstrip("# ").rstrip() for line in text.split("\n\n", 1)[0].splitlines() if line.startswith("#")
    ]
    name = path.stem.partition("-")[2]  # the number before it gives the order
    return Preset(name, comments[0], " ".join(comments[1:]), tomllib.loads(text))


def _values(tree: Tree) -> Iterator[tuple[str, Any]]:
    if "task" in tree:
        yield "task", tree["task"]
    for section in SECTIONS:
        for name, value in tree.get(section, {}).items():
            yield f"{section}.{name}", value
