"""Saving the page of a run as a file, by its ending."""

from pathlib import Path

from core.errors import OptionsError, Problem
from core.files import write_atomically
from core.report.as_html import as_html
from core.report.as_markdown import as_markdown
from core.report.telling import page_of
from core.run_folder import RunFolder
from core.targets import writing

WRITERS = {".html": as_html, ".htm": as_html, ".md": as_markdown, ".markdown": as_markdown}
"""By the ending of the file."""


def save_report(run: RunFolder, path: Path) -> None:
    """Write the page, whole or not at all, over whatever is at `path`.

    Raises:
        OptionsError: Its ending is of no kind that is written.
        TargetError: It can't be written there.
        UserError: It can't be written: the disk is full.
    """
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise OptionsError((Problem("", f"{path.name}: name a file that ends in .html or .md"),))
    content = writer(page_of(run)).encode("utf-8", "replace")
    with writing(path):
        write_atomically(path, content)
