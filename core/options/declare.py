"""Declare an option: `batch_size: int = option(16, "Batch size", "Samples per forward pass.", limits=(1, 65_536))`."""

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from core.base.language import _
from core.options.choices import Method, Optimizer, Task
from core.options.sources import is_scratch

if TYPE_CHECKING:
    from core.options import RunOptions

Needs = Mapping[str, tuple[object, ...]]
"""The values that other options must have for this one to mean anything, by path."""


def _tasks(fits: Callable[[Task], bool]) -> Needs:
    return {"task": tuple(filter(fits, Task))}


FOR_TEXT = _tasks(lambda task: task.reads_text)
FOR_IMAGES = _tasks(lambda task: task.reads_images)
FOR_TEXT_COLUMNS = _tasks(lambda task: task.reads_text and not task.reads_conversations)
FOR_LABEL_COLUMN = _tasks(lambda task: task.has_labels or task is Task.TEXT_REGRESSION)
FOR_SINGLE_TEXTS = _tasks(lambda task: task.reads_text and task is not Task.CAUSAL_LM)
"""Where a text is a sample, and not a part of one long text."""
FOR_CONVERSATIONS = _tasks(lambda task: task.reads_conversations)
FOR_WRITING = _tasks(lambda task: task.writes_text)
FOR_CHAT = _tasks(lambda task: task is Task.CHAT)
FOR_PREFERENCE = _tasks(lambda task: task is Task.PREFERENCE)
WITH_LORA: Needs = {"model.method": (Method.LORA, Method.QLORA)}
WITH_DEEP_GRADIENTS: Needs = {"model.method": (Method.FULL, Method.LORA, Method.QLORA)}
"""Where gradients go through the whole model. A classifier trained alone needs none of the activations below it."""
_BETAS = tuple(kind for kind in Optimizer if kind not in (Optimizer.SGD, Optimizer.ADAFACTOR))
WITH_BETAS: Needs = {"training.optimizer": _BETAS}
WITH_EPSILON: Needs = {
    "training.optimizer": tuple(kind for kind in _BETAS if kind is not Optimizer.LION_8BIT)
}


class Kind(Enum):
    """What sort of value an option takes; decides the control a form shows."""

    TEXT = "a text"
    TEXTS = "a list of texts"
    WHOLE = "a whole number"
    NUMBER = "a number"
    SWITCH = "true or false"
    CHOICE = "one of"
    PAIRS = 'a table of texts, such as { prompt = "question" }'


_KINDS: dict[Any, Kind] = {
    str: Kind.TEXT,
    int: Kind.WHOLE,
    float: Kind.NUMBER,
    bool: Kind.SWITCH,
    tuple[str, ...]: Kind.TEXTS,
    dict[str, str]: Kind.PAIRS,
}


class Choice(NamedTuple):
    """One value of an option with fixed values."""

    value: str
    title: str
    help: str


