import pytest
from msgspec.structs import replace

from core.monitor.recent import STOP
from core.runs.events import DeviceSampled, Source
from tests.fakes.healthy_runs import GPU, RESTING_GPU
from tests.fakes.told_run import ToldRun, watch

TOO_HOT = replace(GPU, temperature=89, clock=1400, throttled=("thermal slowdown (hardware)",))
MAC = DeviceSampled(source=Source.APPLE, name="Apple M3", busy=0.95, thermal=0)


def run_on(*gpus: tuple[DeviceSampled, int]) -> ToldRun:
    """A run in which the GPU is as said for so many seconds each."""
    run = ToldRun(steps=2000, device="cuda:0")
    for gpu, seconds in gpus:
        run.computer.gpu = gpu
        run.steps(seconds * 2, 0.5)
    return run


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (TOO_HOT, "thermal slowdown (hardware) (89 °C, 1,400 of 2,800 MHz, 380 of 450 W)"),
        (replace(GPU, throttled=("hardware slowdown",)), "hardware slowdown"),
        (replace(GPU, clock=1200, throttled=("power cap",)), "power cap"),
        (replace(GPU, clock=1900, temperature=91, throttled=None), "it is hot, and its clock is low"),
        (replace(MAC, thermal=2), "macOS calls the thermal pressure “heavy”"),
    ],
)
def test_a_processor_that_is_held_back_is_told_of_once_with_its_reason(
    gpu: DeviceSampled, words: str
) -> None:
    message = watch(run_on((gpu, 120)).events).one
    assert message.id == "throttling"
    assert message.title.startswith(gpu.name)
    assert words in message.detail
    assert message.fixes == (STOP,)


def test_a_moment_of_heat_is_not_worth_a_word() -> None:
    assert watch(run_on((GPU, 60), (TOO_HOT, 15), (GPU, 60)).events).messages == []


def test_it_is_withdrawn_once_it_has_cooled_down() -> None:
    watched = watch(run_on((GPU, 40), (TOO_HOT, 60), (GPU, 60)).events)
    assert len(watched.raised) == 1
    assert watched.withdrawn == ["throttling"]


def test_heat_that_comes_and_goes_is_told_of_once() -> None:
    waves = [part for _ in range(6) for part in ((TOO_HOT, 15), (GPU, 12))]
    watched = watch(run_on((TOO_HOT, 40), *waves).events)
    assert len(watched.messages) == 1


@pytest.mark.parametrize(
    "gpu",
    [
        replace(GPU, clock=1700, throttled=("power cap",)),  # as on any laptop
        replace(RESTING_GPU, throttled=("thermal slowdown (software)",)),
        replace(RESTING_GPU, throttled=None, temperature=90),
        replace(GPU, throttled=None, clock=None, temperature=92),
        DeviceSampled(source=Source.NVML, name="A GPU that tells nothing"),
        replace(MAC, thermal=1),
    ],
)
def test_what_is_ordinary_or_not_known_alarms_nobody(gpu: DeviceSampled) -> None:
    assert watch(run_on((gpu, 120)).events).messages == []
