import pytest

from core.options.choices import Task
from core.services.inspect import (
    DataReport,
    chosen_columns,
    guessed_columns,
    options_of_columns,
    uses_for,
    with_use,
)


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
