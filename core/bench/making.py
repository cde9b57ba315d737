"""Rungs: a run's options with some of them changed, and why this machine can't do that, where it can't.

What can't be done is what the run's own rules and the engine's report of this machine say; a benchmark knows nothing of
it by itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from core.bench.plan import Rung
from core.capabilities import caution, find_device, machine_problems, text_of
from core.catalogue import all_options, options_by_path, value_of
from core.checks import check_tree
from core.errors import OptionsError, Problem
from core.memory.changes import with_changes
from core.options import RunOptions
from core.reports import MachineReport

LEFT_OUT = "left out as asked"


@dataclass(frozen=True)
class Wanted:
    """A rung before anybody has looked whether it can be done.

    `changes` make it of the plain options, by path. `only_data` are changes of the data that belong to measuring it
    and not to the method. `refusal` is one known already. Everything else is as in `Rung`.
    """

    name: str
    title: str
    changes: Mapping[str, Any]
    only_data: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    refusal: str = ""
    group: str = ""
    side: str = ""
    steps: int | None = None


def changed(options: RunOptions, changes: Mapping[str, Any]) -> RunOptions:
    """`options` with `changes`, and without what means nothing any more beside them, such as LoRA's rank."""
    found = with_changes(options, changes)
    idle = {
        option.path: option.default
        for option in all_options()
        if not option.applies_to(found) and value_of(found, option.path) != option.default
    }
    return with_changes(found, idle)


def means_something(options: RunOptions, changes: Mapping[str, Any]) -> bool:
    """Whether every change is one of an option that counts beside the others."""
    found = with_changes(options, changes)
    return all(options_by_path()[path].applies_to(found) for path in changes)


def make(plain: RunOptions, wanted: Wanted, machine: MachineReport) -> Rung:
    """The rung, with its refusal where this machine or the rules between options forbid it."""
    options = changed(plain, {**wanted.changes, **wanted.only_data})
    return Rung(
        name=wanted.name,
        title=wanted.title,
        asked=msgspec.to_builtins(options),
        changes=dict(wanted.changes),
        note=" ".join(filter(None, (wanted.note, *_cautions(machine, options, wanted.changes)))),
        refusal=wanted.refusal or "; ".join(dict.fromkeys(_told(options, problems(machine, options)))),
        group=wanted.group,
        side=wanted.side,
        steps=wanted.steps,
    )


def problems(machine: MachineReport, options: RunOptions) -> tuple[Problem, ...]:
    """Everything that would keep `options` from being measured here."""
    return (*check_tree(msgspec.to_builtins(options))[1], *machine_problems(machine, options))


def refuse_impossible(machine: MachineReport, options: RunOptions, where: str) -> None:
    """Stop where not even the plain options can be measured: no rung could.

    Raises:
        OptionsError: With everything that is wrong.
    """
    found = problems(machine, options)
    if found:
        raise OptionsError(found, where)


def _told(options: RunOptions, found: tuple[Problem, ...]) -> Iterator[str]:
    """Messages as they stand by themselves: some go on with what was chosen, which a form shows beside them."""
    for problem in found:
        goes_on = problem.message.startswith(("is ", "moves "))
        yield f"{text_of(value_of(options, problem.path))} {problem.message}" if goes_on else problem.message


def _cautions(machine: MachineReport, options: RunOptions, changes: Mapping[str, Any]) -> Iterator[str]:
    device = find_device(machine, options.device.name)
    for path in changes if device is not None else ():
        told = caution(device, path, value_of(options, path)) if device is not None else ""
        if told:
            yield told
