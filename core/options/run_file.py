"""Read and write run files (TOML).

Paths in a file are relative to the file, paths in `--set` to the working folder; both become absolute on reading.
"""

import difflib
import os
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from core.base.errors import OptionsError, Problem, why
from core.base.files import is_there, load_toml, read_text, write_atomically
from core.base.language import _
from core.base.places import without_tilde
from core.options import DELETED, RENAMED, SECTIONS, RunOptions, Tree
from core.options.catalogue import all_options, copied, options_by_path, put, value_at, value_of
from core.options.declare import OptionKind
from core.options.sources import scheme_of
from core.options.trainer_args import rename_arguments
from core.options.validate import check_tree

ENDINGS = (".hone", ".toml")

_NOT_TOML = (ValueError, RecursionError)
"""Raised for invalid TOML, numbers of thousands of digits, and deep nesting."""


def read(path: Path, overrides: tuple[str, ...] = ()) -> RunOptions:
    """Reads a run file, with overrides as the command line's `--set` takes them, and checks it.

    Raises:
        OptionsError: The file can't be read, is no run file, or has problems; all of them are listed.
    """
    tree = read_tree(path)
    problems = apply_overrides(tree, overrides, Path.cwd())
    options, invalid = check_tree(tree)
    if options is None or problems or invalid:
        raise OptionsError((*problems, *invalid), str(path))
    return options


def read_tree(path: Path) -> Tree:
    """Returns the plain values of a run file, with absolute paths, otherwise unchecked.

    Raises:
        OptionsError: The file can't be read, isn't TOML, or holds no option.
    """
    try:
        text = read_text(path)
    except OSError as error:
        raise OptionsError(
            (Problem("", _("This file can't be read: {strerror}").format(strerror=why(error))),),
            str(path),
        ) from error
    except UnicodeDecodeError as error:
        raise OptionsError(
            (Problem("", _("This is not a text file in UTF-8 or UTF-16")),), str(path)
        ) from error
    try:
        tree = load_toml(text)
    except _NOT_TOML as error:
        reason = _("This is not a run file, or it is damaged: {error}{text}").format(
            error=error, text=_backslash_hint(text)
        )
        raise OptionsError((Problem("", reason),), str(path)) from error
    if all(key == "schema" or value == {} for key, value in tree.items()):
        raise OptionsError((Problem("", _("This is not a run file: it contains no option")),), str(path))
    return with_absolute_paths(in_todays_names(tree)[0], path.resolve().parent)


def in_todays_names(tree: Tree) -> tuple[Tree, tuple[str, ...]]:
    """Replaces names of earlier versions and of Trainer in a copy of a run file.

    Returns:
        The copy, and a note for each name that was replaced or left out. A former name beside today's is left where it
        is, so that validation reports it.
    """
    tree, notes = copied(tree), []
    for path, value in ((path, value_at(tree, path)) for path in (*RENAMED, *DELETED)):
        today = RENAMED.get(path, "")
        if value is None or (today and value_at(tree, today) is not None):
            continue
        section, _dot, name = path.rpartition(".")
        del tree[section][name]
        if today:
            put(tree, {today: value})
            notes.append(_("{name} is {values} here").format(name=path, values=today))
        else:
            notes.append(_("{name} is left out: {reason}").format(name=path, reason=DELETED[path]))
    renamed, more = rename_arguments(tree)
    return renamed, (*notes, *more)


def _backslash_hint(text: str) -> str:
    """Returns what to do if the backslashes of Windows paths are all that is wrong with a TOML file."""
    try:
        load_toml(text.replace("\\", "\\\\"))
    except _NOT_TOML:
        return ""
    return _("; write Windows paths in 'single quotes' or with forward slashes")


def with_absolute_paths(tree: Tree, base: Path) -> Tree:
    """Returns a copy of `tree` with relative paths resolved against `base`."""
    resolved = copied(tree)
    for option in all_options():
        values = resolved.get(option.section)
        if option.is_path and isinstance(values, dict) and isinstance(values.get(option.name), str):
            values[option.name] = absolute(
                values[option.name], base, must_exist=option.path == "model.source"
            )
    return resolved


def absolute(value: str, base: Path, *, must_exist: bool) -> str:
    """Makes a path absolute; leaves schemes (`builtin:digits`) and, with `must_exist`, Hub ids as they are."""
    if not value or scheme_of(value) is not None:
        return value
    path = without_tilde(value)
    if path.is_absolute():
        return os.path.normpath(path)
    is_drive = value[1:2] == ":"
    looks_like_path = value.startswith(("./", "../", "~", "/", ".\\", "..\\")) or is_drive
    if must_exist and not looks_like_path and not is_there(base / path):
        return value
    return os.path.normpath(base / path)


def apply_overrides(tree: Tree, overrides: tuple[str, ...], base: Path) -> list[Problem]:
    """Sets `section.option=value` pairs in `tree`, replacing its values.

    Names of earlier versions and of Trainer are understood as in a file.

    Returns:
        The problems of pairs that can't be read.
    """
    overriding, problems = _parse_overrides(overrides)
    renamed, _notes = in_todays_names(overriding)
    for key, value in with_absolute_paths(renamed, base).items():
        if isinstance(value, dict) and isinstance(tree.get(key, {}), dict):
            tree.setdefault(key, {}).update(value)
        else:
            tree[key] = value
    return problems


