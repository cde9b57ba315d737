"""Declared options as rows, for forms, command line and reference page."""

import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cache
from gettext import gettext as _
from pathlib import Path
from typing import Any

import msgspec

from core.options import SECTIONS, RunOptions, Tree
from core.options.sources import Scheme

# --- Models from scratch


LEAST_POSITIONS = 256
"""A model from scratch sees at least so many tokens, so that what is short today may be answered to tomorrow."""


@dataclass(frozen=True)
class ScratchModel:
    """Widths of a small transformer.

    `writes` tells a Llama, which says the next token, from a Bert, which reads a whole text. `inner` is the width of
    the layers between attention's; all tables of tokens are shared with the last layer.
    """

    title: str
    writes: bool
    layers: int
    hidden: int
    heads: int
    inner: int

    def parameters(self, vocabulary: int, positions: int = LEAST_POSITIONS) -> int:
        """How many weights it has, without the head of a classifier.

        Args:
            vocabulary: Tokens its tokenizer knows.
            positions: Tokens it sees at once; a Llama's take no weights.
        """
        hidden, inner = self.hidden, self.inner
        if self.writes:
            block = 4 * hidden * hidden + 3 * hidden * inner + 2 * hidden
            return vocabulary * hidden + self.layers * block + hidden
        block = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
        tables = (vocabulary + positions + 2) * hidden + 2 * hidden
        return tables + self.layers * block + hidden * hidden + hidden

    @property
    def help(self) -> str:
        """One sentence about it, such as "4 layers, 192 wide: 2.0 million weights and 1,024 tokens."."""
        kind = "Writes text" if self.writes else "Reads text"
        millions = self.parameters(1024) / 1e6
        return f"{kind}; {self.layers} layers, {self.hidden} wide, {millions:.1f} million weights."


SCRATCH_MODELS = {
    "llama-tiny": ScratchModel("Llama, tiny", True, layers=2, hidden=64, heads=4, inner=192),
    "llama-small": ScratchModel("Llama, small", True, layers=4, hidden=192, heads=6, inner=512),
    "llama-medium": ScratchModel("Llama, medium", True, layers=8, hidden=512, heads=8, inner=1376),
    "bert-tiny": ScratchModel("Bert, tiny", False, layers=2, hidden=128, heads=2, inner=512),
    "bert-mini": ScratchModel("Bert, mini", False, layers=4, hidden=256, heads=4, inner=1024),
    "bert-small": ScratchModel("Bert, small", False, layers=4, hidden=512, heads=8, inner=2048),
}
"""By name. The Berts have the sizes of https://github.com/google-research/bert#bert, the Llamas Hone's own."""

TIMED_MODELS = {
    "minilm": ScratchModel("MiniLM size", False, layers=6, hidden=384, heads=12, inner=1536),
    "bert-base": ScratchModel("BERT-base", False, layers=12, hidden=768, heads=12, inner=3072),
    "bert-large": ScratchModel("BERT-large", False, layers=24, hidden=1024, heads=16, inner=4096),
}
"""Sizes that benchmarks measure without fetching anything: what a step takes doesn't depend on what the weights are.

The lists to choose from leave them out. From nothing such a model learns little on one computer, and whoever wants it
to learn starts from the published weights.
"""


def is_scratch(source: str) -> bool:
    """Whether a model's source says that it is made from nothing, known or not."""
    return Scheme.SCRATCH.name_of(source) is not None


def starts_random(options: RunOptions) -> bool:
    """Whether the model of a run has learned nothing yet."""
    return not options.model.pretrained or is_scratch(options.model.source)


def scratch_model(source: str) -> ScratchModel | None:
    """The model of `scratch:NAME`; None where `source` is something else, or no such model is known."""
    name = Scheme.SCRATCH.name_of(source) or ""
    return SCRATCH_MODELS.get(name) or TIMED_MODELS.get(name)


def positions_of(max_length: int) -> int:
    """How many tokens a model from scratch sees at once where texts are cut off at `max_length`."""
    return max(LEAST_POSITIONS, max_length)


# --- Values by path


