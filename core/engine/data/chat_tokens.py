"""Where in a rendered conversation the answers stand, as character positions.

Two ways. Templates with `{% generation %}` say it themselves. With others, the conversation is rendered up to each
answer and through it: what the whole begins with in both cases bounds the answer. That only holds for templates that
write earlier turns always alike; one that rewrites them (Qwen3's takes thoughts out of all but the last answers) is
noticed, and only what can be told for certain is learned.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from jinja2.exceptions import TemplateError

from core.base.ceiling import Pace, reading
from core.base.errors import DataError, ModelError
from core.engine.data import conversation_shapes
from core.engine.data.conversation_shapes import Conversation, Message, Pair, PlainText, Row, as_dicts
from core.engine.data.token_cache import NO_LABEL
from core.options.choices import ChatTemplate, LossOn, Speaker
from core.services.inspect import Seen, SeenPart, Tally

# --- Where in a rendered conversation the answers stand, as character positions


_MARKERS = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")

REFUSALS = (
    *(TemplateError, TypeError, ValueError, LookupError, AttributeError),
    *(ArithmeticError, RecursionError),  # of a template that divides by nothing, or calls itself for ever
)
"""What a template raises about a conversation."""

Span = tuple[int, int]


class TemplateRefused(DataError):  # noqa: N818 - a template refuses, it doesn't err
    """The chat template can't write this conversation; `reason` is what it says."""

    def __init__(self, reason: str) -> None:
        super().__init__("The chat template refuses a conversation", reason)
        self.reason = reason


@dataclass(frozen=True)
class Written:
    """A conversation as one text, and the spans of its answers.

    `skipped` counts answers that couldn't be told, `is_whole` is False where the template leaves out what an answer
    says or calls, as many do with tool calls, and those of models with images do with plain texts.
    """

    text: str
    answers: tuple[Span, ...]
    skipped: int = 0
    is_whole: bool = True


@dataclass(frozen=True)
class Writer:
    """Renders conversations with the template of one tokenizer; `place` says of which row."""

    tokenizer: Any
    place: str = ""

    def has_markers(self, tools: bool = False) -> bool:
        """Whether the template says itself which part is learned."""
        return _MARKERS.search(self._template(tools)) is not None

    def write(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> Written:
        """Render a conversation and find its answers.

        Raises:
            TemplateRefused: The template can't write it.
        """
        answers = [index for index, message in enumerate(messages) if message.role is Speaker.ASSISTANT]
        is_marked = self.has_markers(bool(tools))
        text, marked = self._render(messages, tools, marked=is_marked)
        found: list[Span | None] = list(marked)
        if not is_marked:
            found = [self._span(text, messages, tools, index) for index in answers]
            answers = [index for index, span in zip(answers, found, strict=True) if span]
        spans = tuple(span for span in found if span)
        said = [text[start:end] for start, end in spans]
        if len(said) != len(answers):  # marks may stand around several turns, or around parts of one
            said = ["".join(said)] * len(answers)
        is_whole = all(map(_is_said, (messages[index] for index in answers), said))
        return Written(text, spans, found.count(None), is_whole)

    def prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """What the model is given before it answers.

        Raises:
            TemplateRefused: The template can't write it.
        """
        return self._render(messages, tools, asks=True)[0]

    def _span(
        self, whole: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], index: int
    ) -> Span | None:
        """The span of the answer at `index`, by what `whole` begins with; None where that can't be told."""
        asking = self._render(messages[:index], tools, asks=True)[0] if index else ""
        before = self._beginning(whole, messages[:index], tools)
        through = self._beginning(whole, messages[: index + 1], tools)
        start = _common(asking, whole)
        if before is None or through is None or start < len(before):
            return None
        says_header = len(before) < len(asking) == start
        if not says_header:
            start += _header(through[start:], messages[index])
        return start, _without_tail(through, start, messages[index])

    def _beginning(
        self, whole: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """These messages as `whole` begins with them; None where it doesn't.

        Some templates, such as Phi 3's, put the end of text after whatever is last: that counts for nothing.
        """
        text = self._render(messages, tools)[0] if messages else ""
        forms = (text, text.removesuffix(self.tokenizer.eos_token or ""))
        return next((form for form in forms if whole.startswith(form)), None)

    def _template(self, tools: bool) -> str:
        return str(self.tokenizer.get_chat_template(tools=[{}] if tools else None))

    def _render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        *,
        asks: bool = False,
        marked: bool = False,
    ) -> tuple[str, list[Span]]:
        template = self._template(bool(tools))
        offered = [dict(tool) for tool in tools] or None

        def render(chat: list[dict[str, Any]]) -> tuple[str, list[Span]]:
            from transformers.utils.chat_template_utils import render_jinja_template

            texts, spans = render_jinja_template(
                conversations=[chat],
                tools=offered,
                chat_template=template,
                return_assistant_tokens_mask=marked,
                add_generation_prompt=asks,
                **self.tokenizer.special_tokens_map,
            )
            return texts[0], spans[0] if marked else []

        with reading(f"The chat template{self.place}", Pace.QUICK):
            try:
                return _guarded(lambda: render(as_dicts(messages)))
            except TemplateRefused:
                if not any(message.tool_calls for message in messages):
                    raise
                return _guarded(lambda: render(as_dicts(messages, written_arguments=True)))


