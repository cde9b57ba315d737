"""What the form says: options where they can be read, and every problem there is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.capabilities import machine_problems
from core.checks import check_tree, read_options
from core.choices import Task
from core.data_report import DataReport
from core.errors import Problem
from core.extent import (
    STEP_PATHS,
    Extent,
    batch_hint,
    extent,
    steps_hint,
    steps_of,
    warmup_problem,
)
from core.options import RunOptions, Tree
from core.reports import MachineReport


@dataclass(frozen=True)
class Checked:
    """A form's tree, checked. `options` is None while a value can't be read.

    `readable` has defaults in place of the values that can't be read; `unreadable` names those by their paths.
    """

    options: RunOptions | None
    readable: RunOptions | None
    unreadable: frozenset[str]
    problems: tuple[Problem, ...]


def check_form(tree: Tree) -> Checked:
    """Read what can be read and name all problems."""
    options, problems = check_tree(tree)
    _, found = read_options(tree)
    unreadable = frozenset(problem.path for problem in found)
    readable, _ = read_options(_without(tree, unreadable))
    return Checked(options, readable, unreadable, problems)


def length_problems(checked: Checked, data: DataReport | None) -> tuple[Problem, ...]:
    """What doesn't go with the number of steps, where the rows of the data are known."""
    options = checked.readable
    if options is None or data is None or checked.unreadable & STEP_PATHS or not is_counted(options, data):
        return ()
    found = warmup_problem(options, known_extent(options, data).steps)
    return (found,) if found is not None else ()


def is_counted(options: RunOptions, data: DataReport) -> bool:
    """Whether samples can be counted: the rows of running text are whole texts, and become many blocks or few."""
    return bool(data.rows) and (options.task is not Task.CAUSAL_LM or data.train_rows is not None)


def known_extent(options: RunOptions, data: DataReport) -> Extent:
    """How long the run is; rows that are dropped, held out or packed count where the look at the data told them."""
    counted = extent(options, data.rows)
    if data.train_rows is None:
        return counted
    evaluated = counted.evaluated if data.eval_rows is None or counted.evaluated is None else data.eval_rows
    return Extent(data.train_rows, evaluated, *steps_of(options, data.train_rows))


def length_hints(checked: Checked, data: DataReport | None) -> tuple[Problem, ...]:
    """What is worth knowing of the numbers of samples and steps, where the rows of the data are known."""
    options = checked.readable
    if options is None or data is None or checked.unreadable & STEP_PATHS:
        return ()
    if not is_counted(options, data):
        return ()
    trained = known_extent(options, data).trained
    return tuple(found for hint in (batch_hint, steps_hint) if (found := hint(options, trained)) is not None)


def all_problems(
    checked: Checked,
    of_data: Sequence[Problem],
    machine: MachineReport | None,
    order: Sequence[str],
    of_answers: Sequence[Problem] = (),
) -> list[Problem]:
    """Problems of the values, the data and the machine, in the order of the form.

    `of_answers` are those that came of what the engine said of data and model. They and the machine add none to an
    option that has one from before them.
    """
    named = {problem.path for problem in checked.problems}
    new = [problem for problem in of_answers if problem.path not in named]
    named |= {problem.path for problem in new}
    places = {path: place for place, path in enumerate(order)}
    found = [*checked.problems, *of_data, *new, *_of_machine(checked, machine, named)]
    return sorted(found, key=lambda problem: places.get(problem.path, len(places)))


def _of_machine(checked: Checked, machine: MachineReport | None, named: set[str]) -> Iterator[Problem]:
    if checked.readable is not None and machine is not None:
        for problem in machine_problems(machine, checked.readable):
            if problem.path not in named:
                yield problem


def _without(tree: Tree, paths: frozenset[str]) -> Tree:
    return {
        section: {name: value for name, value in values.items() if f"{section}.{name}" not in paths}
        if isinstance(values, dict)
        else values
        for section, values in tree.items()
    }
