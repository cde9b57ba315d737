"""Declaration of options.

A section is a msgspec struct whose fields are declared with `option`::

    class MemoryOptions(Section, frozen=True, kw_only=True):
        batch_size: int = option(16, _("Batch size"), _("Samples per forward pass."), limits=(1, 65_536))

The field's default is the option's; everything else is available from `options_in`.
"""

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import Enum, auto
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from core.base.formats import percent_tick, plural_number
from core.base.language import _, ngettext
from core.options.choices import DeepSpeed, Method, Optimizer, Padding, Task
from core.options.sources import is_scratch

# --- When an option applies


Needs = Mapping[str, tuple[object, ...]]
"""The values that other options must have for an option to apply, by path."""


def _tasks(condition: Callable[[Task], bool]) -> Needs:
    return {"task": tuple(filter(condition, Task))}


FOR_TEXT = _tasks(lambda task: task.reads_text)
FOR_IMAGES = _tasks(lambda task: task.reads_images)
FOR_TEXT_COLUMNS = _tasks(lambda task: task.reads_text and not task.reads_conversations)
FOR_LABEL_COLUMN = _tasks(lambda task: task.has_labels or task is Task.TEXT_REGRESSION)
FOR_CLASSES = _tasks(lambda task: task in (Task.TEXT_CLASSIFICATION, Task.IMAGE_CLASSIFICATION))
FOR_SINGLE_TEXTS = _tasks(lambda task: task.reads_text and task is not Task.CAUSAL_LM)
"""Each text is an example, and not part of one long text."""
FOR_CONVERSATIONS = _tasks(lambda task: task.reads_conversations)
FOR_WRITING = _tasks(lambda task: task.writes_text)
WITH_DYNAMIC_PADDING: Needs = {
    **FOR_SINGLE_TEXTS,
    "data.padding": (Padding.DYNAMIC,),
    "data.packing": (False,),
}
FOR_CHAT = _tasks(lambda task: task is Task.CHAT)
FOR_PREFERENCE = _tasks(lambda task: task is Task.PREFERENCE)
WITH_LORA: Needs = {"model.method": (Method.LORA, Method.QLORA)}
WITH_DEEP_GRADIENTS: Needs = {"model.method": (Method.FULL, Method.LORA, Method.QLORA)}
"""Gradients pass through the whole model, so that its activations are needed."""
WITH_FROZEN: Needs = {
    "model.method": (Method.LORA, Method.QLORA, Method.HEAD),
    "memory.deepspeed": (DeepSpeed.OFF,),
}
"""DeepSpeed stores weights in a format of its own."""
_BETAS = tuple(kind for kind in Optimizer if kind not in (Optimizer.SGD, Optimizer.ADAFACTOR))
WITH_BETAS: Needs = {"training.optimizer": _BETAS}
WITH_EPSILON: Needs = {"training.optimizer": tuple(kind for kind in _BETAS if not kind.is_lion)}

# --- Options


class OptionKind(Enum):
    """The kind of value an option takes, which decides the form's control. The value describes it."""

    TEXT = _("a text")
    TEXTS = _("a list of texts")
    WHOLE = _("a whole number")
    NUMBER = _("a number")
    SWITCH = _("true or false")
    CHOICE = _("one of")
    PAIRS = _('a table of texts, such as { prompt = "question" }')


_KINDS: dict[Any, OptionKind] = {
    str: OptionKind.TEXT,
    int: OptionKind.WHOLE,
    float: OptionKind.NUMBER,
    bool: OptionKind.SWITCH,
    tuple[str, ...]: OptionKind.TEXTS,
    dict[str, str]: OptionKind.PAIRS,
}


class Unit(Enum):
    """What a number counts."""

    BATCHES = auto()
    BLOCKS = auto()
    EPOCHS = auto()
    EVALUATIONS = auto()
    EXAMPLES = auto()
    PIXELS = auto()
    PROCESSES = auto()
    STEPS = auto()
    THREADS = auto()
    TOKENS = auto()

    def of(self, count: float) -> str:
        """Returns the word behind a number."""
        number = plural_number(count)
        return {
            Unit.BATCHES: ngettext("batch", "batches", number),
            Unit.BLOCKS: ngettext("block", "blocks", number),
            Unit.EPOCHS: ngettext("epoch", "epochs", number),
            Unit.EVALUATIONS: ngettext(
                "evaluation without improvement", "evaluations without improvement", number
            ),
            Unit.EXAMPLES: ngettext("example", "examples", number),
            Unit.PIXELS: ngettext("pixel", "pixels", number),
            Unit.PROCESSES: ngettext("process", "processes", number),
            Unit.STEPS: ngettext("step", "steps", number),
            Unit.THREADS: ngettext("thread", "threads", number),
            Unit.TOKENS: ngettext("token", "tokens", number),
        }[self]

    @property
    def plural(self) -> str:
        return self.of(5)  # in Arabic, two and more than ten have forms of their own


class Choice(NamedTuple):
    """One value of an option with fixed values."""

    value: str
    title: str
    help: str


