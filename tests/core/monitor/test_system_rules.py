"""Warnings about the machine, over made-up runs that a watchdog sees second by second; and the watchdog itself."""

import sys
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from core.base.errors import Fix
from core.memory.model import Basis, Parts
from core.monitor.keeper import Watchdog
from core.monitor.recent import END, REVEAL, STOP
from core.monitor.system_rules import SILENT_PHASES, Activity, held_back
from core.options.sections import OutputOptions
from core.runs.event_log import EventReader
from core.runs.events import (
    BatterySampled,
    DeviceSampled,
    DiskSampled,
    Event,
    Level,
    MemoryForecast,
    MemorySampled,
    MessageRaised,
    Phase,
    RunStarted,
    Source,
    StepFinished,
    Throttle,
    WhatRan,
)
from tests.fakes.watched_runs import (
    GB,
    GPU,
    HEALTHY,
    MB,
    OPTIONS,
    RESTING_GPU,
    FakeActivity,
    ToldRun,
    told,
    watch,
)

# --- Battery


def on_battery(*readings: tuple[float, bool | None]) -> ToldRun:
    """A run of 20 seconds for each reading: what is left, and whether it is plugged in."""
    run = ToldRun(steps=600)
    for share, is_plugged in readings:
        run.computer.battery = BatterySampled(share=share, is_plugged=is_plugged)
        run.steps(40, 0.5)
    return run


@pytest.mark.parametrize(
    ("readings", "levels", "withdrawn"),
    [
        ([(0.9, False), (0.8, False), (0.7, False)], [Level.INFO], 0),
        ([(0.5, False), (0.29, False), (0.31, False), (0.28, False)], [Level.INFO, Level.WARNING], 0),
        ([(0.2, False), (0.2, True)], [Level.WARNING], 1),
        ([(0.1, True)], [], 0),
        ([(0.1, None)], [], 0),
    ],
)
def test_battery(readings, levels, withdrawn):
    run = on_battery(*readings)
    watched = watch(run.events)
    assert [message.level for message in watched.raised] == levels
    assert watched.withdrawn == ["battery"] * withdrawn
    assert all(message.fixes == (STOP,) for message in watched.raised)
    run.finish()
    assert watch(run.events).withdrawn == ["battery"] * bool(levels), "it goes with the run"


# --- Disk


def on_disk(*free: int, checkpoint: int = 0) -> ToldRun:
    """A run on a disk with so many bytes free, one after the other."""
    run = ToldRun(steps=600)
    run.steps(10, 0.5)
    if checkpoint:
        run.save(checkpoint)
    for each in free:
        run.computer.disk = DiskSampled(free=each, total=256 * GB)
        run.steps(10, 0.5)
    return run


LOW, NO_ROOM = "The disk is nearly full", "The disk has no space for the next checkpoint"


@pytest.mark.parametrize(
    ("free", "checkpoint", "titles"),
    [
        ([GB], 0, [LOW]),
        ([5 * GB], 2 * GB, []),
        ([5 * GB], 3 * GB, [LOW]),
        ([2 * GB], 3 * GB, [NO_ROOM]),
        ([5 * GB, 2 * GB], 3 * GB, [LOW, NO_ROOM]),
        ([int(1.9 * GB), int(2.1 * GB)] * 4, 0, [LOW]),
    ],
)
def test_disk(free, checkpoint, titles):
    run = on_disk(*free, checkpoint=checkpoint)
    raised = watch(run.events).raised
    assert [message.title for message in raised] == titles
    for message in raised:
        assert message.fixes == ((REVEAL, STOP) if message.title == LOW else (REVEAL,)), "stopping saves, too"
    kept = watch(run.events, options=replace(OPTIONS, output=OutputOptions(keep_checkpoints=5))).raised
    assert all(message.fixes[0].changes == {"output.keep_checkpoints": 1} for message in kept)
    run.finish()
    assert watch(run.events).withdrawn == ["disk-full"] * bool(titles)


