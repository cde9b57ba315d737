"""Takes one measurement: a rung in a fresh engine under guard, with an eye on what the machine does beside."""

import time
from collections.abc import Callable, Sequence

import msgspec

from core.bench.plan import Plan, Rung
from core.bench.result import Pass, Surroundings
from core.bench.sample import Sample, SampleRequest
from core.bench.surroundings import Lookout
from core.ceiling import RanOut
from core.checks import read_options
from core.ending import describe, signal_name
from core.errors import OptionsError, UserError
from core.jobs import EngineCrashed, JobProgress, decoded
from core.machine.memory import SystemMemory, system_memory
from core.memory.forecast import Parts, Room
from core.memory.guarding import GuardedJob, probable_device, too_large
from core.memory.room import room_of
from core.options import RunOptions
from core.reports import DeviceReport

SILENT_SECONDS = 3600.0
"""How long the engine may say nothing: it tells of each step, and the first may have to be compiled before."""


class Taking:
    """One pass of one rung; made anew for each, right before it runs.

    Args:
        rung: What is measured.
        plan: How many steps.
        command: What starts the engine's job, where it isn't Hone's own.
        system: Reads the computer's memory.
        lookout: Makes what watches the machine, given the device.
    """

    def __init__(
        self,
        rung: Rung,
        plan: Plan,
        *,
        command: Sequence[str] | None = None,
        system: Callable[[], SystemMemory] = system_memory,
        lookout: Callable[[str], Lookout] = Lookout,
    ) -> None:
        self._request = SampleRequest(asked=rung.asked, steps=plan.steps_of(rung), warm_up=plan.warm_up)
        self._options, self._problems = read_options(rung.asked)
        self._device = probable_device(self._options) if self._options else "cpu"
        self._room = _room(self._device)
        self._job = GuardedJob("sample", self._device, self._room, command=command, system=system)
        self._lookout = lookout(self._device)

    def run(self) -> Pass:
        """Measure, waiting until it is done; whatever stops it is an answer.

        Raises:
            JobCancelled: `kill` was called.
        """
        begun = time.time()
        if self._options is None:
            return Pass(begun=begun, problem=in_words(OptionsError(self._problems)))
        sample, problem, surroundings = None, "", Surroundings()
        try:
            sample = self._sample(self._options)
        except (UserError, EngineCrashed, OSError) as error:
            problem = in_words(error)
        finally:
            surroundings = self._lookout.stop()
        if sample is not None and _kind(sample.device) != _kind(self._device):
            surroundings = msgspec.structs.replace(
                surroundings, watts=None, power_source=""
            )  # of an idle GPU
        return Pass(begun=begun, sample=sample, problem=problem, surroundings=surroundings)

    def kill(self) -> None:
        """End it at once; may be called from another thread, also before it has begun."""
        self._job.kill()

    def _sample(self, options: RunOptions) -> Sample:
        request = msgspec.json.encode(self._request)
        try:
            answer = self._job.ask(request, SILENT_SECONDS, self._hear, self._lookout.follow)
        except RanOut as ran_out:
            return Sample(
                device=self._device,
                parts=Parts(overhead=ran_out.held),
                peak=ran_out.held,
                out_of_memory=too_large(options, self._room, ran_out),
            )
        return decoded("sample", answer, Sample)

    def _hear(self, progress: JobProgress) -> None:
        """The engine tells of each step: the last of the warm-up, and the last of all, bound the timed ones."""
        if progress.done == progress.total - self._request.steps:
            self._lookout.begin_timed()
        elif progress.done == progress.total:
            self._lookout.end_timed()


def in_words(error: Exception) -> str:
    """Why there are no figures, in a line."""
    match error:
        case UserError():
            words = f"{error.title.rstrip('.:')}. {error.detail}" if error.detail else error.title
        case EngineCrashed() if signal_name(error.code):
            words = f"The engine was ended by {signal_name(error.code)}. {describe(error.code)}"
        case EngineCrashed():
            said = [line for line in error.report.splitlines() if line.strip()]
            words = f"The engine failed: {said[-1]}" if said else describe(error.code)
        case _:
            words = f"The engine can't be started: {error}"
    return " ".join(words.split())


def _kind(device: str) -> str:
    return device.partition(":")[0]


def _room(device: str) -> Room | None:
    """The memory of the device, as far as the driver and the operating system tell it."""
    return room_of(DeviceReport(name=device, title=device, available=True))
