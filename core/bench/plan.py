"""What a benchmark is going to measure: its rungs, how often, in which order."""

from enum import StrEnum
from typing import Any

import msgspec

from core.options import Tree


class Kind(StrEnum):
    """Which of the two tables."""

    METHODS = "methods"
    DEVICES = "devices"


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is measured, and becomes one row.

    `name` is short and stable, such as `bf16` or `resnet18-4-cpu`; results of different days are matched by it. `title`
    is what a person reads. `asked` are all options as plain values. `changes` are those, by path, that "Use this"
    carries into a run; they are what sets the rung apart from the plain one. `note` says what has to be known to read
    its figures. `refusal` says why this machine can't do it, empty where it can: such a rung is a row without figures.

    `group` and `side` are empty for methods. For devices, rungs of one `group` (a model and its batch) stand beside
    each other, `side` being what sets them apart (`CPU`, `MPS`, `1 thread`, `bf16`); the first of a group is what the
    others are held against.

    `steps` are timed of this one in place of the plan's; None: as many as the plan says.
    """

    name: str
    title: str
    asked: Tree
    changes: dict[str, Any] = {}
    note: str = ""
    refusal: str = ""
    group: str = ""
    side: str = ""
    steps: int | None = None

    @property
    def batch(self) -> int | None:
        """Rows in a batch; None: nothing was asked."""
        size = self.asked.get("memory", {}).get("batch_size")
        return size if isinstance(size, int) else None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole benchmark.

    `title` names it in a line ("BERT-large, 512 sequences of 512 tokens"). Each rung is measured `passes` times, one
    rung after the other and then from the first again (A B A B), `steps` optimizer steps each after `warm_up` steps.
    `notes` are plain sentences about how the plan came about (why this model, what was left out). `model` is the size
    that was chosen, such as `bert-base`; empty where the options are the person's own.
    """

    kind: Kind
    title: str
    rungs: tuple[Rung, ...]
    steps: int
    passes: int
    warm_up: int = 1
    model: str = ""
    notes: tuple[str, ...] = ()

    def steps_of(self, rung: Rung) -> int:
        """How many steps of a rung are timed: its own, or the plan's."""
        return self.steps if rung.steps is None else rung.steps
