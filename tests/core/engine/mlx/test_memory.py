"""MLX keeps no more than what the forecast leaves, and macOS is never asked to wire more than it recommends."""

import pytest

from core.base.errors import OutOfMemory
from core.options import RunOptions
from core.options.choices import Task

pytest.importorskip("mlx.core")

from core.engine.mlx import memory
from core.engine.mlx.memory import LEAST_CACHE, MlxMemory, cache_limit

GB = 1 << 30


class Limits:
    """MLX's functions with limits, as on a Mac whose macOS recommends so many bytes."""

    def __init__(self, recommended: int | None) -> None:
        self.recommended = recommended
        self.asked: dict[str, int] = {}

    def device_info(self):
        return {} if self.recommended is None else {"max_recommended_working_set_size": self.recommended}

    def set_memory_limit(self, limit):
        self.asked["memory"] = limit

    def set_cache_limit(self, limit):
        self.asked["cache"] = limit

    def set_wired_limit(self, limit):
        self.asked["wired"] = limit


def asked(monkeypatch, kind="mps", ceiling: int | None = 20 * GB, recommended: int | None = 20 * GB):
    limits = Limits(recommended)
    monkeypatch.setattr(memory, "mx", limits)
    held = MlxMemory(kind, ceiling)
    held.limit(12 * GB)
    held.limit_wired()
    return limits.asked


@pytest.mark.parametrize(
    ("ceiling", "forecast", "limit"),
    [
        (20 * GB, 12 * GB, 8 * GB),
        (20 * GB, 0, 20 * GB),
        (20 * GB, 20 * GB, LEAST_CACHE),
        (4 * GB, 9 * GB, LEAST_CACHE),
    ],
)
def test_the_forecast_leaves_room_for_the_cache(ceiling, forecast, limit):
    assert cache_limit(ceiling, forecast) == limit


def test_a_run_is_limited_to_the_ceiling(monkeypatch):
    assert asked(monkeypatch) == {"memory": 20 * GB, "cache": 8 * GB}


def test_a_lower_ceiling_lowers_what_is_wired(monkeypatch):
    assert asked(monkeypatch, ceiling=14 * GB) == {"memory": 14 * GB, "cache": 2 * GB, "wired": 14 * GB}


def test_no_more_is_wired_than_macos_recommends(monkeypatch):
    assert "wired" not in asked(monkeypatch, ceiling=24 * GB)
    assert "wired" not in asked(monkeypatch, recommended=None)


def test_nothing_is_limited_on_a_cpu(monkeypatch):
    assert asked(monkeypatch, "cpu") == asked(monkeypatch, ceiling=None) == {}


def test_cached_buffers_are_no_need():
    held = MlxMemory("mps")
    array = memory.mx.zeros((1 << 20,))
    memory.mx.eval(array)
    sample = held.sample()
    assert sample.bytes >= 4 << 20
    assert sample.needed == sample.bytes
    assert sample.reserved == sample.bytes + sample.cached
    assert held.peak() >= sample.bytes
    assert MlxMemory("cpu").peak() is None


@pytest.mark.parametrize(
    "error",
    [
        "[metal::malloc] Attempting to allocate 48736917632 bytes which is greater than the maximum allowed buffer "
        "size of 30150672384 bytes.",
        "[malloc] Unable to allocate 48736917632 bytes.",
        "[METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackError"
        "OutOfMemory)",
    ],
)
def test_what_mlx_raises_where_memory_ends_is_told_with_remedies(error):
    found = memory.explain(RuntimeError(error), RunOptions(task=Task.CHAT), None)
    assert isinstance(found, OutOfMemory)
    assert found.fixes
    assert (
        memory.explain(RuntimeError("[matmul] Last dimension of a"), RunOptions(task=Task.CHAT), None) is None
    )
