from pathlib import Path

from core.catalogue import all_options
from core.reference import as_markdown, as_text

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_in_the_docs_is_current() -> None:
    assert (DOCS / "options.md").read_text(encoding="utf-8") == as_markdown(), (
        "run: .venv/bin/python -m gui options --markdown > docs/options.md"
    )


def test_every_option_is_there_with_its_help() -> None:
    for text in (as_markdown(), as_text()):
        for option in all_options()[1:]:
            assert option.help in text
            assert option.name in text
