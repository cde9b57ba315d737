"""Several computers that train one model: what is refused before the start, and two network namespaces that do it."""

import signal
import threading
import time

import msgspec
import pytest

from core.base.errors import UserError
from core.hosts import computers, far, several
from core.hosts.computers import Computer
from core.hosts.link import Link
from core.hosts.mirror import removal_there
from core.hosts.several import _meeting_point, _refuse_differences
from core.options.catalogue import with_changes
from core.runs import start as runs_start
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import CheckpointSaved, Level, MessageRaised, RunStarted
from core.runs.folder import ExitRecord, RunFolder
from core.runs.library import create
from core.runs.status import State
from tests.fakes.network import Network, without_namespaces
from tests.fakes.runs import digits_options

# --- Before the start

BOTH = with_changes(digits_options(), {"device.name": "cuda@workshop+attic"})


class FakeLink:
    """A session with a computer that has these facts and can reach these addresses."""

    def __init__(self, name, reaches=(), **facts):
        self.computer = Computer(name=name, address=name)
        self.facts = {"system": "Linux", "python": "3.12.1", "torch": "2.13.0+cu128", **facts}
        self.reaches = reaches

    def ask(self, asked, kind):
        match asked:
            case far.Facts():
                return self.facts
            case far.Listen():
                return far.Listening(port=4711, addresses=("10.0.0.1", "192.168.1.7"))
            case far.Reach():
                assert asked.port == 4711
                return [address for address in asked.addresses if address in self.reaches]


def test_computers_with_other_versions_are_refused_with_a_list():
    _refuse_differences([FakeLink("workshop"), FakeLink("attic")], BOTH)
    with pytest.raises(UserError) as refused:
        _refuse_differences(
            [FakeLink("workshop"), FakeLink("attic", torch="2.12.1+cu126", python="3.11.9")], BOTH
        )
    assert refused.value.detail.split("\n") == [
        "python: 3.12.1 on workshop, 3.11.9 on attic",
        "torch: 2.13.0+cu128 on workshop, 2.12.1+cu126 on attic",
    ]
    assert "hone hosts install attic" in refused.value.fixes[0].label


def test_macs_together_are_refused_except_on_their_cpus():
    macs = [FakeLink("studio", system="Darwin"), FakeLink("attic", system="Darwin")]
    with pytest.raises(UserError, match="Macs can't train together") as refused:
        _refuse_differences(macs, with_changes(BOTH, {"device.name": "auto@studio+attic"}))
    assert refused.value.fixes[0].changes == {"device.name": "auto@studio"}
    _refuse_differences(macs, with_changes(BOTH, {"device.name": "cpu@studio+attic"}))


def test_they_meet_at_an_address_that_all_reach():
    workshop = FakeLink("workshop", ("10.0.0.1", "192.168.1.7"))
    assert _meeting_point(workshop, [FakeLink("attic", ("192.168.1.7",))]) == ("192.168.1.7", 4711)
    with pytest.raises(UserError, match="attic can't reach workshop") as refused:
        _meeting_point(workshop, [FakeLink("attic")])
    assert "10.0.0.1, 192.168.1.7, each at port 4711" in refused.value.detail


class Ended(FakeLink):
    """A session with a computer on which its part of a run failed, or that was switched off meanwhile."""

    is_off = False
    record, decoded, wrong = Link.record, Link.decoded, Link.wrong
    _is_greeted = True

    def __enter__(self):
        return self

    def __exit__(self, *_rest):
        pass

    def news(self, asked, _limit):
        assert isinstance(asked, far.Watch)
        return far.Watched(pieces=(), shrunk=(), is_alive=False, has_ended=not self.is_off), ()

    def small(self, _run, path):
        if path == "exit.json":
            return msgspec.json.encode(ExitRecord(time=1.0, code=1, attempt=2))
        said = [(1, "an old reason"), (2, "The disk is full")]
        events = [
            MessageRaised(id="failed", attempt=attempt, level=Level.ERROR, title=title, time=1.0)
            for attempt, title in said
        ]
        return b"\n".join(msgspec.json.encode(event) for event in events)


@pytest.mark.parametrize("is_off", [False, True])
def test_why_another_computer_ended_first_is_known_here(is_off, monkeypatch):
    monkeypatch.setattr(several, "Link", Ended)
    monkeypatch.setattr(Ended, "is_off", is_off)
    monkeypatch.setattr(several, "find", lambda name: name)
    others = several.Others(("attic",))
    others.watch("a-run")
    for thread in others._threads:
        thread.join(10)
    expected = "It ended there without a message." if is_off else "The disk is full"
    assert others.problem == f"attic: {expected}"


