"""Memory that MLX holds, its limits on Metal, and what its errors mean. All figures are bytes."""

import mlx.core as mx

from core.base.errors import UserError
from core.base.system import physical_footprint
from core.engine.devices.computing import is_out_of_memory
from core.engine.run import failures
from core.options import RunOptions
from core.runs.events import MemoryForecast, MemorySampled, Source
from core.runs.words import out_of_memory

LEAST_CACHE = 256 << 20
"""Bytes that MLX may keep for reuse even where the forecast leaves nothing."""


class MlxMemory:
    """What MLX holds: live arrays, and buffers that it keeps for reuse, which its own peak leaves out.

    Attributes:
        kind: The kind of the device, as in `DeviceMemory`.
        ceiling: The most bytes that the run may take; None on a CPU.
    """

    def __init__(self, kind: str, ceiling: int | None = None) -> None:
        self.kind = kind
        self._ceiling = None if kind == "cpu" else ceiling

    def sample(self) -> MemorySampled:
        active, kept = mx.get_active_memory(), mx.get_cache_memory()
        return MemorySampled(
            source=Source.TORCH,
            bytes=active,
            reserved=active + kept,
            cached=kept,
            footprint=physical_footprint(),
            ceiling=self._ceiling,
            unified=True,
        )

    def peak(self) -> int | None:
        """Returns the peak of live arrays, which is what a forecast is about; None on a CPU."""
        return None if self.kind == "cpu" else mx.get_peak_memory()

    def limit(self, forecast: int | None) -> None:
        """Limits arrays to the ceiling, and the buffers kept for reuse to what the forecast leaves of it."""
        if self._ceiling is not None:
            mx.set_memory_limit(self._ceiling)
            mx.set_cache_limit(cache_limit(self._ceiling, forecast or 0))

    def limit_wired(self) -> None:
        """Lowers the memory that macOS may not page out to the ceiling; call it once mlx-lm's loop has begun.

        mlx-lm sets exactly what macOS recommends (`maybe_set_recommended_wired_limit`). More locks a Mac up.
        """
        recommended = mx.device_info().get("max_recommended_working_set_size")
        if self._ceiling is not None and isinstance(recommended, int) and self._ceiling < recommended:
            mx.set_wired_limit(self._ceiling)


def cache_limit(ceiling: int, forecast: int) -> int:
    """Returns the most bytes that MLX may keep for reuse: what the forecast leaves of the ceiling, at least a little.

    Without a limit they fill a Mac's memory (mlx-lm issue 828); with none kept, each buffer is allocated anew.
    """
    return max(LEAST_CACHE, ceiling - forecast)


def explain(error: Exception, options: RunOptions, forecast: MemoryForecast | None) -> UserError | None:
    """Returns the UserError for an error while training, or None if it is a bug."""
    if is_out_of_memory(error):
        return out_of_memory(options, forecast, str(error))
    return failures.explain(error, options)
