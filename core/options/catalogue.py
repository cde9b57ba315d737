"""All declared options, their values by path, values as text, and the reference page."""

from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from core.base.errors import Fix
from core.base.formats import in_percent, plain_number
from core.base.language import _
from core.options import SECTIONS, RunOptions, Tree
from core.options.choices import Task
from core.options.declare import Option, OptionKind, options_in

# --- Options


TASK = Option(None, _("Task"), _("What the model learns to do."), path="task", value_type=Task)


@cache
def all_options() -> tuple[Option, ...]:
    """Returns every option in the order of the run file, `task` first."""
    return (TASK, *(option for name, struct in SECTIONS.items() for option in options_in(struct, name)))


@cache
def options_by_path() -> dict[str, Option]:
    """Returns every option by its path, such as `memory.batch_size`."""
    return {option.path: option for option in all_options()}


def options_of(section: str) -> tuple[Option, ...]:
    return tuple(option for option in all_options() if option.section == section)


# --- Values by path


def copied(tree: Tree) -> Tree:
    """Returns a copy with its own sections."""
    return {key: dict(value) if isinstance(value, dict) else value for key, value in tree.items()}


def value_at(tree: Tree, path: str, default: Any = None) -> Any:
    """Returns the value at `section.option` or at a top-level key, `default` if it is missing."""
    section, _dot, name = path.rpartition(".")
    values = tree.get(section) if section else tree
    return values.get(name, default) if isinstance(values, dict) else default


def put(tree: Tree, values: Mapping[str, Any]) -> None:
    """Sets values by path. Entries that should be sections but are not, are left for validation to report."""
    for path, value in values.items():
        section, _dot, name = path.rpartition(".")
        target = tree.setdefault(section, {}) if section else tree
        if isinstance(target, dict):
            target[name] = value


def value_of(options: RunOptions, path: str) -> Any:
    """Returns the value at `path`; raises AttributeError for an unknown path."""
    return attrgetter(path)(options)


def row_multiple(options: RunOptions) -> int:
    """Returns the multiple that rows are padded to, up to the maximum length; 1 if unresolved or without effect."""
    applies = options_by_path()["data.pad_to_multiple_of"].applies_to(options)
    return (options.data.pad_to_multiple_of or 1) if applies else 1


Changes = Mapping[str, Any]
"""Values by path, such as `{"memory.batch_size": 4}`."""


def with_changes(options: RunOptions, changes: Changes) -> RunOptions:
    """Returns a copy of `options` with `changes`, whose values may be plain or of the option's type."""
    for path, value in changes.items():
        section, _dot, name = path.partition(".")
        value_type = options_by_path()[path].value_type
        typed = None if value is None else msgspec.convert(value, value_type, strict=False)
        changed = msgspec.structs.replace(getattr(options, section), **{name: typed})
        options = msgspec.structs.replace(options, **{section: changed})
    return options


EMPTY: tuple[object, ...] = ("", None, (), [], {})


def is_changed(option: Option, value: object, start: object) -> bool:
    """Returns whether a value differs from a start. Never true for options without a default, such as the model."""
    has_default = option.advanced or option.default not in EMPTY
    as_lists = (list(one) if isinstance(one, tuple) else one for one in (value, start))
    return has_default and next(as_lists) != next(as_lists)


# --- Values as text


ZEROS = {
    "device.processes": _("One per GPU"),
    "memory.empty_cache_steps": _("Never"),
    "model.lora_layers": _("All"),
    "output.save_steps": _("Each epoch"),
    "training.eval_steps": _("Each epoch"),
    "training.early_stopping_patience": _("Never"),
    "training.epochs": _("Only evaluate"),
}
"""What is shown instead of zero, by path."""


def value_text(option: Option, value: Any) -> str:
    """Formats a value as the form does: `16`, `On`, `LoRA`, `2e-5`, `not set`; an invalid one as `str` does."""
    if value in EMPTY:
        return _("not set")
    if value == 0 and option.path in ZEROS:
        return ZEROS[option.path]
    match option.kind, value:
        case OptionKind.SWITCH, bool():
            return _("On") if value else _("Off")
        case OptionKind.CHOICE, str():
            return next((choice.title for choice in option.choices if choice.value == value), value)
        case ((OptionKind.WHOLE | OptionKind.NUMBER), (int() | float())) if not isinstance(value, bool):
            return number_words(option, value)
        case OptionKind.TEXTS, (list() | tuple()):
            return ", ".join(map(str, value))
        case OptionKind.PAIRS, dict():
            return ", ".join(f"{name} = {text}" for name, text in value.items())
        case OptionKind.TEXT, "auto" if option.default == "auto":
            return _("Automatic")
        case OptionKind.TEXT, str() if option.is_path and Path(value).is_absolute():
            return Path(value).name
    return str(value)


