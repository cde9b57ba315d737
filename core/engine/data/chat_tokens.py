"""Conversations as tokens, each of which is learned or only read.

A chat template writes a conversation as one text; which part of it is learned is found in one of two ways. Templates
with `{% generation %}` say it themselves. With others, the conversation is rendered up to each answer and through it:
what the whole begins with in both cases bounds the answer. That only holds for templates that write earlier turns
always alike; one that rewrites them (Qwen3's takes thoughts out of all but the last answers) is noticed, and only what
can be told for certain is learned.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from jinja2.exceptions import TemplateError

from core.base.ceiling import Pace, reading
from core.base.errors import DataError, ModelError
from core.base.language import _
from core.engine.data import CHOSEN, NO_LABEL, PROMPT, REJECTED, TOKENS
from core.engine.data.conversations import ChatRow, Message
from core.options.choices import ChatTemplate, LossOn, Speaker
from core.services.inspect import Seen, SeenPart

Span = tuple[int, int]
"""From one character of a text up to, not including, another."""

# --- Chat templates: the model's own, or ChatML where it has none


TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
"""What ChatML writes around each turn."""

CHATML = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- 'These functions can be called, each described by its JSON schema:\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' + (tool | tojson) }}
    {%- endfor %}
    {{- '\\n</tools>\\nA call is written as <tool_call>{"name": ..., "arguments": {...}}</tool_call>.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}
            {%- if message.reasoning_content %}
                {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
            {%- endif %}
            {{- message.content }}
            {%- for call in message.tool_calls or [] %}
                {%- if message.content or not loop.first %}
                    {{- '\\n' }}
                {%- endif %}
                {{- '<tool_call>{"name": ' + (call.function.name | tojson) + ', "arguments": ' }}
                {{- (call.function.arguments | tojson) + '}</tool_call>' }}
            {%- endfor %}
            {{- '<|im_end|>' }}
            {%- if eos_token and eos_token != '<|im_end|>' %}
                {{- eos_token }}
            {%- endif %}
        {%- endgeneration %}
        {{- '\\n' }}
    {%- elif not (tools and loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
"""ChatML with the learned part marked.

The model's own end of text follows each answer where it isn't `<|im_end|>`: whatever generates text stops there, and
no new token has to be learned.
"""

_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")

REFUSALS = (
    *(TemplateError, TypeError, ValueError, LookupError, AttributeError),
    *(ArithmeticError, RecursionError),  # of a template that divides by nothing, or calls itself for ever
)
"""What a template raises about a conversation."""


class TemplateRefused(DataError):  # noqa: N818 - a template refuses, it doesn't err
    """The chat template can't write this conversation; `reason` is what it says."""

    def __init__(self, reason: str) -> None:
        super().__init__(_("The chat template refuses a conversation"), reason)
        self.reason = reason


def set_template(tokenizer: Any, choice: ChatTemplate = ChatTemplate.AUTO) -> ChatTemplate:
    """Give a tokenizer the chosen template; it is saved with it.

    Returns:
        AUTO where the model's own is used, CHATML where that is.
    """
    if choice is ChatTemplate.AUTO and tokenizer.chat_template:
        return ChatTemplate.AUTO
    begin = tokenizer.bos_token_id  # models such as Gemma can't do without the token before every text
    begins_texts = begin is not None and tokenizer("a")["input_ids"][:1] == [begin]
    tokenizer.chat_template = ("{{- bos_token }}\n" if begins_texts else "") + CHATML
    return ChatTemplate.CHATML


def marks_answers(tokenizer: Any, tools: Sequence[Mapping[str, Any]] = ()) -> bool:
    """Whether the template says itself which part is learned."""
    return _GENERATION.search(tokenizer.get_chat_template(tools=list(tools) or None)) is not None


