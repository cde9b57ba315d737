"""No token of a prompt carries loss, whatever the form and the template; every token of an answer does."""

import json
from typing import Any

import pytest

from core.base.errors import ModelError
from core.engine.data import NO_LABEL, decoded_whole
from core.engine.data.chat_samples import load_conversations, tokenize_table
from core.engine.data.chat_tokens import CHATML, Renderer, TemplateRefused, preview_row, set_template
from core.engine.data.conversations import ChatRow, Message
from core.engine.data.tables import lengths_of
from core.jobs.inspect import FindingLevel
from core.options import RunOptions
from core.options.choices import ChatTemplate, LossOn, Task
from core.options.data import DataOptions
from tests.fakes import conversations as templates
from tests.fakes.conversations import json_table
from tests.fakes.data_sets import INSTRUCTIONS
from tests.fakes.models import metaspace_tokenizer, tiny_tokenizer

QUESTIONS = ("What is the capital of France?", "And of 🇩🇪?", "مرحبا، كيف حالك؟", "  spaces\n\nand lines ")
ANSWERS = ("Paris.", "Berlin 😊👨‍👩‍👧", "أنا بخير", "Hello\n\n  there")
LONG = "one two three four five six " * 10


def turns(*texts: str, **last: Any) -> tuple[Message, ...]:
    """A conversation; `last` is added to its last message."""
    made = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    return (*made[:-1], made[-1] | last)


def call(name: str, **arguments: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def learned(tokenizer: Any, messages: tuple[Message, ...]) -> list[str]:
    """The stretches of text with loss."""
    seen = preview_row(Renderer(tokenizer), ChatRow(1, messages))
    return [part.text for part in seen.parts if part.trained]


TALK = turns(*(text for pair in zip(QUESTIONS, ANSWERS, strict=True) for text in pair))
PAIR = ChatRow(7, turns("Say hello"), turns("", "Hello 😊")[1:], turns("", "Bye")[1:])
RAIN = call("rain", city="Köln")
RAIN_TALK = (
    *(
        {"role": "system", "content": "Be kind."},
        *turns("Rain?", "A moment.", tool_calls=[RAIN, call("now")]),
    ),
    *({"role": "tool", "content": '{"rain": false}'}, {"role": "assistant", "content": "No."}),
)
RAIN_CALLS = (
    'A moment.\n<tool_call>{"name": "rain", "arguments": {"city": "Köln"}}</tool_call>\n'
    '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
)
THOUGHT = {"reasoning_content": "hm"}
THOUGHTS = (*turns("a", "one", **THOUGHT), *turns("b", "two", **THOUGHT))
FOUR = turns("a", "b", "c", "d e")
CHATML_WITHOUT_TOKEN = CHATML.replace(" and loop.last", "")
PREFIXED = CHATML_WITHOUT_TOKEN.replace("{%- generation %}", "").replace("{%- endgeneration %}", "")
GLUED = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
)
ENDLESS = templates.MARKED.replace("m.content + '</s>' }}{% endg", "m.content }}{% endg")
SPACED = templates.MARKED.replace("m.role + '>'", "m.role + '> '")
END, CHAT_END = "<|endoftext|>", "<|im_end|><|endoftext|>"
LEARNED = {
    "ChatML": (CHATML, TALK, [*(f"{text}<|im_end|>" for text in ANSWERS[:-1]), f"{ANSWERS[-1]}{CHAT_END}"]),
    "ChatML without a token": (CHATML_WITHOUT_TOKEN, TALK, [f"{text}{CHAT_END}" for text in ANSWERS]),
    "ChatML's reasoning": (CHATML, THOUGHTS[:2], [f"<think>\nhm\n</think>\n\none{CHAT_END}"]),
    "ChatML's tools": (CHATML, RAIN_TALK, [f"{RAIN_CALLS}<|im_end|>", f"No.{CHAT_END}"]),
    "without marks": (PREFIXED, TALK, [f"{text}{CHAT_END}" for text in ANSWERS]),
    "reasoning without marks": (PREFIXED, THOUGHTS[:2], [f"<think>\nhm\n</think>\n\none{CHAT_END}"]),
    "tools without marks": (PREFIXED, RAIN_TALK, [RAIN_CALLS + CHAT_END, f"No.{CHAT_END}"]),
    "all bytes of a split last letter": (ENDLESS, turns("hi", "ok 😊", "so", "…"), ["ok 😊", "…"]),
    "a token with the space before": (SPACED, turns("hi", "capital of"), [" capital of</s>"]),
    "not a part of the question": (GLUED, turns("Hel", "lo there", "ar", "e you"), [" there", " you"]),
    "trimmed": (templates.BRACKETS, turns("hi", " hello ", "so", "bye"), [f" hello{END}", f" bye{END}"]),
    "asks for thoughts": (templates.ASKS_FOR_THOUGHTS, FOUR, ["b</s>", "d e</s>"]),
    "end of text": (templates.LAST_ENDS, FOUR, ["b</s>", f"d e</s>\n{END}"]),
    "never asks": (templates.NEVER_ASKS, FOUR, [" b\n", " d e\n"]),
    "calls as text": (
        templates.CALLS_AS_TEXT,
        turns("?", "", tool_calls=[RAIN]),
        ['rain{"city": "Köln"}</s>'],
    ),
    "forgets thoughts": (templates.FORGETS_THOUGHTS, THOUGHTS, ["<think>hm</think>two</s>"]),
}


