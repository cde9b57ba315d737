"""Every form of conversations gives the same rows; issues are reported with the row's number."""

import json
from typing import Any

import pytest

from core.base.errors import DataError
from core.engine.data.conversations import ChatRow, ShapeKind, find_shape
from core.engine.data.tables import read_table
from core.jobs.inspect import FindingLevel
from core.options.choices import PreferenceLoss
from tests.fakes.conversations import GOOD, Checked, checked, json_table
from tests.fakes.data_sets import PREFERENCES

USER, ANSWER = GOOD
SHAREGPT = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]
TALK = ChatRow(1, tuple(GOOD))
QUESTION = {"role": "user", "content": "Greet Ada"}
BETTER, WORSE = ({"role": "assistant", "content": text} for text in ("Hello Ada", "Bye Ada"))
TRANSCRIPT = "\n\nHuman: Greet Ada\n\nAssistant"
PARTS = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}, ANSWER]


def assistant(**values: Any) -> dict[str, Any]:
    return {"role": "assistant", **values}


def read(folder: Any, *rows: dict[str, Any], **options: Any) -> Checked:
    return checked(json_table(folder, rows), **options)


KTO = PreferenceLoss.KTO
MESSAGES, ALPACA, PROMPT, PAIRS = ShapeKind.MESSAGES, ShapeKind.ALPACA, ShapeKind.PROMPT, ShapeKind.PREFERENCE


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (MESSAGES, {"messages": GOOD}),
        (MESSAGES, {"id": "7", "log": GOOD}),
        (MESSAGES, {"conversations": SHAREGPT, "prompt": "unused"}),
        (MESSAGES, {"messages": json.dumps(SHAREGPT)}),
        (MESSAGES, {"chat": {"messages": GOOD}}),
        (MESSAGES, {"messages": PARTS}),
        (MESSAGES, {"messages": [{**USER, "role": " HUMAN "}, {**ANSWER, "role": "Model"}]}),
        (ALPACA, {"Instruction": "hi", "Response": "hello"}),
        (ALPACA, {"instruction": "hi", "input": "", "output": "hello"}),
        (PROMPT, {"question": "hi", "answer": "hello", "source": "web"}),
        (PROMPT, {"input": "hi", "output": "hello"}),
        (PROMPT, {"prompt": GOOD[:1], "completion": GOOD[1:]}),
        (PAIRS, {"instruction": "Greet Ada", "input": "", "chosen": "Hello Ada", "rejected": "Bye Ada"}),
        (PAIRS, {"prompt": [QUESTION], "chosen": [BETTER], "rejected": [WORSE]}),
        (PAIRS, {"prompt": "Greet Ada", "chosen": [QUESTION, BETTER], "rejected": [QUESTION, WORSE]}),
        (
            PAIRS,
            {"conversations": [QUESTION], "chosen": BETTER, "rejected": {"from": "gpt", "value": "Bye Ada"}},
        ),
        (PAIRS, {"input": {"messages": [QUESTION]}, "preferred_output": [BETTER], "worse": [WORSE]}),
        (PAIRS, {"chosen": "Greet Ada Hello Ada", "rejected": "Greet Ada Bye Ada"}),
        (PAIRS, {"chosen": f"{TRANSCRIPT}: Hello Ada", "rejected": f"{TRANSCRIPT}: Bye Ada"}),
    ],
    ids=str,
)
def test_every_shape_gives_the_same_row(tmp_path, kind, row):
    is_pair, loss = kind is PAIRS, PreferenceLoss.DPO if kind is PAIRS else None
    table = json_table(tmp_path, [row])
    assert find_shape(table, preference=loss).kind is kind
    result = checked(table, preference=loss)
    assert result.rows == (ChatRow(1, (QUESTION,), (BETTER,), (WORSE,)) if is_pair else TALK,)
    assert result.problems == ()


