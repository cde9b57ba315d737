"""Answers of a causal model in Try it: a turn of a conversation, or the continuation of a text, token by token.

With temperature 0 they are those of `core.engine.generate.predict`, which a run shows as its predictions.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from core.base.errors import UserError
from core.base.language import _, ngettext
from core.engine.data import UNFINISHED
from core.engine.data.chat_tokens import TemplateRefused, render_chat
from core.engine.data.conversations import joined_text
from core.engine.generate.loading import TriedModel
from core.engine.generate.predict import ShouldStop, end_tokens, generate, max_positions
from core.options.choices import Speaker
from core.services.chat import Answered, Ask, Chat, EndedBy, Texts, Turn


class Stream:
    """A streamer for transformers' `generate`: `put` gets the prompt first, then each token.

    Tokens `ends` and texts `stop_at` end the text and aren't part of it. `on_text` gets each new piece of it.
    """

    def __init__(
        self, tokenizer: Any, ends: set[int | None], stop_at: Sequence[str], on_text: Callable[[str], None]
    ) -> None:
        self._tokenizer = tokenizer
        self._ends = ends
        self._stop_at = tuple(filter(None, stop_at))
        self._on_text = on_text
        self._ids: list[int] = []
        self._has_prompt = False
        self._sent = 0
        self.text = ""
        self.tokens = 0
        self.ended_by: EndedBy | None = None

    def put(self, value: Any) -> None:
        """Add the prompt, which is ignored, or a token."""
        tokens = value.reshape(-1).tolist() if self._has_prompt else ()
        self._has_prompt = True
        for token in tokens:
            if self.ended_by is None:
                self._add(token)

    def end(self) -> None:
        """Send the text that was held back."""
        self.text = self.text.rstrip(UNFINISHED)
        self._send(len(self.text))

    def _add(self, token: int) -> None:
        self.tokens += 1
        if token in self._ends:
            self.ended_by = EndedBy.MODEL
            return
        self._ids.append(token)
        self.text = self._tokenizer.decode(self._ids, skip_special_tokens=True).lstrip(UNFINISHED)
        stop = min((place for text in self._stop_at if (place := self.text.find(text)) >= 0), default=-1)
        if stop >= 0:
            self.text = self.text[:stop]
            self.ended_by = EndedBy.STOP_TEXT
            self._send(stop)
            return
        # the last letters may be the beginning of a text to stop at
        most = min(max(map(len, self._stop_at), default=1) - 1, len(self.text))
        held_back = (
            count
            for count in range(most, 0, -1)
            if any(stop.startswith(self.text[-count:]) for stop in self._stop_at)
        )
        self._send(len(self.text.rstrip(UNFINISHED)) - next(held_back, 0))

    def _send(self, end: int) -> None:
        if end > self._sent:
            self._on_text(self.text[self._sent : end])
            self._sent = end


def write(model: TriedModel, asked: Ask, on_text: Callable[[str], None], should_stop: ShouldStop) -> Answered:
    """Generate an answer.

    Raises:
        UserError: The prompt is empty, or the chat template can't write it.
    """
    writing, positions = asked.writing, max_positions(model.model)
    new_tokens = max(1, min(writing.max_tokens, positions // 2))  # at least half is for the prompt
    match asked.given:
        case Chat():
            ids, notes = _chat_prompt(model, asked.given, positions - new_tokens)
        case Texts():
            ids, notes = _text_prompt(model, asked.given, positions - new_tokens)
        case _:
            raise UserError(
                _("This model can't answer that"), _("{name} reads texts.").format(name=model.name)
            )
    if not ids:
        raise UserError(_("There is nothing to continue"), _("Write the beginning of a text, or a question."))
    ends = end_tokens(model.model, model.tokenizer)
    stream = Stream(model.tokenizer, ends, writing.stop_at, on_text)
    sampling: dict[str, Any] = {"do_sample": False}
    if writing.temperature > 0:
        sampling = {"do_sample": True, "temperature": writing.temperature, "top_p": writing.top_p, "top_k": 0}
    torch.manual_seed(writing.seed)
    generate(
        model.model,
        model.tokenizer,
        [ids],
        new_tokens,
        lambda: stream.ended_by is not None or should_stop(),
        streamer=stream,
        **sampling,
    )
    return Answered(
        id=asked.id,
        name=model.name,
        text=stream.text,
        ended_by=stream.ended_by or (EndedBy.PERSON if should_stop() else EndedBy.LENGTH),
        read=len(ids),
        tokens=stream.tokens,
        notes=notes,
    )


def _text_prompt(model: TriedModel, given: Texts, most: int) -> tuple[list[int], tuple[str, ...]]:
    """Return at most `most` tokens, and a note if the beginning of the text is cut off."""
    text = "\n".join(given.texts)
    ids = list(model.tokenizer(text, add_special_tokens=not given.as_read, verbose=False)["input_ids"])
    return ids[-most:], _cut(model, ids, most)


def _cut(model: TriedModel, ids: list[int], most: int) -> tuple[str, ...]:
    note = _(
        "Only the last {most:,} of {count:,} tokens were read. The model is limited to {limit:,} in all."
    )
    if len(ids) <= most:
        return ()
    return (note.format(most=most, count=len(ids), limit=max_positions(model.model)),)


def _chat_prompt(model: TriedModel, given: Chat, most: int) -> tuple[list[int], tuple[str, ...]]:
    """Write a conversation with the model's template, without its oldest turns if it is too long."""
    turns: list[Turn] = []
    for turn in given.turns:  # many templates refuse consecutive turns of one role
        if turn.text.strip() and turns and turns[-1].role is turn.role:
            turns[-1] = Turn(turn.role, joined_text(turns[-1].text, turn.text))
        elif turn.text.strip():
            turns.append(turn)
    count = len(turns)
    ids = _chat_tokens(model, given.system, turns)
    while len(ids) > most and len(turns) > 1:
        turns = turns[1:]
        while len(turns) > 1 and turns[0].role is not Speaker.USER:
            turns = turns[1:]
        ids = _chat_tokens(model, given.system, turns)
    notes = _cut(model, ids, most)
    if left_out := count - len(turns):
        note = ngettext(
            "The earliest turn was left out. The model is limited to {limit:,} tokens in all.",
            "The earliest {count} turns were left out. The model is limited to {limit:,} tokens in all.",
            left_out,
        )
        notes = (note.format(count=left_out, limit=max_positions(model.model)), *notes)
    return ids[-most:], notes


def _chat_tokens(model: TriedModel, system: str, turns: Sequence[Turn]) -> list[int]:
    messages = [{"role": turn.role.value, "content": turn.text} for turn in turns]
    if not messages:
        return []
    if system.strip():
        messages = [{"role": Speaker.SYSTEM.value, "content": system}, *messages]
    try:
        text = render_chat(model.tokenizer, messages, add_generation_prompt=True)[0]
    except TemplateRefused as refused:
        raise UserError(_("The model's chat template refuses this conversation"), refused.reason) from refused
    return list(model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
