"""An invented language, longer than English, accented and read from right to left, to see what a real one would break.

`python -m tests.pseudo MODULE ARGUMENTS` runs a module in it, such as `tests.screenshots.make FOLDER`.
"""

import gettext
import os
import re
import runpy
import sys

LETTERS = str.maketrans("aceilnorsuyACEILNORSUY", "áçéíłñóŕšúýÁÇÉÍŁÑÓŔŠÚÝ")
LONGER = 1.3
"""What a translation takes more than its English, on average."""


class Pseudo(gettext.NullTranslations):
    """Translates by accents; names in braces, markup and commands stay."""

    def gettext(self, message: str) -> str:
        kept = re.compile(r"(\{[^}]*\}|<[^>]*>|`[^`]*`|&\w+;)")
        words = "".join(
            part if kept.fullmatch(part) else part.translate(LETTERS) for part in kept.split(message)
        )
        return "\u200f" + words + "·" * round(len(message) * (LONGER - 1))

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)

    def pgettext(self, context: str, message: str) -> str:
        return self.gettext(message)


def speak() -> None:
    """Has this process speak it; call it before anything of Hone is imported."""
    os.environ["HONE_LANGUAGE"] = "ar"
    gettext.translation = lambda *_names, **_more: Pseudo()


if __name__ == "__main__":
    speak()
    module, sys.argv = sys.argv[1], sys.argv[1:]
    runpy.run_module(module, run_name="__main__")