def test_pairs_with_several_turns_and_a_system_prompt(tmp_path):
    turns = [QUESTION, assistant(content="To whom?"), QUESTION]
    row = {"system": "be kind", "chosen": [*turns, BETTER], "rejected": [*turns, WORSE]}
    (pair,) = read(tmp_path, row, preference=PreferenceLoss.DPO).rows
    assert [message["role"] for message in pair.messages] == ["system", "user", "assistant", "user"]
    assert (pair.chosen, pair.rejected) == ((BETTER,), (WORSE,))


LIKED = ChatRow(1, (QUESTION,), (BETTER,), liked=True)
RATED = {"prompt": "Greet Ada", "completion": "Hello Ada"}


@pytest.mark.parametrize(
    "row",
    [
        RATED | {"label": True},
        RATED | {"label": 1},
        RATED | {"rating": " Good "},
        {"instruction": "Greet Ada", "input": "", "output": "Hello Ada", "liked": "thumbs up"},
        {"prompt": [QUESTION], "completion": [BETTER], "label": 1.0},
        {"messages": [QUESTION, BETTER], "kto_tag": "true"},
        {"conversations": [QUESTION], "response": "Hello Ada", "label": "yes"},
    ],
    ids=str,
)
def test_every_shape_of_rated_answers_gives_the_same_row(tmp_path, row):
    table = json_table(tmp_path, [row])
    assert find_shape(table, preference=KTO).kind is ShapeKind.RATED
    result = checked(table, preference=KTO)
    assert (result.rows, result.findings) == ((LIKED,), ())
    rating = list(row)[-1]
    bad = "bad" if isinstance(row[rating], str) else type(row[rating])(0)
    (other,) = checked(json_table(tmp_path, [row | {rating: bad}]), preference=KTO).rows
    assert (other.liked, other.chosen) == (False, LIKED.chosen)


@pytest.mark.parametrize(
    ("code", "row"),
    [
        ("no-rating", {"label": None}),
        ("no-rating", {"label": "  "}),
        ("other-rating", {"label": "maybe"}),
        ("empty-answer", {"completion": ""}),
        ("empty-prompt", {"prompt": ""}),
        ("empty-row", {"prompt": "", "completion": ""}),
    ],
    ids=str,
)
def test_an_issue_of_a_rated_answer_has_its_row(tmp_path, code, row):
    good = RATED | {"label": "good"}
    result = read(tmp_path, good, good | row, preference=KTO)
    (finding,) = (finding for finding in result.findings if 2 in finding.rows)
    assert (finding.code, finding.where) == (code, "line 2")
    assert (2 in [row.row for row in result.rows]) == (code == "empty-prompt")


def test_pairs_are_read_for_kto_too_and_single_answers_for_nothing_else(tmp_path):
    pair = {"prompt": "Greet Ada", "chosen": "Hello Ada", "rejected": "Bye Ada"}
    assert read(tmp_path, pair, preference=KTO).rows == (ChatRow(1, (QUESTION,), (BETTER,), (WORSE,)),)
    for loss in (PreferenceLoss.DPO, PreferenceLoss.ORPO):
        with pytest.raises(DataError, match="single answers with a rating, not pairs") as refused:
            read(tmp_path, RATED | {"label": 0}, preference=loss)
        assert refused.value.fixes[0].changes == {"training.preference_loss": "kto"}
    with pytest.raises(DataError, match="no answers with a rating"):
        read(tmp_path, RATED, preference=KTO)
    with pytest.raises(DataError, match="no pairs"):
        read(tmp_path, RATED | {"label": "astronomy"}, preference=PreferenceLoss.DPO)


