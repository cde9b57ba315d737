"""Findings are counted by kind and named by their first rows; columns become options, and options columns."""

import msgspec
import pytest

from core.base.errors import Fix
from core.options.choices import Task
from core.services.inspect import (
    DataReport,
    Finding,
    FindingKind,
    FindingLevel,
    Tally,
    chosen_columns,
    guessed_columns,
    options_of_columns,
    uses_for,
    with_use,
)

EMPTY = FindingKind("empty", FindingLevel.WARNING, "{rows}: no text, left out.", "Fill them in")
NAMELESS = FindingKind("nameless", FindingLevel.PROBLEM, "{rows}: no “{detail}”.")


def test_a_tally_keeps_counts_and_the_first_rows():
    tally = Tally("line")
    for row in range(100, 1130):
        tally.add(EMPTY, row)
    (found,) = tally.findings()
    assert found.message == "1,030 lines: no text, left out."
    assert (found.count, found.rows) == (1030, tuple(range(100, 120)))
    assert found.where.startswith("lines 100, 101")
    assert found.where.endswith("119 and 1,010 more")
    assert found.fixes == (Fix("Fill them in"),)


def test_one_row_is_said_as_one():
    tally = Tally()
    tally.add(EMPTY, 1234, example="it is blank.")
    (found,) = tally.findings()
    assert found.message == "1 row: no text, left out. Row 1,234: it is blank."
    assert found.where == "row 1,234"


def test_problems_come_first_and_details_are_told_apart():
    tally = Tally()
    tally.add(EMPTY, 1)
    assert not tally.has_problems
    for row, name in enumerate(("{a}", "b", "{a}"), 2):
        tally.add(NAMELESS, row, detail=name, fixes=(Fix(name),))
    assert tally.has_problems
    found = [(finding.message, finding.rows, len(finding.fixes)) for finding in tally.findings()]
    assert found == [
        ("2 rows: no “{a}”.", (2, 4), 1),
        ("1 row: no “b”.", (3,), 1),
        ("1 row: no text, left out.", (1,), 1),
    ]


def test_findings_travel_as_json():
    tally = Tally()
    tally.add(NAMELESS, 1, detail="a", fixes=(Fix("Do it", {"data.roles": {"a": "user"}}),))
    (found,) = tally.findings()
    assert msgspec.json.decode(msgspec.json.encode(found), type=Finding) == found


def test_two_columns_change_places_at_once():
    columns = {"text": "body", "label": "stars"}
    assert with_use(columns, "stars", "text") == {"text": "stars", "label": "body"}


def test_a_column_that_was_nothing_takes_the_place_of_the_one_before():
    assert with_use({"text": "body"}, "title", "text") == {"text": "title"}


def test_a_second_text_alone_becomes_the_first():
    columns = {"text": "one", "second text": "two"}
    assert with_use(columns, "one", "") == {"text": "two"}


def test_the_answer_of_a_conversation_is_named_in_the_options():
    columns = with_use({"prompt": "question"}, "reply", "answer")
    changes = options_of_columns(Task.CHAT, columns)
    assert changes == {"data.columns": {"prompt": "question", "answer": "reply"}}


@pytest.mark.parametrize("task", Task)
def test_every_use_of_a_column_goes_into_options_and_comes_out_again(task):
    columns = {use.key: f"column {place}" for place, use in enumerate(uses_for(task))}
    options = options_of_columns(task, columns)
    assert chosen_columns(task, options.get) == columns


def test_what_a_look_at_the_data_guessed_counts_only_where_the_task_has_use_for_it():
    report = DataReport(source="x", format="CSV", rows=1, text_columns=("a", "b"), label_column="c")
    assert guessed_columns(Task.TEXT_REGRESSION, report) == {"text": "a", "second text": "b", "label": "c"}
    assert guessed_columns(Task.CAUSAL_LM, report) == {"text": "a"}
    assert guessed_columns(Task.CHAT, report) == {}
