"""Conversations as tokens, each of which is learned or only read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from core.choices import LossOn
from core.engine.data.conversations.rows import Conversation, Pair, PlainText
from core.engine.data.conversations.spans import Span, Writer, Written
from core.engine.data.lengths import NO_LABEL
from core.errors import ModelError

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
