"""Sentences in the person's language, by the standard library's gettext: `_()` and `ngettext()`.

A translation is the catalogue `resources/locale/LANGUAGE/LC_MESSAGES/hone.mo`, compiled from the hone.po beside it when
Hone is installed. The language is read once, as the process starts: that of `hone --language`, of HONE_LANGUAGE, of the
settings, or of the system.
"""

from __future__ import annotations

import contextlib
import json
import locale
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from gettext import translation
from pathlib import Path

LOCALES = Path(__file__).resolve().parents[2] / "resources" / "locale"
SOURCE = "en"
NAMES = {SOURCE: "English", "ko": "한국어", "zh_CN": "简体中文", "ar": "العربية"}
LANGUAGES = {
    code: name
    for code, name in NAMES.items()
    if code == SOURCE or (LOCALES / code / "LC_MESSAGES" / "hone.mo").exists()
}
"""Those that Hone speaks, each in its own letters."""
FACES = {
    "ko": ("Apple SD Gothic Neo", "Malgun Gothic", "Noto Sans CJK KR", "Noto Sans KR"),
    "zh_CN": ("PingFang SC", "Microsoft YaHei UI", "Noto Sans CJK SC", "Noto Sans SC"),
}
"""Fonts of the systems for letters that the usual one lacks: else Chinese may be drawn in Japanese forms."""

OPTION, VARIABLE = "--language", "HONE_LANGUAGE"
INHERITED = "HONE_SPOKEN"
"""The variable by which processes speak as the one that started them, also once the settings have changed."""


def choose() -> str:
    """Returns the code of the language that Hone speaks."""
    names = (os.environ.get(VARIABLE, ""), os.environ.get(INHERITED, ""), _in_settings())
    return next((name for name in names if name in LANGUAGES), "") or of_system(*system_names())


def of_system(*names: str) -> str:
    """Returns the language of the first of the system's names for one that Hone knows, or English.

    They may be POSIX's, such as `zh_CN.UTF-8`, or BCP 47's, such as `zh-Hans-CN`.
    """
    for name in names:
        code, *rest = re.split(r"[-_.@]", name)
        is_traditional = code == "zh" and {"Hant", "TW", "HK", "MO"}.intersection(rest)
        found = next((known for known in LANGUAGES if known.partition("_")[0] == code), None)
        if found and not is_traditional:
            return found
    return SOURCE


def system_names() -> Iterator[str]:
    """Yields the languages of the environment, or else those that macOS or Windows is set to."""
    variables = (os.environ.get(name) for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"))
    if names := [name for name in variables if name]:
        yield from names[0].split(":")
    elif sys.platform == "darwin":  # a program that is opened by a double-click has no such variable
        asked = subprocess.run(
            ["defaults", "read", "-g", "AppleLanguages"], capture_output=True, text=True, check=False
        )
        yield from re.findall(r"[\w-]+", asked.stdout)
    elif sys.platform == "win32":
        import ctypes

        yield locale.windows_locale.get(ctypes.windll.kernel32.GetUserDefaultUILanguage(), "")


def _in_settings() -> str:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, ImportError):
        from core.base.places import home  # not for start.py, which has no libraries yet

        return str(json.loads((home() / "settings.json").read_bytes())["language"])
    return ""


def split_off(arguments: list[str]) -> tuple[str, list[str]]:
    """Returns the language that a command line begins with, empty without one, and the rest of it."""
    first, *rest = arguments or [""]
    if first == OPTION:
        return (rest or [OPTION])[0], rest[1:]
    if first.startswith(f"{OPTION}="):
        return first.partition("=")[2], rest
    return "", arguments


if named := split_off(sys.argv[1:])[0]:
    os.environ[VARIABLE] = named  # for the processes that this one starts, too

LANGUAGE = os.environ[INHERITED] = choose()
IS_RIGHT_TO_LEFT = LANGUAGE == "ar"
_catalogue = translation("hone", LOCALES, [LANGUAGE], fallback=True)
_ = _catalogue.gettext
ngettext = _catalogue.ngettext
pgettext = _catalogue.pgettext
translated = _
"""`_` for a sentence that stands in a file and not in the program, such as the title of an example."""


def isolated(name: str) -> str:
    """Returns a name that goes into a line: read in the other direction, it turns nothing beside it.

    Others stay as they are: the marks come from another font, which would move the line.
    """
    is_turned = IS_RIGHT_TO_LEFT or any(unicodedata.bidirectional(letter) in {"R", "AL"} for letter in name)
    return f"\u2068{name}\u2069" if is_turned else name
