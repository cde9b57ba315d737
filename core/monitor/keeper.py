"""The keeper: a small process, one per run, that starts the engine, waits for it, and samples the machine.

The keeper of a queued run is started at once and waits for its turn before it starts the engine.

Only the parent of a process learns how it ended, and an engine that hangs can't sample itself. So the keeper also runs
the warning rules and keeps the computer awake. It needs no torch, and continues when the window is closed. Started as
`python -P -m core.monitor.keeper RUN_DIR [--queue]`. The keeper of a run on another computer only follows it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

import msgspec

from core.base.ceiling import Ceiling, room_for_reading
from core.base.errors import RunFolderError, UserError
from core.base.files import ENGINE_LOCK, is_locked, write_atomically
from core.base.jobs import engine_command
from core.base.language import _
from core.base.processes import (
    SIGNALS,
    awake,
    describe,
    end_group,
    is_out_of_memory,
    kill_with_children,
    log_tail,
    out_of_memory_kills,
    signal_name,
    start_worker,
)
from core.base.system import system_memory
from core.hosts.mirror import Mirror
from core.monitor import loss_rules, system_rules
from core.monitor.nvidia import gpu_of
from core.monitor.recent import MonitorFinding, Recent
from core.monitor.sampler import Sampler
from core.monitor.system_rules import Activity, OtherPrograms, Paging
from core.options import RunOptions
from core.options.sections import DeviceOptions
from core.runs import models, queue
from core.runs.event_log import EventReader, EventWriter
from core.runs.events import (
    Action,
    Event,
    Level,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    RequestAnswered,
    RunFinished,
    RunPlanned,
    RunStarted,
)
from core.runs.folder import ExitRecord, RunFolder
from core.runs.start import QUEUE_FLAG
from core.runs.summary import current_attempt
from core.runs.words import first_aid

RULES: dict[str, Callable[..., MonitorFinding | None]] = {
    loss_rules.LOST_LOSS: loss_rules.lost_loss,
    loss_rules.EXPLODING_LOSS: loss_rules.exploding_loss,
    system_rules.SILENCE: system_rules.silence,
    system_rules.DISK_FULL: system_rules.disk_space,
    system_rules.THROTTLING: system_rules.throttling,
    system_rules.SLOWED: system_rules.slowed,
    system_rules.STARVING: system_rules.starving,
    system_rules.GROWING: system_rules.growing,
    loss_rules.STANDING_LOSS: loss_rules.standing_loss,
    system_rules.BATTERY: system_rules.battery,
}
"""Functions `rule(recent, raised=key)` by the id of their message. Paging, which has state of its own, is added."""

OF_THE_MOMENT = frozenset(
    {
        system_rules.BATTERY,
        system_rules.DISK_FULL,
        system_rules.SILENCE,
        system_rules.SLOWED,
        system_rules.THROTTLING,
    }
)
"""Messages about the computer, withdrawn when the run is over. The others say what to change next time."""

CALM_SECONDS = {system_rules.SLOWED: 60.0}
"""How long the cause of a message has to be gone before it is withdrawn: other programs come and go."""


class Watchdog:
    """Applies the warning rules to a run.

    Args:
        options: The run's options; None if they can't be read.
    """

    def __init__(
        self,
        options: RunOptions | None,
        *,
        activity: Activity | None = None,
        others: OtherPrograms | None = None,
        cores: int | None = None,
    ) -> None:
        self._options = options
        self._activity, self._others = activity, others
        self._cores = cores or os.cpu_count() or 1
        self._raised: dict[str, str] = {}
        self._has_begun = False
        self._new_attempt()

    def _new_attempt(self) -> None:
        self._recent = Recent(self._options, self._cores)
        self._paging = Paging(tuple(first_aid(self._options)) if self._options else ())
        self._rules = {**RULES, system_rules.PAGING: self._paging.judge}
        self._raised.clear()
        self._stays_until: dict[str, float] = {}

    def take(self, events: Iterable[Event], now: float, wall: float | None = None) -> list[Event]:
        """Adds the events since the last call, about a second ago; returns the messages to write.

        Args:
            events: The events, with times of the computer's clock.
            now: Time of a monotonic clock.
            wall: Time of the computer's clock; None: that of events is `now`'s.
        """
        before = self._recent.now
        for stamped in sorted(events, key=attrgetter("time")):
            event = stamped
            # what was stamped before the clock was set happened since the last call, too
            if wall is not None:
                time = min(max(before, now - wall + stamped.time), now)
                event = msgspec.structs.replace(stamped, time=time)
            if isinstance(event, RunStarted):
                self._new_attempt()
                self._has_begun = True
            self._recent.apply(event)
            self._paging.apply(event)
        self._recent.tick(now)
        if self._recent.is_over:
            return self.end()
        return list(self._apply_rules()) if self._has_begun else []

    def end(self) -> list[Event]:
        """Withdraws messages that no longer matter, once the run is over."""
        self._has_begun = False
        over = set(OF_THE_MOMENT)
        if self._recent.failure is not None:
            over.add(loss_rules.LOST_LOSS)  # the engine has reported it, and what to do
        return [self._withdraw(name) for name in list(self._raised) if name in over]

    def _apply_rules(self) -> Iterator[Event]:
        if self._activity is not None:  # reading a process tree each second isn't free
            silent = self._recent.now - self._recent.last_progress
            if silent >= system_rules.silence_limit(self._recent) / 2:
                self._recent.set_engine_busy(self._activity.read())
            else:
                self._activity.reset()
        if self._others is not None:
            raised = self._raised.get(system_rules.SLOWED, "")
            if system_rules.depends_on_others(self._recent, raised=raised):
                self._recent.others = self._others.read()
            else:
                self._others.reset()
                self._recent.others = {}
        for name, rule in self._rules.items():
            found = rule(self._recent, raised=self._raised.get(name, ""))
            if found is not None:
                self._stays_until[name] = self._recent.now + CALM_SECONDS.get(name, 0.0)
            if found is None:
                if name in self._raised and self._recent.now >= self._stays_until[name]:
                    yield self._withdraw(name)
            elif self._raised.get(name) != found.key:
                self._raised[name] = found.key
                yield found.message(name)

    def _withdraw(self, name: str) -> MessageWithdrawn:
        del self._raised[name]
        return MessageWithdrawn(id=name)


POLL_SECONDS = 0.1
SAMPLE_SECONDS = 1.0
EXIT_RECORD_SECONDS = 30.0  # how long it tries to write exit.json: a full disk may be given room
SPARE_BYTES = 32 << 10
"""Reserved for `exit.json`, which takes a few KB with the end of the log; so does its temporary file."""


class Keeper:
    """Runs the engine for one attempt of a run.

    Args:
        run: The run's folder, with `run.toml` in it.
        queued: Whether the run waits for its turn first.
    """

    def __init__(self, run: RunFolder, command: Sequence[str], *, queued: bool = False) -> None:
        self._run = run
        self._queued = queued
        self._command = command
        self._options = run.readable_options()  # the engine reports it where they are wrong
        self._events = EventReader(run.events_file)
        self._events.start_at_end()  # events of earlier attempts, which may be many
        self._writer = EventWriter(run.machine_file, attempt=current_attempt(run))
        self._turn = queue.Turn(run, queue.device_held(self._options), self._writer.attempt)
        with contextlib.suppress(OSError):  # space for `exit.json`; zeros may take none on some disks
            write_atomically(run.spare_file, os.urandom(SPARE_BYTES))
        self._kills_before = out_of_memory_kills()
        self._is_killed = False
        self._wants_stop = False

    def request_stop(self) -> None:
        """Lets the engine stop at its next step. Safe to call from a signal handler."""
        self._wants_stop = True

    def keep(self) -> ExitRecord:
        """Waits for the run's turn, starts the engine, watches it until it ends, and writes `exit.json`."""
        with contextlib.suppress(OSError):  # who started this has done so, too, or is gone before it could
            self._run.record_keeper(os.getpid(), self._writer.attempt)
        with awake():  # while it waits, too: another run trains then, and between the two nothing must sleep
            reason = self._turn.wait(self._write, lambda: self._wants_stop) if self._queued else None
            record = self._train() if reason is None else self._without_engine(reason)
        self._writer.close()
        self._turn.leave()
        write_exit_record(self._run, record)
        return record

    def _without_engine(self, reason: str) -> ExitRecord:
        last = self._run.last_exit_record()
        before = last.of_engine if last is not None else None
        return ExitRecord(
            time=time.time(), code=None, reason=reason, attempt=self._writer.attempt, before=before
        )

    def _train(self) -> ExitRecord:
        ceiling = Ceiling(limit=room_for_reading(system_memory()))
        try:
            with self._run.log_file.open("ab") as log:
                engine = start_worker(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log.fileno(),
                    stderr=subprocess.STDOUT,
                    folder=self._run.path,
                    environment={"PYTHONUNBUFFERED": "1", **ceiling.environment},
                )
        except OSError as error:
            ceiling.close()
            return self._without_engine(
                _("The training process can't be started: {error}").format(error=error)
            )
        self._turn.hold()
        self._watch(engine, ceiling)
        ceiling.close()
        end_group(engine.pid)
        if ceiling.over:
            self._fail(ceiling.over)
        return self._exit_record(engine.returncode, ceiling.over)

    def _watch(self, engine: subprocess.Popen[bytes], ceiling: Ceiling) -> None:
        device = self._options.device if self._options else DeviceOptions()
        gpu = partial(gpu_of, device.name, device.processes)
        sampler = Sampler(engine.pid, gpu, folder=self._run.path)
        others = OtherPrograms(engine.pid, os.cpu_count() or 1)
        watchdog = Watchdog(self._options, activity=Activity(engine.pid), others=others)
        next_sample = time.monotonic()
        while engine.poll() is None:
            now = time.monotonic()
            if now >= next_sample:
                next_sample = max(next_sample + SAMPLE_SECONDS, now)  # no burst after the computer slept
                self._sample(sampler, watchdog)
            if ceiling.look(engine.pid):
                kill_with_children(engine)
                engine.wait()
                break
            if self._run.is_removed:
                kill_with_children(engine)
                return
            self._answer_requests(engine)
            self._turn.look_after()
            time.sleep(POLL_SECONDS)  # waiting for the engine with a time limit polls it many times as often
        for message in (*watchdog.take(self._new_events(), time.monotonic(), time.time()), *watchdog.end()):
            self._write(message)

    def _sample(self, sampler: Sampler, watchdog: Watchdog) -> None:
        samples, events = sampler.sample(), self._new_events()
        for event in (*samples, *watchdog.take([*events, *samples], time.monotonic(), time.time())):
            self._write(event)
        if any(isinstance(event, RunPlanned) and not event.device.startswith("cuda") for event in events):
            sampler.let_gpu_sleep()  # the run computes elsewhere

    def _new_events(self) -> list[Event]:
        """Returns the engine's events of this attempt since the last call; none while the folder can't be reached."""
        found: list[Event] = []
        with contextlib.suppress(OSError):
            while read := self._events.read():
                found += [event for event in read if event.attempt == self._writer.attempt]
        return found

    def _answer_requests(self, engine: subprocess.Popen[bytes]) -> None:
        if self._wants_stop:
            with contextlib.suppress(OSError):  # a full disk: it is tried again
                self._run.request(Action.STOP)
                self._wants_stop = False
        for request in self._run.open_requests(clean=True):
            if request.action is Action.KILL:
                self._is_killed = True
                self._write(RequestAnswered(request=request.id, action=request.action, accepted=True))
                kill_with_children(engine)
                with contextlib.suppress(OSError):  # the next attempt takes it away
                    self._run.close_request(request)

    def _write(self, event: Event) -> None:
        with contextlib.suppress(OSError):  # a full disk costs the figures, not the run
            self._writer.write(event)

    def _fail(self, error: UserError) -> None:
        """Reports in place of the engine why the run can't continue."""
        kept = models.newest(self._run)
        message = MessageRaised(
            id="failed", level=Level.ERROR, title=error.title, detail=error.detail, fixes=error.fixes
        )
        with contextlib.suppress(OSError):
            writer = EventWriter(self._run.events_file, attempt=self._writer.attempt)
            writer.write(message, RunFinished(state=Outcome.FAILED, steps=kept.step if kept else 0))
            writer.close()

    def _exit_record(self, code: int, over: UserError | None) -> ExitRecord:
        kills = (out_of_memory_kills() or 0) > (self._kills_before or 0)
        tail = log_tail(self._run.log_file)
        reason = over.title if over else describe(code, out_of_memory=kills, log=tail)
        return ExitRecord(
            time=time.time(),
            code=code,
            signal=signal_name(code),
            reason=_("Ended at once, as requested.") if self._is_killed else reason,
            log_tail=tail,
            out_of_memory=not self._is_killed and is_out_of_memory(code, kills=kills),
            attempt=self._writer.attempt,
        )


