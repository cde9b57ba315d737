"""No token of a prompt carries loss, whatever the form and the template; every token of an answer does."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import ModelError
from core.engine.data import NO_LABEL
from core.engine.data.chat_samples import TokenizedTable, load_conversations, tokenize_table
from core.engine.data.chat_tokens import (
    CHATML,
    Renderer,
    TemplateRefused,
    preview_row,
    set_template,
)
from core.engine.data.conversations import ChatRow, Message
from core.engine.data.tables import lengths_of
from core.options import RunOptions
from core.options.choices import ChatTemplate, LossOn, Task
from core.options.data import DataOptions
from core.services.inspect import FindingLevel
from tests.fakes import conversations
from tests.fakes.conversations import json_table
from tests.fakes.models import metaspace_tokenizer, tiny_tokenizer

ASKED = ("What is the capital of France?", "And of 🇩🇪?", "مرحبا، كيف حالك؟", "  spaces\n\nand lines ")
ANSWERED = ("Paris.", "Berlin 😊👨‍👩‍👧", "أنا بخير", "Hello\n\n  there")
LONG = "one two three four five six " * 10


def turns(*texts: str) -> tuple[Message, ...]:
    return tuple(
        {"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(texts)
    )


def call(name: str, **arguments: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


ALL_TURNS = turns(*(text for pair in zip(ASKED, ANSWERED, strict=True) for text in pair))
PAIR = ChatRow(7, turns("Say hello"), turns("", "Hello 😊")[1:], turns("", "Bye")[1:])


def learned(tokenizer: Any, messages: Sequence[Message]) -> list[str]:
    """Return the stretches of text with loss."""
    seen = preview_row(Renderer(tokenizer), ChatRow(1, tuple(messages)))
    return [part.text for part in seen.parts if part.trained]


@pytest.fixture(params=["marked", "by prefix"])
def chatml(request):
    tokenizer = tiny_tokenizer()
    assert set_template(tokenizer) is ChatTemplate.CHATML
    if request.param == "by prefix":
        for mark in ("{%- generation %}", "{%- endgeneration %}"):
            assert mark in CHATML
            tokenizer.chat_template = tokenizer.chat_template.replace(mark, "")
    return tokenizer


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (({"role": "system", "content": "Be kind."}, *ALL_TURNS), ANSWERED),
        (
            (*turns("2 + 2?"), {"role": "assistant", "content": "4", "reasoning_content": "two and two"}),
            ["<think>\ntwo and two\n</think>\n\n4"],
        ),
        (
            (
                *turns("Rain in Köln?"),
                {
                    "role": "assistant",
                    "content": "A moment.",
                    "tool_calls": [call("rain", city="Köln"), call("now")],
                },
                {"role": "tool", "content": '{"rain": false}'},
                {"role": "assistant", "content": "No."},
            ),
            [
                'A moment.\n<tool_call>{"name": "rain", "arguments": {"city": "Köln"}}</tool_call>\n'
                '<tool_call>{"name": "now", "arguments": {}}</tool_call>',
                "No.",
            ],
        ),
    ],
)
def test_answers_in_chatml(chatml, messages, expected):
    assert learned(chatml, messages) == [f"{text}<|im_end|><|endoftext|>" for text in expected]


def test_labels(chatml):
    rendered = Renderer(chatml).render(ChatRow(1, ALL_TURNS))
    (tokens,) = rendered.sequences
    labels = [
        token if trained else NO_LABEL for token, trained in zip(tokens.ids, tokens.trained, strict=True)
    ]
    assert rendered.columns() == {"input_ids": tokens.ids, "labels": labels}
    everything = Renderer(chatml, LossOn.EVERYTHING).render(ChatRow(1, ALL_TURNS)).columns()
    assert everything["labels"] == [NO_LABEL, *tokens.ids[1:]]


def test_a_template_is_kept_unless_chatml_is_chosen(tmp_path):
    from transformers import AutoTokenizer

    tokenizer = tiny_tokenizer(conversations.PLAIN)
    assert set_template(tokenizer) is ChatTemplate.AUTO
    assert tokenizer.chat_template == conversations.PLAIN
    assert set_template(tokenizer, ChatTemplate.CHATML) is ChatTemplate.CHATML
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == CHATML


def test_a_model_that_begins_every_text_with_a_token_gets_it():
    tokenizer = metaspace_tokenizer(bos="<s>")
    set_template(tokenizer)
    (tokens,) = Renderer(tokenizer).render(ChatRow(1, turns("hi", "hello"))).sequences
    assert tokens.ids.count(tokenizer.bos_token_id) == 1
    assert (tokens.ids[0], tokens.trained[0]) == (tokenizer.bos_token_id, False)


@pytest.mark.parametrize(
    "template", [conversations.PLAIN, conversations.MARKED, conversations.MARKED_WITHOUT_END]
)
@pytest.mark.parametrize("make", [tiny_tokenizer, metaspace_tokenizer])
def test_a_mark_after_each_turn(template, make):
    tokenizer = make(template, special=["</s>"], eos_token="</s>")
    assert [text.strip() for text in learned(tokenizer, ALL_TURNS)] == [f"{text}</s>" for text in ANSWERED]


GLUED = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "messages", "expected"),
    [
        pytest.param(
            conversations.MARKED.replace("m.content + '</s>' }}{% endg", "m.content }}{% endg"),
            turns("hi", "ok 😊", "so", "…"),
            ["ok 😊", "…"],
            id="all bytes of a split last letter",
        ),
        pytest.param(
            conversations.MARKED.replace("m.role + '>'", "m.role + '> '"),
            turns("hi", "capital of"),
            [" capital of</s>"],
            id="a token with the space before the answer",
        ),
        pytest.param(
            GLUED,
            turns("Hel", "lo there", "ar", "e you"),
            [" there", " you"],
            id="not a part of the question",
        ),
        (
            conversations.BRACKETS,
            turns("hi", " hello ", "so", "bye"),
            [" hello<|endoftext|>", " bye<|endoftext|>"],
        ),
        (conversations.ASKS_FOR_THOUGHTS, turns("a", "b", "c", "d"), ["b</s>", "d</s>"]),
        (conversations.LAST_ENDS, turns("a", "one", "c", "two"), ["one</s>", "two</s>\n<|endoftext|>"]),
        (conversations.NEVER_ASKS, turns("a", "one", "c", "two three"), [" one\n", " two three\n"]),
        (
            conversations.CALLS_AS_TEXT,
            (
                *turns("Rain?"),
                {"role": "assistant", "content": "", "tool_calls": [call("rain", city="Köln")]},
            ),
            ['rain{"city": "Köln"}</s>'],
        ),
        (
            conversations.FORGETS_THOUGHTS,
            [message | {"reasoning_content": "hm"} for message in turns("a", "one", "b", "two")],
            ["<think>hm</think>two</s>"],
        ),
    ],
)
def test_answers_in_other_templates(template, messages, expected):
    assert learned(tiny_tokenizer(template), messages) == expected


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (conversations.BRACKETS, "roles must alternate user/assistant"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "recursion"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", ""),
        ("{% set _ = messages.append({'role': 'user'}) %}{{ messages }}", ""),
        ("{{ raise_exception.__globals__['json'] }}", ""),
    ],
)
def test_templates_that_refuse_or_reach_for_python(tmp_path, template, reason):
    mark = tmp_path / "it-ran"
    tokenizer = tiny_tokenizer(template.replace("MARK", str(mark)))
    with pytest.raises(TemplateRefused) as caught:
        Renderer(tokenizer).render(ChatRow(1, turns("hi", "hello")[::-1]))
    assert reason in caught.value.reason
    assert not mark.exists()


def test_a_tokenizer_that_knows_no_places():
    class Slow:
        is_fast = False

    with pytest.raises(ModelError, match="can't be used for chat"):
        Renderer(Slow())


@pytest.mark.parametrize("template", [conversations.PLAIN, conversations.MARKED])
def test_both_answers_follow_the_prompt(template):
    renderer = Renderer(tiny_tokenizer(template))
    columns = renderer.render(PAIR).columns()
    assert {name: renderer.decode(ids) for name, ids in columns.items()} == {
        "prompt_ids": "<user>Say hello</s>\n<assistant>",
        "chosen_ids": "Hello 😊</s>",
        "rejected_ids": "Bye</s>",
    }


def test_what_the_preview_shows():
    renderer = Renderer(tiny_tokenizer(conversations.PLAIN))
    seen = preview_row(renderer, ChatRow(3, turns("hi", "hello 😊")))
    assert [(part.text, part.trained) for part in seen.parts] == [
        ("<user>hi</s>\n<assistant>", False),
        ("hello 😊</s>", True),
        ("\n", False),
    ]
    assert (seen.row, seen.is_cut, seen.rejected) == (3, False, ())
    cut = preview_row(renderer, ChatRow(3, turns("hi", "hello")), 5)
    assert (cut.tokens, cut.is_cut) == (5, True)
    pair = preview_row(renderer, PAIR)
    assert [(part.text, part.trained) for part in pair.parts][1] == ("Hello 😊</s>", True)
    assert [part.text for part in pair.rejected] == ["<user>Say hello</s>\n<assistant>", "Bye</s>"]
    text = preview_row(renderer, ChatRow(4, text="Once upon a time 😊"))
    assert [(part.text, part.trained) for part in text.parts] == [("Once upon a time 😊<|endoftext|>", True)]


# --- All rows of a table


def tokenized(
    folder: Path,
    template: str,
    *rows: dict[str, Any],
    length: int = 10_000,
    task: Task = Task.CHAT,
    **data: Any,
) -> TokenizedTable:
    options = RunOptions(task=task, data=DataOptions(train="a", max_length=length, **data))
    return tokenize_table(json_table(folder, rows), options, Renderer(tiny_tokenizer(template)), length)


def talk(*texts: str) -> dict[str, Any]:
    return {"messages": turns(*texts)}


COMPARED = {"prompt": "a", "chosen": "yes", "rejected": "no"}
TOOL_CALL = {"role": "assistant", "content": "", "tool_calls": [call("user")]}


THOUGHT = {"role": "assistant", "content": "one", "reasoning_content": "hm"}


@pytest.mark.parametrize(
    ("template", "rows", "codes", "kept"),
    [
        (
            conversations.PLAIN,
            [talk("hi", "hello"), talk("hi", LONG), talk(LONG, "hello")],
            [("answers-cut", 2), ("answers-gone", 3)],
            2,
        ),
        (conversations.BRACKETS, [{"messages": turns("", "a", "b")[1:]}], [("template-refuses", 1)], 0),
        (conversations.DIARY, [{"messages": turns("a", "b", "c")}], [("answer-lost", 1)], 0),
        (conversations.NO_CALLS, [{"messages": [*turns("a"), TOOL_CALL]}], [("answer-lost", 1)], 0),
        (conversations.PARTS, [talk("a", "hello")], [("answer-lost", 1)], 0),
        (
            conversations.FORGETS_THOUGHTS,
            [{"messages": [*turns("a"), THOUGHT, *turns("c", "d")]}],
            [("earlier-untrained", 1)],
            1,
        ),
        (conversations.PLAIN, [{**COMPARED, "chosen": LONG}], [("answers-cut", 1)], 1),
        (conversations.PLAIN, [{**COMPARED, "prompt": LONG}], [("answers-gone", 1)], 0),
    ],
)
def test_rows_of_a_table(tmp_path, template, rows, codes, kept):
    task = Task.PREFERENCE if "chosen" in rows[0] else Task.CHAT
    found = tokenized(tmp_path, template, *rows, length=40, task=task)
    findings = found.tally.findings()
    assert [(finding.code, *finding.rows) for finding in findings] == codes
    assert len(found.samples) == kept
    assert all(count <= 40 for count in lengths_of(found.samples) or ())
    for finding in findings:
        if finding.level is FindingLevel.PROBLEM:
            assert {"data.chat_template": "chatml"} in [fix.changes for fix in finding.fixes]


@pytest.mark.parametrize("drop", [False, True])
def test_repeated_rows_are_counted_or_left_out(tmp_path, drop):
    rows = [talk(f"{n % 20}?", "yes") for n in range(50)]
    found = tokenized(tmp_path, conversations.PLAIN, *rows, drop_duplicates=drop)
    (finding,) = found.repeated.findings()
    assert (finding.code, finding.count, finding.rows) == ("duplicates", 30, tuple(range(21, 41)))
    assert len(found.samples) == (20 if drop else 50)


@pytest.mark.data
def test_real_files(shared_data):
    tokenizer = tiny_tokenizer()
    set_template(tokenizer)
    path = shared_data / "instruct" / "alpaca_en_demo.json"
    options = RunOptions(task=Task.CHAT, data=DataOptions(train=str(path), eval_fraction=0.1))
    found = load_conversations(options, Renderer(tokenizer), 1_000_000)
    assert found.eval is not None
    assert (len(found.train), len(found.eval), found.findings) == (899, 100, ())
    assert found.turn_end == tokenizer.eos_token_id
    answers = [
        tokenizer.decode([token for token in sample["labels"] if token != NO_LABEL])
        for part in (found.train, found.eval)
        for sample in part
    ]
    rows = json.loads(path.read_text(encoding="utf-8"))
    assert sorted(answers) == sorted(f"{row['output']}<|im_end|><|endoftext|>" for row in rows)
    data = DataOptions(train=str(shared_data / "instruct" / "dpo_en_demo.json"), eval_fraction=0.1)
    cut = load_conversations(RunOptions(task=Task.PREFERENCE, data=data), Renderer(tokenizer), 512)
    counted = {finding.code: finding.count for finding in cut.findings}
    assert len(cut.train) + len(cut.eval or ()) + counted["answers-gone"] == 300
    assert max(lengths_of(cut.train) or ()) <= 512