def number_words(option: Option, value: float) -> str:
    """Returns a number such as `1,024`, `0.001` or `2e-5`; a share in percent."""
    if _is_share(option, value):
        return in_percent(plain_number(round(100 * value, 8)))
    return f"{value:,}" if isinstance(value, int) else plain_number(value)


def unit_of(option: Option, value: Any) -> str:
    """Returns a value's unit, such as `batches`, or `batch` for 1; empty if the title says it, and after percent."""
    is_word = value == 0 and option.path in ZEROS
    if (
        option.unit is None
        or is_word
        or option.unit.plural == option.title.lower()
        or _is_share(option, value)
    ):
        return ""
    return option.unit.of(value) if _is_number(value) else option.unit.plural


def unit_beside(option: Option, value: Any) -> str:
    """Returns the unit behind a field: that of a share of the run is `of the run`."""
    return _("of the run") if option.share_below_one and _is_share(option, value) else unit_of(option, value)


def with_unit(option: Option, value: Any) -> str:
    """Returns a value with its unit: `8 steps`, `1 batch`, `5 %`."""
    text = value_text(option, value)
    return text if value in EMPTY else f"{text} {unit_of(option, value)}".rstrip()


def _is_share(option: Option, value: Any) -> bool:
    return _is_number(value) and (option.is_share or (option.share_below_one and 0 < value < 1))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- Reference page


_HEAD = """\
# Options of a run file

Made by `hone options --markdown` from the declarations in `core/options/`; change it there.

A run file is [TOML](https://toml.io): `schema = 1` and `task` at its top, then one section for each heading below.
On the command line an option is set as `--set section.option=value`.
"""


def as_text() -> str:
    """Returns every option on two lines, for a terminal."""
    lines = []
    for option in all_options():
        default = _("default: {value}").format(value=_default(option))
        lines += [
            f"{option.path} ({_expectation(option)}; {default})",
            f"    {option.help}{_only_with(option)}",
        ]
    return "\n".join(lines) + "\n"


def as_markdown() -> str:
    """Returns the reference page: a heading per section, a table row per option, and the values of choices."""
    lines = [_HEAD.rstrip(), "", "## task", "", *_choices(all_options()[0])]
    for section, struct in SECTIONS.items():
        lines += ["", f"## {section}", "", (struct.__doc__ or "").strip(), ""]
        lines += ["| option | what it is | value | default |", "|---|---|---|---|"]
        lines += [_row(option) for option in options_of(section)]
        for option in options_of(section):
            if option.kind is OptionKind.CHOICE:
                lines += ["", _("`{path}` is one of").format(path=option.path), "", *_choices(option)]
    return "\n".join(lines) + "\n"


def _row(option: Option) -> str:
    what = f"**{option.title}.** {option.help}{_only_with(option)}"
    if option.aliases:
        what += _(" Trainer's {aliases} is understood too.").format(aliases=", ".join(option.aliases))
    cells = (f"`{option.name}`", what.replace("|", "\\|"), _expectation(option), _default(option))
    return f"| {' | '.join(cells)} |"


def _only_with(option: Option) -> str:
    return _(" Only with {option}.").format(option=needs_of(option)) if option.needs else ""


def needs_of(option: Option) -> str:
    """Returns the options that this one needs, such as "`model.method` lora or qlora"."""
    return _(" and ").join(f"`{path}` {_either(values)}" for path, values in option.needs.items())


def _either(values: tuple[Any, ...]) -> str:
    *others, last = (str(value).lower() for value in values)
    return _("{others} or {last}").format(others=", ".join(others), last=last) if others else last


def _choices(option: Option) -> list[str]:
    return [f"- `{choice.value}`: {choice.title}. {choice.help}" for choice in option.choices]


def _expectation(option: Option) -> str:
    return f"{option.expectation()} ({option.unit.plural})" if option.unit else option.expectation()


def _default(option: Option) -> str:
    if option is TASK:
        return _("must be given")
    if option.default in EMPTY:
        return _("empty")
    if isinstance(option.default, bool):
        return str(option.default).lower()
    return plain_number(option.default) if isinstance(option.default, float) else str(option.default)


def use(path: str, value: Any, name: str = "") -> Fix:
    """Returns the fix that gives an option this value, called `name` or by the value itself."""
    match value:
        case bool():
            return Fix(_("Turn on") if value else _("Turn off"), {path: value})
        case int():
            text = f"{value:,}"
        case float():
            text = plain_number(value)
        case _:
            text = str(value)
    return Fix(_("Use {value}").format(value=name or text), {path: value})


def use_default(option: Option) -> Fix:
    """Returns the fix that gives an option its default."""
    if option.default in ("auto", None):
        return Fix(_("Let Hone choose"), {option.path: option.default})
    return use(option.path, option.default)
