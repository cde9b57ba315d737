"""Columns become options, and options columns."""

import pytest

from core.jobs.inspect import DataReport
from core.options.choices import Task
from core.services.columns import chosen_columns, guessed_columns, options_of_columns, uses_for, with_use


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
