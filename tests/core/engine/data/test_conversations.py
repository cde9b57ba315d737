"""Every form of conversations gives the same rows; issues are reported with the row's number."""

import json
from typing import Any

import pytest

from core.base.errors import DataError
from core.engine.data.conversations import ChatRow, ShapeKind, find_shape
from core.engine.data.tables import read_table
from core.services.inspect import FindingLevel
from tests.fakes.conversations import GOOD, checked, csv_table, json_table

USER, ANSWER = GOOD
SHAREGPT = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]
TALK = ChatRow(1, tuple(GOOD))
QUESTION = {"role": "user", "content": "Say hello to Ada"}
BETTER, WORSE = ({"role": "assistant", "content": text} for text in ("Hello Ada", "Bye Ada"))
PARTS = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}, ANSWER]


def assistant(**values: Any) -> dict[str, Any]:
    return {"role": "assistant", **values}


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"messages": GOOD}, ShapeKind.MESSAGES),
        ({"id": "7", "log": GOOD}, ShapeKind.MESSAGES),
        ({"conversations": SHAREGPT, "prompt": "unused"}, ShapeKind.MESSAGES),
        ({"messages": json.dumps(SHAREGPT)}, ShapeKind.MESSAGES),
        ({"chat": {"messages": GOOD}}, ShapeKind.MESSAGES),
        ({"Instruction": "hi", "Response": "hello"}, ShapeKind.ALPACA),
        ({"instruction": "hi", "input": "", "output": "hello"}, ShapeKind.ALPACA),
        ({"question": "hi", "answer": "hello", "source": "web"}, ShapeKind.PROMPT),
        ({"input": "hi", "output": "hello"}, ShapeKind.PROMPT),
        ({"prompt": GOOD[:1], "completion": GOOD[1:]}, ShapeKind.PROMPT),
        ({"messages": PARTS}, ShapeKind.MESSAGES),
        ({"messages": [{**USER, "role": " HUMAN "}, {**ANSWER, "role": "Model"}]}, ShapeKind.MESSAGES),
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
        {"instruction": "Say hello to Ada", "input": "", "chosen": "Hello Ada", "rejected": "Bye Ada"},
        {"prompt": [QUESTION], "chosen": [BETTER], "rejected": [WORSE]},
        {"chosen": [QUESTION, BETTER], "rejected": [QUESTION, WORSE]},
        {"prompt": "Say hello to Ada", "chosen": [QUESTION, BETTER], "rejected": [QUESTION, WORSE]},
        {"conversations": [QUESTION], "chosen": BETTER, "rejected": {"from": "gpt", "value": "Bye Ada"}},
        {"input": {"messages": [QUESTION]}, "preferred_output": [BETTER], "non_preferred_output": [WORSE]},
        {"chosen": "Say hello to Ada Hello Ada", "rejected": "Say hello to Ada Bye Ada"},
        {
            "chosen": "\n\nHuman: Say hello to Ada\n\nAssistant: Hello Ada",
            "rejected": "\n\nHuman: Say hello to Ada\n\nAssistant: Bye Ada",
        },
    ],
    ids=str,
)
def test_every_shape_gives_the_same_pair(tmp_path, row):
    result = checked(json_table(tmp_path, [row]), preference=True)
    assert result.rows == (ChatRow(1, (QUESTION,), (BETTER,), (WORSE,)),)
    assert result.problems == ()


def test_pairs_with_several_turns_and_a_system_prompt(tmp_path):
    turns = [QUESTION, assistant(content="To whom?"), QUESTION]
    row = {"system": "be kind", "chosen": [*turns, BETTER], "rejected": [*turns, WORSE]}
    (pair,) = checked(json_table(tmp_path, [row]), preference=True).rows
    assert [message["role"] for message in pair.messages] == ["system", "user", "assistant", "user"]
    assert (pair.chosen, pair.rejected) == ((BETTER,), (WORSE,))


ALPACA = {"system": "brief", "instruction": "sum up", "input": "a text", "output": "done"}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (ALPACA | {"history": [["hi", "hello"]]}, ["brief", "hi", "hello", "sum up\n\na text", "done"]),
        ({"question": "2 + 2?", "answer": 4}, ["2 + 2?", "4"]),
        ({"prompt": "list", "completion": '[{"a": 1}]'}, ["list", '[{"a": 1}]']),
        ({"messages": [USER, USER, ANSWER]}, ["hi\n\nhi", "hello"]),
    ],
)
def test_contents(tmp_path, row, expected):
    (found,) = checked(json_table(tmp_path, [row])).rows
    assert [message["content"] for message in found.messages] == expected


@pytest.mark.parametrize("row", [{"n": 1, "text": "once"}, {"line": "once", "n": 2}], ids=str)
def test_plain_text(tmp_path, row):
    assert checked(json_table(tmp_path, [row])).rows == (ChatRow(1, text="once"),)