def render_chat(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    add_generation_prompt: bool = False,
    marked: bool = False,
    place: str = "",
) -> tuple[str, list[Span]]:
    """A conversation as one text, and with `marked` the spans that the template marks as learned.

    Args:
        tokenizer: Its template is used.
        messages: The conversation.
        tools: The functions on offer.
        add_generation_prompt: Write what the model is given before it answers, too.
        marked: The template has `{% generation %}`.
        place: Where the conversation stands, such as ", at row 17,", for an error about a template that never ends.

    Raises:
        TemplateRefused: The template can't write it.
    """
    from transformers.utils.chat_template_utils import render_jinja_template

    def render(chat: list[Message]) -> tuple[str, list[Span]]:
        try:
            texts, spans = render_jinja_template(
                conversations=[chat],
                tools=[dict(tool) for tool in tools] or None,
                chat_template=tokenizer.get_chat_template(tools=list(tools) or None),
                return_assistant_tokens_mask=marked,
                add_generation_prompt=add_generation_prompt,
                **tokenizer.special_tokens_map,
            )
        except REFUSALS as error:  # whatever a template raises about a conversation is its way to refuse it
            raise TemplateRefused(str(error) or type(error).__name__) from error
        return texts[0], spans[0] if marked else []

    with reading(_("The chat template{place}").format(place=place), Pace.QUICK):
        try:
            return render(list(messages))
        except TemplateRefused:
            if not any("tool_calls" in message for message in messages):
                raise
            return render([_with_json_arguments(message) for message in messages])


def _with_json_arguments(message: Message) -> Message:
    """The message with the arguments of its calls written as JSON, as a few templates want them."""
    calls = []
    for call in message.get("tool_calls", ()):
        arguments = call["function"]["arguments"]
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append({**call, "function": {**call["function"], "arguments": written}})
    return {**message, "tool_calls": calls} if calls else message


# --- A row as tokens


TURN_ENDS = frozenset(
    [
        "<|im_end|>",
        "<|eot_id|>",
        "<|end_of_turn|>",
        "<end_of_turn>",
        "<turn|>",
        "<|end|>",
        "<|endoftext|>",
        "</s>",
    ]
)
"""Tokens that end a turn in common templates; the tokenizer's own end of text does so, too."""


@dataclass(frozen=True)
class Tokens:
    """Tokens, and of each whether it carries loss."""

    ids: list[int]
    trained: list[bool]


@dataclass(frozen=True)
class Rendered:
    """A row as tokens: one sequence, or of a pair two, which begin with the same prompt.

    `row` is the row's number in the file, `skipped` counts answers that aren't learned because the template rewrites
    them; `is_whole` is False where the template leaves out what an answer says or calls, as many do with tool calls,
    and those of models with images do with plain texts.
    """

    row: int
    sequences: tuple[Tokens, ...]
    skipped: int = 0
    is_whole: bool = True

    def __len__(self) -> int:
        return max(len(tokens.ids) for tokens in self.sequences)

    @property
    def learned(self) -> list[int]:
        """The number of learned tokens in each sequence."""
        return [sum(tokens.trained) for tokens in self.sequences]

    def first(self, length: int | None) -> "Rendered":
        """The row cut off after `length` tokens; None keeps all."""
        cut = tuple(Tokens(tokens.ids[:length], tokens.trained[:length]) for tokens in self.sequences)
        return replace(self, sequences=cut)

    def columns(self) -> dict[str, list[int]]:
        """The row as TRL's collators take it; the first token is never learned, as nothing comes before it."""
        if len(self.sequences) == 1:
            (tokens,) = self.sequences
            labels = [
                token if learned else NO_LABEL
                for token, learned in zip(tokens.ids, tokens.trained, strict=True)
            ]
            return {TOKENS: tokens.ids, "labels": [NO_LABEL, *labels[1:]]}
        chosen, rejected = self.sequences
        prompt = chosen.trained.index(True)
        return {PROMPT: chosen.ids[:prompt], CHOSEN: chosen.ids[prompt:], REJECTED: rejected.ids[prompt:]}


@dataclass(frozen=True)
class _Written:
    """A conversation as one text, and the spans of its answers; otherwise as in `Rendered`."""

    text: str
    answers: list[Span]
    skipped: int
    is_whole: bool


