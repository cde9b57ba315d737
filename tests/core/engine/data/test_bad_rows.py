"""Whatever is wrong with a row is told with its number, all kinds at once, and where an option mends it, with that."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import DataError
from core.engine.data.conversation_shapes import Conversation, Row, find_shape
from core.engine.data.tables import read_table
from core.services.inspect import FindingLevel
from tests.fakes.conversation_tables import GOOD, checked, checked_messages, csv_table, json_table, only

USER, ANSWER = GOOD
PROBLEM, WARNING = FindingLevel.PROBLEM, FindingLevel.WARNING


def contents(row: Row) -> list[str]:
    assert isinstance(row, Conversation)
    return [message.content for message in row.messages]


@pytest.mark.parametrize(
    ("talk", "code", "said"),
    [
        ([{"content": "hi"}, ANSWER], "missing-key", "1 line has a message without “role”."),
        ([{"role": None, "content": "hi"}, ANSWER], "missing-key", "“role”"),
        ([{"from": None, "value": "hi"}, {"from": "gpt", "value": "a"}], "missing-key", "“from”"),
        ([USER, {"role": "assistant"}], "missing-key", "“content”"),
        ([USER, {"role": "assistant", "content": None}], "missing-key", "“content”"),
        ([USER, {"role": "assistant", "content": 5}], "not-text", "a number in it"),
        ([USER, {"role": "assistant", "content": True}], "not-text", "true or false in it"),
        ([USER, {"role": "assistant", "content": {"a": 1}}], "not-text", '{"a": 1} must be written as text'),
        ([USER, {"role": "assistant", "content": " \n\t"}], "empty-answer", "1 line has an empty answer."),
        ([USER, {"role": "assistant", "content": ""}, USER, ANSWER], "empty-answer", "empty answer"),
        ([{"role": "system", "content": "be kind"}], "no-answer", "nothing to learn from"),
        ([USER], "no-answer", "no answer of the assistant"),
        ([USER, {"role": 3, "content": "?"}], "unknown-role", "“3”"),
        (["hi", "hello"], "unparsable", '"hi" is not a message'),
        ([[USER, ANSWER]], "unparsable", "is not a message"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}, ANSWER],
            "not-text",
            "image_url",
        ),
        ([{"role": "user", "content": [{"type": "text"}]}, ANSWER], "not-text", "a text part without text"),
        (
            [USER, {"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}],
            "broken-call",
            "names no function",
        ),
        ([USER, {"role": "function_call", "content": "{name: f}"}], "broken-call", "can't be read"),
    ],
)
def test_problems(tmp_path: Path, talk: Any, code: str, said: str) -> None:
    finding = only(checked_messages(tmp_path, talk), code)
    assert finding.level is PROBLEM
    assert said in finding.message
    assert finding.rows == (2,)
    assert finding.where == "line 2"


@pytest.mark.parametrize(
    ("talk", "code", "said"),
    [
        ([], "empty-row", "1 line has no text and is left out."),
        ([USER, {"role": "user", "content": "again?"}, ANSWER], "merged", "two messages of the user"),
        ([ANSWER, USER, {"role": "assistant", "content": "more"}], "assistant-first", "before any question"),
        ([USER, {"role": "tool", "content": "5"}, ANSWER], "answer-without-call", "to no call"),
        ([USER, {"role": "system", "content": "x"}, {**USER, "content": "b"}, ANSWER], "system-late", "mid"),
        ([{"role": "user", "content": " "}, ANSWER], "empty-prompt", "empty question"),
    ],
)
def test_warnings(tmp_path: Path, talk: Any, code: str, said: str) -> None:
    found = checked_messages(tmp_path, talk)
    finding = only(found, code)
    assert finding.level is WARNING
    assert said in finding.message
    assert finding.rows == (2,)
    assert found.problems == ()


def test_messages_of_one_speaker_are_joined(tmp_path: Path) -> None:
    found = checked_messages(tmp_path, [USER, {"role": "user", "content": "again?"}, ANSWER])
    assert contents(found.first[1]) == ["hi\n\nagain?", "hello"]


class TestUnknownRoles:
    TALK = [{"from": "alice", "value": "hi"}, {"from": "bob", "value": "hello"}]

    def test_each_is_named_with_fixes(self, tmp_path: Path) -> None:
        found = checked(json_table(tmp_path, [{"conversations": self.TALK}] * 12), roles={"carl": "tool"})
        alice, bob = found.findings
        assert bob.message == "12 lines have a message of “bob”: it isn't known who that is."
        assert bob.rows == tuple(range(1, 13))
        assert [fix.label for fix in alice.fixes] == [
            "Read “alice” as the user",
            "Read “alice” as the assistant",
        ]
        fixed = {"carl": "tool", "bob": "assistant"}
        bobs = {fix.label: fix.changes for fix in bob.fixes}
        assert bobs["Read “bob” as the assistant"] == {"data.roles": fixed}

    def test_the_fixes_mend_it(self, tmp_path: Path) -> None:
        table = json_table(tmp_path, [{"conversations": self.TALK}])
        found = checked(table, roles={"alice": "user", "bob": "assistant"})
        assert found.problems == ()
        assert contents(found.first[0]) == ["hi", "hello"]

    def test_a_mapping_overrides_what_is_known(self, tmp_path: Path) -> None:
        table = json_table(tmp_path, [{"messages": [{"role": "bot", "content": "hi"}, ANSWER]}])
        (row,) = checked(table, roles={"bot": "user"}).first
        assert isinstance(row, Conversation)
        assert [message.role.value for message in row.messages] == ["user", "assistant"]

    def test_mapped_to_nothing_known(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="“helper” is no role") as caught:
            checked(json_table(tmp_path, [{"messages": GOOD}]), roles={"bob": "helper"})
        assert caught.value.fixes[0].changes == {"data.roles": {"bob": "assistant"}}

    def test_thousands_of_names_are_counted_together(self, tmp_path: Path) -> None:
        rows = [{"messages": [{"role": f"r{n}", "content": "a"}, ANSWER]} for n in range(500)]
        found = checked(json_table(tmp_path, rows))
        assert len(found.findings) == 21
        assert sum(finding.count for finding in found.findings) == 500

    @pytest.mark.parametrize("name", ["User", " HUMAN ", "prompter", "gpt", "Model", "Developer", "ipython"])
    def test_known_spellings(self, tmp_path: Path, name: str) -> None:
        found = checked_messages(tmp_path, [USER, {"role": name, "content": "x"}, ANSWER])
        assert found.problems == ()


def test_json_broken_in_row_17(tmp_path: Path) -> None:
    rows = [{"messages": json.dumps([{**USER, "content": f"{n}?"}, ANSWER])} for n in range(30)]
    rows[15]["messages"] = rows[15]["messages"][:-3]  # row 1 is the header
    finding = only(checked(csv_table(tmp_path, rows)), "unparsable")
    assert finding.rows == (17,)
    assert finding.message.startswith(
        "1 row has a conversation that can't be read. Row 17: Unterminated string starting at: line 1 column"
    )


def test_texts_and_lists_in_one_column(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"messages": [{**USER, "content": f"{n}?"}, ANSWER]} for n in range(12)]
    rows[4]["messages"] = "just a text"
    rows[6]["messages"] = 7
    finding = only(checked(json_table(tmp_path, rows)), "unparsable")
    assert finding.rows == (5, 7)


def test_a_list_where_an_answer_should_be(tmp_path: Path) -> None:
    finding = only(checked(json_table(tmp_path, [{"prompt": "hi", "completion": [1, 2]}])), "mixed-types")
    assert finding.message == (
        "1 line has something in “completion” that is neither text nor messages. Line 1: it is [1, 2]."
    )


def test_lists_nested_ten_thousand_deep(tmp_path: Path) -> None:
    rows = [{"messages": json.dumps(GOOD)}, {"messages": "[" * 10_000 + "]" * 10_000}]
    found = checked(csv_table(tmp_path, rows))
    assert [finding.code for finding in found.problems] == ["unparsable"]
    assert "nested too deeply" in found.problems[0].message


@pytest.mark.parametrize("output", ["", "  ", None])
def test_an_empty_answer_of_alpaca(tmp_path: Path, output: str | None) -> None:
    rows = [{"instruction": "hi", "output": "hello"}, {"instruction": "and", "output": output}]
    found = checked(json_table(tmp_path, rows))
    assert [(finding.code, finding.rows) for finding in found.problems] == [("empty-answer", (2,))]


def test_a_history_that_is_no_pairs(tmp_path: Path) -> None:
    row = {"instruction": "a", "output": "b", "history": ["x"]}
    assert [finding.code for finding in checked(json_table(tmp_path, [row])).problems] == ["unparsable"]


@pytest.mark.parametrize("tools", ["[{", '{"a": 1}', '["weather"]'])
def test_tools_that_can_not_be_read(tmp_path: Path, tools: str) -> None:
    found = checked(json_table(tmp_path, [{"messages": GOOD, "tools": tools}]))
    assert [finding.code for finding in found.problems] == ["broken-tools"]


def test_everything_at_once(tmp_path: Path) -> None:
    found = checked_messages(
        tmp_path,
        [{"content": "hi"}, {"role": "assistant", "content": ""}],
        [{"role": "bob", "content": "hi"}, ANSWER],
        [],
        GOOD,
    )
    assert [(finding.code, finding.rows) for finding in found.findings] == [
        ("missing-key", (2,)),
        ("empty-answer", (2,)),
        ("unknown-role", (3,)),
        ("empty-row", (4,)),
        ("duplicates", (5,)),
    ]
    assert found.usable == 12


def test_only_empty_rows(tmp_path: Path) -> None:
    found = checked(json_table(tmp_path, [{"messages": []}, {"messages": []}]))
    assert [finding.code for finding in found.problems] == ["nothing-left"]


def test_three_rows_only(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}?", "completion": "yes"} for n in range(3)]
    finding = only(checked(json_table(tmp_path, rows)), "few-rows")
    assert finding.message == "There are only 3 lines to learn from; a model takes some hundred."
    assert finding.rows == ()
    assert finding.where == ""


def test_duplicates_keep_the_first(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n % 20}?", "completion": "yes"} for n in range(50)]
    finding = only(checked(json_table(tmp_path, rows)), "duplicates")
    assert finding.count == 30
    assert finding.rows == tuple(range(21, 41))
    assert finding.where.endswith("39, 40 and 10 more")


def test_a_column_of_numbers_named_messages(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("messages\n3\n4\n")
    assert [
        finding.code for finding in checked(read_table(path), columns={"conversation": "messages"}).problems
    ] == ["unparsable"]


class TestPreferences:
    def row(self, **changes: Any) -> dict[str, Any]:
        return {"prompt": "hi", "chosen": "hello", "rejected": "go away", **changes}

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"chosen": None}, "empty-chosen"),
            ({"chosen": "  "}, "empty-chosen"),
            ({"rejected": ""}, "empty-rejected"),
            ({"rejected": " hello\n"}, "same-answers"),
        ],
    )
    def test_problems(self, tmp_path: Path, changes: dict[str, Any], code: str) -> None:
        good = [self.row(prompt=f"{n}?") for n in range(10)]
        found = checked(json_table(tmp_path, [*good, self.row(**changes)]), preference=True)
        finding = only(found, code)
        assert finding.level is PROBLEM
        assert finding.rows == (11,)
        assert found.usable == 10

    def test_a_whole_column_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="no pairs of answers"):
            find_shape(json_table(tmp_path, [{"prompt": "a", "chosen": "b"}]), preference=True)

    def test_an_unknown_role_in_an_answer(self, tmp_path: Path) -> None:
        row = self.row(chosen={"from": "bob", "value": "hello"}, rejected={"from": "bob", "value": "go"})
        found = checked(json_table(tmp_path, [row]), preference=True)
        assert "unknown-role" in [finding.code for finding in found.problems]

    def test_no_question_at_all(self, tmp_path: Path) -> None:
        rows = [{"chosen": f"yes {n}", "rejected": f"no {n}"} for n in range(12)]
        assert only(checked(json_table(tmp_path, rows), preference=True), "empty-prompt").level is WARNING