def test_the_disk_warning_goes_once_there_is_clearly_more_and_without_samples_there_is_none():
    assert watch(on_disk(GB, 3 * GB).events).withdrawn == ["disk-full"]
    run = ToldRun(steps=600)
    run.computer.disk = None
    run.steps(100, 0.5)
    assert watch(run.events).messages == []


@pytest.mark.parametrize(
    ("ran", "size"),
    [
        ({"parameter_dtype": "float32"}, "12 GB"),
        ({"parameter_dtype": "bfloat16"}, "10 GB"),
        ({"parameter_dtype": "bfloat16 + float32"}, "12 GB"),
        ({"parameter_dtype": "float32", "adapter": "LoRA", "trainable_parameters": GB // 4}, "9.0 GB"),
    ],
)
def test_the_size_of_the_first_checkpoint_follows_from_what_ran(ran, size):
    run = on_disk()
    figures = {"total_parameters": GB, "optimizer_state_bytes": 8 * GB, **ran}
    run.events = [replace(e, **figures) if isinstance(e, WhatRan) else e for e in run.events]
    run.computer.disk = DiskSampled(free=7 * GB, total=256 * GB)
    run.steps(10, 0.5)
    assert f"about {size}." in watch(run.events).one.detail


# --- Silence


def training(seconds: float = 0.5) -> ToldRun:
    run = ToldRun(steps=600)
    run.steps(40, seconds)
    return run


@pytest.mark.parametrize(
    ("busy", "words"), [(0.98, "uses 98 % of a"), (0.001, "and idle"), (None, "isn't known")]
)
def test_after_90_s_without_a_step_it_tells_what_the_process_does(busy, words):
    run = training()
    run.wait(88)
    assert watch(run.events, activity=FakeActivity(busy)).messages == []
    run.wait(60)
    message = watch(run.events, activity=FakeActivity(busy)).one
    assert (message.id, message.title) == ("silence", "No step for more than 1 min 30 s")
    assert words in message.detail
    assert "step 40 at " in message.detail
    assert message.fixes == (STOP, END), "a stop waits for a step, and there may be none"
    run.a_step(1.0)
    run.wait(2.0)
    assert watch(run.events).withdrawn == ["silence"]


def test_slow_steps_are_waited_for_five_times_as_long_and_the_first_for_longer():
    for run, patience in ((training(seconds=40.0), 180), (ToldRun(steps=600), 170)):
        run.wait(patience)
        assert watch(run.events).messages == []
        run.wait(60)
        assert watch(run.events).one.title.startswith("No step for more than 3 min")


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.TRAINING])
def test_in_other_phases_a_process_that_does_nothing_is_reported(phase):
    run = training()
    run.phase(phase)
    run.wait(SILENT_PHASES[phase] - 5)
    assert watch(run.events, activity=FakeActivity(0.001)).messages == []
    run.wait(10)
    message = watch(run.events, activity=FakeActivity(0.001)).one
    assert (message.id, message.fixes) == ("silence", (STOP, END))
    is_loading = phase in (Phase.LOADING_DATA, Phase.LOADING_MODEL, Phase.TOKENIZING)
    assert ("at once" in message.detail, "last checkpoint" in message.detail) == (is_loading, not is_loading)
    for busy in (0.9, None):
        run.wait(1000)
        assert watch(run.events, activity=FakeActivity(busy)).messages == [], "it works, or nobody knows"


def test_an_engine_without_any_phase_is_reported_too():
    run = ToldRun(steps=600)
    run.events = [event for event in run.events if isinstance(event, RunStarted)]
    run.wait(300)
    assert watch(run.events, activity=FakeActivity(0.0)).one.id == "silence"


