import time

import msgspec
import pytest

from core.memory.model import Basis, Forecast, Parts, Room, Verdict
from core.memory.remedies import Remedy
from gui.new_run.memory_card import (
    bar_parts,
    basis_help,
    basis_words,
    clock,
    headline,
    saving_words,
    slower_words,
    time_words,
)
from gui.new_run.memory_state import Measured, gain
from tests.fakes.memory import GB, MB, MEASURED, RAN_OUT

FORECAST = Forecast(
    basis=Basis.FORMULA,
    device="cpu",
    parts=Parts(weights=4 * GB, temporary=1 * GB, overhead=1 * GB),
    room=Room(free=8 * GB, ceiling=16 * GB),
)


def beside(free):
    return msgspec.structs.replace(FORECAST, room=Room(free=round(free * GB), ceiling=16 * GB))


@pytest.mark.parametrize(
    ("free", "verdict", "figures", "role"),
    [
        (8, "Fits", "6.00 GB of 8.00 GB free", "verdict-good"),
        (6.5, "Fits tightly", "6.00 GB of 6.50 GB free", "verdict-tight"),
        (2.9, "Doesn't fit", "6.00 GB, that is 3.10 GB too much", "verdict-bad"),
    ],
)
def test_the_headline_answers_the_question(free, verdict, figures, role):
    said = headline(beside(free))
    assert (said.verdict, said.figures, said.role) == (verdict, figures, role)


def test_how_a_figure_is_known_is_said_in_a_word_and_a_sentence():
    assert basis_words(Basis.FORMULA) == "forecast"
    assert basis_words(Basis.MEASURED, time.time()) == "measured just now"
    long_ago = time.time() - 3600
    assert basis_words(Basis.MEASURED, long_ago) == f"measured at {clock(long_ago)}"
    assert len({basis_help(basis) for basis in Basis}) == 2


def test_the_bar_adds_up_to_the_whole():
    parts = Parts(weights=1, gradients=2, optimizer=3, activations=4, temporary=5, overhead=6)
    assert sum(part.bytes for part in bar_parts(parts)) == parts.total
    assert bar_parts(parts)[-1].help.startswith("5 B of temporary buffers, and 6 B of overhead: ")
    assert sum(part.bytes for part in bar_parts(parts, is_undivided=True)) == parts.total


def test_figures_are_undivided_only_where_memory_ran_out():
    assert RAN_OUT.is_undivided
    assert not MEASURED.is_undivided
    inside = msgspec.structs.replace(RAN_OUT, parts=Parts(weights=GB, overhead=2 * GB))
    assert not inside.is_undivided  # the engine itself said so, and could look


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (1.0, "no slower"),
        (1.01, "no slower"),
        (1.03, "about 3 % slower"),
        (1.33, "about 35 % slower"),
        (0.6, "about 40 % faster"),
        (3.0, "about 3.00 times as long"),
    ],
)
def test_the_price_of_a_remedy_is_no_finer_than_it_is_known(factor, words):
    assert slower_words(factor) == words


def test_what_a_remedy_is_worth():
    remedy = Remedy(
        name="batch", title="Less", help="Why.", changes={"memory.batch_size": 1}, saves=GB, forecast=FORECAST
    )
    assert saving_words(remedy, Verdict.FITS, Verdict.FITS) == "−1.00 GB · no slower"
    assert saving_words(remedy, Verdict.TOO_LARGE, Verdict.TOO_LARGE) == "−1.00 GB · no slower"
    assert saving_words(remedy, Verdict.TOO_LARGE, Verdict.TIGHT) == "−1.00 GB, then it fits · no slower"
    spared = "−1.00 GB, then with room to spare · no slower"
    assert saving_words(remedy, Verdict.TIGHT, Verdict.FITS) == spared
    advice = msgspec.structs.replace(remedy, changes={})
    assert saving_words(advice, Verdict.FITS, Verdict.FITS) == "Why."


def test_what_was_measured_of_a_remedy_goes_before_what_is_forecast():
    remedy = Remedy(
        name="batch", title="Less", help="Why.", changes={"memory.batch_size": 1}, saves=GB, forecast=FORECAST
    )

    def words(without, after, now=Verdict.FITS):
        return saving_words(remedy, now, Verdict.FITS, gain(without, after))

    def measured(peak, seconds):
        return Measured(msgspec.structs.replace(MEASURED, peak=peak, step_seconds=seconds), 0.0)

    before, ran_out = measured(4 * GB, 1.0), Measured(RAN_OUT, 0.0)
    assert words(before, measured(3 * GB, 1.12)) == "−1.00 GB measured · 12 % slower measured"
    assert words(before, measured(5 * GB, 0.7)) == "+1.00 GB measured · 30 % faster measured"
    assert words(before, measured(4 * GB, 1.0)) == "−0 B measured · no slower measured"
    fits = "2.00 GB in all measured, then it fits · no slower"
    assert words(ran_out, measured(2 * GB, 2.5), Verdict.TOO_LARGE) == fits
    assert words(before, measured(3 * GB, 2.5)) == "−1.00 GB measured · 2.50 times as long measured"
    assert "ran out" in words(before, ran_out)


def test_the_finish_time_counts_compiling_in_and_tells_it_apart():
    words = time_words(0.5, 720.0, 31.0)
    assert words.startswith("500 ms a step · about 12 min, done at ")
    assert words.endswith("30 s of it to compile")
    assert time_words(0.5, None, 0.0) == "500 ms a step"


def test_another_day_is_named():
    assert clock(time.time() + 3 * 86_400) != time.strftime("%H:%M", time.localtime(time.time() + 3 * 86_400))


def test_steps_of_the_form_count_not_those_of_the_dry_run():
    measured = Measured(msgspec.structs.replace(MEASURED, compile_seconds=5.0, run_seconds=50.0), 0.0)
    assert measured.pace == 0.5
    assert measured.run_seconds(200) == 105.0
    assert measured.run_seconds(None) == 50.0
    assert measured.steps_within(1.0) == (3600 - 5) * 2
    assert measured.steps_within(0.001) == 1
    assert Measured(msgspec.structs.replace(MEASURED, step_seconds=None, run_seconds=None), 0.0).pace is None


def test_sizes_of_the_fakes_are_what_they_say():
    assert MEASURED.peak == MEASURED.parts.total
    assert MB * 1024 == GB