@pytest.mark.parametrize(
    ("row", "columns", "expected"),
    [
        ({"messages": GOOD, "frage": "hi", "output": "hello"}, {"prompt": "frage"}, ["frage", "output"]),
        ({"prompt": "hi", "input": "noise", "output": "hello"}, {"input": ""}, ["prompt", "output"]),
    ],
    ids=str,
)
def test_chosen_columns_are_used(tmp_path, row, columns, expected):
    table = json_table(tmp_path, [row])
    assert list(find_shape(table, columns=columns).columns.values()) == expected
    assert checked(table, columns=columns).rows == (TALK,)


@pytest.mark.parametrize(
    ("columns", "changes"),
    [
        ({"conversation": "mesages"}, [{"conversation": "messages"}, {}]),
        ({"prompt": "instruction", "answer": "output"}, [{}]),
        ({"label": "messages"}, [{}]),
    ],
    ids=str,
)
def test_refused_columns(tmp_path, columns, changes):
    with pytest.raises(DataError) as caught:
        find_shape(json_table(tmp_path, [{"messages": GOOD}]), columns=columns)
    assert [fix.changes for fix in caught.value.fixes] == [{"data.columns": change} for change in changes]


@pytest.mark.parametrize("preference", [False, True])
def test_no_form_fits(tmp_path, preference):
    with pytest.raises(DataError) as caught:
        find_shape(json_table(tmp_path, [{"prompt": 1, "chosen": 2}]), preference=preference)
    assert "“prompt”" in caught.value.detail


class TestTools:
    def test_openai(self, tmp_path):
        function = {"name": "weather", "arguments": '{"city": "Köln", "days": null}'}
        call = {"id": "c1", "type": "function", "function": function}
        reply = {"role": "tool", "tool_call_id": "c1", "content": "noon"}
        tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
        row = {"messages": [USER, assistant(content=None, tool_calls=[call]), reply, ANSWER], "tools": tools}
        found = checked(json_table(tmp_path, [row]))
        assert found.findings == ()
        arguments = {"city": "Köln", "days": None}
        assert found.rows[0].messages[1]["tool_calls"] == [
            {**call, "function": {**function, "arguments": arguments}}
        ]
        assert found.rows[0].messages[2] == reply
        assert found.rows[0].tools == tuple(tools)

    def test_keys_that_arrow_fills_in_are_removed(self, tmp_path):
        functions = [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {"y": {"z": "a"}}}]
        calls = [[{"type": "function", "function": function}] for function in functions]
        table = json_table(tmp_path, [{"messages": [USER, assistant(tool_calls=call)]} for call in calls])
        assert [row.messages[1]["tool_calls"] for row in checked(table).rows] == calls

    def test_sharegpt(self, tmp_path):
        talk = [
            {"from": "human", "value": "Rain?"},
            {"from": "function_call", "value": '{"name": "weather", "arguments": {"city": "Köln"}}'},
            {"from": "function_call", "value": '{"name": "time", "arguments": {}}'},
            {"from": "observation", "value": "no"},
            {"from": "gpt", "value": "No."},
        ]
        found = checked(json_table(tmp_path, [{"conversations": talk, "tools": '[{"name": "weather"}]'}]))
        assert found.findings == ()
        messages = found.rows[0].messages
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
        assert [call["function"] for call in messages[1]["tool_calls"]] == [
            {"name": "weather", "arguments": {"city": "Köln"}},
            {"name": "time", "arguments": {}},
        ]
        assert found.rows[0].tools == ({"type": "function", "function": {"name": "weather"}},)

    def test_reasoning_is_separate(self, tmp_path):
        answer = {**ANSWER, "reasoning_content": "two and two"}
        assert checked(json_table(tmp_path, [{"messages": [USER, answer]}])).rows[0].messages[1] == answer


