"""What is wrong with a request: every problem at once, each with its path and, where there is one, its remedy."""

import difflib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from core.catalogue import Kind, Option, options_by_path, options_of
from core.errors import Fix, Problem
from core.options import SCHEMA, SECTIONS, VISION_MODELS, RunOptions, Task

Tree = dict[str, Any]
"""A run file as plain values: `{"task": ..., "model": {...}, ...}`."""


def check_tree(tree: Tree) -> tuple[RunOptions | None, tuple[Problem, ...]]:
    """Turn plain values into options.

    Returns:
        The options, or None if a value can't be read, and all problems found: unknown keys, wrong types, broken
        limits, files that aren't there, and choices that don't go together.
    """
    unreadable = [*_check_schema(tree.get("schema", SCHEMA))]
    sections: dict[str, Any] = {}
    for section, struct in SECTIONS.items():
        values, found = _check_section(section, tree.get(section, {}))
        unreadable += found
        sections[section] = struct(**values)  # defaults stand in for what can't be read
    task, found = _check_value(options_by_path()["task"], tree.get("task"))
    unreadable += found
    problems = [*_unknown_keys(tree), *unreadable]
    options = None if found else RunOptions(task=task, **sections)
    if options is not None:
        named = {problem.path for problem in unreadable}
        problems += [problem for problem in check_together(options) if problem.path not in named]
    return None if unreadable else options, tuple(problems)


def check_together(options: RunOptions) -> tuple[Problem, ...]:
    """Problems between options that are each fine by themselves, and files that aren't there."""
    return tuple(problem for rule in RULES for problem in rule(options))


def _unknown_keys(tree: Tree) -> Iterator[Problem]:
    known = ["task", "schema", *SECTIONS]
    for key in tree:
        if key not in known:
            yield _unknown(key, key, known)
    for section in SECTIONS:
        values = tree.get(section, {})
        if isinstance(values, dict):
            names = [option.name for option in options_of(section)]
            for key in values:
                if key not in names:
                    yield _unknown(f"{section}.{key}", key, names)


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
    if not math.isfinite(value):
        return "must be a finite number"
    if option.above is not None and value <= option.above:
        return f"must be above {option.above:g}"
    if option.minimum is not None and value < option.minimum:
        return f"must be {option.minimum:,g} or more"
    if option.maximum is not None and value > option.maximum:
        return f"must be {option.maximum:,.10g} or less"
    return ""


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
    return f'"{value}"' if isinstance(value, str) else str(value)


def _needs_model(options: RunOptions) -> Iterator[Problem]:
    source = options.model.source
    if not source:
        yield Problem("model.source", "choose a model to start from")
    elif source.startswith("torchvision:"):
        if options.task is not Task.IMAGE_CLASSIFICATION:
            yield Problem("model.source", f"{source} sees images; {options.task} needs a text model")
        elif source.partition(":")[2] not in VISION_MODELS:
            yield _unknown_vision_model(source)
    elif options.task is Task.IMAGE_CLASSIFICATION:
        known = ", ".join(f"torchvision:{name}" for name in VISION_MODELS)
        yield Problem("model.source", f"image classification trains one of {known}; got {_show(source)}")
    elif Path(source).is_absolute() and not Path(source).is_dir():
        yield Problem("model.source", f"there is no model folder at {source}")


def _unknown_vision_model(source: str) -> Problem:
    name = source.partition(":")[2]
    close = difflib.get_close_matches(name, VISION_MODELS, n=1, cutoff=0.5)
    fixes = tuple(Fix(f"Use {match}", {"model.source": f"torchvision:{match}"}) for match in close)
    return Problem(
        "model.source", f"no vision model called {name!r}; there are {', '.join(VISION_MODELS)}", fixes
    )


def _needs_data(options: RunOptions) -> Iterator[Problem]:
    if not options.data.train:
        yield Problem("data.train", "choose the data to train on")
    else:
        yield from _missing_data("data.train", options.data.train)
    if options.data.eval:
        yield from _missing_data("data.eval", options.data.eval)
    if options.task is Task.TEXT_CLASSIFICATION and options.data.train.startswith("builtin:"):
        yield Problem("data.train", f"{options.data.train} are images; {options.task} needs texts")


def _missing_data(path: str, source: str) -> Iterator[Problem]:
    scheme, _, rest = source.partition(":")
    if scheme == "builtin":
        if rest != "digits":
            yield Problem(
                path,
                f"there is no {source}; builtin:digits is",
                (Fix("Use the digits", {path: "builtin:digits"}),),
            )
    elif scheme == "synthetic":
        if parse_synthetic(source) is None:
            yield Problem(
                path, f"must read synthetic:SAMPLESxLENGTH, such as synthetic:512x128, got {source}"
            )
    elif not Path(source).exists():
        yield Problem(path, f"there is no file or folder at {source}")


def parse_synthetic(source: str) -> tuple[int, int] | None:
    """Samples and length of `synthetic:512x128`; None where `source` isn't that."""
    scheme, _, rest = source.partition(":")
    samples, _, length = rest.partition("x")
    if scheme != "synthetic" or not (samples.isdecimal() and length.isdecimal()):
        return None
    return (int(samples), int(length)) if int(samples) > 0 and int(length) > 0 else None


def _text_columns(options: RunOptions) -> Iterator[Problem]:
    columns = options.data.text_columns
    if len(columns) > 2:
        yield Problem("data.text_columns", f"takes one column, or two for pairs; got {len(columns)}")
    if len(set(columns)) < len(columns):
        yield Problem("data.text_columns", f"names the same column twice: {', '.join(columns)}")
    if options.data.label_column in columns:
        yield Problem(
            "data.label_column",
            f"{options.data.label_column} is a text column too; choose the answer's column",
        )


def _device_name(options: RunOptions) -> Iterator[Problem]:
    name = options.device.name
    index = name.removeprefix("cuda:")
    if name not in ("auto", "cpu", "mps", "cuda") and not (name.startswith("cuda:") and index.isdecimal()):
        yield Problem("device.name", f"must be auto, cuda, cuda:NUMBER, mps or cpu, got {_show(name)}")
    if name == "cpu" and options.device.precision == "fp16":
        yield Problem(
            "device.precision",
            "fp16 needs a GPU: the CPU has no fp16 training in PyTorch",
            (Fix("Use bf16", {"device.precision": "bf16"}), Fix("Use fp32", {"device.precision": "fp32"})),
        )


RULES: tuple[Callable[[RunOptions], Iterator[Problem]], ...] = (
    _needs_model,
    _needs_data,
    _text_columns,
    _device_name,
)
