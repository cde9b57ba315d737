"""What is wrong with a request: every problem at once, each with its path and, where there is one, its remedy."""

import difflib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from core.aliases import explanation
from core.catalogue import Kind, Option, options_by_path, options_of
from core.choices import Task, Toggle
from core.errors import Fix, Problem
from core.options import SCHEMA, SECTIONS, RunOptions, Tree
from core.rules import problems_of

LARGEST_WHOLE = 2**63 - 1
"""Whole numbers beyond this fit neither into 64 bits nor, sooner or later, into a float."""

SHOWN_CHARACTERS = 80


def check_tree(tree: Tree) -> tuple[RunOptions | None, tuple[Problem, ...]]:
    """Turn plain values into options and look whether they go together.

    Returns:
        The options, or None if a value can't be read, and all problems found: unknown keys, wrong types, broken
        limits, files that aren't there, and choices that don't go together.
    """
    read = _read(tree)
    named = {problem.path for problem in read.unreadable}
    stand_in = read.task or next(iter(Task))
    ruled = problems_of(RunOptions(task=stand_in, **read.sections), task_is_known=read.task is not None)
    others = (problem for problem in ruled if problem.path not in named)
    return read.options(), (*read.unknown, *read.unreadable, *others)


def read_options(tree: Tree) -> tuple[RunOptions | None, tuple[Problem, ...]]:
    """Turn plain values into options and nothing more: no file they name is looked at.

    Returns:
        The options, or None if a value can't be read, and the problems of keys and values.
    """
    read = _read(tree)
    return read.options(), (*read.unknown, *read.unreadable)


@dataclass(frozen=True)
class _Read:
    """What could be read of a tree; defaults stand in for what could not, None for the task."""

    task: Task | None
    sections: dict[str, Any]
    unknown: tuple[Problem, ...]
    unreadable: tuple[Problem, ...]

    def options(self) -> RunOptions | None:
        """The options, if all of them could be read."""
        if self.unreadable or self.task is None:
            return None
        return RunOptions(task=self.task, **self.sections)


def _read(tree: Tree) -> _Read:
    unreadable = [*_check_schema(tree.get("schema", SCHEMA))]
    sections: dict[str, Any] = {}
    for section, struct in SECTIONS.items():
        values, found = _check_section(section, tree.get(section, {}))
        unreadable += found
        sections[section] = struct(**values)
    task, found = _check_value(options_by_path()["task"], tree.get("task"))
    return _Read(task, sections, tuple(_unknown_keys(tree)), (*unreadable, *found))


def _unknown_keys(tree: Tree) -> Iterator[Problem]:
    known = ["task", "schema", *SECTIONS]
    for key in tree:
        if key not in known:
            yield _explained(tree, "", key) or _unknown(key, key, known)
    for section in SECTIONS:
        values = tree.get(section, {})
        if isinstance(values, dict):
            names = [option.name for option in options_of(section)]
            for key in values:
                if key not in names:
                    path = f"{section}.{key}"
                    yield _explained(tree, section, key) or _unknown(path, key, names)


def _explained(tree: Tree, section: str, key: str) -> Problem | None:
    """What there is to say of a name of Trainer's that could not be put in Hone's words; None: it is none."""
    said = explanation(tree, section, key)
    return Problem(f"{section}.{key}" if section else key, said) if said else None


def _unknown(path: str, key: str, known: list[str]) -> Problem:
    homes = [option.path for option in options_by_path().values() if option.name == key]
    if homes:
        return Problem(path, f"no such option here; did you mean {homes[0]}?")
    close = difflib.get_close_matches(key, known, n=1)
    if close:
        return Problem(path, f"no such option; did you mean {close[0]}?")
    return Problem(path, f"no such option; known here: {', '.join(known)}")


def _check_schema(value: object) -> list[Problem]:
    if value == SCHEMA:
        return []
    return [
        Problem(
            "schema", f"this Hone reads run files of schema {SCHEMA}, got {value!r}; a newer Hone may read it"
        )
    ]


def _check_section(section: str, values: object) -> tuple[Tree, list[Problem]]:
    if not isinstance(values, dict):
        return {}, [
            Problem(section, f"must be a section ([{section}] and its options below), got {_show(values)}")
        ]
    problems: list[Problem] = []
    checked: Tree = {}
    for option in options_of(section):
        if option.name in values:
            value, found = _check_value(option, values[option.name])
            problems += found
            if not found:
                checked[option.name] = value
    return checked, problems


def _check_value(option: Option, value: object) -> tuple[Any, list[Problem]]:
    if value is None and option.optional:
        return None, []
    if option.value_type is Toggle and isinstance(value, bool):
        return (Toggle.ON if value else Toggle.OFF), []
    broken = _broken_limit(option, value)
    if broken:
        return None, [Problem(option.path, f"{broken}, got {_show(value)}")]
    try:
        return msgspec.convert(value, option.value_type), []
    except msgspec.ValidationError:
        return None, [_misfit(option, value)]


def _broken_limit(option: Option, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return "is far too large a number"
    return option.broken_limit(value) if math.isfinite(value) else "must be a finite number"


def _misfit(option: Option, value: object) -> Problem:
    if value is None:
        return Problem(option.path, f"is missing; it must be {option.expectation()}")
    message = f"must be {option.expectation()}, got {_show(value)}"
    if option.kind is not Kind.CHOICE:
        return Problem(option.path, message)
    close = difflib.get_close_matches(str(value), [choice.value for choice in option.choices], n=1)
    fixes = tuple(Fix(f"Use {match}", {option.path: match}) for match in close)
    return Problem(option.path, message, fixes)


def _show(value: object) -> str:
    try:
        text = f'"{value}"' if isinstance(value, str) else str(value)
    except ValueError:  # Python writes out no number of more than 4,300 digits
        return "a number too long to write out"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
