"""Names of a release: `python packaging/check_tag.py tag v0.1.0` refuses another version than the source's own.

`--name macos-arm64.dmg` prints what a file is called, such as `hone-0.1.0-macos-arm64.dmg`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from core.base.settings import VERSION


def why_not(kind: str, name: str, version: str = VERSION) -> str:
    """Why a release can't be made of this `tag`; empty where it can, and for a `branch`, which isn't published."""
    if kind != "tag" or name == f"v{version}":
        return ""
    return f"The tag is {name}, but core/base/settings.py says {version}: tag this version v{version}."


def file_name(what: str, version: str = VERSION) -> str:
    """The name of a release's file."""
    return f"hone-{version}-{what}"


def main(arguments: list[str]) -> int:
    """Check or print; returns the exit status."""
    first, second = arguments
    if first == "--name":
        print(file_name(second))
        return 0
    reason = why_not(first, second)
    if reason:
        print(reason, file=sys.stderr)
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
