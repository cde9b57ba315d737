"""All sentences of the program."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SENTENCES = {"_": slice(1), "ngettext": slice(2), "pgettext": slice(1, 2)}
"""Which of a function's arguments are sentences."""


@cache
def messages():
    """File, line and sentences of each call of `_`, `ngettext` and `pgettext`; two sentences: singular and plural."""
    found = []
    for path in sorted(path for package in ("core", "gui") for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SENTENCES:
                sentences = node.args[SENTENCES[node.func.id]]
                place = path.relative_to(ROOT).as_posix(), node.lineno
                found.append((*place, tuple(map(ast.literal_eval, sentences))))
    return found
