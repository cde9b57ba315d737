"""No token of a prompt carries loss, whatever the shape and the template; every token of an answer does."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import ModelError
from core.engine.data.chat_tokens import (
    TURN_END,
    TURN_START,
    Rendered,
    Renderer,
    TemplateRefused,
    render_pairs,
    render_rows,
    see,
    set_template,
)
from core.engine.data.conversation_shapes import Conversation, Message, Pair, PlainText, ToolCall
from core.options.choices import ChatTemplate, LossOn, Speaker
from core.services.inspect import FindingLevel, Tally
from tests.fakes import chat_templates
from tests.fakes.conversation_tables import checked, json_table
from tests.fakes.tiny_tokenizer import metaspace_tokenizer, tiny_tokenizer

ASKED = ("What is the capital of France?", "And of 🇩🇪?", "مرحبا، كيف حالك؟", "  spaces\n\nand lines ")
ANSWERED = ("Paris.", "Berlin 😊👨‍👩‍👧", "أنا بخير", "Hello\n\n  there")


def turns(*texts: str, start: Speaker = Speaker.USER) -> tuple[Message, ...]:
    other = Speaker.ASSISTANT if start is Speaker.USER else Speaker.USER
    return tuple(Message((start, other)[index % 2], text) for index, text in enumerate(texts))


def all_turns() -> tuple[Message, ...]:
    return turns(*(text for pair in zip(ASKED, ANSWERED, strict=True) for text in pair))


def learned(renderer: Renderer, rendered: Rendered) -> list[str]:
    """What the learned tokens say, by stretch."""
    stretches: list[list[int]] = []
    for index, (token, trained) in enumerate(zip(rendered.input_ids, rendered.trained, strict=True)):
        if trained and (index == 0 or not rendered.trained[index - 1]):
            stretches.append([])
        if trained:
            stretches[-1].append(token)
    return [renderer.decode(stretch) for stretch in stretches]


def render(tokenizer: Any, messages: Sequence[Message], **options: Any) -> tuple[Renderer, Rendered]:
    renderer = Renderer(tokenizer, **options)
    return renderer, renderer.render(Conversation(1, tuple(messages)))


class TestChatML:
    @pytest.fixture(params=["marked", "by prefix"])
    def tokenizer(self, request: pytest.FixtureRequest) -> Any:
        tokenizer = tiny_tokenizer()
        assert set_template(tokenizer) is ChatTemplate.CHATML
        if request.param == "by prefix":
            for mark in ("{%- generation %}", "{%- endgeneration %}"):
                assert mark in tokenizer.chat_template
                tokenizer.chat_template = tokenizer.chat_template.replace(mark, "")
        return tokenizer

    def test_every_turn(self, tokenizer: Any) -> None:
        messages = (Message(Speaker.SYSTEM, "Be kind."), *all_turns())
        renderer, rendered = render(tokenizer, messages)
        assert learned(renderer, rendered) == [f"{text}<|im_end|><|endoftext|>" for text in ANSWERED]
        assert rendered.skipped == 0
        assert renderer.decode(rendered.input_ids) == rendered.text

    def test_tool_calls(self, tokenizer: Any) -> None:
        messages = (
            Message(Speaker.USER, "Rain in Köln?"),
            Message(
                Speaker.ASSISTANT, "A moment.", (ToolCall("rain", {"city": "Köln"}), ToolCall("now", {}))
            ),
            Message(Speaker.TOOL, '{"rain": false}'),
            Message(Speaker.ASSISTANT, "No."),
        )
        tools = ({"type": "function", "function": {"name": "rain"}},)
        renderer = Renderer(tokenizer)
        rendered = renderer.render(Conversation(1, messages, tools))
        assert learned(renderer, rendered) == [
            'A moment.\n<tool_call>{"name": "rain", "arguments": {"city": "Köln"}}</tool_call>\n'
            '<tool_call>{"name": "now", "arguments": {}}</tool_call><|im_end|><|endoftext|>',
            "No.<|im_end|><|endoftext|>",
        ]
        assert '<tools>\n{"type": "function", "function": {"name": "rain"}}\n</tools>' in rendered.text
        assert '<|im_start|>tool\n{"rain": false}<|im_end|>' in rendered.text

    def test_a_system_prompt_beside_tools(self, tokenizer: Any) -> None:
        messages = (Message(Speaker.SYSTEM, "Be kind."), *turns("Rain?", "No."))
        rendered = Renderer(tokenizer).render(Conversation(1, messages, ({"name": "rain"},)))
        assert rendered.text.count("<|im_start|>system") == 1
        assert rendered.text.startswith("<|im_start|>system\nBe kind.\n\nThese functions")

    def test_thoughts_are_learned(self, tokenizer: Any) -> None:
        answer = Message(Speaker.ASSISTANT, "4", reasoning="two and two")
        renderer, rendered = render(tokenizer, (*turns("2 + 2?"), answer))
        said = "<think>\ntwo and two\n</think>\n\n4<|im_end|><|endoftext|>"
        assert learned(renderer, rendered) == [said]

    def test_everything(self, tokenizer: Any) -> None:
        _, rendered = render(tokenizer, all_turns(), loss_on=LossOn.EVERYTHING)
        assert all(rendered.trained)
        assert rendered.labels == rendered.input_ids

    def test_labels(self, tokenizer: Any) -> None:
        _, rendered = render(tokenizer, all_turns())
        pairs = list(zip(rendered.labels, rendered.input_ids, rendered.trained, strict=True))
        assert all(label == (token if trained else -100) for label, token, trained in pairs)

    @pytest.mark.parametrize(
        "row",
        [
            {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]},
            {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]},
            {"instruction": "say", "input": "hi", "output": "hello"},
            {"system": "short", "prompt": "hi", "completion": "hello"},
            {"question": "hi", "answer": "hello", "history": [["a", "b"]]},
        ],
    )
    def test_every_shape(self, tmp_path: Path, tokenizer: Any, row: dict[str, Any]) -> None:
        (found,) = checked(json_table(tmp_path, [row])).first
        assert isinstance(found, Conversation)
        renderer = Renderer(tokenizer)
        answers = ["b", "hello"] if "history" in row else ["hello"]
        assert learned(renderer, renderer.render(found)) == [f"{a}<|im_end|><|endoftext|>" for a in answers]


def test_chatml_of_a_tokenizer_made_for_it() -> None:
    tokenizer = tiny_tokenizer(special=(TURN_START, TURN_END), eos_token=TURN_END)
    set_template(tokenizer)
    renderer, rendered = render(tokenizer, turns("hi", "hello", "and", "bye"))
    assert learned(renderer, rendered) == ["hello<|im_end|>", "bye<|im_end|>"]
    assert rendered.input_ids[-2] == tokenizer.eos_token_id  # a line break follows


def test_a_template_is_kept_unless_another_is_asked_for() -> None:
    tokenizer = tiny_tokenizer(chat_templates.PLAIN)
    assert set_template(tokenizer) is ChatTemplate.AUTO
    assert tokenizer.chat_template == chat_templates.PLAIN
    assert set_template(tokenizer, ChatTemplate.CHATML) is ChatTemplate.CHATML
    assert "<|im_start|>" in tokenizer.chat_template


def test_the_template_is_saved_with_the_tokenizer(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = tiny_tokenizer()
    set_template(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == tokenizer.chat_template


def test_a_model_that_begins_every_text_with_a_token_gets_it() -> None:
    tokenizer = metaspace_tokenizer(bos="<s>")
    set_template(tokenizer)
    _, rendered = render(tokenizer, turns("hi", "hello"))
    assert rendered.input_ids.count(tokenizer.bos_token_id) == 1
    assert rendered.input_ids[0] == tokenizer.bos_token_id
    assert not rendered.trained[0]


class TestOtherTemplates:
    @pytest.mark.parametrize(
        "template", [chat_templates.PLAIN, chat_templates.MARKED, chat_templates.MARKED_WITHOUT_END]
    )
    @pytest.mark.parametrize("make", [tiny_tokenizer, metaspace_tokenizer])
    def test_a_mark_after_each_turn(self, template: str, make: Any) -> None:
        tokenizer = make(template, special=["</s>"], eos_token="</s>")
        renderer, rendered = render(tokenizer, all_turns())
        said = [text.strip() for text in learned(renderer, rendered)]
        assert said == [f"{text}</s>" for text in ANSWERED]

    def test_an_answer_that_ends_in_a_split_letter(self) -> None:
        """Marks without an end, and no token after them that could be one: all bytes of the last letter count."""
        template = chat_templates.MARKED.replace("m.content + '</s>' }}{% endg", "m.content }}{% endg")
        renderer, rendered = render(tiny_tokenizer(template), turns("hi", "ok 😊", "so", "…"))
        assert learned(renderer, rendered) == ["ok 😊", "…"]

    def test_a_token_that_holds_the_space_before_the_answer_is_learned(self) -> None:
        tokenizer = tiny_tokenizer(chat_templates.MARKED.replace("m.role + '>'", "m.role + '> '"))
        renderer, rendered = render(tokenizer, turns("hi", "capital of"))
        assert learned(renderer, rendered) == [" capital of</s>"]

    def test_a_token_that_holds_a_part_of_the_question_is_not(self) -> None:
        glued = "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
        glued += "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
        tokenizer = tiny_tokenizer(glued)
        assert len(tokenizer("Hello")["input_ids"]) == 1
        renderer, rendered = render(tokenizer, turns("Hel", "lo there", "ar", "e you"))
        assert learned(renderer, rendered) == [" there", " you"]

    def test_brackets(self) -> None:
        renderer, rendered = render(
            tiny_tokenizer(chat_templates.BRACKETS), turns("hi", " hello ", "so", "bye")
        )
        said = [" hello<|endoftext|>", " bye<|endoftext|>"]
        assert learned(renderer, rendered) == said

    def test_earlier_answers_that_are_rewritten_are_not_learned(self) -> None:
        thinking = [Message(Speaker.ASSISTANT, text, reasoning="hm") for text in ("one", "two")]
        asked = turns("a")[0]
        tokenizer = tiny_tokenizer(chat_templates.FORGETS_THOUGHTS)
        renderer, rendered = render(tokenizer, (asked, thinking[0], asked, thinking[1]))
        assert learned(renderer, rendered) == ["<think>hm</think>two</s>"]
        assert rendered.skipped == 1

    def test_a_mark_that_only_asks(self) -> None:
        renderer, rendered = render(
            tiny_tokenizer(chat_templates.ASKS_FOR_THOUGHTS), turns("a", "b", "c", "d")
        )
        assert learned(renderer, rendered) == ["b</s>", "d</s>"]

    def test_an_end_after_whatever_is_last(self) -> None:
        renderer, rendered = render(tiny_tokenizer(chat_templates.LAST_ENDS), turns("a", "one", "c", "two"))
        assert learned(renderer, rendered) == ["one</s>", "two</s>\n<|endoftext|>"]

    def test_arguments_as_text(self) -> None:
        call = Message(Speaker.ASSISTANT, "", (ToolCall("rain", {"city": "Köln"}),))
        renderer, rendered = render(tiny_tokenizer(chat_templates.CALLS_AS_TEXT), (*turns("Rain?"), call))
        assert learned(renderer, rendered) == ['rain{"city": "Köln"}</s>']

    def test_no_way_to_ask(self) -> None:
        renderer, rendered = render(
            tiny_tokenizer(chat_templates.NEVER_ASKS), turns("a", "one", "c", "two three")
        )
        assert learned(renderer, rendered) == [" one\n", " two three\n"]

    def test_refusals_say_why(self) -> None:
        with pytest.raises(TemplateRefused, match="refuses") as caught:
            render(tiny_tokenizer(chat_templates.BRACKETS), turns("hi", "hello", start=Speaker.ASSISTANT))
        assert caught.value.reason == "roles must alternate user/assistant"

    @pytest.mark.parametrize(
        "broken", ["{{ 1 / 0 }}", "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}"]
    )
    def test_a_template_that_falls_over_refuses(self, broken: str) -> None:
        with pytest.raises(TemplateRefused, match="refuses"):
            render(tiny_tokenizer(broken), turns("hi", "hello"))


def test_plain_text_is_learned_whole_and_ends() -> None:
    renderer = Renderer(tiny_tokenizer())
    rendered = renderer.render(PlainText(4, "Once upon a time 😊"))
    assert learned(renderer, rendered) == ["Once upon a time 😊<|endoftext|>"]
    assert (rendered.row, all(rendered.trained)) == (4, True)


def test_a_tokenizer_that_knows_no_places() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(ModelError, match="can't be used for chat"):
        Renderer(Slow())


class TestRows:
    """All rows of a file, cut to the longest allowed."""

    def talks(self) -> list[Conversation]:
        long = "one two three four five six " * 10
        return [
            Conversation(1, turns("hi", "hello")),
            Conversation(2, turns("hi", long)),
            Conversation(3, turns(long, "hello")),
        ]

    def test_cut_answers_are_counted_and_lost_ones_left_out(self) -> None:
        tally = Tally()
        renderer = Renderer(tiny_tokenizer(chat_templates.PLAIN))
        first, second = render_rows(self.talks(), renderer, tally, max_length=40)
        assert (first.row, first.cut) == (1, 0)
        assert (second.row, len(second.input_ids)) == (2, 40)
        assert second.cut > 0
        assert [(found.code, found.rows, found.level) for found in tally.findings()] == [
            ("answers-cut", (2,), FindingLevel.WARNING),
            ("answers-gone", (3,), FindingLevel.WARNING),
        ]

    def test_without_a_limit_all_is_kept(self) -> None:
        tally = Tally()
        assert (
            len(list(render_rows(self.talks(), Renderer(tiny_tokenizer(chat_templates.PLAIN)), tally))) == 3
        )
        assert tally.findings() == ()

    def test_refusals_are_findings(self) -> None:
        tally = Tally()
        rows = [self.talks()[0], Conversation(9, turns("a", "b", start=Speaker.ASSISTANT))]
        kept = list(render_rows(rows, Renderer(tiny_tokenizer(chat_templates.BRACKETS)), tally))
        (finding,) = tally.findings()
        assert [row.row for row in kept] == [1]
        assert finding.message == "1 row is refused by the chat template: roles must alternate user/assistant"
        assert (finding.level, finding.rows) == (FindingLevel.PROBLEM, (9,))

    def test_answers_that_can_not_be_told_are_a_problem(self) -> None:
        tally = Tally()
        rows = [Conversation(5, turns("a", "b", "c"))]
        assert list(render_rows(rows, Renderer(tiny_tokenizer(chat_templates.DIARY)), tally)) == []
        assert [(found.code, found.rows) for found in tally.findings()] == [("answer-lost", (5,))]

    @pytest.mark.parametrize(
        ("template", "answer"),
        [
            (chat_templates.NO_CALLS, Message(Speaker.ASSISTANT, "", (ToolCall("user", {}),))),
            (chat_templates.PARTS, Message(Speaker.ASSISTANT, "hello")),
        ],
    )
    def test_what_a_template_leaves_out_is_a_problem(self, template: str, answer: Message) -> None:
        tally = Tally()
        renderer = Renderer(tiny_tokenizer(template))
        assert list(render_rows([Conversation(5, (*turns("a"), answer))], renderer, tally)) == []
        pair = Pair(6, turns("a"), (answer,), turns("no", start=Speaker.ASSISTANT))
        assert list(render_pairs([pair], renderer, tally)) == []
        (finding,) = tally.findings()
        assert (finding.code, finding.rows) == ("answer-left-out", (5, 6))
        assert finding.fixes[0].changes == {"data.chat_template": "chatml"}

    def test_rewritten_answers_are_a_warning(self) -> None:
        thinking = Message(Speaker.ASSISTANT, "one", reasoning="hm")
        rows = [Conversation(5, (*turns("a"), thinking, *turns("c", "d")))]
        tally = Tally()
        (_,) = render_rows(rows, Renderer(tiny_tokenizer(chat_templates.FORGETS_THOUGHTS)), tally)
        assert [(found.code, found.rows) for found in tally.findings()] == [("earlier-untrained", (5,))]


class TestPairs:
    PAIR = Pair(
        7,
        turns("Say hello"),
        turns("Hello 😊", start=Speaker.ASSISTANT),
        turns("Bye", start=Speaker.ASSISTANT),
    )

    @pytest.mark.parametrize("template", [chat_templates.PLAIN, chat_templates.MARKED])
    def test_both_answers_follow_the_prompt(self, template: str) -> None:
        renderer = Renderer(tiny_tokenizer(template))
        pair = renderer.render_pair(self.PAIR)
        said = [renderer.decode(ids) for ids in (pair.prompt_ids, pair.chosen_ids, pair.rejected_ids)]
        assert said == ["<user>Say hello</s>\n<assistant>", "Hello 😊</s>", "Bye</s>"]

    def test_are_cut_and_left_out(self) -> None:
        renderer = Renderer(tiny_tokenizer(chat_templates.PLAIN))
        whole = renderer.render_pair(self.PAIR)
        length = len(whole.prompt_ids) + 2
        tally = Tally()
        (cut,) = render_pairs([self.PAIR], renderer, tally, max_length=length)
        assert (cut.chosen_ids, cut.rejected_ids) == (whole.chosen_ids[:2], whole.rejected_ids[:2])
        assert list(render_pairs([self.PAIR], renderer, tally, max_length=length - 2)) == []
        assert [found.code for found in tally.findings()] == ["answers-cut", "answers-gone"]


class TestSeeing:
    def test_a_conversation(self) -> None:
        seen = see(Renderer(tiny_tokenizer(chat_templates.PLAIN)), Conversation(3, turns("hi", "hello 😊")))
        assert [(part.text, part.trained) for part in seen.parts] == [
            ("<user>hi</s>\n<assistant>", False),
            ("hello 😊</s>", True),
            ("\n", False),
        ]
        assert (seen.row, seen.is_cut) == (3, False)

    def test_cut_off(self) -> None:
        seen = see(Renderer(tiny_tokenizer(chat_templates.PLAIN)), Conversation(3, turns("hi", "hello")), 5)
        assert (seen.tokens, seen.is_cut) == (5, True)

    def test_a_pair(self) -> None:
        seen = see(Renderer(tiny_tokenizer(chat_templates.PLAIN)), TestPairs.PAIR)
        prompt = "<user>Say hello</s>\n<assistant>"
        assert [(part.text, part.trained) for part in seen.parts] == [(prompt, False), ("Hello 😊</s>", True)]
        assert [part.text for part in seen.rejected] == [prompt, "Bye</s>"]
