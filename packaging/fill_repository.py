"""Write where releases are published into core/base/settings.py: `python packaging/fill_repository.py owner/name`.

For a build. A checkout has none there, so that nobody's own build looks for somebody else's releases.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

VERSION_FILE = Path(__file__).resolve().parent.parent / "core" / "base" / "settings.py"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")


def filled(source: str, repository: str) -> str:
    """The text of core/base/settings.py with this repository in it.

    Raises:
        ValueError: It is no `owner/name`, or the text has no place for it.
    """
    if not NAME.fullmatch(repository):
        raise ValueError(f"{repository!r} is no owner/name")
    text, count = re.subn(
        r'^REPOSITORY = "[^"]*"$', f'REPOSITORY = "{repository}"', source, flags=re.MULTILINE
    )
    if count != 1:
        raise ValueError('there is no line REPOSITORY = "…"')
    return text


def main(arguments: list[str]) -> int:
    """Write it; returns the exit status."""
    (repository,) = arguments
    VERSION_FILE.write_text(filled(VERSION_FILE.read_text(encoding="utf-8"), repository), encoding="utf-8")
    print(f"{VERSION_FILE}: {repository}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
