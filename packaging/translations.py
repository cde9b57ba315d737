"""The catalogues of the languages: `python3 start.py translate` brings them up to date and lists what is missing.

`resources/locale/LANGUAGE/LC_MESSAGES/hone.po` holds the sentences; hone.mo, which the program reads, is compiled from
it when Hone is installed. A sentence that was changed keeps its former translation, marked as fuzzy, until somebody has
looked at it; it stays English meanwhile.
"""

import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("core", "gui")
LOCALES = ROOT / "resources" / "locale"
COMMENT = "Translators:"
WIDTH = 110
HEADER = {
    "project": "Hone",
    "version": "main",
    "msgid_bugs_address": "docs/translating.md",
    "last_translator": "The Hone authors",
    "language_team": "The Hone authors",
}


def template() -> Catalog:
    """Every sentence of the program and of its presets and examples, with the files that it is in."""
    from core.options.presets import words_of  # not while Hone is installed, without its libraries

    catalog = Catalog()
    for package in SOURCES:
        found = extract_from_dir(
            ROOT / package, [("**.py", "python")], comment_tags=(COMMENT,), keywords=DEFAULT_KEYWORDS
        )
        for name, _line, sentence, comments, context in found:
            place = (f"{package}/{Path(name).as_posix()}", 0)
            catalog.add(sentence, locations=[place], auto_comments=comments, context=context)
    for path in sorted((ROOT / "resources").glob("*/*.hone")):
        name = tomllib.loads(path.read_text("utf-8")).get("output", {}).get("name")
        for sentence in filter(None, (*words_of(path), name)):
            catalog.add(sentence, locations=[(path.relative_to(ROOT).as_posix(), 0)])
    return catalog


def files() -> list[Path]:
    """The file of each language."""
    return sorted(LOCALES.glob("*/LC_MESSAGES/hone.po"))


def read(path: Path) -> Catalog:
    """The translations in a language's file; none if there is no file yet."""
    language = path.parts[-3]
    if not path.exists():
        return Catalog(language, header_comment="# Sentences of Hone.", fuzzy=False, **HEADER)
    with path.open("rb") as file:
        return read_po(file, language)


def update(path: Path) -> Catalog:
    """Give a language's file all sentences of today, and compile it; returns it."""
    catalog = read(path)
    catalog.update(template(), update_creation_date=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalog, width=WIDTH, include_lineno=False, sort_by_file=True, ignore_obsolete=True)
    compile_(path)
    return catalog


def compile_(path: Path) -> None:
    """Write the file that the program reads beside a language's, without what is unfinished."""
    catalog = read(path)
    for message in unfinished(catalog):
        catalog.delete(message.id, message.context)
    with path.with_suffix(".mo").open("wb") as file:
        write_mo(file, catalog)


def unfinished(catalog: Catalog) -> list[Message]:
    """Messages without a translation, or with one that nobody has looked at since they changed."""
    return [
        each
        for each in catalog
        if each.id and (each.fuzzy or not all(each.string if each.pluralizable else [each.string]))
    ]


def page_of(message: Message) -> str:
    """Where a message is shown: the folder of the first file that it is in."""
    return message.locations[0][0].rpartition("/")[0]


def main(begun: Iterable[str]) -> int:
    """Bring every language up to date, and those that are begun; returns 1 if something is missing in one of them."""
    is_whole = True
    for path in sorted({*files(), *(LOCALES / language / "LC_MESSAGES" / "hone.po" for language in begun)}):
        catalog = update(path)
        left = unfinished(catalog)
        is_whole &= not left
        print(f"{path.parts[-3]}: {len(catalog) - len(left)} of {len(catalog)} sentences")
        for page, count in sorted(Counter(map(page_of, left)).items()):
            print(f"  {page}: {count}")
            for message in left:
                if page_of(message) == page:
                    sentence = message.id[0] if message.pluralizable else message.id
                    print(f"    {'changed' if message.fuzzy else 'missing'}: {sentence.splitlines()[0]}")
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
