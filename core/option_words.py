"""The value of an option in words, with what it counts: the one place that knows, for forms, pages and terminals."""

from typing import Any

from core.catalogue import Kind, Option

NONE = "-"


def value_words(option: Option, value: Any) -> str:
    """A value as a person reads it, without its unit: `1,024`, `2e-5`, `5 %`, `on`, `LoRA`, `-` for none."""
    match option.kind, value:
        case _, None | "" | () | []:
            words = NONE
        case Kind.SWITCH, bool():
            words = "on" if value else "off"
        case Kind.CHOICE, _:
            words = next((choice.title for choice in option.choices if choice.value == value), str(value))
        case ((Kind.WHOLE | Kind.NUMBER), (int() | float())):
            words = number_words(option, value)
        case Kind.TEXTS, _:
            words = ", ".join(map(str, value))
        case Kind.PAIRS, _:
            words = ", ".join(f"{name} = {text}" for name, text in value.items()) or NONE
        case _:
            words = str(value)
    return words


def number_words(option: Option, value: float) -> str:
    """A number as a person reads it: `1,024`, `0.001`, `2e-5`; of a share its percent."""
    if _is_share(option, value):
        return f"{plain_number(round(100 * value, 8))} %"
    return f"{value:,}" if isinstance(value, int) else plain_number(value)


def unit_of(option: Option, value: Any) -> str:
    """What a value counts: `batches`, or `batch` of 1; empty where its title says that, and behind a percent."""
    if _is_share(option, value) or option.unit == option.title.lower():
        return ""
    if value == 1 and not isinstance(value, bool):
        return option.unit.removesuffix("es" if option.unit.endswith(("ches", "sses")) else "s")
    return option.unit


def unit_beside(option: Option, value: Any) -> str:
    """What to say behind a field with a value in it as it is kept: a share is `0.05 of the run`."""
    is_of_run = option.is_share_below_one and _is_share(option, value)
    return "of the run" if is_of_run else unit_of(option, value)


def with_unit(option: Option, value: Any) -> str:
    """A value with what it counts: `8 steps`, `1 batch`, `5 %`."""
    words = value_words(option, value)
    return words if words == NONE else f"{words} {unit_of(option, value)}".rstrip()


def plain_number(value: float) -> str:
    """A float as a person writes it: `3`, `0.001`, `2e-5`."""
    text = f"{value:.10g}"
    mantissa, exponential, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponential else text


def _is_share(option: Option, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and (option.is_share or (option.is_share_below_one and 0 < value < 1))
