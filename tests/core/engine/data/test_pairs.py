"""Every form of preference data gives the same pair."""

from pathlib import Path
from typing import Any

import pytest

from core.engine.data.conversation_shapes import Message, Pair
from core.options.choices import Speaker
from tests.fakes.conversation_tables import checked, json_table

QUESTION = {"role": "user", "content": "Say hello to Ada"}
GOOD, BAD = ({"role": "assistant", "content": text} for text in ("Hello Ada", "Bye Ada"))
PAIR = Pair(
    1,
    (Message(Speaker.USER, "Say hello to Ada"),),
    (Message(Speaker.ASSISTANT, "Hello Ada"),),
    (Message(Speaker.ASSISTANT, "Bye Ada"),),
)


def sharegpt(message: dict[str, str]) -> dict[str, str]:
    return {"from": {"user": "human", "assistant": "gpt"}[message["role"]], "value": message["content"]}


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Say hello to Ada", "chosen": "Hello Ada", "rejected": "Bye Ada"},
        {"instruction": "Say hello to Ada", "input": "", "chosen": "Hello Ada", "rejected": "Bye Ada"},
        {"prompt": [QUESTION], "chosen": [GOOD], "rejected": [BAD]},
        {"chosen": [QUESTION, GOOD], "rejected": [QUESTION, BAD]},
        {"prompt": "Say hello to Ada", "chosen": [QUESTION, GOOD], "rejected": [QUESTION, BAD]},
        {"messages": [QUESTION], "chosen": "Hello Ada", "rejected": "Bye Ada"},
        {"conversations": [sharegpt(QUESTION)], "chosen": sharegpt(GOOD), "rejected": sharegpt(BAD)},
        {"input": {"messages": [QUESTION]}, "preferred_output": [GOOD], "non_preferred_output": [BAD]},
        {"messages": [QUESTION, GOOD], "chosen": [QUESTION, GOOD], "rejected": [QUESTION, BAD]},
        {"chosen": "Say hello to Ada Hello Ada", "rejected": "Say hello to Ada Bye Ada"},
        {
            "chosen": "\n\nHuman: Say hello to Ada\n\nAssistant: Hello Ada",
            "rejected": "\n\nHuman: Say hello to Ada\n\nAssistant: Bye Ada",
        },
    ],
)
def test_every_form(tmp_path: Path, row: dict[str, Any]) -> None:
    found = checked(json_table(tmp_path, [row]), preference=True)
    assert found.first == (PAIR,)
    assert found.problems == ()


def test_a_system_prompt_of_its_own_column(tmp_path: Path) -> None:
    row = {"system": "be kind", "chosen": [QUESTION, GOOD], "rejected": [QUESTION, BAD]}
    (pair,) = checked(json_table(tmp_path, [row]), preference=True).first
    assert isinstance(pair, Pair)
    assert [message.role.value for message in pair.prompt] == ["system", "user"]


def test_answers_of_several_turns(tmp_path: Path) -> None:
    first = {"role": "assistant", "content": "To whom?"}
    rows = {"chosen": [QUESTION, first, QUESTION, GOOD], "rejected": [QUESTION, first, QUESTION, BAD]}
    (pair,) = checked(json_table(tmp_path, [rows]), preference=True).first
    assert isinstance(pair, Pair)
    assert [len(part) for part in (pair.prompt, pair.chosen, pair.rejected)] == [3, 1, 1]
