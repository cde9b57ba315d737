"""A text while it is written: tokens come in one by one, pieces that can be read go out."""

from collections.abc import Callable, Sequence
from typing import Any

from core.trying import EndedBy

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

    @property
    def is_over(self) -> bool:
        """Whether the text has come to its end by itself."""
        return self.ended_by is not None

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
        if self.is_over:
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
        self._tell_until(len(self.text.rstrip(UNFINISHED)) - self._held_back())

    def _held_back(self) -> int:
        """How many of the last letters may be the beginning of a text that ends it."""
        most = max(map(len, self._stop_at), default=1) - 1
        return next(
            (
                count
                for count in range(min(most, len(self.text)), 0, -1)
                if any(stop.startswith(self.text[-count:]) for stop in self._stop_at)
            ),
            0,
        )

    def _tell_until(self, end: int) -> None:
        """Tell what is new up to there; a decoder that writes earlier letters anew is put right by the whole text."""
        if end > len(self._told):
            self._tell(self.text[len(self._told) : end])
            self._told = self.text[:end]
