"""Sentences in the person's language, by the standard library's gettext: `_()` and `ngettext()`.

A translation is the catalogue `resources/locale/LANGUAGE/LC_MESSAGES/hone.mo`; without one sentences stay English. The
language is that of LANGUAGE, LC_ALL, LC_MESSAGES or LANG, read once as the process starts.
"""

import unicodedata
from gettext import translation
from pathlib import Path

LOCALES = Path(__file__).resolve().parents[2] / "resources" / "locale"

_catalogue = translation("hone", LOCALES, fallback=True)
_ = _catalogue.gettext
ngettext = _catalogue.ngettext


def isolated(name: str) -> str:
    """Returns a name that goes into a line: one that is read from right to left turns nothing beside it.

    Others stay as they are: the marks come from another font, which would move the line.
    """
    is_turned = any(unicodedata.bidirectional(letter) in {"R", "AL"} for letter in name)
    return f"\u2068{name}\u2069" if is_turned else name