def _parse_overrides(overrides: tuple[str, ...]) -> tuple[Tree, list[Problem]]:
    """Returns the pairs as a tree of their own; the last pair of an option counts."""
    tree: Tree = {}
    problems: list[Problem] = []
    for override in overrides:
        path, equals, text = override.partition("=")
        path = path.strip()
        section, _dot, name = path.rpartition(".")
        if not equals or not path:
            message = _("--set takes section.option=value, such as memory.batch_size=8")
            problems.append(Problem(path or override, message))
        elif section and section not in SECTIONS:
            homes = [option.path for option in all_options() if option.name == name]
            likely = homes or difflib.get_close_matches(section, SECTIONS, n=1)
            message = (
                _("there is no section {section}; did you mean {likely}?").format(
                    section=section, likely=likely[0]
                )
                if likely
                else _("there is no section {section}; known here: {sections}").format(
                    section=section, sections=", ".join(SECTIONS)
                )
            )
            problems.append(Problem(path, message))
        else:
            put(tree, {path: parse_value(path, text)})
    return tree, problems


def renamings(path: Path, overrides: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Returns notes on names replaced (`in_todays_names`) in a run file and `--set`; empty if it can't be read."""
    try:
        tree = load_toml(read_text(path))
    except (OSError, *_NOT_TOML):
        tree = {}
    return (*in_todays_names(tree)[1], *in_todays_names(_parse_overrides(overrides)[0])[1])


def parse_value(path: str, text: str) -> Any:
    """Parses an option's value by the option's kind, else as TOML. Text that can't be parsed is returned unchanged."""
    option = options_by_path().get(path)
    kind = option.kind if option else None
    text = text.lstrip() if kind is OptionKind.TEXT else text.strip()  # a path may end in a space
    if option is not None and option.optional and text in ("", "none"):
        return None
    match kind:
        case OptionKind.TEXT | OptionKind.CHOICE:
            return text.strip("\"'")
        case OptionKind.SWITCH:
            text = text.lower()
        case OptionKind.TEXTS if not text.startswith("["):
            return [part.strip() for part in text.split(",") if part.strip()]
        case OptionKind.PAIRS if not text.startswith("{"):
            return pairs(text)
    try:
        return load_toml(f"value = {text}")["value"]
    except _NOT_TOML:
        return text


def pairs(text: str) -> dict[str, str]:
    """Parses `name=value, name=value`; a part without `=` gets an empty value."""
    parts = (part.partition("=") for part in text.split(",") if part.strip())
    return {name.strip(): value.strip() for name, _equals, value in parts}


def to_tree(options: RunOptions) -> Tree:
    """Returns plain values of all options except those that are None (TOML has no null)."""
    tree = msgspec.to_builtins(options)
    ordered: Tree = {"schema": tree["schema"], "task": tree["task"]}
    for section in SECTIONS:
        ordered[section] = {key: value for key, value in tree[section].items() if value is not None}
    return ordered


def applied(options: RunOptions) -> tuple[list[str], list[str]]:
    """Returns the options that apply to the task and method, as lines of TOML: the changed ones, and the others."""
    tree = to_tree(options)
    lines: tuple[list[str], list[str]] = ([], [])
    for option in all_options():
        value = tree.get(option.section, tree).get(option.name)
        if value is not None and option.acts_in(options):
            section = option.path.removesuffix(option.name)
            lines[value_of(options, option.path) == option.default].append(
                f"{section}{_line(option.name, value)}"
            )
    return lines


def dumps(options: RunOptions) -> str:
    return tomli_w.dumps(to_tree(options))


def dumps_with_help(options: RunOptions) -> str:
    """Returns the options of this task as TOML, each with its help as a comment above."""
    tree = to_tree(options)
    lines = [f"schema = {tree['schema']}", f'task = "{tree["task"]}"']
    for section in SECTIONS:
        lines += ["", f"[{section}]"]
        for option in all_options():
            if option.section == section and option.applies_to(options):
                value = tree[section].get(option.name)
                lines += [f"# {option.title}: {option.help}", _line(option.name, value)]
    return "\n".join(lines) + "\n"


def _line(name: str, value: Any) -> str:
    """Returns an option on one line; `tomli_w` would write a table of texts as a section."""
    if value is None:
        return f"# {name} ="
    if isinstance(value, dict):
        inner = ", ".join(tomli_w.dumps({key: text}).rstrip() for key, text in value.items())
        return f"{name} = {{ {inner} }}" if inner else f"{name} = {{}}"
    return tomli_w.dumps({name: value}).rstrip()


def write(options: RunOptions, path: Path, comment: str = "") -> None:
    """Writes a run file atomically, with an optional comment line at its top."""
    printable = "".join(letter if letter.isprintable() else "?" for letter in comment)  # as TOML requires
    write_atomically(path, (f"# {printable}\n\n" * bool(comment) + dumps(options)).encode())
