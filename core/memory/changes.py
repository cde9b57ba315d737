"""Options with some of them changed, as a fix or a remedy says, and whether that can be done."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from core.capabilities import refusal
from core.catalogue import options_by_path, value_of
from core.errors import Problem
from core.method_rules import METHOD_RULES
from core.options import RunOptions
from core.reports import DeviceReport
from core.rules import TASK_RULES

Changes = Mapping[str, Any]
"""Values by the path of their option, such as `{"memory.batch_size": 4}`."""


def with_changes(options: RunOptions, changes: Changes) -> RunOptions:
    """`options` with the values of `changes`, plain or of the option's own type, in place of theirs."""
    for path, value in changes.items():
        section, _, name = path.partition(".")
        of_its_type = None if value is None else msgspec.convert(value, options_by_path()[path].value_type)
        changed = msgspec.structs.replace(getattr(options, section), **{name: of_its_type})
        options = msgspec.structs.replace(options, **{section: changed})
    return options


def can_be_made(options: RunOptions, changes: Changes, device: DeviceReport) -> bool:
    """Whether `changes` change something, mean something here, work on `device`, and break no rule that held before."""
    changed = with_changes(options, changes)
    return (
        changed != options
        and all(options_by_path()[path].applies_to(changed) for path in changes)
        and not any(refusal(device, path, value_of(changed, path)) for path in changes)
        and not {str(found) for found in _broken(changed)} - {str(found) for found in _broken(options)}
    )


def _broken(options: RunOptions) -> Iterator[Problem]:
    for rule in (*METHOD_RULES, *TASK_RULES):
        yield from rule(options)
