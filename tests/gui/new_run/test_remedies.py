"""What a remedy saves, and what it costs, in words."""

import msgspec
import pytest

from core.memory.model import Basis, FitVerdict, Forecast, Parts, Room
from core.memory.remedies import Remedy
from gui.new_run.memory_card import saving_text
from gui.new_run.memory_state import PastMeasurement
from tests.fakes.memory import GB, MEASURED, RAN_OUT

replace = msgspec.structs.replace

FORECAST = Forecast(
    basis=Basis.FORMULA,
    device="cpu",
    parts=Parts(weights=4 * GB, temporary=1 * GB, overhead=1 * GB),
    room=Room(free=8 * GB, ceiling=16 * GB),
)
FITS, TIGHT, TOO_LARGE = FitVerdict.FITS, FitVerdict.TIGHT, FitVerdict.TOO_LARGE


def measured(peak, seconds):
    return PastMeasurement(replace(MEASURED, peak=peak, step_seconds=seconds), 0.0)


BEFORE, OUT = measured(4 * GB, 1.0), PastMeasurement(RAN_OUT, 0.0)


@pytest.mark.parametrize(
    ("now", "after", "without", "result", "words"),
    [
        (FITS, FITS, None, None, "−1.00 GB · no slower"),
        (TOO_LARGE, TIGHT, None, None, "−1.00 GB, then it fits · no slower"),
        (TIGHT, FITS, None, None, "−1.00 GB, then with room to spare · no slower"),
        (FITS, FITS, BEFORE, measured(3 * GB, 1.12), "−1.00 GB · 12 % slower (measured)"),
        (FITS, FITS, BEFORE, measured(5 * GB, 0.7), "+1.00 GB · 30 % faster (measured)"),
        (FITS, FITS, BEFORE, measured(3 * GB, 2.5), "−1.00 GB · 2.50 times as long (measured)"),
        (TOO_LARGE, FITS, OUT, measured(2 * GB, 2.5), "2.00 GB in total, then it fits (measured)"),
        (FITS, FITS, None, OUT, "memory ran out with this as well (measured)"),
    ],
)
def test_the_worth_of_a_remedy(now, after, without, result, words):
    remedy = Remedy(
        name="batch", title="Less", help="Why.", changes={"memory.batch_size": 1}, saves=GB, forecast=FORECAST
    )
    assert saving_text(remedy, now, after, without, result) == words
