"""Conversations as token ids, each with or without loss.

A chat template writes a conversation as one text. Templates with `{% generation %}` mark the answers in it. With
others, the conversation is rendered up to each answer and through it, and the prefixes of the whole text bound the
answer. That requires that earlier turns are always written alike; if a template rewrites them (Qwen3's removes the
reasoning from all but the last answers), only answers whose bounds are certain are trained on.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

from jinja2.exceptions import TemplateError

from core.base.ceiling import Pace, reading
from core.base.errors import DataError, ModelError
from core.base.language import _
from core.engine.data import CHOSEN, COMPLETION, LIKED, NO_LABEL, PROMPT, REJECTED, TOKENS, decoded_whole
from core.engine.data.conversations import ChatRow, Message, common_length
from core.jobs.inspect import Seen, SeenPart
from core.options.choices import ChatTemplate, LossOn, Speaker

Span = tuple[int, int]
"""Start and end of a part of a text, the end not included."""

# --- Chat templates: the model's own, or ChatML


TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
"""ChatML's marks around each turn."""

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
            {%- if eos_token and eos_token != '<|im_end|>' and loop.last %}
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
"""ChatML with marked answers; the model's own end of text follows the last one (docs/decisions/data.md)."""

WITH_TEMPLATE = _("If it was trained to chat, choose a copy of it that has its template.")
"""What to do about a model without a chat template of its own, for which ChatML isn't good enough."""

_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")

REFUSALS = (
    *(TemplateError, TypeError, ValueError, LookupError, AttributeError),
    *(ArithmeticError, RecursionError),  # a template divides by zero, or calls itself endlessly
)
"""What a template may raise about a conversation."""


class TemplateRefused(DataError):  # noqa: N818 - a template refuses, it doesn't err
    """The chat template can't write this conversation; `reason` is the template's message."""

    def __init__(self, reason: str) -> None:
        super().__init__(_("The chat template refuses a conversation"), reason)
        self.reason = reason


def set_template(tokenizer: Any, choice: ChatTemplate = ChatTemplate.AUTO) -> ChatTemplate:
    """Gives a tokenizer the chosen template, which is saved with it.

    Returns:
        AUTO if the model's own is used, else CHATML.
    """
    if choice is ChatTemplate.AUTO and tokenizer.chat_template:
        return ChatTemplate.AUTO
    begin = tokenizer.bos_token_id  # models such as Gemma need the token before every text
    begins_texts = begin is not None and tokenizer("a")["input_ids"][:1] == [begin]
    template = CHATML if chatml_end(tokenizer) is not None else CHATML.replace(" and loop.last", "")
    tokenizer.chat_template = ("{{- bos_token }}\n" if begins_texts else "") + template
    return ChatTemplate.CHATML


def has_chatml(tokenizer: Any) -> bool:
    """Returns whether `set_template` gave a tokenizer ChatML."""
    template = str(tokenizer.chat_template or "").removeprefix("{{- bos_token }}\n")
    return template in (CHATML, CHATML.replace(" and loop.last", ""))


def chatml_end(tokenizer: Any) -> int | None:
    """Returns the id of `<|im_end|>`, if that is one token: generation can stop at it."""
    return next(
        (
            number
            for number, token in tokenizer.added_tokens_decoder.items()
            if str(token.content) == TURN_END
        ),
        None,
    )


def as_plain_text(row: ChatRow) -> str:
    """Returns a conversation in ChatML, as the text that a model learns to generate, without the end of text."""
    from transformers.utils.chat_template_utils import render_jinja_template

    if row.text is not None:
        return row.text
    tools: Any = [dict(tool) for tool in row.tools] or None
    # annotated as a text, it is one for each conversation
    texts: Any = render_jinja_template(conversations=[list(row.messages)], tools=tools, chat_template=CHATML)[
        0
    ]
    return str(texts[0]).strip()


