"""Several processes that train one model: this engine process becomes torchrun's agent, and starts itself as ranks.

A rank is an engine process with the same command; torchrun tells it its number in environment variables. Rank 0 writes
the run's events and files. Why a rank failed is told to the agent in a file (`tell_agent`), because the others fail
with it: the agent ends all of them and writes the one reason.
"""

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import psutil

from core.base.errors import Fix, FixAction
from core.base.files import temporary_prefix, write_atomically
from core.base.jobs import FailureReport, engine_command
from core.base.language import _
from core.base.processes import ASKER, CANT_WRITE, SIGNALS, describe, end_group, out_of_memory_kills
from core.monitor.nvidia import CARDS, cards, number_by_slot
from core.options import RunOptions
from core.runs.event_log import EventWriter
from core.runs.events import Action, Level, MessageRaised, Outcome, RunFinished
from core.runs.folder import Rendezvous, RunFolder
from core.runs.models import newest
from core.runs.summary import current_attempt, status_at_end

# --- Ranks


def rank() -> int:
    """Returns the number of this process among those that train one model; a cluster sets RANK for others, too."""
    return int(os.environ["RANK"]) if is_rank() else 0


def is_rank() -> bool:
    """Returns whether this process was started by an agent."""
    return "TORCHELASTIC_RUN_ID" in os.environ


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a rank ended; `known` unless it may only be the consequence of another rank's end."""

    error: FailureReport
    message_id: str
    outcome: Outcome
    known: bool = True


def tell_agent(failure: Failure) -> None:
    """Writes a rank's failure into the file that torchrun reads, in its format and with all of Hone's."""
    told = {"message": failure.error.title, "extraInfo": {"timestamp": str(int(time.time()))}}
    written = {"message": told, "hone": msgspec.to_builtins(failure)}
    write_atomically(Path(os.environ["TORCHELASTIC_ERROR_FILE"]), json.dumps(written).encode())


# --- The agent


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The processes of a run on this computer, and the computers it runs on.

    Attributes:
        processes: Ranks of this computer.
        cards: NVIDIA cards by number or UUID, one for each rank; empty if they compute on the CPU.
        rendezvous: Where several computers meet; None: all ranks are here.
    """

    processes: int = 1
    cards: tuple[str, ...] = ()
    rendezvous: Rendezvous | None = None

    @property
    def count(self) -> int:
        """Ranks on all computers."""
        return self.processes * (len(self.rendezvous.names) if self.rendezvous else 1)

    @property
    def torchrun(self) -> list[str]:
        """The arguments of `torch.distributed.run`: never restart, leave signals alone."""
        return [
            f"--nproc-per-node={self.processes}",
            *(_meeting(self.rendezvous) if self.rendezvous else ("--standalone",)),
            "--max-restarts=0",
            "--signals-to-handle=SIGQUIT",
            *(["--virtual-local-rank"] if self.cards else []),  # each rank sees its card only, as cuda:0
            "--no-python",
            *engine_command("train", "."),
        ]


def launch_of(options: RunOptions, rendezvous: Rendezvous | None = None) -> Launch:
    """Returns the processes that the options ask for; one if this computer refuses more, which that one reports."""
    number, there = options.device.processes, options.device.there
    on_mac = there == "mps" or (there == "auto" and sys.platform == "darwin")
    if on_mac or sys.platform == "win32":
        return Launch()
    found = cards(os.environ.get("CUDA_VISIBLE_DEVICES")) if there != "cpu" else ()
    if there.startswith("cuda:") or (found and number > len(found)):
        return Launch()
    number = number or max(1, len(found))
    return Launch(processes=number, cards=found[:number], rendezvous=rendezvous)


RESUME = (Fix(_("Resume"), action=FixAction.RESUME),)

ENDS_RANKS = signal.SIGALRM if sys.platform != "win32" else signal.SIGTERM
"""How the agent ends the ranks that are left: at once, also one that waits in native code, and told from all others."""

CONSEQUENCES = {-ENDS_RANKS, -signal.SIGABRT}
"""Exit statuses that may follow from another computer's end: NCCL aborts a rank whose peer has gone."""