def _guarded(render: Callable[[], tuple[str, list[Span]]]) -> tuple[str, list[Span]]:
    """Call a template; whatever it raises about a conversation is its way to refuse it."""
    try:
        return render()
    except REFUSALS as error:
        raise TemplateRefused(str(error) or type(error).__name__) from error


def _is_said(message: Message, said: str) -> bool:
    """Whether what an answer says after its thoughts, and each function it calls, stands in the text."""
    content = message.content.rpartition("</think>")[2].strip()
    return content in said and all(call.name in said for call in message.tool_calls)


def _common(first: str, second: str) -> int:
    """How many characters two texts begin with alike."""
    if second.startswith(first):
        return len(first)
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(first), len(second)))


def _header(turn: str, message: Message) -> int:
    """How long the words before an answer are, where a template writes them without being asked to."""
    content = message.content.strip()
    if not content or message.reasoning:
        return 0
    head = turn[: max(turn.find(content), 0)]
    return len(head.rstrip())


def _without_tail(through: str, start: int, message: Message) -> int:
    """The end of an answer: white space after the mark that ends the turn isn't learned; alone it is that mark."""
    trimmed = len(through.rstrip())
    content = message.content.strip()
    ends = through.find(content, start) + len(content) if content else start
    return trimmed if trimmed > max(ends, start) else len(through)


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

_WITH_START = "{{- bos_token }}\n"


def set_template(tokenizer: Any, choice: ChatTemplate = ChatTemplate.AUTO) -> ChatTemplate:
    """Give a tokenizer the template that is asked for; it is saved with it.

    Returns:
        What it came to: AUTO where the model's own is used, CHATML where that is.
    """
    if choice is ChatTemplate.AUTO and tokenizer.chat_template:
        return ChatTemplate.AUTO
    tokenizer.chat_template = (_WITH_START if _begins_texts(tokenizer) else "") + CHATML
    return ChatTemplate.CHATML


def _begins_texts(tokenizer: Any) -> bool:
    """Whether the tokenizer puts a token before every text, which models such as Gemma can't do without."""
    begin = tokenizer.bos_token_id
    return begin is not None and tokenizer("a")["input_ids"][:1] == [begin]


# --- Conversations as tokens, each of which is learned or only read


"""The label of a token without loss, as PyTorch's cross entropy has it."""
TURN_ENDS = frozenset(
    (
        "<|im_end|>",
        "<|eot_id|>",
        "<|end_of_turn|>",
        "<end_of_turn>",
        "<turn|>",
        "<|end|>",
        "<|endoftext|>",
        "</s>",
    )
)
"""Tokens that end a turn in common templates; the tokenizer's own end of text does so, too."""