def marks_answers(tokenizer: Any, tools: Sequence[Mapping[str, Any]] = ()) -> bool:
    return _GENERATION.search(tokenizer.get_chat_template(tools=list(tools) or None)) is not None


def render_chat(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    add_generation_prompt: bool = False,
    marked: bool = False,
) -> tuple[str, list[Span]]:
    """Writes a conversation as one text with the tokenizer's chat template.

    Args:
        add_generation_prompt: Add what the model is given before it answers.
        marked: The template has `{% generation %}`.

    Returns:
        The text and, with `marked`, the spans of the answers.

    Raises:
        TemplateRefused: The template can't write it.
    """
    from transformers.utils.chat_template_utils import render_jinja_template

    def render(chat: list[Message]) -> tuple[str, list[Span]]:
        found: Any
        try:
            found = render_jinja_template(
                conversations=[chat],
                tools=[*map(dict, tools)] or None,
                chat_template=tokenizer.get_chat_template(tools=list(tools) or None),
                return_assistant_tokens_mask=marked,
                add_generation_prompt=add_generation_prompt,
                **tokenizer.special_tokens_map,
            )
        except REFUSALS as error:
            raise TemplateRefused(str(error) or type(error).__name__) from error
        texts, spans = found
        return texts[0], spans[0] if marked else []

    with reading(_("The chat template"), Pace.QUICK):
        try:
            return render(list(messages))
        except TemplateRefused:
            if not any("tool_calls" in message for message in messages):
                raise
            return render([_with_json_arguments(message) for message in messages])


def _with_json_arguments(message: Message) -> Message:
    """Writes the arguments of calls as JSON, as a few templates require."""
    calls = []
    for call in message.get("tool_calls", ()):
        arguments = call["function"]["arguments"]
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append({**call, "function": {**call["function"], "arguments": written}})
    return {**message, "tool_calls": calls} if calls else message


# --- A row as tokens


TURN_ENDS = (
    *("<|im_end|>", "<|eot_id|>", "<|end_of_turn|>", "<end_of_turn>", "<turn|>", "<|end|>"),
    *("<|endoftext|>", "</s>"),
)
"""Tokens that end a turn in common templates, in addition to the tokenizer's own end of text."""


@dataclass(frozen=True)
class TokenIds:
    """Token ids, and whether each has loss."""

    ids: list[int]
    trained: list[bool]


@dataclass(frozen=True)
class Rendered:
    """A row as one sequence, or a pair of answers as two, which begin with the same prompt.

    `skipped` counts answers without loss because the template rewrites them. `is_whole` is False if the template leaves
    out the content or the calls of an answer: many do with tool calls, those of models with images with plain texts.
    """

    sequences: tuple[TokenIds, ...]
    skipped: int = 0
    is_whole: bool = True
    liked: bool | None = None

    def __len__(self) -> int:
        return max(len(tokens.ids) for tokens in self.sequences)

    @property
    def trained_counts(self) -> list[int]:
        """The number of tokens with loss in each sequence."""
        return [sum(tokens.trained) for tokens in self.sequences]

    def first(self, length: int | None) -> "Rendered":
        """Cuts the row after `length` tokens; None keeps all."""
        cut = tuple(TokenIds(tokens.ids[:length], tokens.trained[:length]) for tokens in self.sequences)
        return replace(self, sequences=cut)

    def columns(self) -> dict[str, list[int] | bool]:
        """Returns the row as TRL's collators take it; the first token has no loss, as nothing precedes it."""
        first = self.sequences[0]
        if self.liked is not None:
            prompt = first.trained.index(True)
            return {PROMPT: first.ids[:prompt], COMPLETION: first.ids[prompt:], LIKED: self.liked}
        if len(self.sequences) == 1:
            (tokens,) = self.sequences
            pairs = zip(tokens.ids, tokens.trained, strict=True)
            labels = [token if is_trained else NO_LABEL for token, is_trained in pairs]
            return {TOKENS: tokens.ids, "labels": [NO_LABEL, *labels[1:]]}
        chosen, rejected = self.sequences
        prompt = chosen.trained.index(True)
        return {PROMPT: chosen.ids[:prompt], CHOSEN: chosen.ids[prompt:], REJECTED: rejected.ids[prompt:]}