@dataclass(frozen=True)
class Renderer:
    """Makes tokens of conversations with one tokenizer, whose chat template has been set (`set_template`).

    Raises:
        ModelError: The tokenizer can't tell where in a text its tokens stand.
    """

    tokenizer: Any
    loss_on: LossOn = LossOn.ANSWERS

    def __post_init__(self) -> None:
        if not self.tokenizer.is_fast:
            raise ModelError(
                _("This model's tokenizer can't be used for chat"),
                _(
                    "{name} doesn't tell where its tokens stand in a text, without which answers "
                    "can't be told from questions. A model with a tokenizer.json has one that does."
                ).format(name=type(self.tokenizer).__name__),
            )

    def render(self, row: ChatRow) -> Rendered:
        """A row as tokens, whole: cut it with `Rendered.first`.

        Raises:
            TemplateRefused: The chat template can't write the conversation.
        """
        if row.text is not None:
            return self._render_text(row.row, row.text)
        if row.chosen:
            return self._render_pair(row)
        written = self._write(row, row.messages)
        ids, offsets = self._tokens(written.text)
        if self.loss_on is LossOn.EVERYTHING:
            return Rendered(row.row, (Tokens(ids, [True] * len(ids)),), is_whole=written.is_whole)
        trained = _within(written, offsets)
        for index in range(1, len(ids)):  # the end of a turn is learned even where marks leave it out
            if trained[index - 1] and not trained[index] and ids[index] in self._turn_ends:
                trained[index] = ids[index - 1] not in self._turn_ends
        return Rendered(row.row, (Tokens(ids, trained),), written.skipped, written.is_whole)

    def decode(self, ids: Sequence[int]) -> str:
        """What tokens say, special ones included."""
        text = self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)

    def _render_text(self, row: int, text: str) -> Rendered:
        """A plain text is learned whole, with the model's end of text after it."""
        ids = list(self.tokenizer(text, add_special_tokens=True, verbose=False)["input_ids"])
        end = self.tokenizer.eos_token_id
        if end is not None and ids[-1:] != [end]:
            ids.append(end)
        return Rendered(row, (Tokens(ids, [True] * len(ids)),))

    def _render_pair(self, row: ChatRow) -> Rendered:
        """Both answers after the prompt; what both begin with, such as their header, belongs to it."""
        written = [self._write(row, (*row.messages, *said)) for said in (row.chosen, row.rejected)]
        answers = [self._tokens(_to_the_end(text))[0] for text in written]
        prompt = self._tokens(self._text(row, row.messages, add_generation_prompt=True))[0]
        shared = _common(prompt, answers[0][: _common(*answers)])
        sequences = (Tokens(ids, [place >= shared for place in range(len(ids))]) for ids in answers)
        return Rendered(row.row, tuple(sequences), is_whole=all(text.is_whole for text in written))

    def _write(self, row: ChatRow, messages: Sequence[Message]) -> _Written:
        """A conversation as one text, and where its answers stand in it."""
        answers = [message for message in messages if message["role"] == Speaker.ASSISTANT]
        found: list[Span | None]
        if marks_answers(self.tokenizer, row.tools):
            text, spans = render_chat(
                self.tokenizer,
                messages,
                row.tools,
                marked=True,
                place=_(", at row {row:,},").format(row=row.row),
            )
            found = list(spans)
        else:
            text = self._text(row, messages)
            places = [place for place, message in enumerate(messages) if message["role"] == Speaker.ASSISTANT]
            found = [self._span(row, text, messages, place) for place in places]
            answers = [answer for answer, span in zip(answers, found, strict=True) if span]
        known = [span for span in found if span]
        said = [text[start:end] for start, end in known]
        if len(said) != len(answers):  # marks may stand around several turns, or around parts of one
            said = ["".join(said)] * len(answers)
        return _Written(text, known, found.count(None), all(map(_is_said, answers, said)))

    def _text(self, row: ChatRow, messages: Sequence[Message], *, add_generation_prompt: bool = False) -> str:
        place = _(", at row {row:,},").format(row=row.row)
        return render_chat(
            self.tokenizer, messages, row.tools, add_generation_prompt=add_generation_prompt, place=place
        )[0]

    def _span(self, row: ChatRow, whole: str, messages: Sequence[Message], place: int) -> Span | None:
        """The span of the answer at `place`, by what `whole` begins with; None where that can't be told."""
        asking = self._text(row, messages[:place], add_generation_prompt=True) if place else ""
        before = self._beginning(row, whole, messages[:place])
        through = self._beginning(row, whole, messages[: place + 1])
        start = _common(asking, whole)
        if before is None or through is None or start < len(before):
            return None
        content = messages[place]["content"].strip()
        writes_header = len(before) < len(asking) == start
        if not writes_header and content and not messages[place].get("reasoning_content"):
            head = through[start : max(through.find(content, start), start)]
            start += len(head.rstrip())  # the words before an answer, written without being asked to
        # white space after the mark that ends the turn isn't learned; alone it is that mark
        trimmed = len(through.rstrip())
        ends = through.find(content, start) + len(content) if content else start
        return start, trimmed if trimmed > max(ends, start) else len(through)

    def _beginning(self, row: ChatRow, whole: str, messages: Sequence[Message]) -> str | None:
        """These messages as `whole` begins with them; None where it doesn't.

        Some templates, such as Phi 3's, put the end of text after whatever is last: that counts for nothing.
        """
        text = self._text(row, messages) if messages else ""
        forms = (text, text.removesuffix(self.tokenizer.eos_token or ""))
        return next((form for form in forms if whole.startswith(form)), None)

    def _tokens(self, text: str) -> tuple[list[int], list[Span]]:
        encoded = self.tokenizer(
            text,
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            verbose=False,  # or it warns of long texts, which are cut later
        )
        return list(encoded["input_ids"]), list(encoded["offset_mapping"])

    @cached_property
    def _turn_ends(self) -> frozenset[int | None]:
        added = self.tokenizer.added_tokens_decoder.items()
        known = {number for number, token in added if str(token.content) in TURN_ENDS}
        return frozenset((*known, self.tokenizer.eos_token_id))


