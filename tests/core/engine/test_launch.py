"""Which processes a run is started as, and which of several reasons is given when they fail."""

import sys
import time
from signal import SIG_IGN
from types import SimpleNamespace

import msgspec
import pytest

from core.base.jobs import FailureReport
from core.base.processes import CANT_WRITE
from core.engine import launch
from core.engine.launch import ENDS_RANKS, Failure, Heartbeat, Launch, _reason, is_rank, launch_of, lead, rank
from core.engine.run.requests import on_signals
from core.runs.events import Outcome
from core.runs.folder import Rendezvous, RunFolder
from tests.fakes.training import options_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="several processes are refused on Windows")


@pytest.mark.parametrize(
    ("device", "asked", "there", "expected"),
    [
        ("cpu", 2, (), (2, ())),
        ("cpu", 0, ("0", "1"), (1, ())),
        ("auto", 0, ("0", "1"), (2, ("0", "1"))),
        ("cuda", 2, ("0", "1", "2"), (2, ("0", "1"))),
        ("cuda", 0, (), (1, ())),
        ("cuda:1", 0, ("0", "1"), (1, ())),
        ("auto", 3, ("0", "1"), (1, ())),  # refused by that one process
        ("mps", 2, (), (1, ())),
    ],
)
def test_the_processes_of_a_run(device, asked, there, expected, monkeypatch):
    monkeypatch.setattr(launch, "cards", lambda _visible: there)
    monkeypatch.setattr(launch.sys, "platform", "linux")
    found = launch_of(options_of(name=device, processes=asked))
    assert (found.processes, found.cards) == expected
    assert found.count == expected[0]


def test_torchrun_is_told_the_processes_and_where_they_meet():
    alone = Launch(processes=2).torchrun
    assert {"--nproc-per-node=2", "--standalone", "--max-restarts=0", "--no-python"} <= set(alone)
    assert alone[-2:] == ["train", "."]
    assert "--virtual-local-rank" not in alone
    assert "--virtual-local-rank" in Launch(processes=2, cards=("0", "1")).torchrun


def test_a_process_by_itself_has_no_number_even_where_a_cluster_sets_one(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    assert (is_rank(), rank()) == (False, 0)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
    assert (is_rank(), rank()) == (True, 3)


def test_an_agent_that_can_write_no_reason_says_so_by_its_status(tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(launch, "make_agent", lambda _launch: None)
    monkeypatch.setattr(launch, "run_ranks", lambda _launch: failed("no such row"))
    monkeypatch.setattr(launch, "EventWriter", full)
    with on_signals(SIG_IGN):  # as they were afterwards
        assert lead(RunFolder(tmp_path), Launch(processes=2)) == CANT_WRITE


# --- Several computers


def meeting(rank: int, port: int = 29400) -> Rendezvous:
    return Rendezvous(rank=rank, names=("workshop", "attic"), host="127.0.0.1", port=port, id="one")


def test_several_computers_meet_at_the_first_which_keeps_rank_0():
    launched = Launch(processes=2, rendezvous=meeting(1))
    assert launched.count == 4
    assert "--standalone" not in launched.torchrun
    assert {"--nnodes=2", "--node-rank=1", "--rdzv-backend=static"} <= set(launched.torchrun)
    assert "--rdzv-endpoint=127.0.0.1:29400" in launched.torchrun
    assert launch.interface_to("127.0.0.1") == ("lo0" if sys.platform == "darwin" else "lo")
    assert launch.interface_to("no.such.computer.invalid") == ""


@pytest.fixture
def two_computers(monkeypatch):
    """Two heartbeats, and what each does to its ranks."""
    from torch.distributed import TCPStore

    monkeypatch.setattr(launch, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(launch, "SILENT_SECONDS", 1.5)
    monkeypatch.setattr(launch, "END_SECONDS", 0.5)
    monkeypatch.setattr(launch, "JOIN_SECONDS", 20.0)
    ended: list[Heartbeat] = []
    monkeypatch.setattr(Heartbeat, "_end_ranks", lambda self: ended.append(self))  # noqa: PLW0108 - bound to it
    store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, multi_tenant=True)  # torchrun's
    exits: list[Failure | None] = []
    beats = [Heartbeat(meeting(rank, store.port), exits.append) for rank in range(2)]
    wait_until(lambda: all(beat._heard for beat in beats))
    del store  # it closes its own before all ranks have ended
    yield *beats, ended, exits
    for beat in beats:
        beat._over.set()


def wait_until(holds, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def failed(title: str, *, known: bool = True) -> Failure:
    return Failure(error=FailureReport(title=title), message_id="failed", outcome=Outcome.FAILED, known=known)


def test_a_computer_that_failed_ends_the_other_and_is_named_there(two_computers):
    first, second, ended, _exits = two_computers
    assert second.leave(failed("no such row")).error.title == "no such row"
    wait_until(lambda: ended == [first])
    assert first.leave(failed("connection closed", known=False)).error.title == "attic: no such row"


def test_a_computer_that_falls_silent_is_named(two_computers):
    first, second, ended, exits = two_computers
    second._over.set()  # switched off
    wait_until(lambda: exits != [])
    assert ended == [first]
    assert exits[0].error.title.startswith("No sign of life from attic for")
    assert "attic" in first.leave(failed("connection closed", known=False)).error.title


def test_a_computer_whose_ranks_have_ended_need_not_give_signs_of_life(two_computers):
    first, second, ended, exits = two_computers
    assert second.leave(None) is None
    wait_until(lambda: first._beats[1].over)
    time.sleep(2.0)  # longer than silence may last
    assert first.leave(None) is None
    assert (ended, exits) == ([], [])


# --- Reasons


def ended(code, title="", *, known=True):
    report = FailureReport(title=title)
    told = Failure(error=report, message_id="failed", outcome=Outcome.FAILED, known=known)
    return SimpleNamespace(
        exitcode=code, error_file_data={"hone": msgspec.to_builtins(told)} if title else {"message": "<NONE>"}
    )


@pytest.mark.parametrize(
    ("failures", "title"),
    [
        ({0: ended(1, "connection closed", known=False), 1: ended(-9)}, "Process 2 of 2 ended"),
        ({0: ended(1, "connection closed", known=False), 1: ended(1, "no such row")}, "no such row"),
        ({1: ended(1, "no such row"), 0: ended(-ENDS_RANKS)}, "no such row"),
        ({1: ended(3), 0: ended(-ENDS_RANKS)}, "Process 2 of 2 ended"),
        ({0: ended(1, "a bug", known=False), 1: ended(-ENDS_RANKS)}, "a bug"),
    ],
)
def test_of_several_reasons_the_first_cause_is_given(failures, title):
    reason = _reason(failures, Launch(processes=2), out_of_memory=False)
    assert reason.error.title.startswith(title)
