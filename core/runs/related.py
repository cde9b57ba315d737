"""The run that belongs to another: the one it tests, its newest test, or the other one of a pair."""

from dataclasses import dataclass
from enum import Enum, auto

from core.options.past_runs import run_folder
from core.runs.folder import RunFolder
from core.runs.library import list_runs, newest_test, pretraining_pair
from core.runs.summary import RunSummary, summarize


class Relation(Enum):
    """What the other run is to this one."""

    NONE = auto()
    TESTED = auto()  # this one evaluates its model
    TEST = auto()  # the newest one that evaluates the model of this one
    PRETRAINED = auto()  # the first of the two runs of a chat model from scratch
    CHAT = auto()  # the second


@dataclass(frozen=True)
class Related:
    """The other run, as it was found; None if there is none. `is_only`: no run is in the same folder."""

    relation: Relation = Relation.NONE
    other: RunSummary | None = None
    is_only: bool = False


def related_to(run: RunFolder) -> Related:
    """Finds the run that belongs to `run`; reads the names of all runs beside it, and the files of one."""
    is_only = len(list_runs(run.path.parent)) == 1
    relation, other = _other(run)
    return Related(relation, summarize(other), is_only) if other is not None else Related(is_only=is_only)


def _other(run: RunFolder) -> tuple[Relation, RunFolder | None]:
    options = run.readable_options()
    if options is not None and options.only_evaluates and (tested := run_folder(options.model.source)):
        return Relation.TESTED, RunFolder(tested)
    if (pair := pretraining_pair(run)) is not None:
        first, second = pair
        return (Relation.CHAT, second) if first.path == run.path else (Relation.PRETRAINED, first)
    return Relation.TEST, newest_test(run)
