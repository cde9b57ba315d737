"""How long the longest text is known to be, for other choices of padding and length too than it was found for."""

from dataclasses import dataclass

import msgspec

from core.memory.forecast import Forecast
from core.options import DataOptions, RunOptions

_DEFAULTS = DataOptions()


@dataclass(frozen=True)
class KnownLength:
    """What a trace has found of the data of `options`: its longest text has `tokens`, cut off as these options cut."""

    options: RunOptions
    tokens: int

    def of(self, options: RunOptions) -> int | None:
        """Tokens of the longest text under other options; None: it would have to be looked for again."""
        most, before = options.data.max_length, self.options.data.max_length
        was_cut = self.tokens >= before
        if _texts(options) != _texts(self.options) or (was_cut and most > before):
            return None
        return min(self.tokens, most)


def known_length(options: RunOptions, traced: Forecast) -> KnownLength | None:
    """What a trace of `options` tells of the longest text; None: nothing."""
    return None if traced.longest_text is None else KnownLength(options, traced.longest_text)


def _texts(options: RunOptions) -> object:
    """What decides how long texts are before they are cut off or filled up."""
    data = msgspec.structs.replace(options.data, max_length=_DEFAULTS.max_length, padding=_DEFAULTS.padding)
    return options.task, data, options.model.source
