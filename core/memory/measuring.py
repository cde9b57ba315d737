"""A dry run: that it had to be ended for its memory, by whomever, is its answer: the run doesn't fit."""

from collections.abc import Callable, Sequence

import msgspec

from core.ceiling import RanOut
from core.jobs import decoded
from core.machine.memory import SystemMemory, system_memory
from core.memory.forecast import Measurement, MeasureRequest, Parts, Room
from core.memory.guarding import GuardedJob, probable_device, too_large
from core.options import RunOptions

MEASURE_SECONDS = 3600.0
"""How long a dry run may take: some steps of a large model on a slow computer."""


class DryRun:
    """Some steps of a run in an engine of its own; made anew for each.

    Args:
        options: What to train. Where it names a device (`cuda:0`, not `auto`), the guard knows whose memory it watches.
        room: The memory of that device, as it is before.
        command: What starts the engine's job, where it isn't Hone's own.
        system: Reads the computer's memory.
    """

    def __init__(
        self,
        options: RunOptions,
        room: Room | None = None,
        *,
        command: Sequence[str] | None = None,
        system: Callable[[], SystemMemory] = system_memory,
    ) -> None:
        self._options = options
        self._room = room
        self._device = probable_device(options)
        self._job = GuardedJob("measure", self._device, room, command=command, system=system)

    def run(self) -> Measurement:
        """Measure, waiting until it is done.

        Raises:
            UserError: The engine says what the person can mend.
            EngineCrashed: It ended without an answer.
            JobCancelled: `kill` was called.
            OSError: It can't be started.
        """
        request = MeasureRequest(asked=msgspec.to_builtins(self._options))
        try:
            answer = self._job.ask(msgspec.json.encode(request), MEASURE_SECONDS)
        except RanOut as ran_out:
            return self._too_large(ran_out)
        return msgspec.structs.replace(decoded("measure", answer, Measurement), room=self._room)

    def kill(self) -> None:
        """End it at once; may be called from another thread, also before it has begun."""
        self._job.kill()

    def _too_large(self, ran_out: RanOut) -> Measurement:
        return Measurement(
            device=self._device,
            parts=Parts(overhead=ran_out.held),
            peak=ran_out.held,
            base=0,
            room=self._room,
            out_of_memory=too_large(self._options, self._room, ran_out),
        )