@dataclass(frozen=True, eq=False)
class Option:
    """One option.

    Args:
        unit: What a number counts, shown behind its field.
        share_below_one: Whether a number below 1 is a fraction of the run.
        group: Heading of its group below "More" in the form; empty: it is always visible.
        needs: The values that other options must have for it to apply.
        of_scratch: Whether it is for models from scratch only (True), for other models only (False), or both (None).
        aliases: Trainer's names for it, accepted in run files.
        is_path: Whether its value may be a file or folder, relative to the run file.
        limits: Minimum and maximum; None: no limit.
        above: Exclusive minimum.
        path: Its section and name, such as `memory.batch_size`. This and what follows is set by `options_in`.
        value_type: The type of its values other than None.
        optional: Whether it may be None.
    """

    default: Any
    title: str
    help: str
    _keywords: KW_ONLY
    unit: Unit | None = None
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
        """Its section; empty for `task`."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its name within the section."""
        return self.path.rpartition(".")[2]

    @property
    def kind(self) -> OptionKind:
        return _KINDS.get(self.value_type, OptionKind.CHOICE)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The values of an option with fixed values; empty for others."""
        members = self.value_type if self.kind is OptionKind.CHOICE else ()
        return tuple(Choice(item.value, item.label, item.help) for item in members)

    @property
    def advanced(self) -> bool:
        """Whether the form shows it below "More"."""
        return bool(self.group)

    @property
    def minimum(self) -> float | None:
        return self.limits[0]

    @property
    def maximum(self) -> float | None:
        return self.limits[1]

    @property
    def is_share(self) -> bool:
        """Whether it is a fraction, shown in percent with at most one decimal."""
        return self.maximum is not None and self.maximum < 1 and round(self.maximum, 3) == self.maximum

    def applies(self, value_at: Callable[[str], Any]) -> bool:
        """Returns whether the option applies, given the values of other options by path."""
        return all(value_at(path) in values for path, values in self.needs.items())

    def applies_to(self, options: msgspec.Struct) -> bool:
        """Returns whether the option applies in a run's `RunOptions`."""
        return self.applies(lambda path: attrgetter(path)(options))

    def suits(self, source: str) -> bool:
        """Returns whether the option is for such a model, given its source (see `of_scratch`)."""
        return self.of_scratch in (None, is_scratch(source))

    def acts_in(self, options: msgspec.Struct) -> bool:
        """Returns whether the option applies in a run's `RunOptions`, and to its model."""
        return self.suits(attrgetter("model.source")(options)) and self.applies_to(options)

    def expectation(self) -> str:
        """Returns what a value must be, such as "a whole number of 1 or more"."""
        if self.kind is OptionKind.CHOICE:
            return _("one of {values}").format(values=", ".join(choice.value for choice in self.choices))
        if self.above is not None and self.maximum is not None:
            text = _("{kind} above {above:g} and at most {maximum:,g}")
        elif self.minimum is not None and self.maximum is not None:
            text = _("{kind} from {minimum:,.10g} to {maximum:,.10g}")
        elif self.minimum is not None:
            text = _("{kind} of {minimum:,.10g} or more")
        else:
            return str(self.kind.value)
        return text.format(kind=self.kind.value, above=self.above, minimum=self.minimum, maximum=self.maximum)

    def number_text(self, value: float) -> str:
        """Returns a number with its digits; a fraction in percent."""
        return percent_tick(100 * value) if self.is_share else f"{value:,.10g}"

    def broken_limit(self, value: float) -> str:
        """Returns the limit that a number breaks, such as "must be 1 or more"; empty if it breaks none."""
        if self.above is not None and value <= self.above:
            return _("must be above {limit}").format(limit=self.number_text(self.above))
        if self.minimum is not None and value < self.minimum:
            return _("must be {limit} or more").format(limit=self.number_text(self.minimum))
        if self.maximum is not None and value > self.maximum:
            return _("must be {limit} or less").format(limit=self.number_text(self.maximum))
        return ""


# --- Sections


option: Any = Option
"""Declares a field of a section. It is `Any` for type checkers, because the field has the type of its default."""

_DECLARED: dict[type, dict[str, Option]] = {}


class _SectionMeta(msgspec.StructMeta):
    """Replaces the options of a section by their defaults and stores them for `options_in`."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> type:
        declared = {key: value for key, value in namespace.items() if isinstance(value, Option)}
        defaults = {key: value.default for key, value in declared.items()}
        section = super().__new__(mcls, name, bases, {**namespace, **defaults}, **config)
        _DECLARED[section] = declared
        return section


class Section(msgspec.Struct, metaclass=_SectionMeta, frozen=True, kw_only=True):
    """Base of the sections of a run file."""


def options_in(section: type[Section], name: str) -> list[Option]:
    """Returns the options of a section with this name, in the order of their declaration."""
    hints = typing.get_type_hints(section)
    options = []
    for key, declared in _DECLARED[section].items():
        optional = isinstance(hints[key], types.UnionType)
        value_type = typing.get_args(hints[key])[0] if optional else hints[key]
        options.append(replace(declared, path=f"{name}.{key}", value_type=value_type, optional=optional))
    return options