@pytest.mark.parametrize(
    ("talk", "code"),
    [
        ([{"content": "hi"}, ANSWER], "missing-key"),
        ([{"from": None, "value": "hi"}, {"from": "gpt", "value": "a"}], "missing-key"),
        ([USER, assistant()], "missing-key"),
        ([USER, assistant(content=True)], "unparsable"),
        ([USER, assistant(content={"a": 1})], "unparsable"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}, ANSWER], "not-text"),
        ([{"role": "user", "content": [{"type": "text"}]}, ANSWER], "unparsable"),
        ([USER, assistant(content=" \n\t")], "empty-answer"),
        ([USER, assistant(content=""), USER, ANSWER], "empty-answer"),
        ([USER], "empty-answer"),
        ([USER, {"role": 3, "content": "?"}], "unknown-role"),
        (["hi", "hello"], "unparsable"),
        ([[USER, ANSWER]], "unparsable"),
        ("just a text", "unparsable"),
        (7, "unparsable"),
        ("[" * 10_000 + "]" * 10_000, "unparsable"),
        ([USER, assistant(tool_calls=[{"function": {"arguments": "{}"}}])], "unparsable"),
        ([USER, {"role": "function_call", "content": "{name: f}"}], "unparsable"),
        ([USER, {"role": "function_call", "content": "[]"}], "unparsable"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_problems_of_conversations(tmp_path, talk, code):
    result = checked(json_table(tmp_path, [{"messages": row} for row in (GOOD, talk)]))
    (finding,) = result.findings
    assert (finding.code, finding.level, finding.where) == (code, FindingLevel.PROBLEM, "line 2")
    assert result.rows == (TALK,)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"prompt": "hi", "completion": [1, 2]}, "unparsable"),
        ({"instruction": "and", "output": ""}, "empty-answer"),
        ({"instruction": "and", "output": None}, "empty-answer"),
        ({"instruction": "a", "output": "b", "history": ["x"]}, "unparsable"),
        ({"messages": GOOD, "tools": "[{"}, "unparsable"),
        ({"messages": GOOD, "tools": '["weather"]'}, "unparsable"),
        ({"prompt": "hi", "chosen": None, "rejected": "no"}, "empty-answer"),
        ({"prompt": "hi", "chosen": "yes", "rejected": " "}, "empty-answer"),
        ({"prompt": "hi", "chosen": "yes", "rejected": " yes\n"}, "same-answers"),
        ({"prompt": "hi", "chosen": {"from": "bob", "value": "a"}, "rejected": "no"}, "unknown-role"),
    ],
    ids=str,
)
def test_problems_of_other_columns(tmp_path, row, code):
    result = checked(json_table(tmp_path, [dict.fromkeys(row) | {"n": 0}, row]), preference="chosen" in row)
    assert [(finding.code, finding.rows) for finding in result.problems] == [(code, (2,))]
    assert result.rows == ()


@pytest.mark.parametrize(
    ("talk", "code"),
    [
        ([], "empty-row"),
        ([USER, {"role": "user", "content": "again?"}, ANSWER], "merged"),
        ([{"role": "user", "content": " "}, ANSWER], "empty-prompt"),
    ],
    ids=str,
)
def test_warnings(tmp_path, talk, code):
    (finding,) = checked(json_table(tmp_path, [{"messages": row} for row in (GOOD, talk)])).findings
    assert (finding.code, finding.level, finding.rows) == (code, FindingLevel.WARNING, (2,))


def test_all_kinds_of_issues_are_reported_at_once(tmp_path):
    talks = [
        [{"content": "hi"}, assistant(content="")],
        [{"role": "bob", "content": "hi"}, ANSWER],
        [],
        *([USER, ANSWER, USER, assistant()] for _ in range(30)),
    ]
    result = checked(json_table(tmp_path, [{"messages": talk} for talk in talks]))
    assert [(finding.code, finding.rows, finding.count) for finding in result.findings] == [
        ("missing-key", (1,), 1),
        ("empty-answer", (1,), 1),
        ("unknown-role", (2,), 1),
        ("missing-key", tuple(range(4, 24)), 30),
        ("empty-row", (3,), 1),
    ]


class TestRoles:
    TALK = ({"from": "alice", "value": "hi"}, {"from": "bob", "value": "hello"})

    def test_unknown_roles_have_fixes(self, tmp_path):
        table = json_table(tmp_path, [{"conversations": self.TALK}] * 12)
        alice, bob = checked(table, roles={"carl": "tool"}).findings
        assert bob.rows == tuple(range(1, 13))
        assert [fix.changes["data.roles"] for fix in (*alice.fixes, *bob.fixes)] == [
            {"carl": "tool", name: role} for name in ("alice", "bob") for role in ("user", "assistant")
        ]

    def test_mapped(self, tmp_path):
        roles = {"alice": "user", "bob": "assistant"}
        assert checked(json_table(tmp_path, [{"messages": self.TALK}]), roles=roles).rows == (TALK,)

    def test_mapped_to_no_role(self, tmp_path):
        with pytest.raises(DataError) as caught:
            checked(json_table(tmp_path, [{"messages": GOOD}]), roles={"bob": "helper"})
        assert caught.value.fixes[0].changes == {"data.roles": {"bob": "assistant"}}


def test_rows_of_a_csv_file_are_counted_with_the_header(tmp_path):
    rows = [{"messages": json.dumps([{**USER, "content": f"{n}?"}, ANSWER])} for n in range(30)]
    rows[15]["messages"] = rows[15]["messages"][:-3]
    result = checked(csv_table(tmp_path, rows))
    assert [(finding.code, finding.rows) for finding in result.findings] == [("unparsable", (17,))]
    assert [row.row for row in result.rows[:2]] == [2, 3]


@pytest.mark.data
def test_real_files(shared_data):
    table = read_table(shared_data / "instruct" / "alpaca_en_demo.json")
    assert find_shape(table).kind is ShapeKind.ALPACA
    assert (len(checked(table).rows), checked(table).findings) == (999, ())
    pairs = checked(read_table(shared_data / "instruct" / "dpo_en_demo.json"), preference=True)
    turns = [len(row.messages) for row in pairs.rows]
    assert (len(turns), turns.count(1), turns.count(2), max(turns)) == (300, 114, 80, 13)
