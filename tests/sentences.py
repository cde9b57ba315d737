"""All sentences of the program. `python tests/sentences.py > hone.pot` writes a gettext template of them."""

import ast
import json
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: en\\n"'
SENTENCES = {"_": 1, "ngettext": 2}
"""How many of a function's arguments are sentences."""


@cache
def messages():
    """File, line and sentences of each call of `_` and `ngettext`; two sentences: singular and plural."""
    found = []
    for path in sorted(path for package in ("core", "gui") for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SENTENCES:
                sentences = node.args[: SENTENCES[node.func.id]]
                place = path.relative_to(ROOT).as_posix(), node.lineno
                found.append((*place, tuple(map(ast.literal_eval, sentences))))
    return found


def template():
    """An entry for each sentence with the files it is in, in the order of the files."""
    files = {}
    for file, _, sentences in messages():
        files.setdefault(sentences, {})[file] = None
    entries = [HEADER]
    for (first, *plural), found in files.items():
        lines = [f"#: {' '.join(found)}", f"msgid {json.dumps(first, ensure_ascii=False)}"]
        lines += [f"msgid_plural {json.dumps(text, ensure_ascii=False)}" for text in plural]
        lines += ['msgstr[0] ""', 'msgstr[1] ""'] if plural else ['msgstr ""']
        entries.append("\n".join(lines))
    return "\n\n".join(entries) + "\n"


if __name__ == "__main__":
    sys.stdout.write(template())
