"""All sentences of the program in one gettext template, for review and for translators: resources/hone.pot.

`python tests/test_sentences.py` writes the template from the source.
"""

import ast
import json
import re
from functools import cache
from pathlib import Path

from core.options.catalogue import all_options
from core.options.choices import Method

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "resources" / "hone.pot"
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


def test_the_template_has_every_sentence():
    """Run this file as a script, and review what changed."""
    assert TEMPLATE.read_text(encoding="utf-8") == template()


def test_placeholders_have_names():
    unnamed = re.compile(r"(?<!\{)\{(:[^}]*)?\}")
    assert [each for each in messages() if any(map(unnamed.search, each[2]))] == []


def test_what_the_guide_names_is_written_so_in_the_window():
    """Bold are names in the window, with `>` or `▸` between them; else it is a whole sentence with its dot."""
    written = {
        *(sentence for _file, _line, sentences in messages() for sentence in sentences),
        *(option.title for option in all_options()),
        *(method.label for method in Method),
    }
    known = {re.split(r" \(|…|:$", sentence.replace("&", ""))[0] for sentence in written}
    unknown = []
    for page in (ROOT / "docs" / "guide").glob("*.md"):
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for bold in re.findall(r"\*\*(.+?)\*\*", text, flags=re.DOTALL):
            names = [name.removesuffix("…") for name in re.split(r" [>▸] ", " ".join(bold.split()))]
            unknown += [(page.name, name) for name in names if name not in known and name[-1] not in ".:"]
    assert unknown == []


if __name__ == "__main__":
    TEMPLATE.write_text(template(), encoding="utf-8")
