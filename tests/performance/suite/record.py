"""What the benchmarks gave on one machine on one day, kept in one file under tests/performance/results/."""

import contextlib
import re
from datetime import date
from enum import StrEnum
from pathlib import Path

import msgspec

from core.base.files import write_atomically
from core.benchmark.result import BUSY, Machine
from tests.performance.suite.figures import Figure

SCHEMA = 1
RESULTS = Path(__file__).resolve().parents[1] / "results"


class Form(StrEnum):
    """How much was measured."""

    FULL = "full"
    QUICK = "quick"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one benchmark gave. `begun` is unix seconds, `seconds` what all of it took.

    `busy_before` and `busy_after` are the share of all cores (0 to 1) that were busy right before it and right after
    it: with other programs. `problem` says why there are no figures; empty where there are some.
    """

    name: str
    what: str
    peer: str
    form: Form
    begun: float
    seconds: float = 0.0
    busy_before: float = 0.0
    busy_after: float = 0.0
    figures: tuple[Figure, ...] = ()
    problem: str = ""

    @property
    def is_reached(self) -> bool:
        """Whether it has figures and none of them missed its goal."""
        return not self.problem and not any(figure.reached is False for figure in self.figures)

    @property
    def was_disturbed(self) -> bool:
        """Whether other programs computed beside it."""
        return max(self.busy_before, self.busy_after) > BUSY


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of a day, in the order in which the suite has its benchmarks."""

    date: str
    machine: Machine
    outcomes: tuple[Outcome, ...] = ()
    schema: int = SCHEMA

    def with_outcome(self, new: Outcome, order: tuple[str, ...]) -> "Record":
        """The same with one more outcome, in place of an earlier one of the same benchmark in the same form."""
        kept = [one for one in self.outcomes if (one.name, one.form) != (new.name, new.form)]
        places = {name: place for place, name in enumerate(order)}
        found = sorted([*kept, new], key=lambda one: (one.form, places.get(one.name, len(places))))
        return msgspec.structs.replace(self, outcomes=tuple(found))


def file_for(folder: Path, machine: Machine, day: date) -> Path:
    """Where the results of a machine and a day are kept: `DATE-MACHINE.json`."""
    words = (
        machine.processor or machine.title,
        f"{machine.cores} cores",
        machine.accelerator,
        machine.system.partition(" ")[0],
    )
    plain = re.sub(r"[^a-z0-9]+", "-", " ".join(filter(None, words)).lower()).strip("-")
    return folder / f"{day.isoformat()}-{plain[:80].strip('-')}.json"


def begin(file: Path, machine: Machine, day: date) -> Record:
    """What is kept of this machine and day so far, or a record without outcomes."""
    if file.exists():
        return msgspec.structs.replace(read(file), machine=machine)
    return Record(date=day.isoformat(), machine=machine)


def read(file: Path) -> Record:
    """What is kept in a file.

    Raises:
        OSError: It can't be read.
        msgspec.MsgspecError: It is something else.
    """
    return msgspec.json.decode(file.read_bytes(), type=Record)


def keep(file: Path, record: Record) -> None:
    """Write a record; a reader finds the old one or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def newest(folder: Path) -> Record | None:
    """The results that were measured last; None where none are kept. Other files may lie beside them."""
    found = []
    for file in folder.glob("*.json"):
        with contextlib.suppress(msgspec.MsgspecError):
            found.append(read(file))
    return max(found, key=lambda one: max((each.begun for each in one.outcomes), default=0.0), default=None)


def without_build(machine: Machine) -> Machine:
    """A machine whose system is told without the name that somebody gave its kernel: `Linux 6.1.0`."""
    return msgspec.structs.replace(machine, system=machine.system.partition("-")[0])