def lead(run: RunFolder, launch: Launch) -> int:
    """Starts the ranks and waits until they have ended; writes why, unless rank 0 did.

    Returns:
        The engine's exit status.
    """
    attempt = current_attempt(run)
    make_agent(launch)
    for number in SIGNALS:
        signal.signal(number, lambda *_rest: _request_stop(run))

    def conclude(failure: Failure | None) -> int:
        status = status_at_end(run)
        step = status.step
        if status.attempt != attempt:  # ended before it began
            kept = newest(run)
            step = kept.step if kept is not None else 0
        if failure is not None and (status.attempt != attempt or status.finished is None):
            try:
                _write(run, attempt, failure, step)
            except OSError:
                return CANT_WRITE
            return 0 if failure.outcome is Outcome.PAUSED else 1
        if failure is None and launch.rendezvous is not None and launch.rendezvous.rank:
            return 0  # the first computer has the events
        return 0 if status.finished is not None and status.finished.state is not Outcome.FAILED else 1

    heartbeat = (
        Heartbeat(launch.rendezvous, lambda why: os._exit(conclude(why))) if launch.rendezvous else None
    )
    failure = run_ranks(launch)
    return conclude(heartbeat.leave(failure) if heartbeat is not None else failure)


def make_agent(launch: Launch) -> None:
    """Prepares this process to start the ranks."""
    number_by_slot()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // launch.processes)))
    os.environ[ASKER] = str(os.getpid())
    if launch.rendezvous is not None and (interface := interface_to(launch.rendezvous.host)):
        os.environ.update(GLOO_SOCKET_IFNAME=interface, NCCL_SOCKET_IFNAME=interface)
    if launch.rendezvous is None:  # no port is open to other computers
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    if launch.cards:
        os.environ.update({"CUDA_VISIBLE_DEVICES": ",".join(launch.cards), CARDS: str(len(launch.cards))})
    # or lost connections and DDP's search for unused weights fill the log
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"
    from torch.distributed.elastic.multiprocessing import api

    api._get_default_signal = lambda: ENDS_RANKS
    for name in ("torch.distributed.run", "torch.distributed.elastic"):
        logging.getLogger(name).setLevel(
            logging.CRITICAL
        )  # it would explain each failure over a page of the log


def run_ranks(launch: Launch) -> Failure | None:
    """Starts the ranks and waits until they have ended; returns why, if they failed."""
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    failure, kills = None, out_of_memory_kills()
    with tempfile.TemporaryDirectory(prefix=temporary_prefix("ranks")) as told:
        try:
            torchrun.run(torchrun.parse_args([f"--log-dir={told}", *launch.torchrun]))
        except ChildFailedError as error:
            for ended in error.failures.values():
                end_group(ended.pid)  # data loader workers outlive a killed rank
            killed_by_system = (out_of_memory_kills() or 0) > (kills or 0)
            failure = _reason(error.failures, launch, out_of_memory=killed_by_system)
        except Exception as error:  # noqa: BLE001 - torchrun's own, such as a rendezvous that failed: logged whole
            traceback.print_exc(file=sys.stderr)
            title = _("The processes of this run can't work together")
            failure = _failed(title, _("{name}: {error}").format(name=type(error).__name__, error=error))
    return failure


def _request_stop(run: RunFolder) -> None:
    with contextlib.suppress(OSError):
        run.request(Action.STOP)


def _failed(title: str, detail: str, fixes: tuple[Fix, ...] = (), *, known: bool = True) -> Failure:
    report = FailureReport(title=title, detail=detail, fixes=fixes)
    return Failure(error=report, message_id="failed", outcome=Outcome.FAILED, known=known)


def _reason(failures: dict[int, Any], launch: Launch, *, out_of_memory: bool) -> Failure:
    """Finds the reason in torchrun's failures by rank: first a kill, then what ranks told, known reasons first.

    Those that the agent ended itself had none.
    """
    own = {number: one for number, one in failures.items() if one.exitcode != -ENDS_RANKS} or failures
    told = [
        msgspec.convert(one.error_file_data["hone"], Failure)
        for one in own.values()
        if "hone" in one.error_file_data
    ]
    killed = next((number for number, one in own.items() if one.exitcode < 0), None)
    if told and (killed is None or any(one.known for one in told)):
        return max(told, key=attrgetter("known"))
    number = min(own) if killed is None else killed
    title = _("Process {number} of {count} ended, and training with it").format(
        number=number + 1, count=launch.count
    )
    reason = describe(own[number].exitcode, out_of_memory=out_of_memory)
    return _failed(title, reason, RESUME, known=own[number].exitcode not in CONSEQUENCES)