@dataclass(frozen=True, eq=False)
class Option:
    """One option.

    Args:
        default: Its default.
        title: The label a form shows.
        help: One or two plain sentences.
        unit: What the number counts, shown behind its field.
        share_below_one: Whether a number below 1 is a fraction of the run, and counts nothing.
        group: The heading below "More" in the form; empty: the form always shows it.
        needs: The values that other options must have for it to mean anything.
        of_scratch: Whether it acts for models from scratch only, or for all others only; None: for both.
        aliases: Trainer's names for it; a run file may use them in its section or at its top.
        is_path: Whether its value may be a file or folder (relative to the run file).
        limits: The smallest and the largest value allowed; None: no limit.
        above: The value it must be above.
        path: Its name in a run file, such as `memory.batch_size`. This and what follows is read off the annotation.
        value_type: The bare type, without None.
        optional: Whether None is allowed.
    """

    default: Any
    title: str
    help: str
    _rest: KW_ONLY
    unit: str = ""
    share_below_one: bool = False
    group: str = ""
    needs: Needs = field(default_factory=dict)
    of_scratch: bool | None = None
    aliases: tuple[str, ...] = ()
    is_path: bool = False
    limits: tuple[float | None, float | None] = (None, None)
    above: float | None = None
    path: str = ""
    value_type: Any = None
    optional: bool = False

    @property
    def section(self) -> str:
        """The section it stands in, or an empty string for `task`."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its key within the section."""
        return self.path.rpartition(".")[2]

    @property
    def kind(self) -> Kind:
        return _KINDS.get(self.value_type, Kind.CHOICE)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The values of an option with fixed values."""
        members = self.value_type if self.kind is Kind.CHOICE else ()
        return tuple(Choice(item.value, item.label, item.help) for item in members)

    @property
    def advanced(self) -> bool:
        """Whether the form keeps it under "More"."""
        return bool(self.group)

    @property
    def minimum(self) -> float | None:
        return self.limits[0]

    @property
    def maximum(self) -> float | None:
        return self.limits[1]

    @property
    def is_share(self) -> bool:
        """Whether it is a share of a whole, kept as 0 to 1 and shown in percent with one decimal at most."""
        return self.maximum is not None and self.maximum < 1 and round(self.maximum, 3) == self.maximum

    def applies(self, value_at: Callable[[str], Any]) -> bool:
        """Whether the option means anything beside the values that `value_at` gives for other options' paths."""
        return all(value_at(path) in values for path, values in self.needs.items())

    def applies_to(self, options: "RunOptions") -> bool:
        """Whether the option means anything in `options`."""
        return self.applies(lambda path: attrgetter(path)(options))

    def acts_in(self, options: "RunOptions") -> bool:
        """Whether the option has anything to do in a run: it means something, and the model is of its kind."""
        is_of_model = self.of_scratch in (None, is_scratch(options.model.source))
        return is_of_model and self.applies_to(options)

    def expectation(self) -> str:
        """Say in words what a value must be, such as "a whole number of 1 or more"."""
        if self.kind is Kind.CHOICE:
            return _("one of ") + ", ".join(choice.value for choice in self.choices)
        limits = ""
        if self.above is not None:
            limits = _(" above {above:g}").format(above=self.above) + (
                _(" and at most {maximum:,g}").format(maximum=self.maximum) if self.maximum else ""
            )
        elif self.minimum is not None and self.maximum is not None:
            limits = _(" from {minimum:,.10g} to {maximum:,.10g}").format(
                minimum=self.minimum, maximum=self.maximum
            )
        elif self.minimum is not None:
            limits = _(" of {minimum:,.10g} or more").format(minimum=self.minimum)
        return f"{self.kind.value}{limits}"

    def broken_limit(self, value: float) -> str:
        """Which limit a number breaks, such as "must be 1 or more"; empty where it breaks none."""
        if self.above is not None and value <= self.above:
            return _("must be above {above:g}").format(above=self.above)
        if self.minimum is not None and value < self.minimum:
            return _("must be {minimum:,g} or more").format(minimum=self.minimum)
        if self.maximum is not None and value > self.maximum:
            return _("must be {maximum:,.10g} or less").format(maximum=self.maximum)
        return ""


option: Any = Option
"""For a field of a section: to type checkers its default has the field's type."""

_DECLARED: dict[type, dict[str, Option]] = {}


class _SectionMeta(msgspec.StructMeta):
    """Takes the options out of a section's fields, which keep their defaults."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> type:
        declared = {key: value for key, value in namespace.items() if isinstance(value, Option)}
        defaults = {key: value.default for key, value in declared.items()}
        section = super().__new__(mcls, name, bases, {**namespace, **defaults}, **config)
        _DECLARED[section] = declared
        return section


class Section(msgspec.Struct, metaclass=_SectionMeta, frozen=True, kw_only=True):
    """Base of the sections of a run file."""


def options_in(section: type[Section], name: str) -> list[Option]:
    """The options declared in a section of this name, in order."""
    hints = typing.get_type_hints(section)
    options = []
    for key, declared in _DECLARED[section].items():
        optional = isinstance(hints[key], types.UnionType)
        value_type = typing.get_args(hints[key])[0] if optional else hints[key]
        options.append(replace(declared, path=f"{name}.{key}", value_type=value_type, optional=optional))
    return options
