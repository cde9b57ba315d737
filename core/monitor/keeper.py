"""The keeper: one small process a run. It starts the engine, waits for it, and writes down what the machine does.

A run that is queued has its keeper from the start, which waits for its turn before it starts the engine.

Only a parent can tell how a process ended, and a stuck engine can't sample itself. So the keeper also has the watchers,
which say when something is wrong, and keeps the computer awake. It needs no torch, and it goes on when the window is
closed. Started as `python -P -m core.monitor.keeper RUN_DIR [--queue]`.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from core.base.ceiling import Ceiling, room_for_reading
from core.base.errors import UserError
from core.base.files import ENGINE_LOCK, is_locked, write_atomically
from core.base.jobs import engine_command
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
from core.monitor.sampler import Sampler, gpu_of
from core.monitor.system_rules import Activity
from core.monitor.watchdog import Watchdog
from core.options.sections import DeviceOptions
from core.runs import models
from core.runs.event_log import EventReader, EventWriter, current_attempt
from core.runs.events import Event, Level, MessageRaised, Outcome, RequestAnswered, RunFinished, RunPlanned
from core.runs.folder import Action, ExitRecord, Request, RunFolder
from core.runs.queue import Turn
from core.runs.start import QUEUE_FLAG

# --- Space reserved for exit.json


LAST_WORD_SECONDS = 30.0
"""How long a keeper tries to write down how its engine ended: a full disk may find room."""

SPARE_BYTES = 32 << 10
"""`exit.json` with the end of the log takes a few KB; so do the blocks of its temporary file and of the folder."""


class LastWord:
    """Keeps room in a run's folder, and gives it up for the record of how the run's engine ended.

    Args:
        run: The run's folder. Where no room is to be had from the start, there is none to give up.
    """

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        with contextlib.suppress(OSError):
            write_atomically(run.spare_file, os.urandom(SPARE_BYTES))  # zeros may take no room on some disks

    def say(self, record: ExitRecord) -> None:
        """Write `exit.json`; where that can't be, the run's events have to tell how it ended."""
        deadline = time.monotonic() + LAST_WORD_SECONDS
        while not self._run.is_removed:
            with contextlib.suppress(OSError):
                self._run.spare_file.unlink(missing_ok=True)
            try:
                self._write(record)
            except OSError as error:
                if time.monotonic() >= deadline:
                    print(f"exit.json can't be written: {error}\n{record}", file=sys.stderr)
                    return
                time.sleep(1.0)
            else:
                return

    def _write(self, record: ExitRecord) -> None:
        """Write it, and where that takes too much room, without the end of the log."""
        try:
            self._run.record_exit(record)
        except OSError:
            self._run.record_exit(msgspec.structs.replace(record, log_tail=""))


# --- Keeper


POLL_SECONDS = 0.1
SAMPLE_SECONDS = 1.0


class Keeper:
    """Keeps one attempt of one run.

    Args:
        run: The run's folder, with `run.toml` in it.
        command: What starts the engine.
        queued: Whether it waits for its turn first.
    """

    def __init__(self, run: RunFolder, command: Sequence[str], *, queued: bool = False) -> None:
        self._run = run
        self._queued = queued
        self._command = command
        options = run.readable_options()  # the engine reports it where they are wrong
        self._device = options.device.name if options else DeviceOptions().name
        self._options = options
        self._events = EventReader(run.events_file)
        self._events.start_at_end()  # what earlier attempts told, which may be long
        self._writer = EventWriter(run.machine_file, attempt=current_attempt(run))
        self._turn = Turn(run, self._device, self._writer.attempt)
        self._last_word = LastWord(run)
        self._kills_before = out_of_memory_kills()
        self._was_asked_to_kill = False
        self._wants_stop = False

    def ask_stop(self) -> None:
        """Let the engine stop at its next step. Safe to call from a signal handler."""
        self._wants_stop = True

    def keep(self) -> ExitRecord:
        """Wait for the run's turn, start the engine, watch it until it ends, and write `exit.json`."""
        with contextlib.suppress(
            OSError
        ):  # whoever started this has done so, too, or may be gone before it could
            self._run.record_keeper(os.getpid(), self._writer.attempt)
        with (
            awake()
        ):  # also while it waits: something else trains then, and between the two nothing must sleep
            record = self._wait() or self._train()
        self._writer.close()
        self._turn.leave()
        self._last_word.say(record)
        return record

    def _wait(self) -> ExitRecord | None:
        """Wait for the run's turn; None: it has come."""
        if not self._queued:
            return None
        reason = self._turn.wait(self._write, lambda: self._wants_stop)
        return None if reason is None else self._without_engine(reason)

    def _train(self) -> ExitRecord:
        ceiling = Ceiling(limit=room_for_reading(system_memory()))
        try:
            engine = self._start(ceiling)
        except OSError as error:
            ceiling.close()
            return self._without_engine(f"The training process can't be started: {error}")
        self._turn.hold(engine.pid)
        self._watch(engine, ceiling)
        ceiling.close()
        end_group(engine.pid)
        if ceiling.over:
            self._fail(ceiling.over)
        return self._exit_record(engine.returncode, ceiling.over)

    def _without_engine(self, reason: str) -> ExitRecord:
        past = self._run.last_exit_record()
        before = past.of_engine if past is not None else None
        return ExitRecord(
            time=time.time(), code=None, reason=reason, attempt=self._writer.attempt, before=before
        )

    def _start(self, ceiling: Ceiling) -> subprocess.Popen[bytes]:
        with self._run.log_file.open("ab") as log:
            return start_worker(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log.fileno(),
                stderr=subprocess.STDOUT,
                folder=self._run.path,
                environment={"PYTHONUNBUFFERED": "1", **ceiling.environment},
            )

    def _watch(self, engine: subprocess.Popen[bytes], ceiling: Ceiling) -> None:
        sampler = Sampler(engine.pid, partial(gpu_of, self._device), folder=self._run.path)
        watchdog = Watchdog(self._options, activity=Activity(engine.pid))
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
            if self._run.is_removed:  # nobody wants it any longer
                kill_with_children(engine)
                return
            self._pass_on_stop()
            self._answer_kills(engine)
            self._turn.look_after()
            time.sleep(POLL_SECONDS)  # waiting for the engine with a time limit polls it many times as often
        for message in (*watchdog.take(self._new_events(), time.monotonic(), time.time()), *watchdog.end()):
            self._write(message)

    def _sample(self, sampler: Sampler, watchdog: Watchdog) -> None:
        """Write down what the machine does, and what the watchers find in that and in what the engine tells."""
        samples = sampler.sample()
        told = self._new_events()
        for event in (*samples, *watchdog.take([*told, *samples], time.monotonic(), time.time())):
            self._write(event)
        if any(isinstance(event, RunPlanned) and not event.device.startswith("cuda") for event in told):
            sampler.let_gpu_sleep()  # the run computes elsewhere

    def _new_events(self) -> list[Event]:
        """What the engine has told in this attempt since the last call.

        A folder that can't be reached for a moment costs a look, not the run.
        """
        found: list[Event] = []
        with contextlib.suppress(OSError):
            while read := self._events.read():
                found += [event for event in read if event.attempt == self._writer.attempt]
        return found

    def _pass_on_stop(self) -> None:
        if self._wants_stop:
            with contextlib.suppress(OSError):  # a full disk: it will be asked again
                self._run.ask(Action.STOP)
                self._wants_stop = False

    def _answer_kills(self, engine: subprocess.Popen[bytes]) -> None:
        for request in self._run.open_requests(clean=True):
            if request.action is Action.KILL:
                self._kill(engine, request)

    def _kill(self, engine: subprocess.Popen[bytes], request: Request) -> None:
        self._was_asked_to_kill = True
        self._write(RequestAnswered(request=request.id, action=request.action, accepted=True))
        kill_with_children(engine)
        with contextlib.suppress(OSError):  # the next attempt takes it away
            self._run.close_request(request)

    def _write(self, event: Event) -> None:
        with contextlib.suppress(OSError):  # a full disk costs the figures, not the run
            self._writer.write(event)

    def _fail(self, error: UserError) -> None:
        """Say in the engine's place why the run can't go on."""
        kept = models.newest(self._run)
        with contextlib.suppress(OSError):
            writer = EventWriter(self._run.events_file, attempt=self._writer.attempt)
            writer.write(
                MessageRaised(
                    id="failed", level=Level.ERROR, title=error.title, detail=error.detail, fixes=error.fixes
                ),
                RunFinished(state=Outcome.FAILED, steps=kept.step if kept else 0),
            )
            writer.close()

    def _exit_record(self, code: int, over: UserError | None) -> ExitRecord:
        kills = (out_of_memory_kills() or 0) > (self._kills_before or 0)
        asked = self._was_asked_to_kill
        return ExitRecord(
            time=time.time(),
            code=code,
            signal=signal_name(code),
            reason="It was ended at once, as asked."
            if asked
            else over.title
            if over
            else describe(code, out_of_memory=kills),
            log_tail=log_tail(self._run.log_file),
            out_of_memory=not asked and is_out_of_memory(code, kills=kills),
            attempt=self._writer.attempt,
        )


def main(arguments: Sequence[str]) -> int:
    """Keep the run whose folder is the first argument; `--queue` after it lets it wait for its turn."""
    if len(arguments) not in (1, 2) or [*arguments[1:]] not in ([], [QUEUE_FLAG]):
        print(f"The keeper takes one run folder, and {QUEUE_FLAG} after it.", file=sys.stderr)
        return 2
    path = Path(arguments[0]).absolute()
    if is_locked(path, ENGINE_LOCK):  # its keeper writes down how it ends; nobody else may
        print(f"A training process works in {path} already.", file=sys.stderr)
        return 1
    os.chdir(path)  # where the folder is renamed, moved or unmounted, it still is this one
    keeper = Keeper(RunFolder(Path()), engine_command("train", "."), queued=QUEUE_FLAG in arguments)
    for number in SIGNALS:
        signal.signal(number, lambda *_: keeper.ask_stop())
    keeper.keep()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
