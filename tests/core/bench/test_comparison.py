"""Two results against each other: what changed, whether that is more than chance, what else differs."""

import msgspec
import pytest

from core.base.errors import OptionsError
from core.benchmark.comparison import Change, compare, comparison_table
from core.benchmark.plan import Kind
from core.benchmark.result import Surroundings
from tests.fakes.bench import MACHINE, MB, measured, result, rung

SLOW, FAST = (1.0, 1.02, 0.98, 1.01), (0.5, 0.51, 0.49, 0.5)
WIDE = (0.6, 1.4, 0.7, 1.2)


def test_rows_are_matched_by_their_rung() -> None:
    earlier = result(measured(rung("plain"), *SLOW, peak=200 * MB), measured(rung("gone")))
    later = result(measured(rung("new")), measured(rung("plain"), *FAST, peak=100 * MB))
    found = compare(earlier, later)
    assert [row.title for row in found.rows] == ["Plain", "New", "Gone"]
    plain, new, gone = found.rows
    assert plain.speed == pytest.approx(2.01)
    assert plain.memory == 0.5
    assert (new.earlier, new.speed, new.change) == (None, None, Change.UNKNOWN)
    assert (gone.later, gone.memory, gone.change) == (None, None, Change.UNKNOWN)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (SLOW, FAST, Change.FASTER),
        (FAST, SLOW, Change.SLOWER),
        (SLOW, WIDE, Change.SAME),
        (SLOW, SLOW, Change.SAME),
        (SLOW[:2], FAST[:2], Change.UNKNOWN),
    ],
)
def test_a_change_is_one_beyond_both_spreads(
    before: tuple[float, ...], after: tuple[float, ...], change: Change
) -> None:
    found = compare(result(measured(rung("a"), *before)), result(measured(rung("a"), *after)))
    assert found.rows[0].change is change


def test_the_same_conditions_need_no_note() -> None:
    assert (
        compare(result(measured(rung("a"))), result(measured(rung("a")), begun=1_770_000_000.0)).notes == ()
    )


def test_what_else_differs_is_said() -> None:
    machine = msgspec.structs.replace(
        MACHINE, title="Mac", accelerator="", versions={"hone": "0.1.0", "torch": "2.14.0", "peft": "1"}
    )
    later = result(measured(rung("a")), machine=machine, steps=9, passes=1)
    said = "\n".join(
        compare(result(measured(rung("a"))), msgspec.structs.replace(later, is_whole=False)).notes
    )
    assert "Computer: Test GPU, 24 GB then, Mac later." in said
    assert "Accelerator: Test GPU, 24 GB then, none later." in said
    assert "torch: 2.13.0 then, 2.14.0 later." in said
    assert "peft: not there then, 1 later." in said
    assert "4 steps x 2 passes" in said
    assert "9 steps x 1 pass," in said
    assert "The later one was ended before all passes were made." in said
    assert "hone" not in said
    assert "Processor" not in said


def test_a_disturbed_row_and_other_options_are_said() -> None:
    busy = measured(rung("a"), surroundings=Surroundings(other_load=0.4))
    asked = msgspec.structs.replace(rung("b"), asked={"device": {"name": "mps"}})
    notes = compare(result(measured(rung("a")), measured(rung("b"))), result(busy, measured(asked))).notes
    assert notes == (
        "Not the same options were asked in: B.",
        "In the later one other load or heat disturbed: A.",
    )


def test_a_row_that_only_says_what_is_added_is_named_whole() -> None:
    added = msgspec.structs.replace(rung("b"), title="+ checkpointing")
    busy = measured(added, surroundings=Surroundings(other_load=0.4))
    found = compare(result(measured(rung("a")), measured(added)), result(measured(rung("a")), busy))
    assert [row.title for row in found.rows] == ["A", "A + checkpointing"]
    assert found.notes == ("In the later one other load or heat disturbed: A + checkpointing.",)


def test_methods_and_devices_are_not_compared() -> None:
    with pytest.raises(OptionsError, match="problem") as caught:
        compare(result(measured(rung("a"))), result(measured(rung("a")), kind=Kind.DEVICES))
    assert "one is a benchmark of methods, the other of devices" in str(caught.value)


def test_sides_of_one_model_are_told_apart_in_the_table() -> None:
    rows = [measured(rung(f"resnet18-{side}", group="resnet18", side=side), *SLOW) for side in ("CPU", "MPS")]
    table = comparison_table(compare(result(*rows), result(*rows)))
    assert [row[0] for row in table.rows] == ["Resnet18-Cpu, CPU", "Resnet18-Mps, MPS"]
    assert table.rows[0][3:5] == ("1.00 x", "within the spread")
    assert {len(row) for row in table.rows} == {len(table.titles)}