def test_work_that_goes_on_withdraws_it_before_its_phase_is_over():
    class Resting(FakeActivity):
        def read(self) -> float | None:
            super().read()
            return 0.0 if self.reads < 200 else 0.5

    run = training()
    run.phase(Phase.SAVING)
    run.wait(600)
    watched = watch(run.events, activity=Resting())
    assert (len(watched.raised), watched.withdrawn) == (1, ["silence"])


@pytest.mark.parametrize("wakes_with_a_step", [False, True])
def test_a_computer_that_slept_was_not_silent(wakes_with_a_step):
    run = training()
    run.sleep(7200)
    if wakes_with_a_step:
        run.a_step(0.5)
    run.wait(80)
    assert watch(run.events).messages == []
    run.wait(30)
    assert watch(run.events).one.id == "silence"


def test_silence_ends_with_the_run_and_with_the_attempt():
    run = training()
    run.wait(120)
    run.begin(from_step=20)
    run.steps(10, 0.5)
    assert watch(run.events).withdrawn == [], "a new attempt has cleared it"
    run.wait(120)
    run.finish()
    run.wait(300)
    assert (len(watch(run.events).raised), watch(run.events).withdrawn) == (2, ["silence"])


def test_the_process_is_looked_at_only_where_it_is_silent():
    activity = FakeActivity(0.5)
    watch(training().events, activity=activity)
    assert (activity.resets > 20, activity.reads) == (True, 0)


def test_activity_of_a_process():
    activity = Activity(psutil.Process().pid)
    assert activity.read() is None, "there is no span yet"
    sum(range(3_000_000))
    assert activity.read() > 0.0
    activity.reset()
    assert activity.read() is None
    assert Activity(2**22 + 1).read() is None


# --- Data loading


def starving(workers: int = 0, *, waiting: float = 0.45, seconds: float = 0.5) -> ToldRun:
    run = ToldRun(steps=2000, device="cuda:0", workers=workers)
    run.steps(20, seconds)
    run.steps(100, seconds, data=waiting)
    return run


@pytest.mark.parametrize(
    ("workers", "cores", "more"),
    [(0, 8, 2), (1, 8, 2), (2, 8, 4), (4, 8, None), (0, 2, None), (0, 3, 2), (2, 3, None)],
)
def test_a_device_that_waits_for_data_is_offered_workers(workers, cores, more):
    message = watch(starving(workers).events, cores=cores).one
    assert (message.id, message.title) == ("starving", "32 % of each step is spent waiting for data")
    fix = Fix(f"Prepare batches in {more} workers", {"data.workers": more})
    assert message.fixes == ((fix,) if more else (STOP,))


def test_it_is_withdrawn_when_data_comes_in_time_again_and_stands_when_the_run_is_over():
    run = starving()
    run.steps(50, 0.5, data=0.25)
    assert watch(run.events).withdrawn == [], "between the limits it stands"
    run.steps(60, 0.5, data=0.02)
    assert watch(run.events).withdrawn == ["starving"]
    run = starving()
    run.finish()
    assert watch(run.events).withdrawn == []


@pytest.mark.parametrize(
    ("steps", "seconds", "data", "gpu", "expected"),
    [
        (12_000, 0.002, 0.6, None, 1),
        (30, 20.0, 0.6, None, 1),
        (30, 0.5, 0.8, None, 0),  # the first seconds
        (200, 0.5, None, None, 0),  # not timed
        (200, 0.5, 0.6, GPU, 0),  # it is busy all the same
    ],
)
def test_which_steps_starve(steps, seconds, data, gpu, expected):
    run = ToldRun(steps=2000, device="cuda:0")
    run.computer.gpu = gpu
    run.steps(steps, seconds, data=data)
    assert [message.id for message in watch(run.events).raised] == ["starving"] * expected


# --- Throttling

