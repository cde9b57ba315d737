"""Which processes a run is started as, and which of several reasons is given when they fail."""

import sys
from types import SimpleNamespace

import msgspec
import pytest

from core.base.jobs import FailureReport
from core.engine import launch
from core.engine.launch import ENDS_RANKS, Failure, Launch, _reason, launch_of
from core.runs.events import Outcome
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
    assert found.needs_agent == (expected[0] > 1)


def test_torchrun_is_told_the_processes_and_where_they_meet():
    alone = Launch(processes=2).torchrun
    assert {"--nproc-per-node=2", "--standalone", "--max-restarts=0", "--no-python"} <= set(alone)
    assert alone[-2:] == ["train", "."]
    assert "--virtual-local-rank" not in alone
    assert "--virtual-local-rank" in Launch(processes=2, cards=("0", "1")).torchrun
    assert "--standalone" not in Launch(processes=2, computers=2, settings=("--nnodes=2",)).torchrun


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
