"""Small models made from nothing: their names and sizes. Their tokenizers are trained on the data of the run."""

from dataclasses import dataclass

from core.options import RunOptions
from core.sources import Scheme

LEAST_POSITIONS = 256
"""A model from scratch sees at least so many tokens, so that what is short today may be answered to tomorrow."""


@dataclass(frozen=True)
class ScratchModel:
    """Widths of a small transformer.

    `writes` tells a Llama, which says the next token, from a Bert, which reads a whole text. `inner` is the width of
    the layers between attention's; all tables of tokens are shared with the last layer.
    """

    title: str
    writes: bool
    layers: int
    hidden: int
    heads: int
    inner: int

    def parameters(self, vocabulary: int, positions: int = LEAST_POSITIONS) -> int:
        """How many weights it has, without the head of a classifier.

        Args:
            vocabulary: Tokens its tokenizer knows.
            positions: Tokens it sees at once; a Llama's take no weights.
        """
        hidden, inner = self.hidden, self.inner
        if self.writes:
            block = 4 * hidden * hidden + 3 * hidden * inner + 2 * hidden
            return vocabulary * hidden + self.layers * block + hidden
        block = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
        tables = (vocabulary + positions + 2) * hidden + 2 * hidden
        return tables + self.layers * block + hidden * hidden + hidden

    @property
    def help(self) -> str:
        """One sentence about it, such as "4 layers, 192 wide: 2.0 million weights and 1,024 tokens."."""
        kind = "Writes text" if self.writes else "Reads text"
        millions = self.parameters(1024) / 1e6
        return f"{kind}; {self.layers} layers, {self.hidden} wide, {millions:.1f} million weights."


SCRATCH_MODELS = {
    "llama-tiny": ScratchModel("Llama, tiny", True, layers=2, hidden=64, heads=4, inner=192),
    "llama-small": ScratchModel("Llama, small", True, layers=4, hidden=192, heads=6, inner=512),
    "llama-medium": ScratchModel("Llama, medium", True, layers=8, hidden=512, heads=8, inner=1376),
    "bert-tiny": ScratchModel("Bert, tiny", False, layers=2, hidden=128, heads=2, inner=512),
    "bert-mini": ScratchModel("Bert, mini", False, layers=4, hidden=256, heads=4, inner=1024),
    "bert-small": ScratchModel("Bert, small", False, layers=4, hidden=512, heads=8, inner=2048),
}
"""By name. The Berts have the sizes of https://github.com/google-research/bert#bert, the Llamas Hone's own."""

TIMED_MODELS = {
    "minilm": ScratchModel("MiniLM size", False, layers=6, hidden=384, heads=12, inner=1536),
    "bert-base": ScratchModel("BERT-base", False, layers=12, hidden=768, heads=12, inner=3072),
    "bert-large": ScratchModel("BERT-large", False, layers=24, hidden=1024, heads=16, inner=4096),
}
"""Sizes that benchmarks measure without fetching anything: what a step takes doesn't depend on what the weights are.

The lists to choose from leave them out. From nothing such a model learns little on one computer, and whoever wants it
to learn starts from the published weights.
"""


def is_scratch(source: str) -> bool:
    """Whether a model's source says that it is made from nothing, known or not."""
    return Scheme.SCRATCH.name_of(source) is not None


def starts_random(options: RunOptions) -> bool:
    """Whether the model of a run has learned nothing yet."""
    return not options.model.pretrained or is_scratch(options.model.source)


def scratch_model(source: str) -> ScratchModel | None:
    """The model of `scratch:NAME`; None where `source` is something else, or no such model is known."""
    name = Scheme.SCRATCH.name_of(source) or ""
    return SCRATCH_MODELS.get(name) or TIMED_MODELS.get(name)


def positions_of(max_length: int) -> int:
    """How many tokens a model from scratch sees at once where texts are cut off at `max_length`."""
    return max(LEAST_POSITIONS, max_length)