def copied(tree: Tree) -> Tree:
    """A copy whose sections can be changed without changing those of `tree`."""
    return {key: dict(value) if isinstance(value, dict) else value for key, value in tree.items()}


def value_at(tree: Tree, path: str, default: Any = None) -> Any:
    """The value at `section.option`, or at a key of the top; `default` where it is left out."""
    section, _, name = path.rpartition(".")
    values = tree.get(section) if section else tree
    return values.get(name, default) if isinstance(values, dict) else default


def put(tree: Tree, values: Mapping[str, Any]) -> None:
    """Set options by their paths; a section that is no section, a mistake told elsewhere, is left alone."""
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        target = tree.setdefault(section, {}) if section else tree
        if isinstance(target, dict):
            target[name] = value


# --- Options


class Kind(Enum):
    """What sort of value an option takes; decides the control a form shows."""

    TEXT = "text"
    TEXTS = "texts"
    WHOLE = "whole number"
    NUMBER = "number"
    SWITCH = "switch"
    CHOICE = "choice"
    PAIRS = "pairs"


class Choice(msgspec.Struct, frozen=True):
    """One value of an option with fixed values."""

    value: str
    title: str
    help: str


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One declared option.

    `path` is its name in a run file, such as `memory.batch_size`. Limits are inclusive where `minimum`/`maximum` are
    set and exclusive where `above` is set; None means no limit. `value_type` is the bare type, without limits and None.
    `unit` is what a number counts; where `is_share_below_one`, one below 1 is a share of the run. `needs` gives the
    values that other options must have for this one to mean anything; `of_scratch` says whether it acts for models from
    scratch only (True) or for all others (False). `group` is the heading it stands below in a form, `aliases` are
    Trainer's names for it.
    """

    path: str
    title: str
    help: str
    kind: Kind
    value_type: Any
    default: Any
    unit: str
    is_share_below_one: bool
    advanced: bool
    group: str
    needs: dict[str, tuple[Any, ...]]
    of_scratch: bool | None
    aliases: tuple[str, ...]
    is_path: bool
    optional: bool
    choices: tuple[Choice, ...]
    minimum: float | None
    maximum: float | None
    above: float | None

    @property
    def section(self) -> str:
        """The section it stands in, or an empty string for `task`."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its key within the section."""
        return self.path.rpartition(".")[2]

    @property
    def is_share(self) -> bool:
        """Whether it is a share of a whole, kept as 0 to 1 and told in percent with one decimal at most."""
        return self.maximum is not None and self.maximum < 1 and round(self.maximum, 3) == self.maximum

    def applies(self, value_at: Callable[[str], Any]) -> bool:
        """Whether the option means anything beside the values that `value_at` gives for other options' paths."""
        return all(
            value_at(path) in values and options_by_path()[path].applies(value_at)
            for path, values in self.needs.items()
        )

    def applies_to(self, options: RunOptions) -> bool:
        """Whether the option means anything in `options`."""
        return self.applies(lambda path: value_of(options, path))

    def acts_in(self, options: RunOptions) -> bool:
        """Whether the option has anything to do in a run: it means something, and the model is of its kind."""
        is_of_model = self.of_scratch in (None, is_scratch(options.model.source))
        return is_of_model and self.applies_to(options)

    def expectation(self) -> str:
        """Say in words what a value must be, such as "a whole number of 1 or more"."""
        if self.kind is Kind.CHOICE:
            return "one of " + ", ".join(choice.value for choice in self.choices)
        nouns = {
            Kind.TEXT: "a text",
            Kind.TEXTS: "a list of texts",
            Kind.PAIRS: 'a table of texts, such as { prompt = "question" }',
            Kind.SWITCH: "true or false",
            Kind.WHOLE: "a whole number",
            Kind.NUMBER: "a number",
        }
        return nouns[self.kind] + self._limits()

    def broken_limit(self, value: float) -> str:
        """Which limit a number breaks, such as "must be 1 or more"; empty where it breaks none."""
        if self.above is not None and value <= self.above:
            return f"must be above {self.above:g}"
        if self.minimum is not None and value < self.minimum:
            return f"must be {self.minimum:,g} or more"
        if self.maximum is not None and value > self.maximum:
            return f"must be {self.maximum:,.10g} or less"
        return ""

    def _limits(self) -> str:
        if self.above is not None:
            tail = f" and at most {self.maximum:,g}" if self.maximum is not None else ""
            return f" above {self.above:g}{tail}"
        if self.minimum is not None and self.maximum is not None:
            return f" from {_plain(self.minimum)} to {_plain(self.maximum)}"
        return f" of {_plain(self.minimum)} or more" if self.minimum is not None else ""


