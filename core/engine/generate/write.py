"""What a causal model writes: an answer in a conversation, or the continuation of a text, token by token.

With temperature 0 it is what `core.engine.generate.predict` writes, so that Try it says what the predictions of the
run said.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from core.base.errors import UserError
from core.base.language import _
from core.engine.data.chat_tokens import TemplateRefused, render_chat
from core.engine.data.conversations import joined_text
from core.engine.generate.loading import TriedModel
from core.engine.generate.predict import Stop, ends_of, pad_token, positions
from core.options.choices import Speaker
from core.services.chat import Answered, Ask, Chat, EndedBy, Texts, Turn

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What a tokenizer decodes the first bytes of a character to whose others are still to come."""


class Stream:
    """What transformers calls a streamer: `put` gets the prompt first, then each token, `end` comes last.

    Args:
        tokenizer: The model's.
        ends: Tokens that end the text; they are no part of it.
        stop_at: Texts that end it, which are no part of it either.
        tell: Hears each further piece.
    """

    def __init__(
        self, tokenizer: Any, ends: set[int | None], stop_at: Sequence[str], tell: Callable[[str], None]
    ) -> None:
        self._tokenizer = tokenizer
        self._ends = ends
        self._stop_at = tuple(filter(None, stop_at))
        self._tell = tell
        self._ids: list[int] = []
        self._has_prompt = False
        self._told = ""
        self.text = ""
        self.tokens = 0
        self.ended_by: EndedBy | None = None

    def put(self, value: Any) -> None:
        """Take the prompt, or the next token."""
        if not self._has_prompt:
            self._has_prompt = True
            return
        for token in value.reshape(-1).tolist():
            self._add(token)

    def end(self) -> None:
        """Tell what was held back."""
        self._tell_until(len(self.text))

    def _add(self, token: int) -> None:
        if self.ended_by is not None:
            return
        self.tokens += 1
        if token in self._ends:
            self.ended_by = EndedBy.MODEL
            return
        self._ids.append(token)
        self.text = self._tokenizer.decode(self._ids, skip_special_tokens=True)
        stop = min((place for text in self._stop_at if (place := self.text.find(text)) >= 0), default=-1)
        if stop >= 0:
            self.text = self.text[:stop]
            self.ended_by = EndedBy.STOP_TEXT
            self._tell_until(stop)
            return
        most = min(max(map(len, self._stop_at), default=1) - 1, len(self.text))
        held_back = (  # the last letters may be the beginning of a text that ends it
            count
            for count in range(most, 0, -1)
            if any(stop.startswith(self.text[-count:]) for stop in self._stop_at)
        )
        self._tell_until(len(self.text.rstrip(UNFINISHED)) - next(held_back, 0))

    def _tell_until(self, end: int) -> None:
        """Tell what is new up to there; a decoder that writes earlier letters anew is put right by the whole text."""
        if end > len(self._told):
            self._tell(self.text[len(self._told) : end])
            self._told = self.text[:end]


@dataclass(frozen=True)
class Prompt:
    """The token ids that the model reads; `notes` say what was left out."""

    ids: tuple[int, ...]
    notes: tuple[str, ...] = ()


