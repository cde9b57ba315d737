"""Ten runs with nothing wrong, each with something that might look like it. No watcher may say a word."""

from collections.abc import Callable

from core.runs.events import BatterySampled, DeviceSampled, DiskSampled, Event, Outcome, Source
from tests.fakes.told_run import GB, MB, ToldRun

GPU = DeviceSampled(
    source=Source.NVML,
    name="NVIDIA RTX 4090",
    busy=0.97,
    power=380,
    power_limit=450,
    temperature=71,
    clock=2600,
    clock_limit=2800,
    throttled=(),
)
RESTING_GPU = DeviceSampled(
    source=Source.NVML,
    name="NVIDIA RTX 4090",
    busy=0.02,
    power=25,
    power_limit=450,
    temperature=45,
    clock=210,
    clock_limit=2800,
    throttled=(),
)


def short() -> ToldRun:
    """A minute of small steps."""
    run = ToldRun(steps=90)
    for _ in range(3):
        run.steps(30, 0.5)
        run.evaluate()
        run.save()
    return run


def long() -> ToldRun:
    """An hour, with evaluations and checkpoints between; at last the loss is low and stays there."""
    run = ToldRun(steps=1800)
    for _ in range(12):
        run.steps(150, 1.5)
        run.evaluate(seconds=40)
        run.save(1200 * MB)
    return run


def accumulating() -> ToldRun:
    """Few, slow, uneven steps of many batches each."""
    run = ToldRun(steps=300)
    for _ in range(6):
        for _ in range(50):
            run.a_step(run.chance.uniform(5, 9))
        run.evaluate(seconds=60)
    return run


def compiling() -> ToldRun:
    """The first step compiles for minutes, a later one again, for a batch of another shape."""
    run = ToldRun(steps=400, device="cuda:0")
    run.computer.gpu = RESTING_GPU
    run.a_step(4.0, compiling=200.0)
    run.computer.gpu = GPU
    run.steps(200, 0.3)
    run.a_step(0.5, compiling=120.0)
    run.steps(198, 0.3)
    return run


def noisy() -> ToldRun:
    """A loss that jumps about and falls slowly beneath."""
    run = ToldRun(steps=2000)
    for _ in range(10):
        for _ in range(200):
            run.a_step(0.25, loss=abs(run.falling(noise=0.6)))
        run.evaluate()
    return run


def laptop() -> ToldRun:
    """A laptop that is plugged in, its plug moved once, warm but not too warm, on a small disk."""
    run = ToldRun(steps=600, device="mps")
    plugged = BatterySampled(share=0.25, is_plugged=True)
    run.computer.disk = DiskSampled(free=6 * GB, total=256 * GB)
    run.computer.gpu = DeviceSampled(source=Source.APPLE, name="Apple M3", busy=0.95, thermal=1)
    run.computer.battery = plugged
    run.steps(300, 0.8)
    run.save(1 * GB)
    run.computer.battery = BatterySampled(share=0.25, is_plugged=False)
    run.steps(4, 0.8)
    run.computer.battery = plugged
    run.steps(296, 0.8)
    return run


def resting() -> ToldRun:
    """A GPU that clocks down whenever the CPU evaluates, and is at its cap of power while it trains."""
    run = ToldRun(steps=1200, device="cuda:0")
    for _ in range(6):
        run.computer.gpu = DeviceSampled(
            source=Source.NVML,
            name="NVIDIA RTX 4090",
            busy=0.99,
            power=449,
            power_limit=450,
            temperature=78,
            clock=2450,
            clock_limit=2800,
            throttled=("power cap",),
        )
        run.steps(200, 0.2, data=0.45)  # the loop waits for data while the GPU has work left
        run.computer.gpu = RESTING_GPU
        run.evaluate(seconds=100)
    return run


def resumed() -> ToldRun:
    """A run that was stopped and goes on from its checkpoint, its loss low from the first step on."""
    run = ToldRun(steps=1500)
    run.steps(500, 0.3)
    run.save()
    run.finish(Outcome.STOPPED)
    run.wait(300)
    run.begin(from_step=500)
    run.steps(500, 0.3)
    run.evaluate()
    run.steps(500, 0.3)
    return run


def slow() -> ToldRun:
    """Twenty seconds a step, forty for some, and a computer that slept for an hour within one."""
    run = ToldRun(steps=80)
    run.a_step(70.0)
    run.steps(30, 20.0)
    run.a_step(40.0)
    run.sleep(3600)
    run.a_step(20.0)
    run.steps(47, 20.0)
    return run


def with_workers() -> ToldRun:
    """Workers prepare the data: each epoch begins with a wait for the first batch."""
    run = ToldRun(steps=900, device="cuda:0", workers=4)
    run.computer.gpu = GPU
    for _ in range(9):
        run.a_step(3.0, data=0.95)
        run.steps(99, 0.35, data=0.05)
        run.evaluate()
    return run


HEALTHY: dict[str, Callable[[], ToldRun]] = {
    status.__name__: status
    for status in (
        short,
        long,
        accumulating,
        compiling,
        noisy,
        laptop,
        resting,
        resumed,
        slow,
        with_workers,
    )
}


def told(name: str) -> list[Event]:
    """The events of a healthy run, from the first to the last."""
    run = HEALTHY[name]()
    run.finish()
    return run.events
