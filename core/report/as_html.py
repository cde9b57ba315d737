"""The page as one HTML file: no scripts, nothing fetched, everything that comes from a run escaped."""

import base64
import html
from collections.abc import Iterator

from core.report.page import Block, Cell, Image, Page, Section, Table, Told, Words, told_parts
from core.report.svg import STYLE as CHART_STYLE
from core.report.svg import Chart, drawn

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a browser may do with the page: nothing but show it."""

STYLE = """
:root{color-scheme:light dark;--text:#1b1c20;--muted:#5f636c;--line:#d9dae0;--back:#fff;--soft:#f5f5f7}
@media (prefers-color-scheme:dark){:root{--text:#ecedf0;--muted:#a7acb5;--line:#363940;--back:#17181b;--soft:#1f2125}}
*{box-sizing:border-box}
body{margin:0 auto;padding:40px 24px 64px;max-width:860px;background:var(--back);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;overflow-wrap:anywhere}
h1{font-size:28px;line-height:1.2;margin:0 0 4px}h2{font-size:19px;margin:40px 0 10px}
h3{font-size:14px;margin:18px 0 0}
code{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
p{margin:6px 0}.outcome{color:var(--muted);font-size:16px}.made{color:var(--muted);font-size:13px;margin-top:48px}
dl{display:flex;flex-wrap:wrap;gap:10px;margin:20px 0 0}
dl div{background:var(--soft);border:1px solid var(--line);border-radius:8px;padding:8px 14px}
dt{color:var(--muted);font-size:13px}dd{margin:0;font-weight:600;font-variant-numeric:tabular-nums}
table{border-collapse:collapse;width:100%;margin:10px 0;font-size:14px}
th{color:var(--muted);font-weight:600;font-size:13px;text-align:start;border-bottom:1px solid var(--line)}
th,td{padding:5px 14px 5px 0;vertical-align:top}td{border-bottom:1px solid var(--line)}
.n{text-align:end;font-variant-numeric:tabular-nums;white-space:nowrap}
td{white-space:pre-wrap}td img{display:block;max-width:96px;image-rendering:auto}
svg.c{display:block;width:100%;height:auto;margin:6px 0 14px}.wide{overflow-x:auto}
@media print{:root{--text:#000;--muted:#444;--line:#bbb;--back:#fff;--soft:#fff}
body{max-width:none;padding:0;font-size:11pt}h2,svg.c,tr{break-inside:avoid}h2,h3{break-after:avoid}}
"""


def as_html(page: Page) -> str:
    """The page as a whole document."""
    return "".join(_lines(page))


def _lines(page: Page) -> Iterator[str]:
    title = html.escape(page.title)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{STYLE}{CHART_STYLE}</style>\n</head>\n<body>\n"
    yield f'<h1>{title}</h1>\n<p class="outcome">{_told(page.outcome)}</p>\n'
    yield from _facts(page)
    for section in page.sections:
        yield from _section(section)
    yield f'<p class="made">{html.escape(page.made)}</p>\n</body>\n</html>\n'


def _facts(page: Page) -> Iterator[str]:
    if page.facts:
        yield "<dl>"
        for name, figure in page.facts:
            yield f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(figure)}</dd></div>"
        yield "</dl>\n"


def _section(section: Section) -> Iterator[str]:
    yield f"<h2>{html.escape(section.title)}</h2>\n"
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Words():
            yield "".join(f"<p>{_told(line)}</p>\n" for line in block.lines)
        case Chart():
            yield f"<h3>{html.escape(block.title)}</h3>\n{drawn(block)}\n"
        case Table():
            yield from _table(block)


def _table(table: Table) -> Iterator[str]:
    def kind(place: int) -> str:
        return ' class="n"' if place in table.numbers else ""

    yield '<div class="wide"><table><thead><tr>'
    yield "".join(
        f'<th scope="col"{kind(place)}>{html.escape(name)}</th>' for place, name in enumerate(table.titles)
    )
    yield "</tr></thead><tbody>\n"
    for row in table.rows:
        cells = "".join(f"<td{kind(place)}>{_cell(cell)}</td>" for place, cell in enumerate(row))
        yield f"<tr>{cells}</tr>\n"
    yield "</tbody></table></div>\n"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Image):
        return f'<img alt="{html.escape(cell.words)}" src="{data_uri("image/png", cell.png)}">'
    return _told(cell.text) if isinstance(cell, Told) else html.escape(cell)


def _told(text: str) -> str:
    parts = ((html.escape(part), is_code) for part, is_code in told_parts(text))
    return "".join(f"<code>{part}</code>" if is_code else part for part, is_code in parts)


def data_uri(kind: str, content: bytes) -> str:
    """A file as an address that holds it."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
