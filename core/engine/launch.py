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
import sys
import tempfile
import time
import traceback
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from core.base.errors import Fix, FixAction
from core.base.files import write_atomically
from core.base.jobs import FailureReport, engine_command
from core.base.language import _
from core.base.processes import ASKER, SIGNALS, describe, end_group, out_of_memory_kills
from core.monitor.nvidia import cards, number_by_slot
from core.options import RunOptions
from core.runs.event_log import EventWriter
from core.runs.events import Level, MessageRaised, Outcome, RunFinished
from core.runs.folder import Action, RunFolder
from core.runs.models import newest
from core.runs.summary import current_attempt, status_at_end

# --- Ranks


def rank() -> int:
    """The number of this process among those that train one model."""
    return int(os.environ.get("RANK", "0"))


def is_rank() -> bool:
    """Whether this process was started by an agent."""
    return "TORCHELASTIC_RUN_ID" in os.environ


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a rank ended; `known` unless it may only be the consequence of another rank's end."""

    error: FailureReport
    message_id: str
    outcome: Outcome
    known: bool = True


def tell_agent(failure: Failure) -> None:
    """Write a rank's failure into the file that torchrun reads, in its format and with all of Hone's."""
    told = {"message": failure.error.title, "extraInfo": {"timestamp": str(int(time.time()))}}
    written = {"message": told, "hone": msgspec.to_builtins(failure)}
    write_atomically(Path(os.environ["TORCHELASTIC_ERROR_FILE"]), json.dumps(written).encode())


# --- The agent


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The processes of a run on this computer, and the computers it runs on.

    Attributes:
        processes: Ranks of this computer.
        cards: NVIDIA cards by number or UUID, one for each rank; empty if they compute on the CPU.
        computers: How many computers train together.
        settings: More arguments for torchrun, such as those of the rendezvous; empty: all ranks are here.
        environment: More variables for the ranks.
    """

    processes: int = 1
    cards: tuple[str, ...] = ()
    computers: int = 1
    settings: tuple[str, ...] = ()
    environment: dict[str, str] = {}

    @property
    def needs_agent(self) -> bool:
        return self.processes * self.computers > 1

    @property
    def torchrun(self) -> list[str]:
        """The arguments of `torch.distributed.run`: never restart, leave signals alone."""
        return [
            f"--nproc-per-node={self.processes}",
            *(self.settings or ("--standalone",)),
            "--max-restarts=0",
            "--signals-to-handle=SIGQUIT",
            *(["--virtual-local-rank"] if self.cards else []),  # each rank sees its card only, as cuda:0
            "--no-python",
            *engine_command("train", "."),
        ]


def launch_of(options: RunOptions) -> Launch:
    """The processes that these options ask for; one where this computer refuses more, which that one reports."""
    number, there = options.device.processes, options.device.there
    on_mac = there == "mps" or (there == "auto" and sys.platform == "darwin")
    if on_mac or sys.platform == "win32":
        return Launch()
    found = cards(os.environ.get("CUDA_VISIBLE_DEVICES")) if there != "cpu" else ()
    if there.startswith("cuda:") or (found and number > len(found)):
        return Launch()
    number = number or max(1, len(found))
    return Launch(processes=number, cards=found[:number])


ENDS_RANKS = signal.SIGALRM if sys.platform != "win32" else signal.SIGTERM
"""How the agent ends the ranks that are left: at once, also one that waits in native code, and told from all others."""


def lead(run: RunFolder, launch: Launch) -> int:
    """Start the ranks and wait until they have ended; write why, unless rank 0 did.

    Returns:
        The engine's exit status.
    """
    attempt, kills = current_attempt(run), out_of_memory_kills()
    number_by_slot()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // launch.processes)))
    os.environ.update({ASKER: str(os.getpid()), **launch.environment})
    if launch.cards:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(launch.cards)
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing import api
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    api._get_default_signal = lambda: ENDS_RANKS
    for name in ("torch.distributed.run", "torch.distributed.elastic"):
        logging.getLogger(name).setLevel(
            logging.CRITICAL
        )  # it would explain each failure over a page of the log
    for number in SIGNALS:
        signal.signal(number, lambda *_rest: _request_stop(run))
    failure = None
    with tempfile.TemporaryDirectory(prefix="hone-ranks-") as told:
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
    status = status_at_end(run)
    step = status.step
    if status.attempt != attempt:  # ended before it began
        kept = newest(run)
        step = kept.step if kept is not None else 0
    if failure is not None and (status.attempt != attempt or status.finished is None):
        _write(run, attempt, failure, step)
        return 0 if failure.outcome is Outcome.PAUSED else 1
    return 0 if status.finished is not None and status.finished.state is not Outcome.FAILED else 1


def _request_stop(run: RunFolder) -> None:
    with contextlib.suppress(OSError):
        run.request(Action.STOP)


def _failed(title: str, detail: str, fixes: tuple[Fix, ...] = ()) -> Failure:
    report = FailureReport(title=title, detail=detail, fixes=fixes)
    return Failure(error=report, message_id="failed", outcome=Outcome.FAILED)


def _reason(failures: dict[int, Any], launch: Launch, *, out_of_memory: bool) -> Failure:
    """The reason among torchrun's failures by rank: one that was killed, then what a rank told, the known ones first.

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
        number=number + 1, count=launch.processes * launch.computers
    )
    reason = describe(own[number].exitcode, out_of_memory=out_of_memory)
    return _failed(title, reason, (Fix(_("Resume"), action=FixAction.RESUME),))


def _write(run: RunFolder, attempt: int, failure: Failure, step: int) -> None:
    """Write the end of a run whose rank 0 couldn't."""
    error = failure.error
    raised = MessageRaised(
        id=failure.message_id, level=Level.ERROR, title=error.title, detail=error.detail, fixes=error.fixes
    )
    print("\n".join(filter(None, (error.title, error.detail))), file=sys.stderr, flush=True)
    with contextlib.suppress(OSError):
        writer = EventWriter(run.events_file, attempt=attempt)
        writer.write(raised, RunFinished(state=failure.outcome, steps=step))
        writer.close()