@dataclass(frozen=True)
class Rendered:
    """A row as tokens: `trained` says of each whether it carries loss.

    `row` is the row's number in the file, `cut` counts the learned tokens that were cut off, `skipped` the answers that
    aren't learned because the template rewrites them; `is_whole` is False where it leaves out what an answer says.
    """

    row: int
    text: str
    input_ids: list[int]
    trained: list[bool]
    cut: int = 0
    skipped: int = 0
    is_whole: bool = True

    @property
    def labels(self) -> list[int]:
        """The tokens that are learned, and -100 for those that are only read."""
        return [
            token if learned else NO_LABEL
            for token, learned in zip(self.input_ids, self.trained, strict=True)
        ]

    @property
    def learns(self) -> bool:
        """Whether any token is learned."""
        return any(self.trained)

    def first(self, length: int | None) -> "Rendered":
        """The row cut off after `length` tokens; None keeps all. The text stays whole."""
        if length is None or len(self.input_ids) <= length:
            return self
        return replace(
            self,
            input_ids=self.input_ids[:length],
            trained=self.trained[:length],
            cut=self.cut + sum(self.trained[length:]),
        )


@dataclass(frozen=True)
class RenderedPair:
    """A pair as tokens, as DPO takes them: both answers follow the same prompt.

    `is_whole` is False where the template leaves out what an answer says.
    """

    row: int
    prompt_ids: list[int]
    chosen_ids: list[int]
    rejected_ids: list[int]
    is_whole: bool = True


@dataclass(frozen=True)
class Renderer:
    """Makes tokens of conversations with one tokenizer, whose chat template has been set (`templates.set_template`).

    Raises:
        ModelError: The tokenizer can't tell where in a text its tokens stand.
    """

    tokenizer: Any
    loss_on: LossOn = LossOn.ANSWERS

    def __post_init__(self) -> None:
        if not self.tokenizer.is_fast:
            raise ModelError(
                "This model's tokenizer can't be used for chat",
                f"{type(self.tokenizer).__name__} doesn't tell where its tokens stand in a text, without which answers "
                "can't be told from questions. A model with a tokenizer.json has one that does.",
            )

    def render(self, row: Conversation | PlainText) -> Rendered:
        """A row as tokens, whole: cut it with `Rendered.first`.

        Raises:
            TemplateRefused: The chat template can't write the conversation.
        """
        if isinstance(row, PlainText):
            return self._render_text(row)
        written = Writer(self.tokenizer, f", at row {row.row:,},").write(row.messages, row.tools)
        ids, offsets = self._tokens(written.text)
        if self.loss_on is LossOn.EVERYTHING:
            return Rendered(row.row, written.text, ids, [True] * len(ids), is_whole=written.is_whole)
        trained = self._with_ends(ids, _within(written, offsets))
        return Rendered(
            row.row, written.text, ids, trained, skipped=written.skipped, is_whole=written.is_whole
        )

    def render_pair(self, pair: Pair) -> RenderedPair:
        """A pair as tokens; what both answers begin with, such as their header, belongs to the prompt.

        Raises:
            TemplateRefused: The chat template can't write one of the conversations.
        """
        writer = Writer(self.tokenizer, f", at row {pair.row:,},")
        written = [writer.write((*pair.prompt, *said), pair.tools) for said in (pair.chosen, pair.rejected)]
        better, worse = (self._tokens(_to_the_end(text))[0] for text in written)
        prompt = self._tokens(writer.prompt(pair.prompt, pair.tools))[0]
        shared = next(
            (
                index
                for index, tokens in enumerate(zip(prompt, better, worse, strict=False))
                if len(set(tokens)) > 1
            ),
            min(len(prompt), len(better), len(worse)),
        )
        is_whole = all(text.is_whole for text in written)
        return RenderedPair(pair.row, better[:shared], better[shared:], worse[shared:], is_whole)

    def decode(self, ids: Sequence[int]) -> str:
        """What tokens say, special ones included."""
        text = self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)

    def _render_text(self, row: PlainText) -> Rendered:
        """A plain text is learned whole, with the model's end of text after it."""
        ids = list(self.tokenizer(row.text, add_special_tokens=True, verbose=False)["input_ids"])
        end = self.tokenizer.eos_token_id
        if end is not None and ids[-1:] != [end]:
            ids.append(end)
        return Rendered(row.row, row.text, ids, [True] * len(ids))

    def _tokens(self, text: str) -> tuple[list[int], list[Span]]:
        encoded = self.tokenizer(
            text,
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            verbose=False,  # or it warns of long texts, which are cut later
        )
        return list(encoded["input_ids"]), list(encoded["offset_mapping"])

    def _with_ends(self, ids: Sequence[int], trained: list[bool]) -> list[bool]:
        """Learn the token that ends a turn even where a template's marks leave it out, or none would learn to stop."""
        for index in range(1, len(ids)):
            if trained[index - 1] and not trained[index] and ids[index] in self._turn_ends:
                trained[index] = ids[index - 1] not in self._turn_ends
        return trained

    @cached_property
    def _turn_ends(self) -> frozenset[int]:
        added = self.tokenizer.added_tokens_decoder.items()
        known = {number for number, token in added if str(token.content) in TURN_ENDS}
        end = self.tokenizer.eos_token_id
        return frozenset(known if end is None else known | {end})


