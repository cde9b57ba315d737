"""The sentences of the program, and what the guide says of them."""

import re
from pathlib import Path

from core.options.catalogue import all_options
from core.options.choices import Method
from tests.sentences import messages

ROOT = Path(__file__).resolve().parent.parent


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
