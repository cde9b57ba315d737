"""Sentences in the person's language, by the standard library's gettext: `_()` and `ngettext()`.

A translation is the catalogue `resources/locale/LANGUAGE/LC_MESSAGES/hone.mo`; without one sentences stay English. The
language is that of LANGUAGE, LC_ALL, LC_MESSAGES or LANG, read once as the process starts.
"""

from gettext import translation
from pathlib import Path

LOCALES = Path(__file__).resolve().parents[2] / "resources" / "locale"

_catalogue = translation("hone", LOCALES, fallback=True)
_ = _catalogue.gettext
ngettext = _catalogue.ngettext
