"""The pieces a script is put together of: each a heading, code, and the imports it takes."""

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Part:
    """A piece of a script. `imports` are lines such as `import torch` or `from transformers import Trainer`."""

    title: str
    code: str
    imports: tuple[str, ...] = ()


def literal(value: Any) -> str:
    """A value as Python writes it."""
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15 and not math.isinf(value):
        return f"{value:.1f}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(inner)}" for key, inner in value.items()) + "}"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\x7f")


def comment(text: str, width: int = 100) -> list[str]:
    """A sentence as lines of a comment; whatever a name holds, it stays on them."""
    plain = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)
    lines, line = [], "#"
    for word in plain.split():
        if len(line) + len(word) + 1 > width and line != "#":
            lines.append(line)
            line = "#  "
        line = f"{line} {word}"
    return [*lines, line]


def import_lines(lines: Iterable[str]) -> Iterator[str]:
    """Imports in the usual order, each module once: Python's own before the others."""
    names: dict[str, set[str]] = {}
    for line in lines:
        match line.split():
            case ["import", *_]:
                names.setdefault(line, set())
            case ["from", module, "import", *rest]:
                names.setdefault(f"from {module}", set()).update(word.strip(",") for word in rest)
    written = [_import_line(key, found) for key, found in names.items()]
    own: list[str] = []
    others: list[str] = []
    for line in sorted(written, key=lambda line: (line.startswith("from"), line.split()[1])):
        (own if line.split()[1].partition(".")[0] in sys.stdlib_module_names else others).append(line)
    yield from own
    if own and others:
        yield ""
    yield from others


def _import_line(key: str, names: set[str]) -> str:
    if not names:
        return key
    ordered = sorted(names, key=lambda name: (name.isupper(), name.lower()))
    whole = f"{key} import {', '.join(ordered)}"
    if len(whole) <= 100:
        return whole
    return f"{key} import (\n" + "".join(f"    {name},\n" for name in ordered) + ")"


def joined(parts: Iterable[Part]) -> str:
    """The parts one after the other, each below its heading, with blank lines where Python's readers expect them."""
    text = "\n\n".join(
        f"# {part.title}\n\n{part.code.strip()}" if part.title else part.code.strip()
        for part in parts
        if part.code.strip()
    )
    return spaced(text) + "\n"


def spaced(text: str) -> str:
    """One blank line between the pieces, and two around functions and classes."""
    text = re.sub(r"\n{3,}", "\n\n", text)
    return re.sub(r"(?m)^(.*)\n\n(?=(?:def|class) )|^(    .*)\n\n(?=\S)", _spread, text)


def _spread(found: re.Match[str]) -> str:
    return f"{found[1] or found[2] or ''}\n\n\n"