@pytest.mark.parametrize(("template", "messages", "expected"), LEARNED.values(), ids=LEARNED)
def test_answers_alone_have_loss_with_the_end_of_their_turn(template, messages, expected):
    assert learned(tiny_tokenizer(template), messages) == expected


@pytest.mark.parametrize("template", [templates.PLAIN, templates.MARKED, templates.MARKED_WITHOUT_END])
@pytest.mark.parametrize("make", [tiny_tokenizer, metaspace_tokenizer])
def test_the_mark_after_an_answer_has_loss_in_every_kind_of_vocabulary(template, make):
    tokenizer = make(template, special=["</s>"], eos_token="</s>")
    assert [text.strip() for text in learned(tokenizer, TALK)] == [f"{text}</s>" for text in ANSWERS]


def test_what_is_learned_becomes_labels_of_which_the_first_token_has_none():
    tokenizer = tiny_tokenizer(CHATML)
    rendered = Renderer(tokenizer).render(ChatRow(1, TALK))
    (tokens,) = rendered.sequences
    pairs = zip(tokens.ids, tokens.trained, strict=True)
    labels = [token if is_trained else NO_LABEL for token, is_trained in pairs]
    assert rendered.columns() == {"input_ids": tokens.ids, "labels": labels}
    everything = Renderer(tokenizer, LossOn.EVERYTHING).render(ChatRow(1, TALK)).columns()
    assert everything["labels"] == [NO_LABEL, *tokens.ids[1:]]


def test_a_models_template_is_kept_and_saved_unless_chatml_is_chosen(tmp_path):
    from transformers import AutoTokenizer

    tokenizer = tiny_tokenizer(templates.PLAIN)
    assert set_template(tokenizer) is ChatTemplate.AUTO
    assert tokenizer.chat_template == templates.PLAIN
    assert set_template(tokenizer, ChatTemplate.CHATML) is ChatTemplate.CHATML
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == CHATML_WITHOUT_TOKEN
    known = tiny_tokenizer(special=["<|im_end|>"])
    set_template(known)
    assert known.chat_template == CHATML


def test_a_model_that_begins_every_text_with_a_token_gets_it_once():
    tokenizer = metaspace_tokenizer(bos="<s>")
    assert set_template(tokenizer) is ChatTemplate.CHATML
    (tokens,) = Renderer(tokenizer).render(ChatRow(1, turns("hi", "hello"))).sequences
    assert tokens.ids.count(tokenizer.bos_token_id) == 1
    assert (tokens.ids[0], tokens.trained[0]) == (tokenizer.bos_token_id, False)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (templates.BRACKETS, "roles must alternate user/assistant"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "recursion"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", ""),
        ("{{ raise_exception.__globals__['json'] }}", ""),
    ],
)
def test_templates_that_fail_or_reach_for_python_refuse_the_row(template, reason):
    with pytest.raises(TemplateRefused) as caught:
        Renderer(tiny_tokenizer(template)).render(ChatRow(1, turns("hi", "hello")[::-1]))
    assert reason in caught.value.reason


def test_a_tokenizer_without_offsets_is_refused():
    class Slow:
        is_fast = False

    with pytest.raises(ModelError, match="can't be used for chat"):
        Renderer(Slow())


@pytest.mark.parametrize("template", [templates.PLAIN, templates.MARKED])
def test_both_answers_of_a_pair_follow_the_prompt(template):
    renderer = Renderer(tiny_tokenizer(template))
    columns = renderer.render(PAIR).columns()
    assert {name: decoded_whole(renderer.tokenizer, ids) for name, ids in columns.items()} == {
        "prompt_ids": "<user>Say hello</s>\n<assistant>",
        "chosen_ids": "Hello 😊</s>",
        "rejected_ids": "Bye</s>",
    }


def test_the_preview_shows_what_is_learned_and_where_a_row_is_cut():
    renderer = Renderer(tiny_tokenizer(templates.PLAIN))
    seen = preview_row(renderer, ChatRow(3, turns("hi", "hello 😊")))
    expected = [("<user>hi</s>\n<assistant>", False), ("hello 😊</s>", True), ("\n", False)]
    assert [(part.text, part.trained) for part in seen.parts] == expected
    cut = preview_row(renderer, ChatRow(3, turns("hi", "hello")), 5)
    assert (seen.row, seen.is_cut, cut.tokens, cut.is_cut) == (3, False, 5, True)
    assert [part.text for part in preview_row(renderer, PAIR).rejected][1:] == ["Bye</s>"]
    (text,) = preview_row(renderer, ChatRow(4, text="Once upon a time 😊")).parts
    assert (text.text, text.trained) == ("Once upon a time 😊<|endoftext|>", True)


