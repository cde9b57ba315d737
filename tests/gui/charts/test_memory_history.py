"""How samples become bands: all in whole GB, a second apart."""

import math

import pytest

from core.runs.events import MemorySampled, Pressure, RunPlanned, Source
from gui.charts.history import MemoryHistory

GB = 1 << 30


def sample(source, gigabytes, **figures):
    scaled = {
        name: value * GB if isinstance(value, int) and value > 1 else value for name, value in figures.items()
    }
    return MemorySampled(source=source, bytes=gigabytes * GB, **scaled)


def torch(live, held, *, of, unified):
    return sample(Source.TORCH, live, reserved=held, ceiling=of, unified=unified)


def planned(device):
    return RunPlanned(
        total_steps=3, epochs=1, train_samples=3, eval_samples=0, effective_batch=1, device=device
    )


def told(*moments):
    """A history that was told the events of each moment, a second after the other."""
    history = MemoryHistory()
    for clock, events in enumerate(moments):
        for event in events:
            history.apply(event, float(clock))
    return history


def tops(picture, clock):
    """The tops of the bands in GB, from below."""
    series = picture.tensors, picture.held, picture.run, picture.used
    return [None if (top := one.at(clock)) is None else top / GB for one in series]


def test_on_a_cpu_the_process_lies_under_everyone():
    history = told([sample(Source.PROCESS, 3), sample(Source.SYSTEM, 10, ceiling=16)])
    assert not history.is_of_card
    assert tops(history.picture, 0) == [None, None, 3, 10]
    assert (history.picture.ceiling, history.picture.limit) == (16 * GB, None)


def test_memory_that_a_gpu_shares_is_one_picture():
    loading = [sample(Source.PROCESS, 2), sample(Source.SYSTEM, 9, ceiling=16)]
    training = [
        torch(4, 6, of=11, unified=True),
        sample(Source.PROCESS, 2),
        sample(Source.SYSTEM, 15, ceiling=16),
    ]
    history = told([*loading, planned("mps")], training)
    assert not history.is_of_card
    assert tops(history.picture, 0) == [None, None, 2, 9]
    assert tops(history.picture, 1) == [4, 6, 8, 15]
    assert (history.picture.ceiling, history.picture.limit) == (16 * GB, 11 * GB)


def test_a_cuda_gpu_that_shares_memory_is_no_card():
    history = told(
        [planned("cuda:0"), torch(4, 6, of=120, unified=True), sample(Source.SYSTEM, 20, ceiling=120)]
    )
    assert not history.is_of_card
    assert tops(history.picture, 0) == [4, 6, 6, 20]


def test_a_card_has_a_picture_of_its_own_and_the_computers_is_kept():
    history = told(
        [planned("cuda:0"), torch(7, 9, of=24, unified=False)],
        [
            sample(Source.PROCESS, 3),
            sample(Source.NVML, 14, ceiling=23, own=10),
            sample(Source.SYSTEM, 12, ceiling=32),
        ],
    )
    assert history.is_of_card
    assert tops(history.card, 1) == [7, 9, 10, 14]
    assert history.card.ceiling == 23 * GB
    assert tops(history.computer, 1) == [None, None, 3, 12]


def test_where_the_driver_does_not_know_the_process_torch_is_all_there_is_of_the_run():
    history = told(
        [planned("cuda:0"), torch(7, 9, of=24, unified=False), sample(Source.NVML, 14, ceiling=23)],
    )
    assert tops(history.card, 0) == [7, 9, 9, 14]


def test_a_card_whose_driver_tells_nothing_is_drawn_by_torch():
    history = told([planned("cuda:0")], [torch(7, 9, of=24, unified=False)])
    assert tops(history.picture, 1) == [7, 9, 9, None]
    assert history.picture.ceiling == 24 * GB


def test_a_run_that_computes_on_the_cpu_after_all_shows_the_computer():
    loading = [sample(Source.NVML, 1, ceiling=23), sample(Source.SYSTEM, 10, ceiling=16)]
    assert told(loading).is_of_card
    assert not told(loading, [planned("cpu")]).is_of_card


def test_everyone_holds_at_least_what_the_run_does():
    history = told([sample(Source.PROCESS, 12), sample(Source.SYSTEM, 10, ceiling=16)])
    assert tops(history.picture, 0) == [None, None, 12, 12]


def test_what_torch_told_last_stands_until_another_attempt():
    later = [MemorySampled(source=Source.SYSTEM, bytes=9 * GB, ceiling=16 * GB, attempt=2)]
    history = told(
        [torch(4, 6, of=11, unified=True)],
        [sample(Source.PROCESS, 2), sample(Source.SYSTEM, 15, ceiling=16)],
        [sample(Source.PROCESS, 2), sample(Source.SYSTEM, 15, ceiling=16)],
        *[[]] * 5,
        later,
    )
    assert tops(history.picture, 2) == [4, 6, 8, 15]
    assert tops(history.picture, 8) == [0, 0, 0, 9], "the next attempt begins with nothing"
    assert history.picture.run.x.tolist() == [1, 2, 8], "and nothing is made up before it"
    assert history.picture.used.last == 9 * GB
    assert history.picture.run.last == 0


@pytest.mark.parametrize(
    ("pressure", "level"), [(Pressure.NORMAL, 0.0), (Pressure.WARN, 1.0), (Pressure.CRITICAL, 2.0)]
)
def test_pressure_is_a_level(pressure, level):
    history = told([MemorySampled(source=Source.SYSTEM, bytes=1, swap=7, compressed=5, pressure=pressure)])
    assert (history.pressure.last, history.swap.last, history.compressed.last) == (level, 7.0, 5.0)


def test_what_is_not_known_is_no_zero():
    history = told([MemorySampled(source=Source.SYSTEM, bytes=1)])
    assert history.pressure.last is not None
    assert math.isnan(history.pressure.last)
    assert (len(history.swap), len(history.compressed)) == (0, 0)