def _common(first: Sequence[Any], second: Sequence[Any]) -> int:
    """The number of characters or tokens that two sequences begin with alike."""
    if first == second[: len(first)]:
        return len(first)
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(first), len(second)))


def _is_said(message: Message, said: str) -> bool:
    """Whether what an answer says after its thoughts, and each function it calls, stands in the text."""
    content = message["content"].rpartition("</think>")[2].strip()
    calls = message.get("tool_calls", ())
    return content in said and all(call["function"]["name"] in said for call in calls)


def _to_the_end(written: _Written) -> str:
    """The text up to the end of its last answer; white space after that isn't learned."""
    end = written.answers[-1][1] if written.answers else len(written.text)
    return written.text if written.text[end:].strip() else written.text[:end]


def _within(written: _Written, offsets: Sequence[Span]) -> list[bool]:
    """Which tokens stand in an answer; one that reaches beyond it does if it holds only white space there."""
    found = [False] * len(offsets)
    answers = iter(written.answers)
    answer = next(answers, None)
    for index, (start, end) in enumerate(offsets):
        while answer is not None and answer[1] <= start:
            answer = next(answers, None)
        if answer is None:
            break
        if end > answer[0] or start >= answer[0]:
            outside = written.text[start : answer[0]] + written.text[answer[1] : end]
            found[index] = not outside.strip()
    return found


# --- Rows as the model will see them, in stretches that are learned or only read


def preview_row(renderer: Renderer, row: ChatRow, max_length: int | None = None) -> Seen:
    """One row as it will be trained on; of a pair both answers, each after the prompt.

    Raises:
        TemplateRefused: The chat template can't write the conversation.
    """
    whole = renderer.render(row)
    cut = whole.first(max_length)
    parts = [
        tuple(
            SeenPart(renderer.decode([token for token, _rest in stretch]), learned)
            for learned, stretch in groupby(
                zip(tokens.ids, tokens.trained, strict=True), lambda pair: pair[1]
            )
        )
        for tokens in cut.sequences
    ]
    rejected = parts[1] if row.chosen else ()
    return Seen(row=row.row, parts=parts[0], rejected=rejected, tokens=len(cut), is_cut=len(cut) < len(whole))