def _write(run: RunFolder, attempt: int, failure: Failure, step: int) -> None:
    """Writes the end of a run whose rank 0 couldn't."""
    error = failure.error
    raised = MessageRaised(
        id=failure.message_id, level=Level.ERROR, title=error.title, detail=error.detail, fixes=error.fixes
    )
    print("\n".join(filter(None, (error.title, error.detail))), file=sys.stderr, flush=True)
    writer = EventWriter(run.events_file, attempt=attempt)
    writer.write(raised, RunFinished(state=failure.outcome, steps=step))
    writer.close()


# --- Several computers


BEAT_SECONDS = 2.0
SILENT_SECONDS = 30.0
"""After so long without a sign of life a computer is given up, and the run ends."""

JOIN_SECONDS = 180.0
"""How long the computers wait for each other at the start."""

END_SECONDS = 15.0
"""How long torchrun may take to notice that the ranks were ended; it may wait for a computer that is gone."""


def _meeting(rendezvous: Rendezvous) -> list[str]:
    """Returns arguments of torchrun to meet the other computers.

    With the rendezvous of c10d, ranks follow the order of the addresses. Events and checkpoints are the first
    computer's, so that it must have rank 0 in each attempt, as with the static one; and there it is the host, too.
    """
    return [
        f"--nnodes={len(rendezvous.names)}",
        f"--node-rank={rendezvous.rank}",
        "--rdzv-backend=static",
        f"--rdzv-id={rendezvous.id}",
        f"--rdzv-endpoint={rendezvous.host}:{rendezvous.port}",
        f"--rdzv-conf=timeout={round(JOIN_SECONDS)}",
    ]


def interface_to(host: str) -> str:
    """Returns the network interface by which this computer reaches another, or has that address; empty if unknown."""
    try:
        family, _kind, _protocol, _name, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect(address)  # sends nothing
            own = asked.getsockname()[0]
    except OSError:
        return ""
    found = psutil.net_if_addrs().items()
    return next(
        (name for name, have in found if any(one.address.partition("%")[0] == own for one in have)), ""
    )


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A computer's sign of life, in which `number` grows; `over` when its ranks have ended, with why if they failed."""

    number: int = 0
    over: bool = False
    failure: Failure | None = None


