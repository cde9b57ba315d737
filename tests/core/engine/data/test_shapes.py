"""The shape of a table is told from its columns and values; a person's own choice stands."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import DataError
from core.engine.data.conversation_shapes import (
    Conversation,
    Message,
    PlainText,
    ShapeKind,
    ToolCall,
    find_shape,
)
from core.options.choices import Speaker
from tests.fakes.conversation_tables import GOOD, checked, csv_table, json_table

SHAREGPT = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]
TALK = (Message(Speaker.USER, "hi"), Message(Speaker.ASSISTANT, "hello"))


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"messages": GOOD}, ShapeKind.MESSAGES),
        ({"id": "7", "log": GOOD}, ShapeKind.MESSAGES),
        ({"conversations": SHAREGPT, "prompt": "unused"}, ShapeKind.SHAREGPT),
        ({"messages": json.dumps(GOOD)}, ShapeKind.MESSAGES),
        ({"chat": {"messages": GOOD}}, ShapeKind.MESSAGES),
        ({"instruction": "hi", "input": "", "output": "hello"}, ShapeKind.ALPACA),
        ({"Instruction": "hi", "Response": "hello"}, ShapeKind.ALPACA),
        ({"prompt": "hi", "completion": "hello"}, ShapeKind.PROMPT),
        ({"question": "hi", "answer": "hello", "source": "web"}, ShapeKind.PROMPT),
        ({"query": "hi", "response": "hello"}, ShapeKind.PROMPT),
        ({"input": "hi", "output": "hello"}, ShapeKind.PROMPT),
        ({"prompt": GOOD[:1], "completion": GOOD[1:]}, ShapeKind.PROMPT),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}, GOOD[1]]},
            ShapeKind.MESSAGES,
        ),
    ],
)
def test_every_shape_gives_the_same_conversation(
    tmp_path: Path, row: dict[str, Any], kind: ShapeKind
) -> None:
    table = json_table(tmp_path, [row])
    assert find_shape(table).kind is kind
    assert checked(table).first == (Conversation(1, TALK),)


def test_a_csv_file_holds_json_as_text(tmp_path: Path) -> None:
    table = csv_table(tmp_path, [{"n": "1", "conversations": json.dumps(SHAREGPT)}])
    assert find_shape(table).kind is ShapeKind.SHAREGPT
    assert checked(table).first == (Conversation(2, TALK),)  # the header is row 1


def test_alpaca_with_everything(tmp_path: Path) -> None:
    row = {"system": "be brief", "instruction": "sum up", "input": "a text", "output": "done"}
    table = json_table(tmp_path, [{**row, "history": [["hi", "hello"]]}])
    (found,) = checked(table).first
    assert isinstance(found, Conversation)
    assert [(message.role.value, message.content) for message in found.messages] == [
        ("system", "be brief"),
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "sum up\n\na text"),
        ("assistant", "done"),
    ]


@pytest.mark.parametrize(
    ("rows", "column"),
    [([{"n": 1, "text": "once"}], "text"), ([{"line": "once", "n": 2}], "line")],
)
def test_plain_text(tmp_path: Path, rows: list[dict[str, Any]], column: str) -> None:
    table = json_table(tmp_path, rows)
    assert dict(find_shape(table).columns) == {"text": column}
    assert checked(table).first == (PlainText(1, "once"),)


def test_numbers_are_answers_too(tmp_path: Path) -> None:
    (found,) = checked(json_table(tmp_path, [{"question": "2 + 2?", "answer": 4}])).first
    assert isinstance(found, Conversation)
    assert found.messages[-1].content == "4"


def test_an_answer_that_is_json_stays_a_text(tmp_path: Path) -> None:
    (found,) = checked(json_table(tmp_path, [{"prompt": "list", "completion": '[{"a": 1}]'}])).first
    assert isinstance(found, Conversation)
    assert found.messages[-1].content == '[{"a": 1}]'


class TestChosenColumns:
    def test_stand_and_the_rest_is_found(self, tmp_path: Path) -> None:
        table = json_table(tmp_path, [{"messages": GOOD, "frage": "hi", "output": "hello"}])
        shape = find_shape(table, columns={"prompt": "frage"})
        assert dict(shape.columns) == {"prompt": "frage", "answer": "output"}
        assert checked(table, columns={"prompt": "frage"}).first == (Conversation(1, TALK),)

    def test_an_empty_name_leaves_a_column_out(self, tmp_path: Path) -> None:
        table = json_table(tmp_path, [{"instruction": "hi", "input": "noise", "output": "hello"}])
        assert checked(table, columns={"input": ""}).first == (Conversation(1, TALK),)

    def test_a_column_that_is_not_there(self, tmp_path: Path) -> None:
        table = json_table(tmp_path, [{"messages": GOOD}])
        with pytest.raises(DataError, match="no column “mesages”") as caught:
            find_shape(table, columns={"conversation": "mesages"})
        assert "“messages”" in caught.value.detail
        changes = [fix.changes for fix in caught.value.fixes]
        assert changes == [{"data.columns": {"conversation": "messages"}}, {"data.columns": {}}]

    def test_columns_of_another_file_are_forgotten_at_once(self, tmp_path: Path) -> None:
        table = json_table(tmp_path, [{"messages": GOOD}])
        with pytest.raises(DataError) as caught:
            find_shape(table, columns={"prompt": "instruction", "input": "input", "answer": "output"})
        assert caught.value.fixes[-1].changes == {"data.columns": {}}

    def test_a_role_that_is_none(self, tmp_path: Path) -> None:
        table = json_table(tmp_path, [{"messages": GOOD}])
        with pytest.raises(DataError, match="“label”") as caught:
            find_shape(table, columns={"label": "messages"})
        assert caught.value.fixes[0].changes == {"data.columns": {}}

    def test_a_text_where_messages_are_expected(self, tmp_path: Path) -> None:
        found = checked(json_table(tmp_path, [{"a": "hi there"}] * 2), columns={"conversation": "a"})
        assert [finding.code for finding in found.findings] == ["unparsable"]


def test_nothing_fits(tmp_path: Path) -> None:
    table = json_table(tmp_path, [{"width": 1, "height": 2}])
    with pytest.raises(DataError, match="has no conversations") as caught:
        find_shape(table)
    assert "“width”, “height”" in caught.value.detail
    with pytest.raises(DataError, match="has no pairs of answers"):
        find_shape(table, preference=True)


def test_tool_calls_of_openai(tmp_path: Path) -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Köln", "days": null}'},
    }
    other = {"id": "c2", "type": "function", "function": {"name": "time", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": None, "tool_calls": [call, other]},
        {"role": "tool", "tool_call_id": "c1", "content": "no"},
        {"role": "tool", "tool_call_id": "c2", "content": "noon"},
        {"role": "assistant", "content": "No."},
    ]
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    found = checked(json_table(tmp_path, [{"messages": messages, "tools": tools}]))
    assert found.problems == ()
    (talk,) = found.first
    assert isinstance(talk, Conversation)
    assert talk.messages[1].tool_calls == (
        ToolCall("weather", {"city": "Köln", "days": None}, "c1"),
        ToolCall("time", {}, "c2"),
    )
    assert talk.messages[3] == Message(Speaker.TOOL, "noon", call_id="c2")
    assert talk.tools == tuple(tools)


def test_arrow_fills_no_keys_in(tmp_path: Path) -> None:
    """In a nested column of Arrow every object has the keys of all of them; a call must not get those."""

    def talk(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        call = {"type": "function", "function": {"name": name, "arguments": arguments}}
        return {"messages": [GOOD[0], {"role": "assistant", "tool_calls": [call]}]}

    found = checked(json_table(tmp_path, [talk("f", {"x": 1}), talk("g", {"y": {"z": "a"}})]))
    calls = [row.messages[1].tool_calls for row in found.first if isinstance(row, Conversation)]
    assert calls == [(ToolCall("f", {"x": 1}),), (ToolCall("g", {"y": {"z": "a"}}),)]


def test_tool_calls_of_sharegpt(tmp_path: Path) -> None:
    talk = [
        {"from": "human", "value": "Rain?"},
        {"from": "function_call", "value": '{"name": "weather", "arguments": {"city": "Köln"}}'},
        {"from": "function_call", "value": '{"name": "time", "arguments": {}}'},
        {"from": "observation", "value": "no"},
        {"from": "gpt", "value": "No."},
    ]
    table = json_table(
        tmp_path, [{"conversations": talk, "system": "be kind", "tools": '[{"name": "weather"}]'}]
    )
    found = checked(table)
    assert found.problems == ()
    (row,) = found.first
    assert isinstance(row, Conversation)
    assert [message.role.value for message in row.messages] == [
        *("system", "user", "assistant", "tool", "assistant")
    ]
    assert row.messages[2].tool_calls == (ToolCall("weather", {"city": "Köln"}), ToolCall("time", {}))
    assert row.tools == ({"type": "function", "function": {"name": "weather"}},)


def test_thoughts_are_kept_apart(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": "4", "reasoning_content": "two and two"}
    (row,) = checked(json_table(tmp_path, [{"messages": [GOOD[0], answer]}])).first
    assert isinstance(row, Conversation)
    assert row.messages[-1] == Message(Speaker.ASSISTANT, "4", reasoning="two and two")
