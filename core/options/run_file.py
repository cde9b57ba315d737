"""Read and write run files (TOML).

Paths in a file are relative to the file, paths in `--set` to the working folder; both become absolute on reading.
"""

import difflib
import os
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from core.base.errors import OptionsError, Problem
from core.base.files import is_there, load_toml, read_text, without_tilde, write_atomically
from core.base.language import _
from core.options import SECTIONS, RunOptions, Tree
from core.options.catalogue import all_options, copied, options_by_path, put
from core.options.declare import Kind
from core.options.sources import scheme_of
from core.options.trainer_args import in_our_words
from core.options.validate import check_tree

ENDINGS = (".hone", ".toml")

_NOT_TOML = (ValueError, RecursionError)
"""Wrong TOML, a number of thousands of digits, endless nesting."""


def read(path: Path, overrides: tuple[str, ...] = ()) -> RunOptions:
    """Read a run file and check it.

    Args:
        path: A `.hone` or `.toml` file.
        overrides: `section.option=value`, as the command line's `--set` takes them.

    Raises:
        OptionsError: The file can't be read, is no run file, or has problems; all of them are listed.
    """
    tree = read_tree(path)
    problems = apply_overrides(tree, overrides, Path.cwd())
    options, found = check_tree(tree)
    if options is None or problems or found:
        raise OptionsError((*problems, *found), str(path))
    return options


def read_tree(path: Path) -> Tree:
    """The plain values of a run file, its paths made absolute, otherwise unchecked.

    Raises:
        OptionsError: The file can't be read, isn't TOML, or holds no option.
    """
    try:
        text = read_text(path)
    except OSError as error:
        raise OptionsError(
            (Problem("", _("can't be read: {strerror}").format(strerror=error.strerror)),), str(path)
        ) from error
    except UnicodeDecodeError as error:
        raise OptionsError((Problem("", _("is not a text file in UTF-8 or UTF-16")),), str(path)) from error
    try:
        tree = load_toml(text)
    except _NOT_TOML as error:
        reason = _("is no run file, or is damaged: {error}{text}").format(
            error=error, text=_backslash_hint(text)
        )
        raise OptionsError((Problem("", reason),), str(path)) from error
    if not _has_option(tree):
        raise OptionsError((Problem("", _("is no run file: it holds no option")),), str(path))
    return with_absolute_paths(in_our_words(tree).tree, path.resolve().parent)


def _has_option(tree: Tree) -> bool:
    """Whether anything is asked for; a schema and empty sections ask for nothing."""
    return any(key != "schema" and value != {} for key, value in tree.items())


def _backslash_hint(text: str) -> str:
    """What to do where the backslashes in a text are all that keeps it from being TOML, as in "C:\\data"."""
    try:
        load_toml(text.replace("\\", "\\\\"))
    except _NOT_TOML:
        return ""
    return "; write Windows paths in 'single quotes' or with forward slashes"


def with_absolute_paths(tree: Tree, base: Path) -> Tree:
    """A copy of `tree` in which every relative path starts at `base`."""
    resolved = copied(tree)
    for option in all_options():
        values = resolved.get(option.section)
        if option.is_path and isinstance(values, dict) and isinstance(values.get(option.name), str):
            values[option.name] = absolute(
                values[option.name], base, must_exist=option.path == "model.source"
            )
    return resolved


def absolute(value: str, base: Path, *, must_exist: bool) -> str:
    """Make a path absolute; leave schemes (`builtin:digits`) and, with `must_exist`, Hub ids as they are."""
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
    """Set `section.option=value` pairs in `tree`, whatever stood there; returns the problems of unreadable pairs.

    Trainer's names are understood among them as in a file, and contradict each other as there.
    """
    given, problems = _overrides(overrides)
    renamed = in_our_words(given).tree
    for key, value in with_absolute_paths(renamed, base).items():
        if isinstance(value, dict) and isinstance(tree.get(key, {}), dict):
            tree.setdefault(key, {}).update(value)
        else:
            tree[key] = value
    return problems