def write_exit_record(run: RunFolder, record: ExitRecord) -> None:
    """Writes `exit.json` into the space reserved for it, if necessary without the end of the log."""
    deadline = time.monotonic() + EXIT_RECORD_SECONDS
    while not run.is_removed:
        with contextlib.suppress(OSError):
            run.spare_file.unlink(missing_ok=True)
        for version in (record, msgspec.structs.replace(record, log_tail="")):
            try:
                run.record_exit(version)
            except OSError as error:
                failure = error
            else:
                return
        if time.monotonic() >= deadline:
            print(f"exit.json can't be written: {failure}\n{record}", file=sys.stderr)
            return
        time.sleep(1.0)


def main(arguments: Sequence[str]) -> int:
    """Runs a keeper for the folder in the first argument; with `--queue` after it, the run waits for its turn."""
    if len(arguments) not in (1, 2) or [*arguments[1:]] not in ([], [QUEUE_FLAG]):
        print(f"usage: --keeper RUN_DIR [{QUEUE_FLAG}]", file=sys.stderr)
        return 2
    path = Path(arguments[0]).absolute()
    if is_locked(path, ENGINE_LOCK):  # its keeper writes down how it ends; nobody else may
        print(_("A training process works in {path} already.").format(path=path), file=sys.stderr)
        return 1
    os.chdir(path)  # where the folder is renamed, moved or unmounted, it still is this one
    options = RunFolder(Path()).readable_options()
    if options is not None and options.device.computers:
        for number in SIGNALS:
            signal.signal(number, lambda *_rest: sys.exit(0))  # which ends nothing there
        run = RunFolder(Path())
        try:
            Mirror(run).keep()
        except RunFolderError as error:
            reason = str(error)
            write_exit_record(
                run, ExitRecord(time=time.time(), code=None, reason=reason, attempt=run.attempt_kept())
            )
        return 0
    keeper = Keeper(RunFolder(Path()), engine_command("train", "."), queued=QUEUE_FLAG in arguments)
    for number in SIGNALS:
        signal.signal(number, lambda *_rest: keeper.request_stop())
    keeper.keep()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
