"""The two allocators that are only counted hand out memory as glibc and CUDA's caching allocator do."""

from core.engine.memory.cuda_cache import CudaCache
from core.engine.memory.glibc_heap import GlibcHeap

MIB = 1 << 20


def growth(heap: GlibcHeap, *, small_objects: bool) -> int:
    """Bytes a heap grows by when every other of many tensors goes and as many of the same size come."""
    for number in range(80):
        heap.take_aligned(number, MIB)
        for size in (40, 56, 88, 104) if small_objects else ():
            heap.take((number, size), size)
    before = heap.peak
    for number in range(0, 80, 2):
        heap.free(number)
    for number in range(0, 80, 2):
        heap.take_aligned(number, MIB)
    return heap.peak - before


def test_a_heap_reuses_the_gap_of_a_tensor_for_a_smaller_one() -> None:
    heap = GlibcHeap()
    heap.take_aligned("first", 10 * MIB)
    heap.take_aligned("above", 10 * MIB)
    before = heap.peak
    heap.free("first")
    heap.take_aligned("second", 10 * MIB - 4096)
    assert heap.peak == before


def test_small_objects_in_the_ends_of_gaps_leave_them_too_small_for_the_next_tensors() -> None:
    alone, among_others = (growth(GlibcHeap(), small_objects=some) for some in (False, True))
    assert among_others > 30 * MIB
    assert alone < among_others / 2


def test_what_is_large_goes_back_at_once_and_what_is_not_stays() -> None:
    heap = GlibcHeap()
    heap.take_aligned("large", 40 * MIB)
    heap.take_aligned("below", 10 * MIB)
    heap.take_aligned("above", 10 * MIB)
    heap.free("large")
    heap.free("below")
    assert 20 * MIB <= heap.held < 21 * MIB
    assert heap.peak > 60 * MIB


def test_a_long_free_end_of_the_heap_goes_back() -> None:
    heap = GlibcHeap()
    for number in range(100):
        heap.take_aligned(number, 2 * MIB)
    for number in reversed(range(100)):
        heap.free(number)
    assert heap.peak > 200 * MIB
    assert heap.held < 100 * MIB


def test_cuda_reserves_in_segments() -> None:
    cache = CudaCache()
    cache.take_aligned("small", 100)
    assert cache.held == 2 * MIB
    cache.take_aligned("also small", MIB)
    assert cache.held == 2 * MIB
    cache.take_aligned("middling", 3 * MIB)
    assert cache.held == 22 * MIB
    cache.take_aligned("large", 17 * MIB + 5)
    assert cache.held == 40 * MIB  # rounded to 2 MiB: 18


def test_cuda_keeps_what_is_free_and_joins_it() -> None:
    cache = CudaCache()
    for name in ("a", "b"):
        cache.take_aligned(name, 8 * MIB)
    assert cache.held == 20 * MIB
    for name in ("a", "b"):
        cache.free(name)
    cache.take_aligned("both", 16 * MIB)
    assert (cache.held, cache.peak) == (20 * MIB, 20 * MIB)


def test_cuda_leaves_a_large_block_whole_where_little_would_be_left() -> None:
    cache = CudaCache()
    cache.take_aligned("a", 14 * MIB)
    cache.free("a")
    cache.take_aligned("nearly all", 13 * MIB + MIB // 2)
    cache.take_aligned("half", MIB // 2)  # not in the rest: it is of the other kind, and there is none
    assert cache.held == 16 * MIB