FAST = DeviceSampled(
    time=0.0, source=Source.NVML, busy=0.97, temperature=71, clock=2600, clock_limit=2800, throttled=()
)
MAC = DeviceSampled(time=0.0, source=Source.APPLE, name="Apple M3", busy=0.95, thermal=0)
TOO_HOT = replace(GPU, temperature=89, clock=1400, throttled=("thermal slowdown (hardware)",))


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (FAST, ()),
        (replace(FAST, throttled=(Throttle.POWER_CAP,)), ()),
        (replace(FAST, throttled=(Throttle.POWER_CAP,), clock=1401), ()),
        (replace(FAST, throttled=(Throttle.POWER_CAP,), clock=1399), ("power cap",)),
        (replace(FAST, throttled=(Throttle.POWER_CAP,), clock=None), ()),
        (replace(FAST, throttled=(Throttle.POWER_CAP, Throttle.POWER_BRAKE)), ("power brake",)),
        (replace(FAST, throttled=("a reason of tomorrow",)), ("a reason of tomorrow",)),
        (replace(FAST, throttled=(Throttle.HARDWARE,), busy=0.1), ()),
        (replace(FAST, throttled=(Throttle.HARDWARE,), busy=None), ("hardware slowdown",)),
        (replace(FAST, throttled=None, temperature=90, clock=1900), ("it is hot, and its clock is low",)),
        (replace(FAST, throttled=None, temperature=90, clock=2500), ()),
        (replace(FAST, throttled=None, temperature=90, clock=1900, source=Source.SYSTEM), ()),
        (replace(MAC, thermal=1), ()),
        (replace(MAC, thermal=2), ("thermal pressure",)),
        (replace(MAC, thermal=4, busy=0.0), ("thermal pressure",)),
        (replace(MAC, thermal=None), ()),
    ],
)
def test_why_a_processor_is_held_back(sample, expected):
    assert held_back(sample) == expected


def run_on(*gpus: tuple[DeviceSampled, int]) -> ToldRun:
    """A run in which the GPU is as given for so many seconds each."""
    run = ToldRun(steps=2000, device="cuda:0")
    for gpu, seconds in gpus:
        run.computer.gpu = gpu
        run.steps(seconds * 2, 0.5)
    return run


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (TOO_HOT, "thermal slowdown (hardware) (89 °C, 1,400 of 2,800 MHz, 380 of 450 W)"),
        (replace(GPU, clock=1900, temperature=91, throttled=None), "it is hot, and its clock is low"),
        (replace(MAC, thermal=2), "“heavy”"),
    ],
)
def test_a_processor_that_is_held_back_is_reported_once_with_its_reason(gpu, words):
    message = watch(run_on((gpu, 120)).events).one
    assert (message.id, message.fixes) == ("throttling", (STOP,))
    assert message.title.startswith(gpu.name)
    assert words in message.detail


@pytest.mark.parametrize(
    ("gpus", "raised", "withdrawn"),
    [
        ([(GPU, 60), (TOO_HOT, 15), (GPU, 60)], 0, 0),
        ([(GPU, 40), (TOO_HOT, 60), (GPU, 60)], 1, 1),
        ([(TOO_HOT, 40), *[(TOO_HOT, 15), (GPU, 12)] * 6], 1, 0),  # it comes and goes
        ([(replace(GPU, clock=1700, throttled=("power cap",)), 120)], 0, 0),  # as on any laptop
        ([(replace(RESTING_GPU, throttled=("thermal slowdown (software)",)), 120)], 0, 0),
        ([(DeviceSampled(source=Source.NVML, name="A GPU without figures"), 120)], 0, 0),
    ],
)
def test_when_throttling_is_reported(gpus, raised, withdrawn):
    watched = watch(run_on(*gpus).events)
    assert (len(watched.raised), len(watched.withdrawn)) == (raised, withdrawn)


# --- Paging

FULL = int(15.5 * GB)