def _to_the_end(written: Written) -> str:
    """The text up to the end of its last answer; white space after that isn't learned."""
    end = written.answers[-1][1] if written.answers else len(written.text)
    return written.text if written.text[end:].strip() else written.text[:end]


def _within(written: Written, offsets: Sequence[Span]) -> list[bool]:
    """Which tokens stand in an answer; one that reaches beyond it does if it holds only white space there."""
    found = [False] * len(offsets)
    answers = iter(written.answers)
    answer = next(answers, None)
    for index, (start, end) in enumerate(offsets):
        while answer is not None and answer[1] <= start:
            answer = next(answers, None)
        if answer is None:
            break
        if answer[0] <= start and end <= answer[1]:
            found[index] = True
        elif end > answer[0]:
            outside = written.text[start : answer[0]] + written.text[answer[1] : end]
            found[index] = not outside.strip()
    return found


# --- Rows as the model will see them, for the eye


def see(renderer: Renderer, row: Row, max_length: int | None = None) -> Seen:
    """One row as it will be trained on; of a pair both answers, each after the prompt.

    Raises:
        TemplateRefused: The chat template can't write the conversation.
    """
    if isinstance(row, Pair):
        return _see_pair(renderer, row, max_length)
    whole = renderer.render(row)
    cut = whole.first(max_length)
    return Seen(
        row=row.row,
        parts=seen_parts(renderer, cut),
        tokens=len(cut.input_ids),
        is_cut=len(cut.input_ids) < len(whole.input_ids),
    )


def seen_parts(renderer: Renderer, rendered: Rendered) -> tuple[SeenPart, ...]:
    """What the tokens of a row say, in stretches."""
    return _parts(renderer, rendered.input_ids, rendered.trained)


def _see_pair(renderer: Renderer, row: Pair, max_length: int | None) -> Seen:
    pair = renderer.render_pair(row)
    asked = len(pair.prompt_ids)
    chosen, rejected = (
        (pair.prompt_ids + answer, [False] * asked + [True] * len(answer))
        for answer in (pair.chosen_ids, pair.rejected_ids)
    )
    longest = max(len(chosen[0]), len(rejected[0]))
    return Seen(
        row=row.row,
        parts=_parts(renderer, chosen[0][:max_length], chosen[1][:max_length]),
        rejected=_parts(renderer, rejected[0][:max_length], rejected[1][:max_length]),
        tokens=longest if max_length is None else min(longest, max_length),
        is_cut=max_length is not None and longest > max_length,
    )


def _parts(renderer: Renderer, ids: Sequence[int], trained: Sequence[bool]) -> tuple[SeenPart, ...]:
    stretches = groupby(zip(ids, trained, strict=True), key=lambda token: token[1])
    return tuple(
        SeenPart(renderer.decode([token for token, _ in tokens]), learned) for learned, tokens in stretches
    )


