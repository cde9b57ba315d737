"""The page as one Markdown file, its charts as images within it."""

import re
from collections.abc import Iterator

from core.report.as_html import data_uri
from core.report.page import Block, Cell, Image, Page, Table, Told, Words, told_parts
from core.report.svg import Chart, drawn

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~!])")
_MARKS = re.compile(r"[<>&|\\]")
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def as_markdown(page: Page) -> str:
    """The page as a whole file."""
    return "\n".join(_lines(page)).rstrip() + "\n"


def _lines(page: Page) -> Iterator[str]:
    yield f"# {plain(page.title)}\n"
    yield f"{_told(page.outcome)}\n"
    if page.facts:
        yield from table_lines(Table(("What", "How much"), page.facts))
    for section in page.sections:
        yield f"\n## {plain(section.title)}\n"
        for block in section.blocks:
            yield from _block(block)
    yield f"\n{plain(page.made)}"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Words():
            yield from (f"{_told(line)}\n" for line in block.lines)
        case Chart():
            picture = data_uri("image/svg+xml", drawn(block, is_alone=True).encode())
            yield f"### {plain(block.title)}\n"
            yield f"![{plain(f'{block.title}. {block.told}')}]({picture})\n"
        case Table():
            yield from table_lines(block)


def table_lines(table: Table) -> Iterator[str]:
    """A table as lines of Markdown, an empty one behind it."""
    yield f"| {' | '.join(map(plain, table.titles))} |"
    yield (
        "|"
        + "|".join(" ---: " if place in table.numbers else " --- " for place in range(len(table.titles)))
        + "|"
    )
    for row in table.rows:
        yield f"| {' | '.join(map(_cell, row))} |"
    yield ""


def _cell(cell: Cell) -> str:
    if isinstance(cell, Image):
        return f"![{plain(cell.words)}]({data_uri('image/png', cell.png)})"
    text = _told(cell.text) if isinstance(cell, Told) else plain(cell)
    return text.replace("\n", "<br>")


def _told(text: str) -> str:
    return "".join(_code(part) if is_code else plain(part) for part, is_code in told_parts(text))


def _code(text: str) -> str:
    """As code; what would need escapes, which code has none of, as it stands."""
    return plain(f"`{text}`") if _MARKS.search(text) else f"`{text}`"


def plain(text: str) -> str:
    """A text of which Markdown makes nothing else, on as many lines as it has."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(_SPECIAL.sub(r"\\\1", line).translate(_MARKUP) for line in lines)
