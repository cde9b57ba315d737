"""Memory that MLX holds, in bytes, and what its errors mean."""

import mlx.core as mx

from core.base.errors import UserError
from core.engine.run import failures
from core.engine.run.failures import says
from core.options import RunOptions
from core.runs.events import MemoryForecast, MemorySampled, Source
from core.runs.words import out_of_memory

OUT_OF_MEMORY = ("[metal::malloc]", "insufficient memory", "[malloc_or_wait]", "unable to allocate")


class MlxMemory:
    """What MLX holds; `reserved` counts the buffers that it keeps for reuse, which its own peak leaves out.

    Attributes:
        kind: The kind of the device, as in `DeviceMemory`.
        ceiling: The most bytes that the run may take.
    """

    def __init__(self, kind: str, ceiling: int | None = None) -> None:
        self.kind = kind
        self._ceiling = ceiling
        self._highest = 0

    def sample(self) -> MemorySampled:
        active, kept = mx.get_active_memory(), mx.get_cache_memory()
        self._highest = max(self._highest, active + kept, mx.get_peak_memory())
        return MemorySampled(
            source=Source.TORCH, bytes=active, reserved=active + kept, ceiling=self._ceiling, unified=True
        )

    def peak(self) -> int | None:
        """Returns the peak of `reserved`; None on a CPU."""
        if self.kind == "cpu":
            return None
        self.sample()
        return self._highest


def explain(error: Exception, options: RunOptions, forecast: MemoryForecast | None) -> UserError | None:
    """Returns the UserError for an error while training, or None if it is a bug."""
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and says(error, OUT_OF_MEMORY)):
        return out_of_memory(options, forecast, str(error))
    return failures.explain(error, options)