# --- All rows as tokens, one after the other, cut to the longest allowed


REASON_CHARACTERS = 200


def render_rows(
    rows: Iterable[Row],
    renderer: Renderer,
    tally: Tally,
    *,
    max_length: int | None = None,
    gone: "array[int] | None" = None,
) -> Iterator[Rendered]:
    """Conversations and plain texts as tokens; rows without anything left to learn are counted and left out.

    Args:
        rows: Conversations and plain texts; pairs go through `render_pairs`.
        renderer: The tokenizer and what is learned.
        tally: Takes what is found: refused conversations, answers that are cut off, answers that can't be told.
        max_length: Longest row in tokens, what is beyond is cut off; None: as long as they are.
        gone: Takes the tokens of each row that is left out because no answer of it begins before it is cut off.
    """
    for row in rows:
        if isinstance(row, Pair):
            raise TypeError("a pair is rendered by render_pairs")
        try:
            whole = renderer.render(row)
        except TemplateRefused as refusal:
            _count_refused(row, refusal, tally)
            continue
        cut = whole.first(max_length)
        _count(whole, cut, tally, max_length)
        if gone is not None and whole.learns and not cut.learns:
            gone.append(len(whole.input_ids))
        if cut.learns and cut.is_whole:
            yield cut


def _count_refused(row: Row, refusal: TemplateRefused, tally: Tally) -> None:
    reason = refusal.reason[:REASON_CHARACTERS]
    tally.add(
        conversation_shapes.TEMPLATE_REFUSES, row.row, detail=reason, fixes=(conversation_shapes.USE_CHATML,)
    )


def _count(whole: Rendered, cut: Rendered, tally: Tally, max_length: int | None) -> None:
    if not whole.is_whole:
        tally.add(conversation_shapes.ANSWER_LEFT_OUT, whole.row, fixes=(conversation_shapes.USE_CHATML,))
    elif not whole.learns:
        tally.add(conversation_shapes.ANSWER_LOST, whole.row, fixes=(conversation_shapes.USE_CHATML,))
    elif not cut.learns:
        tally.add(conversation_shapes.ANSWERS_GONE, whole.row, detail=f"{max_length:,}")
    else:
        if cut.cut:
            tally.add(conversation_shapes.ANSWERS_CUT, whole.row, detail=f"{max_length:,}")
        if whole.skipped:
            tally.add(
                conversation_shapes.EARLIER_UNTRAINED, whole.row, fixes=(conversation_shapes.USE_CHATML,)
            )


def render_pairs(
    rows: Iterable[Pair],
    renderer: Renderer,
    tally: Tally,
    *,
    max_length: int | None = None,
    gone: "array[int] | None" = None,
) -> Iterator[RenderedPair]:
    """Pairs as tokens, each answer cut so that prompt and answer have at most `max_length` tokens together.

    Pairs whose prompt leaves no room for an answer are counted and left out; `gone` takes their tokens.
    """
    for row in rows:
        try:
            pair = renderer.render_pair(row)
        except TemplateRefused as refusal:
            _count_refused(row, refusal, tally)
            continue
        if not pair.is_whole:
            tally.add(conversation_shapes.ANSWER_LEFT_OUT, row.row, fixes=(conversation_shapes.USE_CHATML,))
            continue
        room = max_length - len(pair.prompt_ids) if max_length is not None else None
        if room is not None and room < 1:
            tally.add(conversation_shapes.ANSWERS_GONE, row.row, detail=f"{max_length:,}")
            if gone is not None:
                gone.append(len(pair.prompt_ids) + max(len(pair.chosen_ids), len(pair.rejected_ids)))
            continue
        cut = replace(pair, chosen_ids=pair.chosen_ids[:room], rejected_ids=pair.rejected_ids[:room])
        if cut != pair:
            tally.add(conversation_shapes.ANSWERS_CUT, row.row, detail=f"{max_length:,}")
        yield cut
