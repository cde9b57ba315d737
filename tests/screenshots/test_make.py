"""The script that draws the pages."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_sentences import LOOKS_SHOWN

pytest.importorskip("PySide6")
MAKE = Path(__file__).with_name("make.py")


def test_the_pictures_of_the_readme_are_drawn(tmp_path):
    ended(started("en", str(MAKE), str(tmp_path), "--readme"))
    assert {path.name for path in tmp_path.iterdir()} == {"new-run-light.png", "run-live-light.png"}


LANGUAGES = "en", "ko", "zh_CN", "ar"


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """Texts without room on each page in each language, by page and place; all pages are drawn without an error."""
    folders = {language: tmp_path_factory.mktemp(language) for language in LANGUAGES}
    drawing = [started(language, str(MAKE), str(folder), "--texts") for language, folder in folders.items()]
    try:
        for process in drawing:
            ended(process)
    finally:
        for process in drawing:
            process.kill()
    return {language: read(folder, "cut") for language, folder in folders.items()}


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_translated_texts_have_room_where_the_english_ones_have(language, cut):
    english = cut["en"]
    assert {
        place: texts for place, texts in cut[language].items() if len(texts) > len(english.get(place, []))
    } == {}


OF_DATA = {"AMD EPYC", "Hone", "Handwritten digits", "English", "Python", "Transformers", "Datasets"}
"""Names, and what stands in the invented files and machine."""
ACCENTED = re.compile("[áçéíłñóŕšúýÁÇÉÍŁÑÓŔŠÚÝ]")


def test_pages_say_nothing_that_is_not_translated(tmp_path):
    """In an invented language that is longer, accented and mirrored."""
    pages = "welcome", "new-run", "export", "hub", "settings"
    ended(started("en", "-m", "tests.pseudo", "tests.screenshots.make", str(tmp_path), *pages, "--texts"))
    texts = {text for found in read(tmp_path, "texts").values() for text in found}
    assert sum(bool(ACCENTED.search(text)) for text in texts) > 100
    plain = {text for text in texts if LOOKS_SHOWN.fullmatch(text) and not ACCENTED.search(text)}
    assert plain - OF_DATA == set()


def started(language, *command):
    environment = {**os.environ, "HONE_LANGUAGE": language, "QT_QPA_PLATFORM": "offscreen"}
    return subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=MAKE.parents[2],
    )


def ended(process):
    _nothing, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors


def read(folder, name):
    return json.loads((folder / f"{name}.json").read_text("utf-8"))
