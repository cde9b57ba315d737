"""What is told of memory in a terminal."""

import msgspec

from core.cli.memory import ladder_lines, measurement_lines
from core.memory.model import Basis, Forecast, Measurement, Parts, Room
from core.memory.remedies import Remedy

GB = 1 << 30
MEASURED = Measurement(
    device="cpu",
    parts=Parts(weights=GB),
    peak=GB,
    base=0,
    longest_step_seconds=2.0,
    step_seconds=1.5,
    total_steps=100,
    run_seconds=150.0,
)


def remedy(title: str, total: int, **more: object) -> Remedy:
    after = Forecast(
        basis=Basis.FORMULA,
        device="cpu",
        parts=Parts(weights=total),
        room=Room(free=10 * GB, ceiling=16 * GB),
    )
    given = {"help": "", "changes": {"memory.batch_size": 4}, **more}
    return Remedy(name="batch", title=title, forecast=after, **given)


def test_a_ladder_says_which_remedies_are_enough() -> None:
    rungs = (
        remedy("Small", 4 * GB),
        remedy("Middling", int(9.5 * GB)),
        remedy("Large", 12 * GB),
        remedy("Advice", 12 * GB, changes={}, help="Choose another."),
    )
    lines = ladder_lines(rungs)[1].splitlines()
    assert [line.split()[5] for line in lines[1:4]] == ["yes", "barely", "no"]
    assert lines[4].endswith("Choose another.")


def test_an_ordinary_step_that_lasts_longer_than_the_longest_is_remarked_on() -> None:
    assert not any("busy" in line for line in measurement_lines(MEASURED))
    disturbed = msgspec.structs.replace(MEASURED, step_seconds=3.0)
    assert any("other programs were busy" in line for line in measurement_lines(disturbed))