def write(
    model: TriedModel, asked: Ask, tell: Callable[[str], None], is_stopped: Callable[[], bool]
) -> Answered:
    """Write an answer.

    Args:
        model: A causal model.
        asked: A conversation, or a text.
        tell: Hears each further piece of the text.
        is_stopped: Whether it is to end early.

    Raises:
        UserError: There is nothing to go on from, or the chat template can't write it.
    """
    # at most half of what the model can see is written, which leaves the rest to read
    room = max(1, min(asked.writing.max_tokens, positions(model.model) // 2))
    prompt = _prompt(model, asked, positions(model.model) - room)
    pad = pad_token(model.tokenizer)
    ends = {pad, model.tokenizer.eos_token_id, *ends_of(model.model)}
    stream = Stream(model.tokenizer, ends, asked.writing.stop_at, tell)
    device = next(model.model.parameters()).device
    ids = torch.tensor([prompt.ids], device=device)
    sampling: dict[str, Any] = {"do_sample": False}
    if asked.writing.temperature > 0:
        writing = asked.writing
        sampling = {"do_sample": True, "temperature": writing.temperature, "top_p": writing.top_p, "top_k": 0}
    torch.manual_seed(asked.writing.seed)
    model.model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=room,
        num_beams=1,
        use_cache=True,
        pad_token_id=pad,
        streamer=stream,
        stopping_criteria=[Stop(lambda: stream.ended_by is not None or is_stopped())],
        **sampling,
    )
    return Answered(
        id=asked.id,
        name=model.name,
        text=stream.text,
        ended_by=stream.ended_by or (EndedBy.PERSON if is_stopped() else EndedBy.LENGTH),
        read=len(prompt.ids),
        tokens=stream.tokens,
        notes=prompt.notes,
    )


def _prompt(model: TriedModel, asked: Ask, room: int) -> Prompt:
    match asked.given:
        case Chat():
            found = _of_chat(model, asked.given, room)
        case Texts():
            found = _of_text(model, asked.given, room)
        case _:
            raise UserError(
                _("This model can't be asked that"), _("{name} reads texts.").format(name=model.name)
            )
    if not found.ids:
        raise UserError(
            _("There is nothing to go on from"), _("Write how the text begins, or what is asked.")
        )
    return found


def _of_text(model: TriedModel, given: Texts, room: int) -> Prompt:
    text = "\n".join(given.texts)
    ids = tuple(model.tokenizer(text, add_special_tokens=not given.as_read, verbose=False)["input_ids"])
    if len(ids) <= room:
        return Prompt(ids)
    return Prompt(
        ids[-room:],
        (
            _("Only the last {room:,} of {ids:,} tokens were read: {model}.").format(
                room=room, ids=len(ids), model=_sight(model)
            ),
        ),
    )


def _of_chat(model: TriedModel, given: Chat, room: int) -> Prompt:
    """The conversation as the model's template writes it; where it is too long, without its oldest turns."""
    turns = _settled(given.turns)
    whole = len(turns)
    ids = _written(model, given.system, turns)
    while len(ids) > room and len(turns) > 1:
        turns = _without_oldest(turns)
        ids = _written(model, given.system, turns)
    left = whole - len(turns)
    notes: tuple[str, ...] = ()
    if left:
        earlier = (
            _("The earliest turn was") if left == 1 else _("The earliest {left} turns were").format(left=left)
        )
        notes = (_("{earlier} left out: {model}.").format(earlier=earlier, model=_sight(model)),)
    if len(ids) > room:
        notes = (
            *notes,
            _("Only the last {room:,} tokens of the question were read: {model}.").format(
                room=room, model=_sight(model)
            ),
        )
    return Prompt(ids[-room:], notes)


def _sight(model: TriedModel) -> str:
    return _("the model sees {model:,} tokens, those it writes included").format(model=positions(model.model))


def _settled(turns: Sequence[Turn]) -> list[Turn]:
    """Two turns of one speaker as one: many templates refuse them (an answer may have been empty)."""
    settled: list[Turn] = []
    for turn in turns:
        if not turn.text.strip():
            continue
        if settled and settled[-1].role is turn.role:
            settled[-1] = Turn(turn.role, joined_text(settled[-1].text, turn.text))
        else:
            settled.append(turn)
    return settled


def _without_oldest(turns: Sequence[Turn]) -> list[Turn]:
    """Without the first turn, and what answers it: a conversation begins with a person."""
    rest = list(turns[1:])
    while len(rest) > 1 and rest[0].role is not Speaker.USER:
        rest = rest[1:]
    return rest


def _written(model: TriedModel, system: str, turns: Sequence[Turn]) -> tuple[int, ...]:
    messages = [{"role": turn.role.value, "content": turn.text} for turn in turns]
    if not messages:
        return ()
    if system.strip():
        messages = [{"role": Speaker.SYSTEM.value, "content": system}, *messages]
    try:
        text, _rest = render_chat(model.tokenizer, messages, add_generation_prompt=True)
    except TemplateRefused as refused:
        raise UserError(_("The model's chat template refuses this conversation"), refused.reason) from refused
    return tuple(model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