# --- All rows of a table


def tokenized(folder: Any, template: str, *rows: dict[str, Any], length: int = 10_000, **data: Any) -> Any:
    task = Task.PREFERENCE if "chosen" in rows[0] else Task.CHAT
    options = RunOptions(task=task, data=DataOptions(train="a", max_length=length, **data))
    return tokenize_table(json_table(folder, rows), options, Renderer(tiny_tokenizer(template)), length)


def talk(*texts: str, **last: Any) -> dict[str, Any]:
    return {"messages": turns(*texts, **last)}


COMPARED = {"prompt": "a", "chosen": "yes", "rejected": "no"}
FORGOTTEN = {"messages": [*turns("a", "one", **THOUGHT), *turns("c", "d")]}
CUT = [talk("hi", "hello"), talk("hi", LONG), talk(LONG, "hello")]


@pytest.mark.parametrize(
    ("template", "rows", "codes", "usable"),
    [
        (templates.PLAIN, CUT, [("answers-cut", 2), ("answers-gone", 3)], 2),
        (templates.BRACKETS, [{"messages": turns("", "a", "b")[1:]}], [("template-refuses", 1)], 0),
        (templates.DIARY, [talk("a", "b", "c")], [("answer-lost", 1)], 0),
        (templates.NO_CALLS, [talk("a", "", tool_calls=[call("user")])], [("answer-lost", 1)], 0),
        (templates.PARTS, [talk("a", "hello")], [("answer-lost", 1)], 0),
        (templates.FORGETS_THOUGHTS, [FORGOTTEN], [("earlier-untrained", 1)], 1),
        (templates.PLAIN, [{**COMPARED, "chosen": LONG}], [("answers-cut", 1)], 1),
        (templates.PLAIN, [{**COMPARED, "prompt": LONG}], [("answers-gone", 1)], 0),
    ],
)
def test_rows_that_lose_an_answer_are_reported(tmp_path, template, rows, codes, usable):
    result = tokenized(tmp_path, template, *rows, length=40)
    findings = result.tally.findings()
    assert [(finding.code, *finding.rows) for finding in findings] == codes
    assert len(result.samples) == usable
    assert all(count <= 40 for count in lengths_of(result.samples) or ())
    problems = [finding for finding in findings if finding.level is FindingLevel.PROBLEM]
    assert all(finding.fixes[0].changes == {"data.chat_template": "chatml"} for finding in problems)


def test_every_answer_of_published_instructions_is_learned(data_sets):
    tokenizer = tiny_tokenizer(CHATML)
    path = data_sets / "alpaca.json"
    options = RunOptions(task=Task.CHAT, data=DataOptions(train=str(path), eval_fraction=0.1))
    loaded = load_conversations(options, Renderer(tokenizer), 1_000_000)
    assert (len(loaded.train), len(loaded.eval or ()), loaded.findings) == (INSTRUCTIONS - 6, 6, ())
    assert loaded.turn_end == tokenizer.eos_token_id
    samples = [*loaded.train, *(loaded.eval or ())]
    answers = (tokenizer.decode([id for id in sample["labels"] if id != NO_LABEL]) for sample in samples)
    rows = json.loads(path.read_text(encoding="utf-8"))
    assert sorted(answers) == sorted(f"{row['output']}<|im_end|><|endoftext|>" for row in rows)


ASKED = [{"prompt": f"question {n}", "completion": f"answer {n}"} for n in range(20)]


@pytest.mark.parametrize(
    ("rows", "evaluation", "data", "in_both"),
    [
        (ASKED, [*ASKED[:9], {"prompt": "new", "completion": "one"}], {}, (9, 10)),
        (ASKED[:10], ASKED[10:], {}, (0, 10)),
        (ASKED, None, {}, (0, 4)),
        (ASKED[:1] * 20, None, {}, (4, 4)),
        (ASKED[:1] * 19 + ASKED[1:], None, {"drop_duplicates": True}, (0, 4)),
        (ASKED, None, {"eval_fraction": 0.0}, (0, 0)),
    ],
    ids=["copies", "others", "a share", "a share of copies", "copies removed", "no validation"],
)
def test_conversations_that_are_evaluated_and_trained_on_are_counted(
    tmp_path, rows, evaluation, data, in_both
):
    files = {"train": rows, **({"eval": evaluation} if evaluation else {})}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    paths = {name: str(tmp_path / f"{name}.json") for name in files}
    options = RunOptions(task=Task.CHAT, data=DataOptions(**{"eval_fraction": 0.2, **paths, **data}))
    assert load_conversations(options, Renderer(tiny_tokenizer(CHATML)), 1000).in_both == in_both
