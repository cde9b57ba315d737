"""Figures as people read them: short, with units, never a bare NaN."""

import math

import pytest

from core.base import formats

MB, GB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (formats.loss, 1.3149, "1.31"),
        (formats.loss, 0.02134, "0.0213"),
        (formats.loss, 0.99999, "1.00"),
        (formats.loss, 1204.4, "1,204"),
        (formats.loss, 0.00042, "4.2e-04"),
        (formats.loss, math.nan, "not a number"),
        (formats.loss, math.inf, "infinite"),
        (formats.loss, None, formats.MISSING),
        (formats.memory, 0, "0 B"),
        (formats.memory, 912 * MB, "912 MB"),
        (formats.memory, 9.6 * GB, "9.60 GB"),
        (formats.memory, 134 * GB, "134 GB"),
        (formats.duration, 0.4, "0 s"),
        (formats.duration, 59.6, "1 min 00 s"),
        (formats.duration, 4800, "1 h 20 min"),
        (formats.duration, 2 * 86_400 + 3 * 3600, "2 d 3 h"),
        (formats.about, 1, "5 s"),
        (formats.about, 27, "25 s"),
        (formats.about, 58, "1 min"),
        (formats.about, 3590, "1 h"),
        (formats.about, 7900, "2 h 10 min"),
        (formats.about, 200_000, "56 h"),
        (formats.about, 500_000, "6 days"),
        (formats.about, 3e8, "10 years"),
        (formats.step_time, 0.0421, "42.1 ms"),
        (formats.step_time, 0.9996, "1.00 s"),
        (formats.step_time, 125, "2 min 05 s"),
        (formats.metric_title, "eval_mae", "Mean absolute error"),
        (formats.metric_title, "eval_new_score", "New score"),
        (formats.metric_format("eval_f1"), 0.8312, "83.1 %"),
        (formats.metric_format("eval_loss"), 0.8312, "0.831"),
        (formats.metrics, {"eval_zeta": 1.0, "eval_loss": 0.5, "eval_recall": 0.5}, "loss 0.5, recall 0.5, zeta 1"),
        (formats.compact_count, 109_482_240, "109 million"),
        (formats.compact_count, 577_408, "577 thousand"),  # more or less, by the labels
        (formats.compact_count, 73_728, "73,728"),
        (formats.memory, None, formats.MISSING),
        (formats.memory, 500, "500 B"),
        (formats.number, math.nan, "not a number"),
        (formats.number, 0.123456, "0.1235"),
        (lambda count: formats.counted(count, "step"), 1, "1 step"),
        (lambda count: formats.counted(count, "sample"), 1797, "1,797 samples"),
        (lambda count: formats.counted(count, "epoch"), 1.0, "1 epoch"),
        (lambda count: formats.counted(count, "epoch"), 2.5, "2.5 epochs"),
    ],
)  # fmt: skip
def test_figures_are_short_and_have_units(write, value, text):
    assert write(value) == text


@pytest.mark.parametrize(
    ("shares", "percents"),
    [
        ([1 / 3, 1 / 3, 1 / 3], [34, 33, 33]),
        ([0.004, 0.006, 0.495, 0.495], [0, 1, 50, 49]),
        ([0.29, 0.57, 0.14], [29, 57, 14]),
        ([0.005] * 200, [1] * 100 + [0] * 100),
        ([0.2, 0.3], [20, 30]),
        ([0.0, 0.0], [0, 0]),
        ([], []),
    ],
)
def test_rounded_shares_add_up_to_what_the_shares_add_up_to(shares, percents):
    assert formats.whole_shares(shares) == [percent / 100 for percent in percents]


@pytest.mark.parametrize(
    ("typed", "number"),
    [("٣٫٥", "3.5"), ("３．５", "3.5"), ("١٢٨", "128"), ("－２", "-2"), ("3,5", "3,5"), ("x²", "x²")],
)
def test_digits_of_any_script_are_read(typed, number):
    assert formats.ascii_digits(typed) == number


def test_columns_line_up_with_letters_that_take_two_places_or_none():
    rows = [("한국어", "x"), ("abc", "x"), ("é", "x")]
    lines = formats.table(("Name", "As"), rows).splitlines()
    assert [formats.columns(line[: line.index("x")]) for line in lines[1:]] == [8, 8, 8]
    assert lines[0] == "NAME    AS"


def test_sentences_get_their_stops_and_empty_ones_are_left_out():
    assert (
        formats.paragraph("It ran", "", "Why? (See the log.)", "“Digits”")
        == "It ran. Why? (See the log.) “Digits”."
    )
    assert formats.paragraph("", "") == ""
    assert formats.without_stop("It ran.") == formats.without_stop("It ran。") == "It ran"


def test_lists_are_read_with_the_comma_of_any_language():
    assert formats.items_of("1, 2،3、4，5,,") == ["1", "2", "3", "4", "5"]
    assert formats.items_of(" ") == []


def test_facts_stand_beside_each_other():
    assert formats.in_line("3 runs", "", "12 MB") == "3 runs · 12 MB"
    assert formats.in_line("تشغيل", "12 MB") == "\u2068تشغيل\u2069 · 12 MB"
    assert formats.in_line("") == ""


def test_a_sentence_begins_with_a_capital_but_a_name_stays():
    assert (
        formats.capitalized("the architecture opt is not in mlx-lm")
        == "The architecture opt is not in mlx-lm"
    )
    assert formats.capitalized("mlx-lm expects other weights") == "mlx-lm expects other weights"
