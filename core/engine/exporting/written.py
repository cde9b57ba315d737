"""What an exporter hands back, and how it says how far it is."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from core.choices import Task
from core.engine.exporting.agreement import Tolerance, compare
from core.engine.exporting.rows import Rows
from core.exporting import Agreement, NumberFormat


class NotChecked(Exception):  # noqa: N818 - no fault of the export
    """An export could not be held against the trained model; says why in a sentence."""


Tell = Callable[[str], None]
"""Hears what is being done, in a few words."""
Answers = Callable[[Rows], list[torch.Tensor]]
Check = Callable[[Rows, list[torch.Tensor]], Agreement | None]
"""Holds the export against the trained model's answers on some examples; None: none of them could be asked."""


@dataclass(frozen=True)
class Written:
    """What was written, and how to check it; `unchecked` says why it isn't, where that can't be done.

    `notes` are for the person; `missing` says what of the request isn't there.
    """

    check: Check | None
    unchecked: str = ""
    notes: tuple[str, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Place:
    """Where an export is written, the folder it will be in the end, and what its weights are written in."""

    into: Path
    target: Path
    numbers: NumberFormat = NumberFormat.AUTO


def by_logits(task: Task, tolerance: Tolerance, answers: Answers) -> Check:
    """A check of logits: `answers` loads the export as its users do, and asks it."""
    return lambda rows, before: compare(task, rows, before, answers(rows), tolerance)