def _overrides(overrides: tuple[str, ...]) -> tuple[Tree, list[Problem]]:
    """The pairs as a tree of their own; the last of two for the same option counts."""
    given: Tree = {}
    problems: list[Problem] = []
    for override in overrides:
        path, equals, text = override.partition("=")
        path = path.strip()
        section, _rest, name = path.rpartition(".")
        if not equals or not path:
            problems.append(
                Problem(path or override, "--set takes section.option=value, such as memory.batch_size=8")
            )
            continue
        if section and section not in SECTIONS:
            problems.append(_unknown_section(section, name))
            continue
        put(given, {path: parse_value(path, text.strip())})
    return given, problems


def _unknown_section(section: str, name: str) -> Problem:
    homes = [option.path for option in all_options() if option.name == name]
    likely = homes or difflib.get_close_matches(section, SECTIONS, n=1)
    hint = f"; did you mean {likely[0]}?" if likely else f"; known here: {', '.join(SECTIONS)}"
    return Problem(
        f"{section}.{name}", _("there is no section {section}{hint}").format(section=section, hint=hint)
    )


def renamings(path: Path, overrides: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Which of Trainer's names a run file and `--set` use, and what they are called here."""
    try:
        of_file = in_our_words(load_toml(read_text(path))).notes
    except (OSError, *_NOT_TOML):  # whoever reads it says so
        of_file = ()
    return (*of_file, *in_our_words(_overrides(overrides)[0]).notes)


def parse_value(path: str, text: str) -> Any:
    """Read an option's value from text: by the option's kind, else as TOML, else the text itself."""
    option = options_by_path().get(path)
    if option is not None and option.optional and text in ("", "none"):
        return None
    if option is not None and option.kind in (Kind.TEXT, Kind.CHOICE):
        return text.strip("\"'")
    if option is not None and option.kind is Kind.TEXTS and not text.startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    if option is not None and option.kind is Kind.PAIRS and not text.startswith("{"):
        return pairs(text)
    try:
        return load_toml(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def pairs(text: str) -> dict[str, str]:
    """Read `name=value, name=value`; what has no `=` gets an empty value, which whoever checks it will name."""
    parts = (part.partition("=") for part in text.split(",") if part.strip())
    return {name.strip(): value.strip() for name, _rest, value in parts}


def to_tree(options: RunOptions) -> Tree:
    """Plain values of all options, those that are None left out (TOML has no null)."""
    tree = msgspec.to_builtins(options)
    ordered: Tree = {"schema": tree["schema"], "task": tree["task"]}
    for section in SECTIONS:
        ordered[section] = {key: value for key, value in tree[section].items() if value is not None}
    return ordered


def dumps(options: RunOptions) -> str:
    """The options as TOML."""
    return tomli_w.dumps(to_tree(options))


def dumps_with_help(options: RunOptions) -> str:
    """The options of this task as TOML with a comment above each: what it is, and what it may be."""
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
    """One option on one line: TOML's own writer would give a table of texts a section of its own."""
    if value is None:
        return f"# {name} ="
    if isinstance(value, dict):
        inner = ", ".join(tomli_w.dumps({key: text}).rstrip() for key, text in value.items())
        return f"{name} = {{ {inner} }}" if inner else f"{name} = {{}}"
    return tomli_w.dumps({name: value}).rstrip()


def write(options: RunOptions, path: Path, head: str = "") -> None:
    """Write a run file, whole or not at all.

    Args:
        options: What it asks for.
        path: The file.
        head: A line about where it came from, to stand above as a comment.
    """
    shown = "".join(
        letter if letter.isprintable() else "?" for letter in head
    )  # TOML allows no others in comments
    write_atomically(path, (f"# {shown}\n\n" * bool(head) + dumps(options)).encode())
