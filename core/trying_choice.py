"""The runs that can be tried, and what a page that tries one needs to know of it. Reads files: not for the window."""

from dataclasses import dataclass
from pathlib import Path

from core.choices import Task
from core.prediction_story import chosen_examples
from core.predictions import Example
from core.run_folder import RunFolder
from core.run_notes import title_of
from core.runs import list_runs, run_title
from core.trying import Which
from core.trying_models import lacks_model, name_of
from core.trying_room import Verdict, free_memory, judge, need_of, that_train


@dataclass(frozen=True)
class Triable:
    """A run with a model: what it is called, what it has learned, and the names of its two models."""

    run: RunFolder
    title: str
    task: Task
    trained: str
    before: str

    def name(self, which: Which) -> str:
        """What one of its models is called."""
        return self.trained if which is Which.TRAINED else self.before


@dataclass(frozen=True)
class Choice:
    """The runs that can be tried, the newest first; of the one that is looked at, its held-out examples.

    `reads_pairs`: it was trained on pairs of texts. `problem`: why the run that was asked for can't be tried.
    """

    runs: tuple[Triable, ...]
    chosen: Triable | None = None
    examples: tuple[Example, ...] = ()
    reads_pairs: bool = False
    problem: str = ""


def look(folder: Path, wanted: RunFolder | None) -> Choice:
    """Which runs of a folder can be tried, and what is to be known of the one that is wanted; None: the newest."""
    found = [one for run in _runs(folder) if (one := triable(run)) is not None]
    chosen = next((one for one in found if wanted is not None and one.run.path == wanted.path), None)
    if wanted is not None and chosen is None:
        chosen = triable(wanted)  # it lies elsewhere
        if chosen is None:
            return Choice(tuple(found), problem=lacks_model(wanted) or "Its run file can't be read.")
        found.insert(0, chosen)
    chosen = chosen or next(iter(found), None)
    if chosen is None:
        return Choice(())
    examples = examples_of(chosen.run)
    return Choice(tuple(found), chosen, examples, _reads_pairs(chosen, examples))


def _runs(folder: Path) -> list[RunFolder]:
    try:
        return list_runs(folder)
    except OSError:
        return []


def triable(run: RunFolder) -> Triable | None:
    """What is to be known of a run's models; None where it has none, or its run file can't be read."""
    options = run.readable_options()
    if options is None or lacks_model(run):
        return None
    return Triable(
        run=run,
        title=title_of(run.path, options),
        task=options.task,
        trained=name_of(run, options, Which.TRAINED),
        before=name_of(run, options, Which.BEFORE),
    )


def examples_of(run: RunFolder) -> tuple[Example, ...]:
    """The run's held-out examples and the person's own prompts, as its predictions tell them; own ones come first."""
    return tuple(sorted(chosen_examples(run.events_file), key=lambda example: not example.is_own))


def _reads_pairs(chosen: Triable, examples: tuple[Example, ...]) -> bool:
    """Whether a run was trained on pairs: two columns were named, or each example has two lines."""
    if chosen.task not in (Task.TEXT_CLASSIFICATION, Task.TEXT_REGRESSION):
        return False
    options = chosen.run.readable_options()
    if options is not None and options.data.text_columns:
        return len(options.data.text_columns) == 2
    return bool(examples) and all(example.given.count("\n") == 1 for example in examples)


def room_for(chosen: Triable, wanted: tuple[Which, ...], folder: Path, *, on_cpu: bool = False) -> Verdict:
    """Whether models of a run may be loaded now.

    Args:
        chosen: The run.
        wanted: Which of its models, the most wanted first.
        folder: Where runs are that may train.
        on_cpu: Whether they are wanted on the CPU, beside a run that trains.
    """
    training = [run_title(run) for run in that_train(folder)]
    options = chosen.run.readable_options()
    needs = [] if options is None else [need_of(chosen.run, options, which) for which in wanted]
    return judge(needs, free_memory(), training, on_cpu=on_cpu)