@dataclass(frozen=True)
class _Written:
    """A conversation as one text, and the spans of its answers; the rest as in `Rendered`."""

    text: str
    answers: list[Span]
    skipped: int
    is_whole: bool


@dataclass(frozen=True)
class Renderer:
    """Tokenizes conversations with a tokenizer whose chat template was set by `set_template`.

    Raises:
        ModelError: The tokenizer can't give the offsets of its tokens.
    """

    tokenizer: Any
    loss_on: LossOn = LossOn.ANSWERS

    def __post_init__(self) -> None:
        if not self.tokenizer.is_fast:
            raise ModelError(
                _("This model's tokenizer can't be used for chat"),
                _(
                    "{name} gives no offsets of its tokens, which are needed to find the answers in a text. "
                    "Choose a model with a tokenizer.json."
                ).format(name=type(self.tokenizer).__name__),
            )

    def render(self, row: ChatRow) -> Rendered:
        """Tokenizes a whole row; `Rendered.first` cuts it.

        Raises:
            TemplateRefused: The chat template can't write the conversation.
        """
        if row.text is not None:  # trained on as a whole, with the end of text
            ids = list(self.tokenizer(row.text, add_special_tokens=True, verbose=False)["input_ids"])
            end = self.tokenizer.eos_token_id
            if end is not None and ids[-1:] != [end]:
                ids.append(end)
            return Rendered((TokenIds(ids, [True] * len(ids)),))
        if row.chosen:
            return self._render_pair(row)
        written = self._write(row.messages, row.tools)
        ids, offsets = self._tokenize(written.text)
        if self.loss_on is LossOn.EVERYTHING:
            return Rendered((TokenIds(ids, [True] * len(ids)),), is_whole=written.is_whole)
        trained = _in_answers(written, offsets)
        for index in range(1, len(ids)):  # train on the end of a turn even if marks exclude it
            if trained[index - 1] and not trained[index] and ids[index] in self._turn_ends:
                trained[index] = ids[index - 1] not in self._turn_ends
        return Rendered((TokenIds(ids, trained),), written.skipped, written.is_whole)

    def _render_pair(self, row: ChatRow) -> Rendered:
        """Tokenizes the answers after the prompt, to which their common beginning (such as the header) belongs."""
        answers, is_whole = [], True
        for messages in filter(None, (row.chosen, row.rejected)):
            written = self._write((*row.messages, *messages), row.tools)
            is_whole = is_whole and written.is_whole
            end = written.answers[-1][1] if written.answers else len(written.text)
            # no loss on white space after the last answer
            answers.append(
                self._tokenize(written.text if written.text[end:].strip() else written.text[:end])[0]
            )
        prompt = self._tokenize(self._text(row.messages, row.tools, add_generation_prompt=True))[0]
        shared = common_length(prompt, answers[0][: common_length(answers[0], answers[-1])])
        sequences = (TokenIds(ids, [place >= shared for place in range(len(ids))]) for ids in answers)
        return Rendered(tuple(sequences), is_whole=is_whole, liked=row.liked)

    def _write(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> _Written:
        """Writes a conversation as one text, and finds its answers."""
        places = [place for place, message in enumerate(messages) if message["role"] == Speaker.ASSISTANT]
        spans: list[Span | None]
        if marks_answers(self.tokenizer, tools):
            text, marked = render_chat(self.tokenizer, messages, tools, marked=True)
            spans = list(marked)
        else:
            text = self._text(messages, tools)
            spans = [self._span(text, messages, tools, place) for place in places]
            places = [place for place, span in zip(places, spans, strict=True) if span]
        found = [span for span in spans if span]
        parts = [text[start:end] for start, end in found]
        if len(parts) != len(places):  # marks may be around several turns, or around parts of one
            parts = ["".join(parts)] * len(places)
        is_whole = all(_contains(part, messages[place]) for place, part in zip(places, parts, strict=True))
        return _Written(text, found, spans.count(None), is_whole)

    def _text(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
    ) -> str:
        return render_chat(self.tokenizer, messages, tools, add_generation_prompt=add_generation_prompt)[0]

    def _span(
        self, whole: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], place: int
    ) -> Span | None:
        """Finds the answer at `place` by the prefixes of `whole`; returns None if its bounds are uncertain."""

        def prefix(part: Sequence[Message]) -> str | None:
            text = self._text(part, tools) if part else ""
            # templates such as Phi 3's put the end of text after whatever is last
            forms = (text, text.removesuffix(self.tokenizer.eos_token or ""))
            return next((form for form in forms if whole.startswith(form)), None)

        prompt = self._text(messages[:place], tools, add_generation_prompt=True) if place else ""
        before, through = prefix(messages[:place]), prefix(messages[: place + 1])
        start = common_length(prompt, whole)
        if before is None or through is None or start < len(before):
            return None
        content = messages[place]["content"].strip()
        has_header = len(before) < len(prompt) == start
        if not has_header and content and not messages[place].get("reasoning_content"):
            header = through[start : max(through.find(content, start), start)]
            start += len(header.rstrip())
        # white space after the mark that ends the turn has no loss; without a mark it is the mark
        trimmed = len(through.rstrip())
        end = through.find(content, start) + len(content) if content else start
        return start, trimmed if trimmed > max(end, start) else len(through)

    def _tokenize(self, text: str) -> tuple[list[int], list[Span]]:
        encoded = self.tokenizer(
            text,
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            verbose=False,  # no warning about long texts, which are cut later
        )
        return list(encoded["input_ids"]), list(encoded["offset_mapping"])

    @cached_property
    def _turn_ends(self) -> set[int | None]:
        added = self.tokenizer.added_tokens_decoder.items()
        known = {number for number, token in added if str(token.content) in TURN_ENDS}
        return {*known, self.tokenizer.eos_token_id}


