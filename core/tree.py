"""A run file as plain values, read and changed by an option's path."""

from collections.abc import Mapping
from typing import Any

from core.options import Tree


def copied(tree: Tree) -> Tree:
    """A copy whose sections can be changed without changing those of `tree`."""
    return {key: dict(value) if isinstance(value, dict) else value for key, value in tree.items()}


def value_at(tree: Tree, path: str, default: Any = None) -> Any:
    """The value at `section.option`, or at a key of the top; `default` where it is left out."""
    section, _, name = path.rpartition(".")
    values = tree.get(section) if section else tree
    return values.get(name, default) if isinstance(values, dict) else default


def put(tree: Tree, values: Mapping[str, Any]) -> None:
    """Set options by their paths; a section that is no section, a mistake told elsewhere, is left alone."""
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        target = tree.setdefault(section, {}) if section else tree
        if isinstance(target, dict):
            target[name] = value
