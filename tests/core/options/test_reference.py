from pathlib import Path

from core.options.catalogue import all_options, as_markdown, as_text
from core.options.choices import ChatTemplate, DeepSpeed, Precision, Toggle

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_page_in_the_docs_is_current() -> None:
    assert (DOCS / "options.md").read_text(encoding="utf-8") == as_markdown(), (
        "run: .venv/bin/python -m gui options --markdown > docs/options.md"
    )


def test_every_option_is_there_with_its_help() -> None:
    for text in (as_markdown(), as_text()):
        for option in all_options()[1:]:
            assert option.help in text
            assert option.name in text


def test_choices_of_equal_value_keep_the_help_of_their_own_option() -> None:
    """Equal strings of two enumerations are equal keys: `auto` of all once showed the sentence of the last."""
    help_of = {
        (option.value_type, choice.value): choice.help
        for option in all_options()
        for choice in option.choices
    }
    assert all(help_of.values())
    assert len(set(help_of.values())) == len(help_of)
    assert all(help_of[kind, member.value] == member.help for kind, _ in help_of for member in kind)
    assert help_of[Precision, "auto"].startswith("bf16")
    assert help_of[ChatTemplate, "auto"].startswith("ChatML")
    assert help_of[DeepSpeed, "off"] != help_of[Toggle, "off"] == "Never."