class Heartbeat:
    """Tells the other computers of a run that this one lives, and notices which of them has fallen silent.

    A pulled cable closes no connection: ranks would wait for minutes. All computers write into the store of the
    rendezvous, which the first one holds. What waits on a dead line can't be interrupted, so one thread speaks and
    listens while another watches the time.

    Args:
        exit_now: Ends this process with a reason, where torchrun doesn't return.
    """

    def __init__(self, rendezvous: Rendezvous, exit_now: Callable[[Failure | None], None]) -> None:
        self._rendezvous, self._exit_now = rendezvous, exit_now
        self._silent: tuple[str, ...] = ()
        self._failed: dict[int, Failure] = {}
        self._own, self._said = Beat(), threading.Event()
        self._beats: dict[int, Beat] = {}
        self._began = time.monotonic()
        self._heard: dict[int, float] = {}
        self._wake, self._over = threading.Event(), threading.Event()
        threading.Thread(target=self._speak, name="heartbeat", daemon=True).start()
        threading.Thread(target=self._watch, name="silence", daemon=True).start()

    def leave(self, failure: Failure | None) -> Failure | None:
        """Tells the others that the ranks here have ended, so that they expect no sign of life; returns the reason.

        A rank whose peer has gone fails, too: then the reason is what the other computer tells, or its silence.
        """
        self._own = Beat(over=True, failure=failure)
        self._wake.set()
        deadline = time.monotonic() + 4 * BEAT_SECONDS
        while failure is not None and not self._cause(failure) and time.monotonic() < deadline:
            time.sleep(0.1)
        if failure is not None and not self._cause(failure):
            self._silent = tuple(self._silent_for(3 * BEAT_SECONDS))
        self._said.wait(BEAT_SECONDS)
        if failure is not None and self._rendezvous.rank == 0:
            time.sleep(BEAT_SECONDS)  # the others read it here
        self._over.set()
        return self._cause(failure) or failure

    def _cause(self, failure: Failure | None) -> Failure | None:
        """Returns why the run ended, as far as it is certain."""
        if self._silent:
            return self._silence()
        if failure is not None and failure.known:
            return failure
        known = [(rank, told) for rank, told in self._failed.items() if told.known]
        if not known or failure is None:
            return None
        rank, told = known[0]
        title = _("{computer}: {problem}").format(
            computer=self._rendezvous.names[rank], problem=told.error.title
        )
        return msgspec.structs.replace(told, error=msgspec.structs.replace(told.error, title=title))

    def _silence(self) -> Failure:
        names, meeting = ", ".join(self._silent), self._rendezvous
        seconds = round(time.monotonic() - min(self._heard.values(), default=self._began))
        if len(self._heard) < len(meeting.names) - 1:
            title = _("{names} did not join within {seconds} s").format(names=names, seconds=seconds)
            detail = _(
                "Another run, started first, may train there. Or they don't reach each other: they meet at "
                "{host}, port {port}, and no firewall may be closed between them."
            ).format(host=meeting.host, port=meeting.port)
        else:
            title = _("No sign of life from {names} for {seconds} s").format(names=names, seconds=seconds)
            detail = _(
                "It is off or asleep, or the network between the computers is broken. Training has ended on all of "
                "them. It can be resumed from the newest checkpoint once they reach each other."
            )
        return _failed(title, detail, RESUME)

    def _speak(self) -> None:
        from torch.distributed import TCPStore

        meeting, store, number = self._rendezvous, None, 0
        limit = timedelta(seconds=JOIN_SECONDS)
        while not self._over.is_set():
            try:
                if store is None:
                    # the first computer's is the server, too, which torchrun closes before the others have told
                    store = TCPStore(
                        meeting.host,
                        meeting.port,
                        None,
                        meeting.rank == 0,
                        limit,
                        wait_for_workers=False,
                        multi_tenant=True,
                    )
                own, number = msgspec.structs.replace(self._own, number=number), number + 1
                store.set(self._key(meeting.rank), msgspec.json.encode(own).decode())
                if own.over:
                    self._said.set()
                for rank in range(len(meeting.names)):
                    if rank != meeting.rank and store.check([self._key(rank)]):
                        self._take(rank, msgspec.json.decode(store.get(self._key(rank)), type=Beat))
            except RuntimeError:  # the first computer has gone: nothing is heard any more
                store = None
            self._wake.wait(0.2 if self._own.over else BEAT_SECONDS)
            self._wake.clear()

    def _key(self, rank: int) -> str:
        return f"hone/{self._rendezvous.id}/{rank}"

    def _take(self, rank: int, beat: Beat) -> None:
        if self._beats.get(rank) != beat:
            self._beats[rank], self._heard[rank] = beat, time.monotonic()
            if beat.failure is not None and rank not in self._failed:
                self._failed[rank] = beat.failure
                self._end_ranks()

    def _silent_for(self, seconds: float) -> list[str]:
        """Returns the computers from which nothing came for so long, though their ranks haven't ended."""
        now, silent = time.monotonic(), []
        for rank, name in enumerate(self._rendezvous.names):
            heard, is_over = self._heard.get(rank), rank in self._beats and self._beats[rank].over
            is_late = now - heard > seconds if heard else now - self._began > JOIN_SECONDS
            if rank != self._rendezvous.rank and is_late and not is_over:
                silent.append(name)
                if rank == 0:  # all others are heard by way of it
                    break
        return silent

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            if silent := self._silent_for(SILENT_SECONDS):
                self._silent = tuple(silent)
                self._end_ranks()
                if not self._over.wait(END_SECONDS):
                    self._exit_now(self._silence())

    def _end_ranks(self) -> None:
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                child.send_signal(ENDS_RANKS)
