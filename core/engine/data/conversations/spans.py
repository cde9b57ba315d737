"""Where in a rendered conversation the answers stand, as character positions.

Two ways. Templates with `{% generation %}` say it themselves. With others, the conversation is rendered up to each
answer and through it: what the whole begins with in both cases bounds the answer. That only holds for templates that
write earlier turns always alike; one that rewrites them (Qwen3's takes thoughts out of all but the last answers) is
noticed, and only what can be told for certain is learned.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2.exceptions import TemplateError

from core.ceiling import Pace, reading
from core.conversation_words import Speaker
from core.engine.data.conversations.rows import Message, as_dicts
from core.errors import DataError

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