def paced(seconds: float = 0.5, steps: int = 20, swap: int = 0) -> ToldRun:
    """A run with a pace; `memory` fills up or swaps as the test sets it."""
    run = ToldRun(steps=600)
    run.computer.swap = swap
    for _ in range(steps):
        run.a_step(seconds)
    return run


def steps(run: ToldRun, *seconds: float, swapping: int = 0) -> ToldRun:
    for each in seconds:
        run.computer.swap += swapping
        run.a_step(each)
    run.wait(1.0)
    return run


def paging(run: ToldRun) -> list[MessageRaised]:
    return [message for message in watch(run.events).raised if message.id == "paging"]


@pytest.mark.parametrize(("used", "swapping"), [(FULL, 0), (9 * GB, 200 * MB)])
def test_slow_steps_while_memory_is_short_are_paging(used, swapping):
    run = paced()
    run.computer.used = used
    steps(run, 4.0, 4.0, 4.0, 4.0, 4.0, swapping=swapping)
    [message] = paging(run)
    assert (message.level, message.fixes[-1]) == (Level.WARNING, STOP)
    assert message.fixes[0].changes["memory.batch_size"] == 8
    cause = "97 % of the memory (16 GB) was in use" if used == FULL else "The swap grew by 200 MB"
    assert cause in message.detail


def test_a_step_under_way_is_reported_while_it_lasts():
    run = paced()
    run.computer.used = FULL
    run.wait(3.5)
    [message] = paging(run)
    assert "so far. Those before took 500 ms." in message.detail
    assert message.title.startswith("The run is paging: a step takes ")


def quick_steps() -> ToldRun:
    run = paced(0.05, 60)
    run.computer.used = FULL
    return steps(run, *[0.05] * 20, 0.4, *[0.05] * 40)


def between_steps(phase: Phase) -> ToldRun:
    run = paced()
    run.computer.used = FULL
    run.phase(phase)
    run.wait(60.0)
    run.phase(Phase.TRAINING)
    return steps(run, *[0.5] * 10)


def full_from_the_start(*seconds: float, compiling: float = 0.0) -> ToldRun:
    run = ToldRun(steps=600)
    run.computer.used = FULL
    if compiling:
        run.a_step(9.0)
        run.a_step(0.4, compiling=compiling)
    return steps(run, *seconds)


def over() -> ToldRun:
    run = paced()
    run.computer.used = FULL
    run.finish()
    run.wait(30.0)
    return run


@pytest.mark.parametrize(
    "run",
    [
        steps(paced(), 4.0, 4.0, 4.0),  # with memory to spare
        steps(paced(swap=4 * GB), 4.0, 4.0, 4.0),  # swap that was used before
        steps(paced(), *[1.2] * 5, swapping=100 * MB),  # at their pace
        quick_steps(),  # one alone
        between_steps(Phase.EVALUATING),
        between_steps(Phase.SAVING),
        full_from_the_start(9.0, 0.2, 0.2, 0.2, 0.2, 8.0),  # no pace yet
        full_from_the_start(0.3, 0.3, 0.3, compiling=50.0),
        over(),
    ],
)
def test_what_is_not_paging(run):
    assert paging(run) == []


def test_paging_is_withdrawn_after_five_steps_at_the_old_pace():
    run = paced()
    run.computer.used = FULL
    steps(run, *[6.0] * 60, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0)
    assert watch(run.events).withdrawn == [], "steps that page don't become the pace"
    run.steps(4, 0.6)
    run.a_step(1.5)
    run.steps(4, 0.6)
    assert watch(run.events).withdrawn == []
    steps(run, 0.5)
    assert watch(run.events).withdrawn == ["paging"]
    steps(run, 6.0)
    assert len(paging(run)) == 2
    run.begin()
    steps(run, 9.0, 3.0, 3.0)
    assert len(paging(run)) == 2, "a later attempt starts anew"


TORCH = MemorySampled(source=Source.TORCH, bytes=9 * GB, reserved=26 * GB, ceiling=27 * GB, unified=True)
NVML = MemorySampled(source=Source.NVML, bytes=int(23.5 * GB), ceiling=24 * GB)


