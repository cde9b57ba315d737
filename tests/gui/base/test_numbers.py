import math

import pytest

from core.base import formats

GB = 1024**3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.3149, "1.31"),
        (0.02134, "0.0213"),
        (0.99999, "1.00"),
        (48.21, "48.2"),
        (1204.4, "1,204"),
        (0.00042, "4.2e-04"),
    ],
)
def test_losses_have_about_three_figures(value, text):
    assert formats.loss(value) == text


def test_a_loss_that_is_no_number_is_said_so():
    assert formats.loss(math.nan) == "not a number"
    assert formats.loss(math.inf) == "infinite"
    assert formats.loss(None) == formats.MISSING


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (16 * GB, "16.0 GB"),
        (9.6 * GB, "9.60 GB"),
        (134 * GB, "134 GB"),
        (912 * 1024**2, "912 MB"),
    ],
)
def test_memory_is_counted_as_it_is_sold(value, text):
    assert formats.memory(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (4800, "1 h 20 min"),
        (2 * 86_400 + 3 * 3600, "2 d 3 h"),
    ],
)
def test_durations(seconds, text):
    assert formats.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1, "5 s"),
        (27, "25 s"),
        (58, "1 min"),
        (485, "8 min"),
        (3590, "1 h"),
        (7900, "2 h 10 min"),
        (200_000, "56 h"),
    ],
)
def test_forecasts_are_no_finer_than_they_can_be_known(seconds, text):
    assert formats.about(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0421, "42.1 ms"), (0.9996, "1.00 s"), (1.931, "1.93 s"), (125, "2 min 05 s")]
)
def test_step_times(seconds, text):
    assert formats.step_time(seconds) == text


def test_metrics_are_named_and_written_by_what_they_are():
    assert formats.metric_title("eval_f1") == "F1"
    assert formats.metric_title("eval_mae") == "Mean absolute error"
    assert formats.metric_title("eval_token_accuracy") == "Token accuracy"
    assert formats.metric_title("eval_bits_per_character") == "Bits a character"
    assert formats.metric_format("eval_f1")(0.8312) == "83.1 %"
    assert formats.metric_format("eval_loss")(0.8312) == "0.831"
