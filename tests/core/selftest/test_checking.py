"""Checks of a self-test: each is heard, what one needs comes before it, and what went wrong is said."""

import pytest

from core.errors import UserError
from core.selftest.checking import Check, Failed, UnknownCheck, chosen, run_checks


def fine(_folder):
    return "all there"


def wrong(_folder):
    raise Failed("3 of 4 rows")


def refused(_folder):
    raise UserError("No model", "there is none")


def broken(_folder):
    raise KeyError("lost")


CHECKS = (
    Check("one", fine),
    Check("two", wrong),
    Check("three", fine, needs=("two",)),
    Check("four", refused),
    Check("five", broken),
)


def test_every_check_has_its_line_whatever_became_of_the_others(tmp_path):
    lines = []
    assert run_checks(CHECKS, tmp_path, lines.append) == ["two", "three", "four", "five"]
    words = [(line.split()[0], line.split()[3], line.partition(": ")[2]) for line in lines]
    assert words[:4] == [
        ("ok", "one:", "all there"),
        ("FAILED", "two:", "3 of 4 rows"),
        ("FAILED", "three:", "not tried, because this failed: two"),
        ("FAILED", "four:", "No model there is none"),
    ]
    assert words[4][0] == "FAILED"
    assert "KeyError: 'lost'" in lines[4]


def test_a_check_brings_what_it_needs():
    assert [check.name for check in chosen(CHECKS, ["three"])] == ["two", "three"]
    assert chosen(CHECKS, []) == list(CHECKS)


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(UnknownCheck, match="six") as told:
        chosen(CHECKS, ["six"])
    assert "one, two, three" in told.value.detail
