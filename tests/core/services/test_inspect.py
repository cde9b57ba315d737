"""Findings are counted by kind and named by their first rows; columns become options, and options columns."""

import msgspec
import pytest

from core.base.errors import Fix
from core.engine.data.findings import FindingKind, Tally
from core.jobs.inspect import DataFinding, DataReport, FindingLevel
from core.options.choices import Task
from core.services.columns import chosen_columns, guessed_columns, options_of_columns, uses_for, with_use

EMPTY = FindingKind("empty", FindingLevel.WARNING, "{rows}: no text, left out.", "Fill them in")
NAMELESS = FindingKind("nameless", FindingLevel.PROBLEM, "{rows}: no “{detail}”.")


def test_a_tally_keeps_counts_and_the_first_rows():
    tally = Tally("line")
    for row in range(100, 1130):
        tally.add(EMPTY, row)
    [found] = tally.findings()
    assert found.message == "1,030 examples: no text, left out."
    assert (found.count, found.rows, found.fixes) == (1030, tuple(range(100, 120)), (Fix("Fill them in"),))
    assert found.where.startswith("lines 100, 101")
    assert found.where.endswith("119 and 1,010 more")
    tally = Tally()
    tally.add(EMPTY, 1234, example="it is blank.")
    [found] = tally.findings()
    assert found.message == "1 example: no text, left out. Row 1,234: it is blank."
    assert found.where == "row 1,234"
    assert msgspec.json.decode(msgspec.json.encode(found), type=DataFinding) == found


def test_problems_come_first_and_details_are_told_apart():
    tally = Tally()
    tally.add(EMPTY, 1)
    assert not tally.has_problems
    for row, name in enumerate(("{a}", "b", "{a}"), 2):
        tally.add(NAMELESS, row, detail=name, fixes=(Fix(name),))
    assert tally.has_problems
    assert [(finding.message, finding.rows, len(finding.fixes)) for finding in tally.findings()] == [
        ("2 examples: no “{a}”.", (2, 4), 1),
        ("1 example: no “b”.", (3,), 1),
        ("1 example: no text, left out.", (1,), 1),
    ]


@pytest.mark.parametrize(
    ("columns", "name", "use", "expected"),
    [
        ({"text": "body", "label": "stars"}, "stars", "text", {"text": "stars", "label": "body"}),
        ({"text": "body"}, "title", "text", {"text": "title"}),
        ({"text": "one", "second text": "two"}, "one", "", {"text": "two"}),
    ],
    ids=["they change places", "it takes the place", "a second text alone becomes the first"],
)
def test_another_use_of_a_column(columns, name, use, expected):
    assert with_use(columns, name, use) == expected


@pytest.mark.parametrize("task", Task)
def test_every_use_of_a_column_becomes_options_and_these_columns_again(task):
    uses = uses_for(task)[task is Task.CAUSAL_LM :]  # a column of texts is read instead of conversations
    columns = {use.key: f"column {place}" for place, use in enumerate(uses)}
    options = options_of_columns(task, columns)
    assert chosen_columns(task, options.get) == columns


def test_columns_guessed_from_the_data_count_only_where_the_task_uses_them():
    report = DataReport(source="x", format="CSV", rows=1, text_columns=("a", "b"), label_column="c")
    assert guessed_columns(Task.TEXT_REGRESSION, report) == {"text": "a", "second text": "b", "label": "c"}
    assert guessed_columns(Task.CAUSAL_LM, report) == {"text": "a"}
    assert options_of_columns(Task.CAUSAL_LM, {"text": "a"}) == {
        "data.text_columns": ["a"],
        "data.columns": {},
    }
    assert guessed_columns(Task.CHAT, report) == {}
