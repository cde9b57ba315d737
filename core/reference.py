"""The reference of all options, made from their declarations."""

from collections.abc import Iterator
from typing import Any

from core.catalogue import Kind, Option, all_options, options_of
from core.options import SECTIONS

_HEAD = """\
# Options of a run file

Made by `hone options --markdown` from the declarations in `core/options/`; change it there.

A run file is [TOML](https://toml.io): `schema = 1` and `task` at its top, then one section for each heading below.
On the command line an option is set as `--set section.option=value`.
"""


def as_text() -> str:
    """Every option on two lines, for a terminal."""
    lines = []
    for option in all_options():
        only = f" Only with {needs_of(option)}." if option.needs else ""
        lines += [
            f"{option.path} ({must_be(option)}; default: {default_of(option)})",
            f"    {option.help}{only}",
        ]
    return "\n".join(lines) + "\n"


def as_markdown() -> str:
    """The reference page: a heading a section, a table row an option, a list for the choices."""
    lines = [_HEAD.rstrip(), "", "## task", ""]
    lines += _choices(all_options()[0])
    for section, struct in SECTIONS.items():
        summary = (struct.__doc__ or "").strip()
        lines += [
            "",
            f"## {section}",
            "",
            summary,
            "",
            "| option | what it is | value | default |",
            "|---|---|---|---|",
        ]
        lines += [_row(option) for option in options_of(section)]
        for option in options_of(section):
            if option.kind is Kind.CHOICE:
                lines += ["", f"`{option.path}` is one of", "", *_choices(option)]
    return "\n".join(lines) + "\n"


def _row(option: Option) -> str:
    only = f" Only with {needs_of(option)}." if option.needs else ""
    known_as = f" Trainer's {', '.join(option.aliases)} is understood too." if option.aliases else ""
    what = f"**{option.title}.** {option.help}{only}{known_as}".replace("|", "\\|")
    return f"| `{option.name}` | {what} | {must_be(option)} | {default_of(option)} |"


def needs_of(option: Option) -> str:
    """What other options must be for this one to mean anything, such as "`model.method` lora or qlora"."""
    return " and ".join(f"`{path}` {_either(values)}" for path, values in option.needs.items())


def _either(values: tuple[Any, ...]) -> str:
    *others, last = (str(value).lower() for value in values)
    return f"{', '.join(others)} or {last}" if others else last


def _choices(option: Option) -> Iterator[str]:
    for choice in option.choices:
        yield f"- `{choice.value}`: {choice.title}. {choice.help}"


def must_be(option: Option) -> str:
    """What a value of the option must be, in words, with its unit."""
    unit = f" ({option.unit})" if option.unit else ""
    return f"{option.expectation()}{unit}"


def default_of(option: Option) -> str:
    """Its default in words."""
    if option.path == "task":
        return "must be given"
    if option.default in (None, "", (), {}):
        return "empty"
    if isinstance(option.default, bool):
        return str(option.default).lower()
    return f"{option.default:g}" if isinstance(option.default, float) else str(option.default)
