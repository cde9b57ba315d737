"""Every form of conversations gives the same rows; whatever is wrong with a row is reported with its number."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import DataError
from core.engine.data.conversations import ChatRow, ShapeKind, find_shape
from core.engine.data.tables import read_table
from core.services.inspect import FindingLevel
from tests.fakes.conversation_tables import GOOD, Checked, checked, csv_table, json_table

USER, ANSWER = GOOD
SHAREGPT = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]
TALK = ChatRow(1, tuple(GOOD))
QUESTION = {"role": "user", "content": "Say hello to Ada"}
BETTER, WORSE = ({"role": "assistant", "content": text} for text in ("Hello Ada", "Bye Ada"))


def sharegpt(message: dict[str, str]) -> dict[str, str]:
    return {"from": {"user": "human", "assistant": "gpt"}[message["role"]], "value": message["content"]}


def said(row: ChatRow) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in row.messages]


def talks(folder: Path, *conversations: Any) -> Checked:
    """What is found in a file of these conversations, the first in line 2."""
    return checked(json_table(folder, [{"messages": row} for row in (GOOD, *conversations)]))


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"messages": GOOD}, ShapeKind.MESSAGES),
        ({"id": "7", "log": GOOD}, ShapeKind.MESSAGES),
        ({"conversations": SHAREGPT, "prompt": "unused"}, ShapeKind.SHAREGPT),
        ({"messages": json.dumps(GOOD)}, ShapeKind.MESSAGES),
        ({"messages": json.dumps(SHAREGPT)}, ShapeKind.SHAREGPT),
        ({"chat": {"messages": GOOD}}, ShapeKind.MESSAGES),
        ({"instruction": "hi", "input": "", "output": "hello"}, ShapeKind.ALPACA),
        ({"Instruction": "hi", "Response": "hello"}, ShapeKind.ALPACA),
        ({"prompt": "hi", "completion": "hello"}, ShapeKind.PROMPT),
        ({"question": "hi", "answer": "hello", "source": "web"}, ShapeKind.PROMPT),
        ({"query": "hi", "response": "hello"}, ShapeKind.PROMPT),
        ({"input": "hi", "output": "hello"}, ShapeKind.PROMPT),
        ({"prompt": GOOD[:1], "completion": GOOD[1:]}, ShapeKind.PROMPT),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}, ANSWER]},
            ShapeKind.MESSAGES,
        ),
        *(
            ({"messages": [{**USER, "role": name}, ANSWER]}, ShapeKind.MESSAGES)
            for name in (" HUMAN ", "prompter")
        ),
        *(({"messages": [USER, {**ANSWER, "role": name}]}, ShapeKind.MESSAGES) for name in ("gpt", "Model")),
    ],
    ids=str,
)
def test_every_shape_gives_the_same_conversation(tmp_path, row, kind):
    table = json_table(tmp_path, [row])
    assert find_shape(table).kind is kind
    assert checked(table).rows == (TALK,)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Say hello to Ada", "chosen": "Hello Ada", "rejected": "Bye Ada"},
        {"instruction": "Say hello to Ada", "input": "", "chosen": "Hello Ada", "rejected": "Bye Ada"},
        {"prompt": [QUESTION], "chosen": [BETTER], "rejected": [WORSE]},
        {"chosen": [QUESTION, BETTER], "rejected": [QUESTION, WORSE]},
        {"prompt": "Say hello to Ada", "chosen": [QUESTION, BETTER], "rejected": [QUESTION, WORSE]},
        {"messages": [QUESTION], "chosen": "Hello Ada", "rejected": "Bye Ada"},
        {"conversations": [sharegpt(QUESTION)], "chosen": sharegpt(BETTER), "rejected": sharegpt(WORSE)},
        {"input": {"messages": [QUESTION]}, "preferred_output": [BETTER], "non_preferred_output": [WORSE]},
        {"messages": [QUESTION, BETTER], "chosen": [QUESTION, BETTER], "rejected": [QUESTION, WORSE]},
        {"chosen": "Say hello to Ada Hello Ada", "rejected": "Say hello to Ada Bye Ada"},
        {
            "chosen": "\n\nHuman: Say hello to Ada\n\nAssistant: Hello Ada",
            "rejected": "\n\nHuman: Say hello to Ada\n\nAssistant: Bye Ada",
        },
    ],
    ids=str,
)
def test_every_shape_gives_the_same_pair(tmp_path, row):
    found = checked(json_table(tmp_path, [row]), preference=True)
    assert found.rows == (ChatRow(1, (QUESTION,), (BETTER,), (WORSE,)),)
    assert found.problems == ()


def test_answers_of_several_turns_after_a_system_prompt(tmp_path):
    first = {"role": "assistant", "content": "To whom?"}
    turns = {"chosen": [QUESTION, first, QUESTION, BETTER], "rejected": [QUESTION, first, QUESTION, WORSE]}
    (pair,) = checked(json_table(tmp_path, [{"system": "be kind", **turns}]), preference=True).rows
    assert [message["role"] for message in pair.messages] == ["system", "user", "assistant", "user"]
    assert (pair.chosen, pair.rejected) == ((BETTER,), (WORSE,))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {
                "system": "be brief",
                "instruction": "sum up",
                "input": "a text",
                "output": "done",
                "history": [["hi", "hello"]],
            },
            [
                ("system", "be brief"),
                ("user", "hi"),
                ("assistant", "hello"),
                ("user", "sum up\n\na text"),
                ("assistant", "done"),
            ],
        ),
        ({"question": "2 + 2?", "answer": 4}, [("user", "2 + 2?"), ("assistant", "4")]),
        ({"prompt": "list", "completion": '[{"a": 1}]'}, [("user", "list"), ("assistant", '[{"a": 1}]')]),
        ({"messages": [USER, USER, ANSWER]}, [("user", "hi\n\nhi"), ("assistant", "hello")]),
    ],
)
def test_what_is_said(tmp_path, row, expected):
    (found,) = checked(json_table(tmp_path, [row])).rows
    assert said(found) == expected


@pytest.mark.parametrize("row", [{"n": 1, "text": "once"}, {"line": "once", "n": 2}])
def test_plain_text(tmp_path, row):
    assert checked(json_table(tmp_path, [row])).rows == (ChatRow(1, text="once"),)


@pytest.mark.parametrize(
    ("row", "columns", "expected"),
    [
        (
            {"messages": GOOD, "frage": "hi", "output": "hello"},
            {"prompt": "frage"},
            {"prompt": "frage", "answer": "output"},
        ),
        (
            {"instruction": "hi", "input": "noise", "output": "hello"},
            {"input": ""},
            {"prompt": "instruction", "answer": "output"},
        ),
    ],
)
def test_chosen_columns_stand(tmp_path, row, columns, expected):
    table = json_table(tmp_path, [row])
    assert dict(find_shape(table, columns=columns).columns) == expected
    assert checked(table, columns=columns).rows == (TALK,)


@pytest.mark.parametrize(
    ("columns", "title", "changes"),
    [
        ({"conversation": "mesages"}, "no column “mesages”", [{"conversation": "messages"}, {}]),
        ({"prompt": "instruction", "answer": "output"}, "no column “instruction”", [{}]),
        ({"label": "messages"}, "“label”", [{}]),
    ],
)
def test_chosen_columns_that_are_refused(tmp_path, columns, title, changes):
    with pytest.raises(DataError, match=title) as caught:
        find_shape(json_table(tmp_path, [{"messages": GOOD}]), columns=columns)
    assert [fix.changes for fix in caught.value.fixes] == [{"data.columns": change} for change in changes]


@pytest.mark.parametrize(
    ("row", "preference", "title"),
    [
        ({"width": 1, "height": 2}, False, "has no conversations"),
        ({"width": 1, "height": 2}, True, "has no pairs of answers"),
        ({"prompt": "a", "chosen": "b"}, True, "has no pairs of answers"),
    ],
)
def test_nothing_fits(tmp_path, row, preference, title):
    with pytest.raises(DataError, match=title) as caught:
        find_shape(json_table(tmp_path, [row]), preference=preference)
    assert all(f"“{name}”" in caught.value.detail for name in row)


class TestTools:
    def test_openai(self, tmp_path):
        function = {"name": "weather", "arguments": '{"city": "Köln", "days": null}'}
        call = {"id": "c1", "type": "function", "function": function}
        other = {"id": "c2", "type": "function", "function": {"name": "time", "arguments": "{}"}}
        answer = {"role": "tool", "tool_call_id": "c2", "content": "noon"}
        messages = [USER, {"role": "assistant", "content": None, "tool_calls": [call, other]}, answer, ANSWER]
        tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
        found = checked(json_table(tmp_path, [{"messages": messages, "tools": tools}]))
        assert found.findings == ()
        assert found.rows[0].messages[1]["tool_calls"] == [
            {**call, "function": {**function, "arguments": {"city": "Köln", "days": None}}},
            {**other, "function": {"name": "time", "arguments": {}}},
        ]
        assert found.rows[0].messages[2] == answer
        assert found.rows[0].tools == tuple(tools)

    def test_arrow_fills_no_keys_in(self, tmp_path):
        """In a nested column of Arrow every object has the keys of all of them; a call must not get those."""
        functions = [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {"y": {"z": "a"}}}]
        calls = [[{"type": "function", "function": function}] for function in functions]
        table = json_table(
            tmp_path, [{"messages": [USER, {"role": "assistant", "tool_calls": call}]} for call in calls]
        )
        assert [row.messages[1]["tool_calls"] for row in checked(table).rows] == calls

    def test_sharegpt(self, tmp_path):
        talk = [
            {"from": "human", "value": "Rain?"},
            {"from": "function_call", "value": '{"name": "weather", "arguments": {"city": "Köln"}}'},
            {"from": "function_call", "value": '{"name": "time", "arguments": {}}'},
            {"from": "observation", "value": "no"},
            {"from": "gpt", "value": "No."},
        ]
        row = {"conversations": talk, "system": "be kind", "tools": '[{"name": "weather"}]'}
        found = checked(json_table(tmp_path, [row]))
        assert found.findings == ()
        messages = found.rows[0].messages
        assert [message["role"] for message in messages] == [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        assert [call["function"] for call in messages[2]["tool_calls"]] == [
            {"name": "weather", "arguments": {"city": "Köln"}},
            {"name": "time", "arguments": {}},
        ]
        assert found.rows[0].tools == ({"type": "function", "function": {"name": "weather"}},)

    def test_reasoning_is_kept_apart(self, tmp_path):
        answer = {**ANSWER, "reasoning_content": "two and two"}
        assert talks(tmp_path, [USER, answer]).rows[1].messages[-1] == answer


@pytest.mark.parametrize(
    ("talk", "code", "message"),
    [
        ([{"content": "hi"}, ANSWER], "missing-key", "“role”"),
        ([{"role": None, "content": "hi"}, ANSWER], "missing-key", "“role”"),
        ([{"from": None, "value": "hi"}, {"from": "gpt", "value": "a"}], "missing-key", "“from”"),
        ([USER, {"role": "assistant"}], "missing-key", "“content”"),
        ([USER, {"role": "assistant", "content": None}], "missing-key", "“content”"),
        ([USER, {"role": "assistant", "content": 5}], "not-text", "a number in it"),
        ([USER, {"role": "assistant", "content": True}], "not-text", "true or false in it"),
        ([USER, {"role": "assistant", "content": {"a": 1}}], "not-text", '{"a": 1} must be written as text'),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}, ANSWER],
            "not-text",
            "image_url",
        ),
        ([{"role": "user", "content": [{"type": "text"}]}, ANSWER], "not-text", "a text part without text"),
        ([USER, {"role": "assistant", "content": " \n\t"}], "empty-answer", ""),
        ([USER, {"role": "assistant", "content": ""}, USER, ANSWER], "empty-answer", ""),
        ([{"role": "system", "content": "be kind"}], "no-answer", ""),
        ([USER], "no-answer", ""),
        ([USER, {"role": 3, "content": "?"}], "unknown-role", "“3”"),
        (["hi", "hello"], "unparsable", '"hi" is not a message'),
        ([[USER, ANSWER]], "unparsable", "is not a message"),
        ("just a text", "unparsable", "Expecting value"),
        (7, "unparsable", "it is 7, not a list"),
        ('[{"role": "user"', "unparsable", "delimiter"),
        ("[" * 10_000 + "]" * 10_000, "unparsable", "nested too deeply"),
        (
            [USER, {"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}],
            "broken-call",
            "names no function",
        ),
        ([USER, {"role": "function_call", "content": "{name: f}"}], "broken-call", "can't be read"),
        ([USER, {"role": "function_call", "content": "[]"}], "broken-call", "no function is called"),
    ],
)
def test_problems_of_conversations(tmp_path, talk, code, message):
    found = talks(tmp_path, talk)
    (finding,) = found.findings
    assert (finding.code, finding.level, finding.where) == (code, FindingLevel.PROBLEM, "line 2")
    assert message in finding.message
    assert found.rows == (TALK,)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"prompt": "hi", "completion": [1, 2]}, "mixed-types"),
        ({"instruction": "and", "output": ""}, "empty-answer"),
        ({"instruction": "and", "output": None}, "empty-answer"),
        ({"instruction": "a", "output": "b", "history": ["x"]}, "unparsable"),
        *(
            ({"messages": GOOD, "tools": tools}, "broken-tools")
            for tools in ("[{", '{"a": 1}', '["weather"]')
        ),
        ({"prompt": "hi", "chosen": None, "rejected": "no"}, "empty-chosen"),
        ({"prompt": "hi", "chosen": "  ", "rejected": "no"}, "empty-chosen"),
        ({"prompt": "hi", "chosen": "yes", "rejected": ""}, "empty-rejected"),
        ({"prompt": "hi", "chosen": "yes", "rejected": " yes\n"}, "same-answers"),
        ({"prompt": "hi", "chosen": {"from": "bob", "value": "a"}, "rejected": "no"}, "unknown-role"),
    ],
)
def test_problems_of_other_columns(tmp_path, row, code):
    table = json_table(tmp_path, [dict.fromkeys(row) | {"n": 0}, row])
    found = checked(table, preference="chosen" in row)
    assert [(finding.code, finding.rows) for finding in found.problems] == [(code, (2,))]
    assert found.rows == ()


@pytest.mark.parametrize(
    ("talk", "code"),
    [
        ([], "empty-row"),
        ([USER, {"role": "user", "content": "again?"}, ANSWER], "merged"),
        ([ANSWER, USER, {"role": "assistant", "content": "more"}], "assistant-first"),
        ([USER, {"role": "tool", "content": "5"}, ANSWER], "answer-without-call"),
        ([USER, {"role": "system", "content": "x"}, {**USER, "content": "b"}, ANSWER], "system-late"),
        ([{"role": "user", "content": " "}, ANSWER], "empty-prompt"),
    ],
)
def test_warnings(tmp_path, talk, code):
    (finding,) = talks(tmp_path, talk).findings
    assert (finding.code, finding.level, finding.rows) == (code, FindingLevel.WARNING, (2,))


def test_all_kinds_of_a_file_are_reported_at_once(tmp_path):
    found = talks(
        tmp_path,
        [{"content": "hi"}, {"role": "assistant", "content": ""}],
        [{"role": "bob", "content": "hi"}, ANSWER],
        [],
        *([USER, ANSWER, USER, {"role": "assistant"}] for _ in range(30)),
    )
    assert [(finding.code, finding.rows, finding.count) for finding in found.findings] == [
        ("missing-key", (2,), 1),
        ("empty-answer", (2,), 1),
        ("unknown-role", (3,), 1),
        ("missing-key", tuple(range(5, 25)), 30),
        ("empty-row", (4,), 1),
    ]


class TestRoles:
    TALK = ({"from": "alice", "value": "hi"}, {"from": "bob", "value": "hello"})

    def test_unknown_ones_come_with_fixes(self, tmp_path):
        table = json_table(tmp_path, [{"conversations": self.TALK}] * 12)
        alice, bob = checked(table, roles={"carl": "tool"}).findings
        assert "“bob”" in bob.message
        assert bob.rows == tuple(range(1, 13))
        assert [fix.changes["data.roles"] for fix in (*alice.fixes, *bob.fixes)] == [
            {"carl": "tool", "alice": "user"},
            {"carl": "tool", "alice": "assistant"},
            {"carl": "tool", "bob": "user"},
            {"carl": "tool", "bob": "assistant"},
        ]

    @pytest.mark.parametrize(
        ("talk", "roles"),
        [
            (TALK, {"alice": "user", "bob": "assistant"}),
            ([{"role": "bot", "content": "hi"}, ANSWER], {"bot": "user"}),
        ],
    )
    def test_mapped(self, tmp_path, talk, roles):
        assert checked(json_table(tmp_path, [{"messages": talk}]), roles=roles).rows == (TALK,)

    def test_mapped_to_no_role(self, tmp_path):
        with pytest.raises(DataError, match="“helper” is no role") as caught:
            checked(json_table(tmp_path, [{"messages": GOOD}]), roles={"bob": "helper"})
        assert caught.value.fixes[0].changes == {"data.roles": {"bob": "assistant"}}

    def test_many_names_are_counted_together(self, tmp_path):
        found = talks(tmp_path, *([{"role": f"r{n}", "content": "a"}, ANSWER] for n in range(500)))
        assert len(found.findings) == 21
        assert sum(finding.count for finding in found.findings) == 500


def test_rows_of_a_csv_file_are_counted_with_the_header(tmp_path):
    rows = [{"messages": json.dumps([{**USER, "content": f"{n}?"}, ANSWER])} for n in range(30)]
    rows[15]["messages"] = rows[15]["messages"][:-3]
    found = checked(csv_table(tmp_path, rows))
    assert [(finding.code, finding.rows) for finding in found.findings] == [("unparsable", (17,))]
    assert "Row 17: Unterminated string" in found.findings[0].message
    assert [row.row for row in found.rows[:2]] == [2, 3]


@pytest.mark.data
def test_real_files(shared_data):
    table = read_table(shared_data / "instruct" / "alpaca_en_demo.json")
    assert find_shape(table).kind is ShapeKind.ALPACA
    assert (len(checked(table).rows), checked(table).findings) == (999, ())
    pairs = checked(read_table(shared_data / "instruct" / "dpo_en_demo.json"), preference=True)
    turns = [len(row.messages) for row in pairs.rows]
    assert (len(turns), turns.count(1), turns.count(2), max(turns)) == (300, 114, 80, 13)