def _contains(text: str, message: Message) -> bool:
    """Returns whether a text has what an answer says after its reasoning, and each function it calls."""
    content = message["content"].rpartition("</think>")[2].strip()
    return content in text and all(call["function"]["name"] in text for call in message.get("tool_calls", ()))


def _in_answers(written: _Written, offsets: Sequence[Span]) -> list[bool]:
    """Returns whether each token is in an answer; one that extends beyond it is if it has only white space there."""
    trained = [False] * len(offsets)
    answers = iter(written.answers)
    answer = next(answers, None)
    for index, (start, end) in enumerate(offsets):
        while answer is not None and answer[1] <= start:
            answer = next(answers, None)
        if answer is None:
            break
        if end > answer[0] or start >= answer[0]:
            outside = written.text[start : answer[0]] + written.text[answer[1] : end]
            trained[index] = not outside.strip()
    return trained


# --- Preview


def preview_row(renderer: Renderer, row: ChatRow, max_length: int | None = None) -> Seen:
    """Returns a row as it will be trained on, in stretches with and without loss; a pair has both answers.

    Raises:
        TemplateRefused: The chat template can't write the conversation.
    """
    whole = renderer.render(row)
    cut = whole.first(max_length)
    parts = []
    for tokens in cut.sequences:
        stretches = groupby(zip(tokens.ids, tokens.trained, strict=True), key=itemgetter(1))
        parts.append(
            tuple(
                SeenPart(decoded_whole(renderer.tokenizer, [token for token, _trained in stretch]), trained)
                for trained, stretch in stretches
            )
        )
    rejected = parts[1] if row.rejected else ()
    return Seen(
        row=row.row,
        parts=parts[0],
        rejected=rejected,
        tokens=len(cut),
        is_cut=len(cut) < len(whole),
        liked=row.liked,
    )
