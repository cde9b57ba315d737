"""Values of options in words, for whoever shows them beside other values."""

from pathlib import Path
from typing import Any

from PySide6.QtCore import QCoreApplication

from core.catalogue import Kind, Option, all_options, value_of
from core.option_words import number_words
from core.options import RunOptions

EMPTY: tuple[object, ...] = ("", None, (), [], {})

_translate = QCoreApplication.translate


def has_default(option: Option) -> bool:
    """Whether its default is a choice: a model, data and their columns have to be chosen for every run anew."""
    return option.advanced or option.default not in EMPTY


def is_changed(option: Option, value: object) -> bool:
    """Whether a value differs from the default of an option that has one."""
    plain = tuple(value) if isinstance(value, list) else value
    return has_default(option) and plain != option.default


def changed_options(options: RunOptions) -> list[Option]:
    """The options that have something to do and differ from their defaults."""
    return [
        option
        for option in all_options()
        if option.section and option.acts_in(options) and is_changed(option, value_of(options, option.path))
    ]


def value_words(option: Option, value: Any) -> str:
    """A value as the form shows it: `16`, `On`, `LoRA`, `2e-5`, `not set`; one that does not fit stays as it is."""
    if value in EMPTY:
        return _translate("Values", "not set")
    match option.kind, value:
        case Kind.SWITCH, bool():
            words = _translate("Values", "On") if value else _translate("Values", "Off")
        case Kind.CHOICE, str():
            titles = {str(choice.value): choice.title for choice in option.choices}
            words = titles.get(str(value), str(value))
        case ((Kind.WHOLE | Kind.NUMBER), bool()):
            words = str(value)
        case ((Kind.WHOLE | Kind.NUMBER), (int() | float())):
            words = number_words(option, value)
        case Kind.TEXTS, (list() | tuple()):
            words = ", ".join(map(str, value))
        case Kind.PAIRS, dict():
            words = ", ".join(f"{name} = {text}" for name, text in value.items())
        case Kind.TEXT, str() if option.is_path and Path(value).is_absolute():
            words = Path(value).name
        case _:
            words = str(value)
    return words