@pytest.mark.parametrize(
    ("sample", "platform", "pages"),
    [
        (TORCH, "darwin", True),
        (replace(TORCH, unified=False), "win32", False),
        (NVML, "win32", True),
        (NVML, "linux", False),
    ],
)
def test_the_memory_of_a_gpu_counts_where_it_can_page(sample, platform, pages, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    run = paced()
    run.tell(sample)
    run.wait(4.0)
    assert ["GPU" in message.detail for message in paging(run)] == [True] * pages


def test_the_runs_forecast_has_fixes_of_its_own():
    run = paced()
    lora = Fix("Train LoRA", {"model.method": "lora"})
    parts = Parts(weights=GB, activations=5 * GB)
    run.tell(MemoryForecast(device="cpu", basis=Basis.FORMULA, parts=parts, fixes=(lora,)))
    run.computer.used = FULL
    run.wait(4.0)
    [message] = paging(run)
    assert message.fixes == (lora, STOP)
    assert "6.0 GB by forecast. The largest part: activations, 5.0 GB." in message.detail


# --- The watchdog


def test_a_finding_whose_words_move_on_is_raised_once():
    run = ToldRun(steps=600)
    for free in range(100):
        run.computer.disk = DiskSampled(free=GB + free, total=256 * GB)
        run.wait(1.0)
    assert len(watch(run.events).messages) == 1


def test_nothing_is_raised_before_the_engine_has_begun_and_events_are_sorted():
    low = DiskSampled(time=21.0, free=GB, total=GB)
    watchdog = Watchdog(None, cores=4)
    assert watchdog.take([low], 21.0) == []
    later = StepFinished(time=20.0, step=1, epoch=0, seconds=1.0, learning_rate=1e-3, samples=1)
    [message] = watchdog.take([low, later, RunStarted(time=5.0)], 22.0)
    assert isinstance(message, MessageRaised)


def test_a_run_whose_options_cannot_be_read_is_watched_all_the_same():
    run = training()
    run.a_step(0.5, loss=float("nan"))
    run.computer.disk = DiskSampled(free=GB, total=256 * GB)
    run.wait(120)
    raised = watch(run.events, options=None).raised
    assert {message.id for message in raised} == {"lost-loss", "disk-full", "silence"}
    assert all(not fix.changes for message in raised for fix in message.fixes)


@pytest.mark.parametrize("hours", [-2, 72])
def test_setting_the_clock_is_no_silence(hours):
    """The keeper's own clock goes on by a second a call; events are stamped by the clock that was set."""
    run = training()
    set_at = run.now + 5.0
    run.steps(60, 0.5)
    run.wait(100)

    def clock(now: float) -> float:
        return 1e9 + now + (3600.0 * hours if now >= set_at else 0.0)

    watchdog = Watchdog(None)
    found: list[tuple[float, Event]] = []
    for second in range(int(run.now) + 1):
        new = [event for event in run.events if second <= event.time < second + 1]
        shown = [replace(event, time=clock(event.time)) for event in new]
        now = second + 1.0
        found += [(now, message) for message in watchdog.take(shown, now, clock(now))]
    [(when, message)] = found
    assert message.id == "silence"
    assert when == pytest.approx(run.now - 10.0, abs=2.0)


DIGITS = Path(__file__).parents[2] / "data" / "runs" / "digits-on-a-crowded-computer.jsonl"
"""ResNet-18 on the digits, on two cores that eight other programs wanted: steps of 0.1 to 15 s."""


@pytest.mark.parametrize("name", [*HEALTHY, "digits"])
def test_a_healthy_run_has_no_warnings(name):
    events = EventReader(DIGITS).read_all() if name == "digits" else told(name)
    assert watch(events, activity=FakeActivity(0.9)).messages == []