INSTRUCTION = {"system": "brief", "instruction": "sum up", "input": "a text", "output": "done"}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (INSTRUCTION | {"history": [["hi", "hello"]]}, ["brief", "hi", "hello", "sum up\n\na text", "done"]),
        (
            {"system": "brief", "messages": [{"role": "system", "content": "brief "}, *GOOD]},
            ["brief ", "hi", "hello"],
        ),
        (
            {"system": "brief", "messages": [{"role": "system", "content": "kind"}, *GOOD]},
            ["brief\n\nkind", "hi", "hello"],
        ),
        ({"system": "hi", "messages": GOOD}, ["hi", "hi", "hello"]),
        ({"question": "2 + 2?", "answer": 4}, ["2 + 2?", "4"]),
        ({"prompt": "list", "completion": '[{"a": 1}]'}, ["list", '[{"a": 1}]']),
        ({"messages": [USER, USER, ANSWER]}, ["hi\n\nhi", "hello"]),
        ({"n": 1, "text": "once"}, "once"),
        ({"line": "once", "n": 2}, "once"),
    ],
)
def test_what_the_turns_contain(tmp_path, row, expected):
    (talk,) = read(tmp_path, row).rows
    assert (talk.text or [message["content"] for message in talk.messages]) == expected


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
    ("options", "changes"),
    [
        ({"columns": {"conversation": "mesages"}}, {"data.columns": {"conversation": "messages"}}),
        ({"columns": {"prompt": "instruction", "answer": "output"}}, {"data.columns": {}}),
        ({"columns": {"label": "messages"}}, {"data.columns": {}}),
        ({"roles": {"bob": "helper"}}, {"data.roles": {"bob": "assistant"}}),
        ({"preference": PreferenceLoss.DPO}, {}),
    ],
    ids=str,
)
def test_columns_and_roles_that_do_not_fit_are_refused_with_a_remedy(tmp_path, options, changes):
    with pytest.raises(DataError) as caught:
        read(tmp_path, {"messages": GOOD}, **options)
    assert caught.value.fixes[0].changes == changes


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def test_tools_of_openai(tmp_path):
    """Arrow fills in the keys of other rows' arguments: these are removed, a null of the file's own isn't."""
    reply = {"role": "tool", "tool_call_id": "c1", "content": "noon"}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    asked = {"id": "c1", **call("weather", '{"city": "Köln", "days": null}')}
    talk = [USER, assistant(content=None, tool_calls=[asked]), reply, ANSWER]
    result = read(tmp_path, {"messages": talk, "tools": tools})
    _user, called, replied, _answer = result.rows[0].messages
    assert called["tool_calls"] == [{"id": "c1", **call("weather", {"city": "Köln", "days": None})}]
    assert (replied, result.rows[0].tools, result.findings) == (reply, tuple(tools), ())
    calls = [[call("f", {"x": 1})], [call("g", {"y": {"z": "a"}})]]
    result = read(tmp_path, *({"messages": [USER, assistant(tool_calls=made)]} for made in calls))
    assert [row.messages[1]["tool_calls"] for row in result.rows] == calls


def test_tools_of_sharegpt(tmp_path):
    turns = [
        ("human", "Rain?"),
        ("function_call", '{"name": "weather", "arguments": {"city": "Köln"}}'),
        ("function_call", '{"name": "time", "arguments": {}}'),
        ("observation", "no"),
        ("gpt", "No."),
    ]
    talk = [{"from": role, "value": text} for role, text in turns]
    result = read(tmp_path, {"conversations": talk, "tools": '[{"name": "weather"}]'})
    messages = result.rows[0].messages
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1]["tool_calls"] == [call("weather", {"city": "Köln"}), call("time", {})]
    assert result.rows[0].tools == ({"type": "function", "function": {"name": "weather"}},)


def test_reasoning_is_separate(tmp_path):
    answer = {**ANSWER, "reasoning_content": "two and two"}
    assert read(tmp_path, {"messages": [USER, answer]}).rows[0].messages[1] == answer


