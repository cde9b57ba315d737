"""Warnings about the machine, over made-up runs that a watchdog sees second by second; and the watchdog itself."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from core.base.errors import Fix
from core.memory.model import Basis, Parts
from core.monitor.keeper import Watchdog
from core.monitor.recent import END, REVEAL, STOP
from core.monitor.system_rules import SILENT_PHASES, Activity, OtherPrograms, held_back, title_of
from core.options.choices import Padding, Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, OutputOptions
from core.runs.event_log import EventReader
from core.runs.events import (
    BatterySampled,
    DeviceSampled,
    DiskSampled,
    Level,
    MemoryForecast,
    MemorySampled,
    MessageRaised,
    RunStarted,
    Source,
    StepFinished,
    Throttle,
    WhatRan,
)
from tests.fakes.runs import what_ran
from tests.fakes.watched_runs import (
    GB,
    GPU,
    HEALTHY,
    MB,
    OPTIONS,
    RESTING_GPU,
    FakeActivity,
    FakePrograms,
    MadeUpRun,
    watch,
)


def training(count: int = 40, seconds: float = 0.5, *, device: str = "cpu", workers: int = 0) -> MadeUpRun:
    run = MadeUpRun(steps=2000, device=device, workers=workers)
    run.steps(count, seconds)
    return run


# --- Battery


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
    run = training()
    for share, is_plugged in readings:
        run.computer.battery = BatterySampled(share=share, is_plugged=is_plugged)
        run.wait(20)
    watched = watch(run)
    assert [message.level for message in watched.raised] == levels
    assert watched.withdrawn == ["battery"] * withdrawn
    assert all(message.fixes == (STOP,) for message in watched.raised)
    run.finish()
    assert watch(run).withdrawn == ["battery"] * bool(levels), "with the run it is over"


# --- Disk


def on_disk(*free: float, checkpoint: int = 0) -> MadeUpRun:
    """A run on a disk with so many GB free, one after the other."""
    run = training(10)
    if checkpoint:
        run.save(checkpoint * GB)
    for each in free:
        run.computer.disk = DiskSampled(free=int(each * GB), total=256 * GB)
        run.wait(5)
    return run


LOW, NO_ROOM = "The disk is nearly full", "The disk has no space for the next checkpoint"


@pytest.mark.parametrize(
    ("free", "checkpoint", "titles"),
    [
        ([1], 0, [LOW]),
        ([5], 2, []),
        ([5], 3, [LOW]),
        ([2], 3, [NO_ROOM]),
        ([5, 2], 3, [LOW, NO_ROOM]),
        ([1.9, 2.1] * 4, 0, [LOW]),
    ],
)
def test_disk(free, checkpoint, titles):
    run = on_disk(*free, checkpoint=checkpoint)
    raised = watch(run).raised
    assert [message.title for message in raised] == titles
    for message in raised:
        assert message.fixes == ((REVEAL, STOP) if message.title == LOW else (REVEAL,)), "stopping saves, too"
    several = watch(run, options=replace(OPTIONS, output=OutputOptions(keep_checkpoints=5))).raised
    assert all(message.fixes[0].changes == {"output.keep_checkpoints": 1} for message in several)
    run.finish()
    assert watch(run).withdrawn == ["disk-full"] * bool(titles)


def test_the_disk_warning_is_withdrawn_once_there_is_clearly_more():
    assert watch(on_disk(1, 3)).withdrawn == ["disk-full"]


@pytest.mark.parametrize(
    ("ran", "size"),
    [
        ({"parameter_dtype": "float32"}, "12.0 GB"),
        ({"parameter_dtype": "bfloat16"}, "10.0 GB"),
        ({"parameter_dtype": "bfloat16 + float32"}, "12.0 GB"),
        ({"parameter_dtype": "float32", "adapter": "LoRA", "trainable_parameters": GB // 4}, "9.00 GB"),
    ],
)
def test_the_size_of_the_first_checkpoint_follows_from_what_ran(ran, size):
    figures = {"total_parameters": GB, "optimizer_state_bytes": 8 * GB, **ran}
    events = [replace(e, **figures) if isinstance(e, WhatRan) else e for e in on_disk(7).events]
    assert f"about {size}." in watch(events).one.detail


# --- Silence


@pytest.mark.parametrize(
    ("busy", "words"), [(0.98, "uses 98 % of a"), (0.001, "and idle"), (None, "isn't known")]
)
def test_after_90_s_without_a_step_it_is_reported_what_the_process_does(busy, words):
    run = training()
    run.wait(88)
    assert watch(run, activity=FakeActivity(busy)).messages == []
    run.wait(60)
    message = watch(run, activity=FakeActivity(busy)).one
    assert (message.id, message.title) == ("silence", "No step for more than 1 min 30 s")
    assert words in message.detail
    assert "step 40 at " in message.detail
    assert message.fixes == (STOP, END), "a stop waits for a step, and there may be none"
    run.a_step(1.0)
    run.wait(2.0)
    assert watch(run).withdrawn == ["silence"]


@pytest.mark.parametrize(("count", "seconds", "patience"), [(40, 40.0, 180), (0, 0.0, 170)])
def test_slow_steps_are_waited_for_five_times_as_long_and_the_first_for_longer(count, seconds, patience):
    run = training(count, seconds)
    run.wait(patience)
    assert watch(run).messages == []
    run.wait(60)
    assert watch(run).one.title.startswith("No step for more than 3 min")


@pytest.mark.parametrize("phase", SILENT_PHASES)
def test_in_other_phases_a_process_that_does_nothing_is_reported(phase):
    run = training(0)
    run.events = [event for event in run.events if isinstance(event, RunStarted)]
    if phase is None:
        run.now = run.events[0].time
    else:
        run.phase(phase)
    run.wait(SILENT_PHASES[phase] - 5)
    assert watch(run, activity=FakeActivity(0.001)).messages == []
    run.wait(10)
    message = watch(run, activity=FakeActivity(0.001)).one
    assert (message.id, message.fixes) == ("silence", (STOP, END))
    for busy in (0.9, None):
        assert watch(run, activity=FakeActivity(busy)).messages == [], "it works, or that isn't known"


@pytest.mark.parametrize("wakes_with_a_step", [False, True])
def test_time_in_which_the_computer_slept_does_not_count(wakes_with_a_step):
    run = training()
    run.sleep(7200)
    if wakes_with_a_step:
        run.a_step(0.5)
    run.wait(80)
    assert watch(run).messages == []
    run.wait(30)
    assert watch(run).one.id == "silence"


def test_the_process_is_looked_at_only_where_it_is_silent():
    activity = FakeActivity(0.5)
    watch(training(), activity=activity)
    assert (activity.resets > 20, activity.reads) == (True, 0)
    real = Activity(psutil.Process().pid)
    assert real.read() is None, "there is no span yet"
    sum(range(3_000_000))
    assert real.read() > 0.0
    real.reset()
    assert real.read() is None
    assert Activity(2**22 + 1).read() is None


# --- Other programs

BUSY = {"mds": 0.02, "python3.11": 0.6, "Xcode": 0.23}


@pytest.mark.parametrize(
    ("seconds", "shares", "titles"),
    [
        (
            10.0,
            BUSY,
            ["Steps take 10.0 s instead of 191 ms: other programs use 85 % of the CPU (python3.11, Xcode)"],
        ),
        (10.0, {"mds": 0.1}, []),
        (0.3, BUSY, []),
    ],
)
def test_other_programs_that_slow_the_steps_are_named_until_they_are_done(seconds, shares, titles):
    run = training(400, 0.2)
    for _ in range(6):
        run.a_step(seconds)

    def watched():
        return watch(run, others=FakePrograms(shares, at=lambda call: call > 65))

    assert [message.title for message in watched().raised] == titles
    run.steps(200, 0.2)
    assert watched().withdrawn == [], "for a minute it may come back"
    run.steps(200, 0.2)
    assert watched().withdrawn == ["slowed"] * len(titles)


@pytest.mark.parametrize(
    ("paces", "first", "last"),
    [((1.0, 1.1, 4.0), "1.00 s", "4.00 s"), ((2.0, 0.45, 0.46), "2.00 s", "450 ms")],
)
def test_a_warning_of_slow_steps_follows_their_pace_up_and_down_and_ends_with_the_run(paces, first, last):
    run = training(400, 0.2)
    for seconds in paces:
        for _ in range(round(70 / seconds)):
            run.a_step(seconds)
    others = FakePrograms(BUSY, at=lambda call: call > 65)
    watched = watch(run, others=others)
    titles = [message.title.split(" instead")[0] for message in watched.raised]
    assert (titles[0], titles[-1], watched.withdrawn) == (f"Steps take {first}", f"Steps take {last}", [])
    assert len(titles) <= 3
    run.finish()
    assert watch(run, others=FakePrograms(BUSY, at=lambda call: call > 65)).withdrawn == ["slowed"]


def test_a_warning_of_slow_steps_has_the_same_figures_while_the_pace_hardly_changes():
    run = training(400, 0.2)
    for seconds in (1.0, 1.3, 0.9):
        for _ in range(60):
            run.a_step(seconds)
    assert len(watch(run, others=FakePrograms(BUSY, at=lambda call: call > 65)).raised) == 1


def test_a_warning_of_slow_steps_is_withdrawn_once_they_are_quick_though_other_programs_are_busy():
    run = training(400, 0.2)
    run.computer.busy = 0.6
    for _ in range(20):
        run.a_step(2.0)
    run.steps(700, 0.21)
    watched = watch(run, others=FakePrograms(BUSY, at=lambda call: call > 65))
    assert (len(watched.raised), watched.withdrawn) == (1, ["slowed"])


@pytest.mark.parametrize("usual", [0.2, 2.6])
def test_programs_that_come_and_go_are_told_of_once(usual):
    run = training(round(80 / usual), usual)
    for _ in range(5):
        for times in (3.2, 2.8, 3.5, 3.0, 2.4, 1.0, 1.1, 1.0):
            for _ in range(max(1, round(10 / usual / times))):
                run.a_step(usual * times)
    others = FakePrograms(BUSY, at=lambda call: call > 65 and call % 9 < 6)
    watched = watch(run, others=others)
    assert (len(watched.raised), watched.withdrawn) == (1, [])


FROM_START = "Steps take longer than they could: other programs use 85 % of the CPU (python3.11, Xcode)"


@pytest.mark.parametrize(
    ("seconds", "computes", "shares", "at", "expected"),
    [
        (20.0, ("cpu", 0.97), BUSY, lambda _call: True, [FROM_START]),
        (0.2, ("cpu", 0.97), BUSY, lambda _call: True, [FROM_START]),
        (0.2, ("cpu", 0.97), {"mds": 0.2}, lambda _call: True, []),
        (0.2, ("cpu", 0.6), BUSY, lambda _call: True, []),  # cores are free all the same
        (0.2, ("cuda:0", 0.97), BUSY, lambda _call: True, []),
        (0.2, ("cpu", 0.97), BUSY, lambda call: call < 10, []),  # they end while it begins
        (0.2, ("cpu", 0.97), BUSY, lambda call: call > 70, []),  # they slow nothing
    ],
)
def test_a_run_that_is_slow_from_its_first_step_is_told_of_other_programs(
    seconds, computes, shares, at, expected
):
    device, cpu_busy = computes
    run = MadeUpRun(steps=2000, device=device)
    run.computer.busy = cpu_busy
    run.steps(round(180 / seconds), seconds)
    watched = watch(run, others=FakePrograms(shares, at))
    assert [message.title for message in watched.raised] == expected
    assert watched.withdrawn == []


def test_that_a_run_is_slow_from_its_start_is_withdrawn_a_minute_after_the_others_are_done():
    run = training(600, 0.2)
    watched = watch(run, others=FakePrograms(BUSY, at=lambda call: call < 40))
    assert (len(watched.raised), watched.withdrawn) == (1, ["slowed"])


def test_that_a_run_is_slow_from_its_start_is_withdrawn_a_minute_after_cores_are_free():
    run = training(300, 0.2)
    run.computer.busy = 0.6
    run.steps(500, 0.2)
    watched = watch(run, others=FakePrograms(BUSY))
    assert (len(watched.raised), watched.withdrawn) == (1, ["slowed"])


def test_other_programs_are_looked_at_only_where_it_matters():
    run, programs = training(1500, 0.2), FakePrograms({})
    watch(run, others=programs)
    assert 50 < programs.reads < 70, "in the first minute"


def test_the_processor_time_of_other_programs_is_counted_by_name():
    others = OtherPrograms(2**22 + 1, cores=1)
    assert sum(others.read().values()) == 0.0, "there is no span yet"
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        name = psutil.Process(busy.pid).name()
        share, deadline = 0.0, time.monotonic() + 60.0
        while share == 0.0 and time.monotonic() < deadline:  # a full core lets it wait
            time.sleep(0.1)
            share = others.read().get(name, 0.0)
        busy.kill()
    assert share > 0.0


PARENT = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'input()'])\n"


@pytest.mark.parametrize(
    ("arguments", "title", "of_child"),
    [
        (["core.monitor.keeper", "a run"], "another run of Hone", "another run of Hone"),
        (["core.engine", "inspect"], "another part of Hone", "python"),
        (["mine", "core.monitor.keeper"], "python", "python"),
    ],
)
def test_hone_is_known_as_such_among_other_programs_and_nothing_else_is(
    *, tmp_path, monkeypatch, arguments, title, of_child
):
    for module in ("core/__init__.py", "core/monitor/__init__.py"):
        (tmp_path / module).parent.mkdir(exist_ok=True)
        (tmp_path / module).touch()
    for module in ("core/monitor/keeper.py", "core/engine.py", "mine.py"):
        (tmp_path / module).write_text(PARENT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with subprocess.Popen([sys.executable, "-P", "-m", *arguments], stdin=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60.0
        while not (children := psutil.Process(process.pid).children()) and time.monotonic() < deadline:
            time.sleep(0.05)
        titles = [title_of(one, "python") for one in (process.pid, *(child.pid for child in children))]
        window, other = title_of(process.pid, "hone.exe"), title_of(process.pid, "Xcode")
        process.communicate(b"\n")
    assert titles == [title, of_child]
    if title == "python":
        assert (window, other) == ("another part of Hone", "Xcode")


# --- Data loading


def starving(workers: int = 0) -> MadeUpRun:
    run = training(20, device="cuda:0", workers=workers)
    run.steps(100, 0.5, data=0.45)
    return run


@pytest.mark.parametrize(
    ("workers", "cores", "more"),
    [(0, 8, 2), (1, 8, 2), (2, 8, 4), (4, 8, None), (0, 2, None), (0, 3, 2), (2, 3, None)],
)
def test_a_device_that_waits_for_data_is_offered_workers(workers, cores, more):
    message = watch(starving(workers), cores=cores).one
    assert (message.id, message.title) == ("starving", "32 % of each step is spent waiting for data")
    fix = Fix(f"Prepare batches in {more} workers", {"data.workers": more})
    assert message.fixes == ((fix,) if more else (STOP,))


def test_starving_is_withdrawn_when_data_comes_in_time_again_and_stays_when_the_run_is_over():
    run = starving()
    run.steps(50, 0.5, data=0.25)
    assert watch(run).withdrawn == [], "between the limits it stays"
    run.steps(60, 0.5, data=0.02)
    assert watch(run).withdrawn == ["starving"]
    run = starving()
    run.finish()
    assert watch(run).withdrawn == []


@pytest.mark.parametrize(
    ("count", "seconds", "data", "gpu", "expected"),
    [
        (12_000, 0.002, 0.6, None, 1),
        (30, 20.0, 0.6, None, 1),
        (30, 0.5, 0.8, None, 0),  # the first seconds
        (200, 0.5, None, None, 0),  # not timed
        (200, 0.5, 0.6, GPU, 0),  # it is busy all the same
    ],
)
def test_which_steps_starve(count, seconds, data, gpu, expected):
    run = MadeUpRun(steps=2000, device="cuda:0")
    run.computer.gpu = gpu
    run.steps(count, seconds, data=data)
    assert [message.id for message in watch(run).raised] == ["starving"] * expected


# --- Throttling

FAST = replace(GPU, time=0.0)
MAC = DeviceSampled(time=0.0, source=Source.APPLE, name="Apple M3", busy=0.95, thermal=0)
HOT = replace(GPU, temperature=89, clock=1400, throttled=("thermal slowdown (hardware)",))
CAPPED = (Throttle.POWER_CAP,)
BY_HEAT = ("it is hot, and its clock is low",)


@pytest.mark.parametrize(
    ("sample", "changes", "expected"),
    [
        (FAST, {}, ()),
        (FAST, {"throttled": CAPPED}, ()),
        (FAST, {"throttled": CAPPED, "clock": 1401}, ()),
        (FAST, {"throttled": CAPPED, "clock": 1399}, CAPPED),
        (FAST, {"throttled": CAPPED, "clock": None}, ()),
        (FAST, {"throttled": (*CAPPED, Throttle.POWER_BRAKE)}, (Throttle.POWER_BRAKE,)),
        (FAST, {"throttled": ("a reason of tomorrow",)}, ("a reason of tomorrow",)),
        (FAST, {"throttled": (Throttle.HARDWARE,), "busy": 0.1}, ()),
        (FAST, {"throttled": (Throttle.HARDWARE,), "busy": None}, (Throttle.HARDWARE,)),
        (FAST, {"throttled": None, "temperature": 90, "clock": 1900}, BY_HEAT),
        (FAST, {"throttled": None, "temperature": 90, "clock": 2500}, ()),
        (FAST, {"throttled": None, "temperature": 90, "clock": 1900, "source": Source.SYSTEM}, ()),
        (MAC, {"thermal": 1}, ()),
        (MAC, {"thermal": 2}, ("thermal pressure",)),
        (MAC, {"thermal": 4, "busy": 0.0}, ("thermal pressure",)),
        (MAC, {"thermal": None}, ()),
    ],
)
def test_why_a_processor_is_held_back(sample, changes, expected):
    assert held_back(replace(sample, **changes)) == expected


def run_on(*gpus: tuple[DeviceSampled, int]) -> MadeUpRun:
    """A run in which the GPU is as given for so many seconds each."""
    run = MadeUpRun(steps=2000, device="cuda:0")
    for gpu, seconds in gpus:
        run.computer.gpu = gpu
        run.steps(seconds * 2, 0.5)
    return run


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (HOT, "thermal slowdown (hardware) (89 °C, 1,400 of 2,800 MHz, 380 of 450 W)"),
        (replace(MAC, thermal=2), "“heavy”"),
    ],
)
def test_a_processor_that_is_held_back_is_reported_once_with_its_reason(gpu, words):
    message = watch(run_on((gpu, 120))).one
    assert (message.id, message.fixes) == ("throttling", (STOP,))
    assert message.title.startswith(gpu.name)
    assert words in message.detail


@pytest.mark.parametrize(
    ("gpus", "raised", "withdrawn"),
    [
        ([(GPU, 60), (HOT, 15), (GPU, 60)], 0, 0),
        ([(GPU, 40), (HOT, 60), (GPU, 60)], 1, 1),
        ([(HOT, 40), *[(HOT, 15), (GPU, 12)] * 6], 1, 0),  # it comes and goes
        ([(replace(GPU, clock=1700, throttled=CAPPED), 120)], 0, 0),  # as on any laptop
        ([(replace(RESTING_GPU, throttled=("thermal slowdown (software)",)), 120)], 0, 0),
        ([(DeviceSampled(source=Source.NVML, name="A GPU without figures"), 120)], 0, 0),
    ],
)
def test_when_throttling_is_reported(gpus, raised, withdrawn):
    watched = watch(run_on(*gpus))
    assert (len(watched.raised), len(watched.withdrawn)) == (raised, withdrawn)


# --- Paging

FULL = int(15.5 * GB)


def filling(
    *seconds: float, used: int = FULL, swap: int = 0, swapping: int = 0, before: int = 20
) -> MadeUpRun:
    """So many steps of half a second; then memory is full, or swap grows, and steps take as long as given."""
    run = MadeUpRun(steps=600)
    run.computer.swap = swap
    for _ in range(before):
        run.a_step(0.5)
    run.computer.used = used
    return longer(run, *seconds, swapping=swapping)


def longer(run: MadeUpRun, *seconds: float, swapping: int = 0) -> MadeUpRun:
    for each in seconds:
        run.computer.swap += swapping
        run.a_step(each)
    run.wait(1.0)
    return run


def paging(run: MadeUpRun) -> list[MessageRaised]:
    return [message for message in watch(run).raised if message.id == "paging"]


@pytest.mark.parametrize(
    ("used", "swapping", "cause"),
    [
        (FULL, 0, "97 % of the memory (16.0 GB) was in use"),
        (9 * GB, 200 * MB, "The swap grew by 200 MB"),
    ],
)
def test_slow_steps_while_memory_is_short_are_paging(used, swapping, cause):
    [message] = paging(filling(*[4.0] * 5, used=used, swapping=swapping))
    assert (message.level, message.fixes[-1]) == (Level.WARNING, STOP)
    assert message.fixes[0].changes["memory.batch_size"] == 8
    assert cause in message.detail


def evaluated() -> MadeUpRun:
    run = filling()
    run.evaluate(seconds=60.0)
    return longer(run, *[0.5] * 10)


def compiled() -> MadeUpRun:
    run = filling(9.0, before=0)
    run.a_step(0.4, compiling=50.0)
    return longer(run, 0.3, 0.3, 0.3)


def over() -> MadeUpRun:
    run = filling()
    run.finish()
    run.wait(30.0)
    return run


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: filling(4.0, 4.0, 4.0, used=9 * GB, swap=4 * GB), id="memory to spare"),
        pytest.param(lambda: filling(*[1.2] * 5, used=9 * GB, swapping=100 * MB), id="at their pace"),
        pytest.param(lambda: filling(*[0.05] * 50, 0.4, *[0.05] * 40, before=0), id="one quick step alone"),
        pytest.param(lambda: filling(9.0, 0.2, 0.2, 0.2, 0.2, 8.0, before=0), id="no pace yet"),
        pytest.param(evaluated, id="an evaluation"),
        pytest.param(compiled, id="compiling"),
        pytest.param(over, id="over"),
    ],
)
def test_what_is_not_paging(make):
    assert paging(make()) == []


def test_paging_is_withdrawn_after_five_steps_at_the_old_pace():
    run = filling(*[6.0] * 60, *[3.0] * 6)
    assert watch(run).withdrawn == [], "steps that page don't become the pace"
    longer(run, *[0.6] * 4, 1.5, *[0.6] * 4)
    assert watch(run).withdrawn == []
    longer(run, 0.5)
    assert watch(run).withdrawn == ["paging"]
    longer(run, 6.0)
    assert len(paging(run)) == 2
    run.begin()
    longer(run, 9.0, 3.0, 3.0)
    assert len(paging(run)) == 2, "a later attempt starts anew"


TORCH = MemorySampled(source=Source.TORCH, bytes=9 * GB, reserved=26 * GB, ceiling=27 * GB, unified=True)
NVML = MemorySampled(source=Source.NVML, bytes=int(23.5 * GB), ceiling=24 * GB)


@pytest.mark.parametrize(
    ("sample", "platform", "pages"),
    [
        (TORCH, "darwin", True),
        (replace(TORCH, unified=False), "win32", False),
        (replace(TORCH, cached=15 * GB), "darwin", False),  # MLX gives it back
        (NVML, "win32", True),
        (NVML, "linux", False),
    ],
)
def test_the_memory_of_a_gpu_counts_where_it_can_page(sample, platform, pages, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    run = filling(used=9 * GB)
    run.add(sample)
    run.wait(4.0)
    messages = paging(run)
    assert ["GPU" in message.detail for message in messages] == [True] * pages
    of_nvidia = [sample is NVML] * pages
    assert ["Sysmem Fallback Policy" in message.detail for message in messages] == of_nvidia


def test_a_step_under_way_is_reported_with_the_fixes_of_the_runs_forecast():
    run = filling()
    lora = Fix("Train LoRA", {"model.method": "lora"})
    parts = Parts(weights=GB, activations=5 * GB)
    run.add(MemoryForecast(device="cpu", basis=Basis.FORMULA, parts=parts, fixes=(lora,)))
    run.wait(4.0)
    [message] = paging(run)
    assert message.fixes == (lora, STOP)
    assert "so far. Those before took 500 ms." in message.detail
    assert "estimated to take 6.00 GB. The largest part: activations, 5.00 GB." in message.detail


# --- Growing memory


def holding(device: str, *samples: tuple[float, float], ceiling: int = 27) -> MadeUpRun:
    """A run with so many GB of GPU memory held and in use, a sample every second and two steps."""
    run = MadeUpRun(steps=2000, device=device)
    run.a_step(4.0)
    for held, live in samples:
        figures = {"reserved": int(held * GB), "bytes": int(live * GB), "ceiling": ceiling * GB}
        run.add(MemorySampled(source=Source.TORCH, unified=device == "mps", **figures))
        run.steps(2, 0.5)
    return run


def rising(seconds: int, held: tuple[float, float], live: tuple[float, float]) -> list[tuple[float, float]]:
    """From the first figure to the second at an even pace."""
    return [
        tuple(first + (second - first) * place / seconds for first, second in (held, live))
        for place in range(seconds)
    ]


VARIED = rising(200, (3.0, 14.0), (1.0, 2.1))
"""As reported for a model on MPS with sequences of varying length (pytorch pull request 188045): 11 GB more held."""
WARM_UP = [*rising(8, (0.5, 6.0), (0.5, 4.0)), *rising(40, (6.0, 11.0), (4.0, 4.0)), *[(11.0, 4.0)] * 250]
STABLE = [(7.5, 4.0 + second % 3) for second in range(240)]
RECORDS = [(9.0 if second < 30 else 10.5 if second < 90 else 14.0, 4.0) for second in range(240)]
"""Longer batches now and then."""
TEXTS = replace(OPTIONS, task=Task.TEXT_CLASSIFICATION)
PAD, EMPTY = {"data.pad_to_multiple_of": 64}, {"memory.empty_cache_steps": 50}


@pytest.mark.parametrize(
    ("device", "options", "fixes"),
    [
        ("mps", TEXTS, [EMPTY]),
        ("mps", replace(TEXTS, data=DataOptions(pad_to_multiple_of=1)), [PAD, EMPTY]),
        ("cuda:0", TEXTS, [PAD, EMPTY]),
        ("cuda:0", replace(TEXTS, data=DataOptions(padding=Padding.FIXED)), [EMPTY]),
        ("cuda:0", OPTIONS, [EMPTY]),
        ("cuda:0", replace(OPTIONS, memory=MemoryOptions(empty_cache_steps=20)), []),
        ("mps", None, []),
    ],
)
def test_memory_that_grows_beyond_what_is_used_is_reported_with_what_helps(device, options, fixes):
    message = watch(holding(device, *VARIED), options=options).one
    assert (message.id, message.fixes[-1]) == ("growing", STOP)
    assert [fix.changes for fix in message.fixes[:-1]] == fixes
    assert "The run holds more and more GPU memory: 1" in message.title
    assert "grew by 7." in message.detail
    assert "PyTorch keeps memory" in message.detail


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param(WARM_UP, id="warm-up"),
        pytest.param(STABLE, id="stable"),
        pytest.param(RECORDS, id="longer batches now and then"),
        pytest.param(rising(240, (3.0, 14.0), (1.0, 12.0)), id="in use"),
        pytest.param(rising(240, (3.0, 5.0), (1.0, 1.0)), id="little"),
        pytest.param(VARIED[:150], id="too soon to tell"),
    ],
)
@pytest.mark.parametrize("device", ["mps", "cuda:0"])
def test_what_is_no_growing_memory(device, samples):
    assert watch(holding(device, *samples)).raised == []


def by_mlx(held: float, cached: tuple[float, float], footprint: tuple[float, float]) -> MadeUpRun:
    """A run by MLX with so many GB of live arrays; what it caches and what macOS counts of it change evenly."""
    run = MadeUpRun(steps=2000, device="mps")
    run.a_step(4.0)
    run.add(what_ran(engine="MLX 0.32.4, mlx-lm 0.32.2"))
    for kept, counted in rising(200, cached, footprint):
        run.add(
            MemorySampled(
                source=Source.TORCH,
                unified=True,
                bytes=int(held * GB),
                reserved=int((held + kept) * GB),
                cached=int(kept * GB),
                footprint=int(counted * GB),
                ceiling=27 * GB,
            )
        )
        run.steps(2, 0.5)
    return run


@pytest.mark.parametrize(
    ("cached", "footprint"),
    [
        pytest.param((1.0, 14.0), (5.0, 18.0), id="a cache that fills up to its limit"),
        pytest.param((1.0, 1.0), (5.0, 5.0), id="stable"),
        pytest.param((1.0, 1.0), (5.0, 6.0), id="little"),
    ],
)
def test_what_is_no_growing_memory_of_mlx(cached, footprint):
    assert watch(by_mlx(4.0, cached, footprint)).raised == []


def test_memory_of_mlx_that_only_macos_counts_is_reported():
    message = watch(by_mlx(4.0, (1.0, 1.0), (5.0, 18.0)), options=TEXTS).one
    assert message.id == "growing"
    assert [fix.changes for fix in message.fixes[:-1]] == [PAD, EMPTY], "it pads to 32"
    assert "MLX keeps memory" in message.detail


def test_growing_memory_is_withdrawn_once_it_stands_still():
    run = holding("mps", *VARIED, *[(14.0, 2.1)] * 60)
    assert watch(run).withdrawn == []
    assert watch(holding("mps", *VARIED, *[(14.0, 2.1)] * 200)).withdrawn == ["growing"]


# --- The watchdog


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
    raised = watch(run, options=None).raised
    assert {message.id for message in raised} == {"lost-loss", "disk-full", "silence"}
    assert all(not fix.changes for message in raised for fix in message.fixes)


@pytest.mark.parametrize("hours", [-2, 72])
def test_setting_the_clock_is_no_silence(hours):
    """The keeper's own clock advances by a second a call; events are stamped by the clock that was set."""
    run = training()
    set_at = run.now + 5.0
    run.steps(60, 0.5)
    run.wait(100)

    def clock(now: float) -> float:
        return 1e9 + now + (3600.0 * hours if now >= set_at else 0.0)

    watchdog, messages = Watchdog(None), []
    for second in range(9_999, int(run.now) + 1):
        new = [event for event in run.events if second <= event.time < second + 1]
        shown = [replace(event, time=clock(event.time)) for event in new]
        now = second + 1.0
        messages += [(message.id, now) for message in watchdog.take(shown, now, clock(now))]
    assert messages == [("silence", pytest.approx(run.now - 10.0, abs=2.0))]


DIGITS = Path(__file__).parents[2] / "data" / "runs" / "digits-on-a-crowded-computer.jsonl"
"""ResNet-18 on the digits, on two cores that eight other programs wanted: steps of 0.1 to 15 s."""


@pytest.mark.parametrize("name", [*HEALTHY, "digits"])
def test_a_healthy_run_has_no_warnings(name):
    if name == "digits":
        events = EventReader(DIGITS).read_all()
    else:
        run = HEALTHY[name]()
        run.finish()
        events = run.events
    assert watch(events, activity=FakeActivity(0.9)).messages == []
