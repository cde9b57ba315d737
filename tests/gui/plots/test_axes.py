import pytest

from core.base.format import memory_tick
from gui.charts.axes import VALUES, RoundAxis, clock_step, clock_text, decimal_step, memory_step, whole_step


@pytest.mark.parametrize(
    ("span", "ticks", "step"), [(2.3, 5, 0.5), (1.0, 5, 0.2), (97, 5, 20), (1000, 10, 100)]
)
def test_ticks_are_round(span, ticks, step):
    assert decimal_step(span, ticks) == pytest.approx(step)


def test_there_is_no_half_training_step():
    assert whole_step(2, 8) == 1.0


def test_memory_ticks_are_round_in_their_unit():
    assert memory_step(16 * 1024**3, 4) == 5 * 1024**3
    assert memory_step(900 * 1024**2, 5) == 200 * 1024**2
    assert memory_step(3.9 * 1024**3, 4) == 1024**3
    assert memory_tick(1000 * 1024**2) == "1,000 MB"


@pytest.mark.parametrize(("span", "step"), [(60, 15), (600, 120), (86_400 * 30, 86_400 * 8)])
def test_time_ticks_are_those_of_a_clock(span, step):
    assert clock_step(span, 4 if span != 600 else 5) == step


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0"), (30, "30 s"), (90, "1:30"), (300, "5 min"), (3600, "1 h"), (5400, "1 h 30")],
)
def test_clock_texts(seconds, text):
    assert clock_text(seconds) == text


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (6.9781, 6.9784, ["6.978", "6.9781", "6.9782", "6.9783", "6.9784"]),
        (0.5, 2.0, ["0.5", "1", "1.5", "2"]),
    ],
)
def test_ticks_of_values_that_lie_close_differ(qapp, low, high, texts):
    shown = RoundAxis("left", VALUES).texts_between(low, high, 140)
    assert len(set(shown)) == len(shown) > 1
    assert set(shown) <= set(texts)
