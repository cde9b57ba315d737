"""The declared options as plain rows, for whoever shows or checks them: forms, command line, reference page."""

import types
import typing
from collections.abc import Callable
from enum import Enum, StrEnum
from functools import cache
from typing import Any

import msgspec

from core.options import SECTIONS, RunOptions
from core.scratch_models import is_scratch


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
