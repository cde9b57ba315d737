"""The guide and the example of other languages: the chapters of today, with the names of that language's window."""

import csv
import hashlib
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from core.options.catalogue import all_options
from core.options.choices import Method
from tests.sentences import messages
from translations import files, read

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "guide"
EXAMPLES = ROOT / "resources" / "examples"
CHAPTERS = sorted(path.name for path in GUIDE.glob("*.md"))
LANGUAGES = [path.parts[-3] for path in files()]
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def pages():
    return sorted([*GUIDE.rglob("*.md"), *GUIDE.parent.glob("README.*.md")])


def anchors(page):
    """Those of its headings, as the window and GitHub name them."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {
        "".join(letter for letter in heading.lower() if letter.isalnum() or letter in " -").replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_chapter_is_translated_as_it_is_today(language):
    found = {}
    for name in CHAPTERS:
        last = (GUIDE / language / name).read_text("utf-8").rstrip().rpartition("\n")[2]
        found[name] = last
    assert found == {
        name: f"<!-- translated from {hashlib.sha256((GUIDE / name).read_bytes()).hexdigest()[:8]} -->"
        for name in CHAPTERS
    }, "translate what changed, and write the hash of the English chapter (docs/translating.md)"


def parts(page):
    """Headings by their level, rows of tables, items of lists, and code without what is said of it."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"```.*?```", text, re.DOTALL)
    return {
        "headings": re.findall(r"^#+ ", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE),
        "rows": [row.count(" | ") for row in text.splitlines() if row.startswith("|")],
        "items": len(re.findall(r"^\s*(?:-|\d+\.) ", text, re.MULTILINE)),
        "code": [re.sub(r"(?<=\S)(  +|#).*", "", block).split() for block in blocks],
    }


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", CHAPTERS)
def test_a_translated_chapter_has_the_parts_of_the_english_one(name, language):
    assert parts(GUIDE / language / name) == parts(GUIDE / name)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(GUIDE.parent).as_posix())
def test_links_lead_somewhere(page):
    broken = []
    for target, anchor in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
        if "//" in target:
            continue
        other = (page.parent / target).resolve() if target else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            broken.append((target, anchor))
    assert broken == []


def known_names(language):
    written = {
        *(sentence for _file, _line, sentences in messages() for sentence in sentences),
        *(option.title for option in all_options()),
        *(method.label for method in Method),
    }
    if language in LANGUAGES:
        catalog = read(next(path for path in files() if path.parts[-3] == language))
        for message in catalog:
            written |= {*(message.string if message.pluralizable else [message.string])}
    plain = (re.sub(r"\(&\w\)|&|[\u2066-\u2069]", "", sentence) for sentence in written)
    return {re.split(r" ?[(（]|…|[:：]$", sentence)[0] for sentence in plain}


@pytest.mark.parametrize("language", ["en", *LANGUAGES])
def test_what_the_guide_names_is_written_so_in_the_window(language):
    """Bold are names in the window, with `▸` between them; else it is a whole sentence with its dot."""
    known, unknown = known_names(language), []
    for page in (GUIDE if language == "en" else GUIDE / language).glob("*.md"):
        text = CODE.sub("", page.read_text("utf-8"))
        for bold in re.findall(r"\*\*(.+?)\*\*", text, flags=re.DOTALL):
            plain = re.sub(r"[\u2066-\u2069]", "", " ".join(bold.split()))
            names = [re.split(r" ?[(（]|…", name)[0] for name in re.split(r" [>▸◂] ", plain)]
            unknown += [
                (page.name, name) for name in names if name not in known and name[-1] not in ".:。：؟"
            ]
    assert unknown == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_example_of_a_language_is_the_english_one_with_texts_of_its_own(language):
    english, own = (folder / "messages.hone" for folder in (EXAMPLES, EXAMPLES / language))
    trees = [tomllib.loads(path.read_text("utf-8")) for path in (english, own)]
    for tree in trees:
        del tree["output"]["name"], tree["model"]["vocabulary"]
    assert trees[0] == trees[1]
    with own.with_name("messages.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["text", "label"]
    assert len({text for text, _label in rows}) == 300
    assert [*Counter(label for _text, label in rows).values()] == [100, 100, 100]