def _plain(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else f"{number:g}"


def _unwrap(annotation: Any) -> tuple[Any, msgspec.Meta, bool]:
    """Split `Annotated[T | None, meta]` into T, meta and whether None is allowed."""
    inner, meta = typing.get_args(annotation)
    if isinstance(inner, types.UnionType):
        members = [member for member in typing.get_args(inner) if member is not types.NoneType]
        return members[0], meta, True
    return inner, meta, False


def _kind(value_type: Any) -> Kind:
    if isinstance(value_type, type) and issubclass(value_type, StrEnum):
        return Kind.CHOICE
    kinds = {
        str: Kind.TEXT,
        int: Kind.WHOLE,
        float: Kind.NUMBER,
        bool: Kind.SWITCH,
        tuple[str, ...]: Kind.TEXTS,
        dict[str, str]: Kind.PAIRS,
    }
    return kinds[value_type]


def _describe(path: str, annotation: Any, default: Any) -> Option:
    value_type, meta, optional = _unwrap(annotation)
    kind = _kind(value_type)
    choices = (
        tuple(Choice(item.value, item.label, item.help) for item in value_type) if kind is Kind.CHOICE else ()
    )
    extra = meta.extra or {}
    return Option(
        path=path,
        title=meta.title or path,
        help=meta.description or "",
        kind=kind,
        value_type=value_type,
        default=default,
        optional=optional,
        choices=choices,
        minimum=meta.ge,
        maximum=meta.le,
        above=meta.gt,
        unit=extra["unit"],
        is_share_below_one=extra["share_below_one"],
        advanced=extra["advanced"],
        group=extra["group"],
        needs=extra["needs"],
        of_scratch=extra["of_scratch"],
        aliases=extra["aliases"],
        is_path=extra["path"],
    )


@cache
def all_options() -> tuple[Option, ...]:
    """Every option in the order of the run file, `task` first."""
    task = typing.get_type_hints(RunOptions, include_extras=True)["task"]
    rows = [_describe("task", task, None)]
    for section, struct in SECTIONS.items():
        hints = typing.get_type_hints(struct, include_extras=True)
        defaults = struct()
        rows += [_describe(f"{section}.{key}", hint, getattr(defaults, key)) for key, hint in hints.items()]
    return tuple(rows)


@cache
def options_by_path() -> dict[str, Option]:
    """Every option by its path, such as `memory.batch_size`."""
    return {option.path: option for option in all_options()}


def options_of(section: str) -> tuple[Option, ...]:
    """The options of one section, in order."""
    return tuple(option for option in all_options() if option.section == section)


def value_of(options: RunOptions, path: str) -> Any:
    """The value that `options` holds at `path`; raises AttributeError for a path that is none."""
    found: Any = options
    for name in path.split("."):
        found = getattr(found, name)
    return found


# --- Values with units


NONE = "-"


def plain_value_words(option: Option, value: Any) -> str:
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
    words = plain_value_words(option, value)
    return words if words == NONE else f"{words} {unit_of(option, value)}".rstrip()


def plain_number(value: float) -> str:
    """A float as a person writes it: `3`, `0.001`, `2e-5`."""
    text = f"{value:.10g}"
    mantissa, exponential, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponential else text


def _is_share(option: Option, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and (option.is_share or (option.is_share_below_one and 0 < value < 1))


# --- Reference page


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


# --- Values as text


EMPTY: tuple[object, ...] = ("", None, (), [], {})


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
        return _("not set")
    match option.kind, value:
        case Kind.SWITCH, bool():
            words = _("On") if value else _("Off")
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
