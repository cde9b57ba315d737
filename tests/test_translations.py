"""What the catalogues say: nothing of a sentence that a program reads is lost, and the glossary's words are used."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from translations import files, read, template, unfinished

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = [path.parts[-3] for path in files()]
FIELD = re.compile(r"(?<!\{)\{[^{}]*\}(?!\})")
KEPT = (
    FIELD,
    re.compile(r"`[^`]*`"),
    re.compile(r"</?\w+"),
    re.compile(r"\n"),
    re.compile(r"%(?:\(\w+\))?[srd](?![a-z])"),
)


@cache
def translated(language):
    """The messages that have a translation, each with its forms and the English that each form is of."""
    catalog = read(next(path for path in files() if path.parts[-3] == language))
    left = {id(message) for message in unfinished(catalog)}
    return [
        (message, message.string if message.pluralizable else (message.string,))
        for message in catalog
        if message.id and id(message) not in left
    ]


def sentences(message):
    return message.id if message.pluralizable else (message.id,)


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_a_program_reads_in_a_sentence_stays(language):
    """Fields with their formats, commands, markup and line breaks; a form for two may say its number in words."""
    wrong = []
    for message, forms in translated(language):
        english = [[Counter(kept.findall(each)) for kept in KEPT] for each in sentences(message)]
        for place, form in enumerate(forms):
            found = [Counter(kept.findall(form)) for kept in KEPT]
            in_words = len(forms) > 2 and place < 3 and all(each <= english[-1][0] for each in found[:1])
            if found not in english and not (in_words and found[1:] == english[-1][1:]):
                wrong.append((message.id, form))
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_ends_of_a_sentence_stay(language):
    """Spaces that it is joined at, and the dots of what asks for more."""

    def ends(text):
        return text[:1] == " ", text[-1:] == " ", text.endswith("…")

    wrong = [
        (message.id, form)
        for message, forms in translated(language)
        for form in forms
        if ends(form) != ends(sentences(message)[-1])
    ]
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_sentence_of_today_is_translated(language):
    catalog = read(next(path for path in files() if path.parts[-3] == language))
    assert [message.id for message in unfinished(catalog)] == []
    today = {(message.id, message.context) for message in template() if message.id}
    assert {(message.id, message.context) for message in catalog if message.id} == today, (
        "run `python3 start.py translate`"
    )


# --- The glossary


GLOSSARY = (ROOT / "docs" / "translating.md").read_text(encoding="utf-8")
UNREAD = re.compile(r"`[^`]*`|\{[^{}]*\}|--[\w-]+|[\u064b-\u0652\u2066-\u2069]")
"""Commands, fields, and signs that a word is the same word without."""


def terms(language):
    """The words that are meant by each English term."""
    rows = [re.findall(r"[^|]+", row) for row in GLOSSARY.splitlines() if row.startswith("| ")]
    column = ["English", "ko", "zh_CN", "ar"].index(language)
    return {
        row[0].split(" (")[0].strip(): [
            UNREAD.sub("", word).strip().lower() for word in row[column].split("/")
        ]
        for row in rows[1:]
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_words_of_the_glossary_are_used(language):
    """In seven of eight sentences; the others say it otherwise, or mean another sense of the English word."""
    used = Counter()
    meant = [
        (term, re.compile(rf"\b{re.escape(term)}s?\b", re.IGNORECASE), words)
        for term, words in terms(language).items()
    ]
    for message, forms in translated(language):
        english = UNREAD.sub("", sentences(message)[-1])
        form = UNREAD.sub("", forms[-1]).lower()
        for term, pattern, words in meant:
            if pattern.search(english):
                used[term, any(word in form for word in words)] += 1
    right = sum(count for (_term, is_used), count in used.items() if is_used)
    assert right / used.total() > 0.87, [
        (term, count, used[term, True]) for (term, is_used), count in used.most_common() if not is_used
    ][:20]