P, W = FindingLevel.PROBLEM, FindingLevel.WARNING
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}
TALKS = [
    (P, "missing-key", [{"content": "hi"}, ANSWER]),
    (P, "missing-key", [{"from": None, "value": "hi"}, {"from": "gpt", "value": "a"}]),
    (P, "missing-key", [USER, assistant()]),
    (P, "unparsable", [USER, assistant(content=True)]),
    (P, "unparsable", [USER, assistant(content={"a": 1})]),
    (P, "not-text", [IMAGE, ANSWER]),
    (P, "unparsable", [{"role": "user", "content": [{"type": "text"}]}, ANSWER]),
    (P, "empty-answer", [USER, assistant(content=" \n\t")]),
    (P, "empty-answer", [USER, assistant(content=""), USER, ANSWER]),
    (P, "empty-answer", [USER]),
    (P, "unknown-role", [USER, {"role": 3, "content": "?"}]),
    (P, "unparsable", [[USER, ANSWER]]),
    (P, "unparsable", "just a text"),
    (P, "unparsable", 7),
    (P, "unparsable", "[" * 10_000 + "]" * 10_000),
    (P, "unparsable", [USER, assistant(tool_calls=[{"function": {"arguments": "{}"}}])]),
    (P, "unparsable", [USER, {"role": "function_call", "content": "{name: f}"}]),
    (P, "unparsable", [USER, {"role": "function_call", "content": "[]"}]),
    (W, "empty-row", []),
    (W, "merged", [USER, {"role": "user", "content": "again?"}, ANSWER]),
    (W, "empty-prompt", [{"role": "user", "content": " "}, ANSWER]),
]
ROWS = [
    (P, "unparsable", {"prompt": "hi", "completion": [1, 2]}),
    (P, "empty-answer", {"instruction": "and", "output": ""}),
    (P, "empty-answer", {"instruction": "and", "output": None}),
    (P, "unparsable", {"instruction": "a", "output": "b", "history": ["x"]}),
    (P, "unparsable", {"messages": GOOD, "tools": "[{"}),
    (P, "unparsable", {"messages": GOOD, "tools": '["weather"]'}),
    (P, "empty-answer", {"prompt": "hi", "chosen": None, "rejected": "no"}),
    (P, "same-answers", {"prompt": "hi", "chosen": "yes", "rejected": " yes\n"}),
    (P, "unknown-role", {"prompt": "hi", "chosen": {"from": "bob", "value": "a"}, "rejected": "no"}),
]


@pytest.mark.parametrize(
    ("level", "code", "before", "row"),
    [
        *((level, code, {"messages": GOOD}, {"messages": talk}) for level, code, talk in TALKS),
        *((level, code, dict.fromkeys(row) | {"n": 0}, row) for level, code, row in ROWS),
    ],
    ids=lambda value: str(value)[:60],
)
def test_an_issue_is_reported_with_its_row(*, tmp_path, level, code, before, row):
    result = read(tmp_path, before, row, preference=PreferenceLoss.DPO if "chosen" in row else None)
    (finding,) = (finding for finding in result.findings if 2 in finding.rows)
    assert (finding.level, finding.code, finding.where) == (level, code, "line 2")
    assert (2 in [row.row for row in result.rows]) == (code in ("merged", "empty-prompt"))


def test_all_kinds_of_issues_are_reported_at_once(tmp_path):
    talks = [
        [{"content": "hi"}, assistant(content="")],
        [{"role": "bob", "content": "hi"}, ANSWER],
        [],
        *([USER, ANSWER, USER, assistant()] for _ in range(30)),
    ]
    result = read(tmp_path, *({"messages": talk} for talk in talks))
    assert [(finding.code, finding.rows, finding.count) for finding in result.findings] == [
        ("missing-key", (1,), 1),
        ("empty-answer", (1,), 1),
        ("unknown-role", (2,), 1),
        ("missing-key", tuple(range(4, 24)), 30),
        ("empty-row", (3,), 1),
    ]


def test_unknown_roles_can_be_mapped_as_their_fixes_propose(tmp_path):
    row = {"conversations": [{"from": "alice", "value": "hi"}, {"from": "bob", "value": "hello"}]}
    alice, bob = read(tmp_path, row, roles={"carl": "tool"}).findings
    assert [fix.changes["data.roles"] for fix in (*alice.fixes, *bob.fixes)] == [
        {"carl": "tool", name: role} for name in ("alice", "bob") for role in ("user", "assistant")
    ]
    assert read(tmp_path, row, roles={"alice": "user", "bob": "assistant"}).rows == (TALK,)


def test_turns_of_published_pairs(data_sets):
    pairs = checked(read_table(data_sets / "preferences.json"), preference=PreferenceLoss.DPO)
    turns = [len(row.messages) for row in pairs.rows]
    assert (len(turns), turns.count(1), turns.count(3), max(turns)) == (PREFERENCES, 6, 6, 13)