@pytest.mark.parametrize("is_hurried", [False, True])
def test_the_end_of_the_others_is_waited_for_unless_it_is_to_end_now(is_hurried, monkeypatch):
    monkeypatch.setattr(several, "END_SECONDS", 5.0)
    monkeypatch.setattr(several, "HURRIED_SECONDS", 0.1)
    others, left = several.Others(()), threading.Event()
    others._threads = [threading.Thread(target=left.wait)]
    others._threads[0].start()
    asked: list[float] = []

    def ask() -> bool:
        asked.append(time.monotonic())
        if len(asked) == 3 and not is_hurried:
            left.set()
        return is_hurried and len(asked) == 3  # it is pressed meanwhile

    others.end(ask)
    assert others._threads[0].is_alive() is is_hurried
    assert len(asked) == 3
    left.set()
    others._threads[0].join()


def test_the_session_with_another_computer_is_cut_as_that_with_the_first_one(tmp_path, monkeypatch):
    first = FakeLink("workshop")
    first.wants_end = lambda: True
    cut: list[object] = []

    def link(_computer, wants_end=None):
        cut.append(wants_end)
        raise UserError("It was cut")

    monkeypatch.setattr(several, "Link", link)
    monkeypatch.setattr(several, "find", lambda name: name)
    with pytest.raises(UserError, match="It was cut"):
        several.start_others(first, BOTH, far.Start(run="a-run", attempt=1, options=""), print)
    assert cut == [first.wants_end]


# --- Two network namespaces

SMALL = {
    "device.name": "cpu@workshop+attic",
    "device.threads": 1,
    "training.max_steps": 400,
    "memory.batch_size": 4,
    "data.max_train_samples": 64,
    "data.max_eval_samples": 16,
    "output.save_steps": 5,
}


def until(run: RunFolder, holds, seconds: float = 120.0) -> RunFollower:
    follower = RunFollower(run)
    deadline = time.monotonic() + seconds
    while follower.poll() or not holds(follower):
        assert time.monotonic() < deadline, (
            run.connection(),
            follower.state,
            run.log_file.read_text()[-2000:],
        )
        time.sleep(0.05)
    return follower


def wait_until_idle(network: Network, seconds: float = 20.0) -> None:
    """Nothing is left running on any of the computers."""
    deadline = time.monotonic() + seconds
    while left := [one for host in network.hosts.values() for one in host.processes()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def said(run: RunFolder) -> list[str]:
    return [
        event.title for event in EventReader(run.events_file).read_all() if isinstance(event, MessageRaised)
    ]


@pytest.mark.skipif(without_namespaces() != "", reason=without_namespaces() or "-")
def test_two_computers_end_together_when_a_process_of_one_dies_and_go_on_together(tmp_path, own_home):
    with Network(tmp_path) as network:
        for host in network.hosts.values():
            computers.save(host.computer)
        run = create(with_changes(digits_options(), SMALL), own_home / "runs")
        keeper = runs_start.start(run)
        follower = until(run, lambda follower: follower.status.step >= 6 or follower.is_over)
        assert not follower.is_over, said(run)
        ranks = [one for one in network["attic"].processes() if "RANK" in one.environ()]
        assert [one.environ()["RANK"] for one in ranks] == ["1"]
        ranks[0].send_signal(signal.SIGKILL)
        killed = time.monotonic()
        assert until(run, lambda follower: follower.is_over).state is State.FAILED
        assert time.monotonic() - killed < 30.0
        assert said(run)[-1] == "attic: Process 2 of 2 ended, and training with it"
        keeper.wait(60)
        wait_until_idle(network)

        (run.path / "run.toml").write_text(
            (run.path / "run.toml").read_text().replace("max_steps = 400", "max_steps = 20")
        )
        saved = [
            one.step for one in EventReader(run.events_file).read_all() if isinstance(one, CheckpointSaved)
        ]
        keeper = runs_start.resume(run)
        assert until(run, lambda follower: follower.is_over).state is State.FINISHED, said(run)
        keeper.wait(60)
        begun = [one for one in EventReader(run.events_file).read_all() if isinstance(one, RunStarted)]
        assert begun[-1].from_step == saved[-1]
        folders = [
            RunFolder(host.far / "home" / "runs" / run.connection().folder) for host in network.hosts.values()
        ]
        assert [folder.path.exists() for folder in folders] == [True, True]
        assert removal_there(run)() == ""
        assert [folder.path.exists() for folder in folders] == [False, False]
        wait_until_idle(network)
