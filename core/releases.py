"""Whether a newer Hone has been published: the question, which only a press of the button asks, and its answer."""

from enum import StrEnum

import msgspec

ADDRESS = "https://github.com"
"""Where a person looks at releases."""

API = "https://api.github.com"
"""Where Hone asks for them: a firewall has to let it there."""


class Standing(StrEnum):
    """How the Hone that asked stands to the newest one published."""

    OLDER = "older"
    SAME = "same"
    NEWER = "newer"


class ReleaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which release of `repository` (`owner/name`) is the newest, and is it newer than `running`, such as 0.1.0?"""

    repository: str
    running: str


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """The newest release: its version, the page that shows it, and how who asked stands to it."""

    version: str
    page: str
    standing: Standing


def compared(running: str, newest: str) -> Standing:
    """How one version stands to another; both are numbers with dots, `v` before them or not.

    Raises:
        ValueError: One of them isn't.
    """
    mine, theirs = _numbers(running), _numbers(newest)
    if mine == theirs:
        return Standing.SAME
    return Standing.OLDER if mine < theirs else Standing.NEWER


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, without the zeros at its end: 1.2 and 1.2.0 are the same."""
    numbers = [int(part) for part in version.removeprefix("v").split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
