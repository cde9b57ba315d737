"""Runs on other computers: network namespaces with an sshd in each, on a good line and on a bad one (Linux, root).

- `elsewhere`: a run over ssh has the losses, weights and metrics of the local run, and its model comes back unchanged.
- `connections`: the connection is cut at random moments. Not one event is lost or doubled, and the run is the same.
- `keeper`: the keeper here is killed, as with this computer, and started again. The same.
- `resume`: paused and resumed there, bit for bit.
- `together`: two computers have the losses of one process at the same global batch, and go on bit for bit.
- `ranks`: a rank is killed. All computers end within seconds, say so, and the run goes on bit for bit.
- `cable`: the cable of one is pulled. Both end within 90 s with a sentence that names it, and the run goes on.

A line that delays by 50 ms and loses 1 % carries all of it; `--good` takes a good one.
"""

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import msgspec
import psutil

from core.hosts import computers
from core.options import RunOptions
from core.options.sections import MemoryOptions, ModelOptions
from core.runs import start as runs_start
from core.runs.event_log import EventReader
from core.runs.events import Action, MessageRaised
from core.runs.folder import RunFolder
from core.runs.status import State
from tests.fakes.models import save_tiny_bert
from tests.fakes.network import Host, Network, without_namespaces
from tests.performance.faults.case import Case, table
from tests.performance.faults.training import (
    Attended,
    Reference,
    differences,
    new_run,
    small_options,
    write_texts,
)
from tests.performance.figures import Figure, at_most, figure, main, own_home, progress

ROWS = 100
EPOCHS = 5.0
GLOBAL_BATCH = 4
NEAR = 1e-6
ENDED_SECONDS = 90.0
KILLED_SECONDS = 30.0
"""Within which all computers must have ended after a rank was killed; their keepers write how it ended, too."""


class Campaign:
    """What all parts share: the network, data, and runs that were left alone."""

    def __init__(self, folder: Path, network: Network, seed: int, epochs: float = EPOCHS) -> None:
        self.folder, self.network, self.chance, self.epochs = folder, network, Random(seed), epochs
        self.data = write_texts(folder / "texts.csv", ROWS)
        self.bert = save_tiny_bert(folder / "bert")
        self.figures: list[Figure] = []
        self._alone: dict[str, Reference] = {}
        for host in network.hosts.values():
            computers.save(host.computer)

    def options(self, device: str) -> RunOptions:
        """A run with dropout on another computer; on two, and as one to compare with them, without.

        Ranks draw different random numbers.
        """
        options = small_options(self.data, self.epochs)
        if device == "cpu" or "+" in device:
            model = ModelOptions(source=str(self.bert))
            memory = MemoryOptions(batch_size=GLOBAL_BATCH // (device.count("+") + 1))
            options = msgspec.structs.replace(options, model=model, memory=memory)
        return msgspec.structs.replace(options, device=msgspec.structs.replace(options.device, name=device))

    def alone(self, device: str, options: RunOptions | None = None) -> Reference:
        """The same run without any fault; made once."""
        if device not in self._alone:
            self._alone[device] = Reference(self.trained(f"alone-{device}", options or self.options(device)))
        return self._alone[device]

    def trained(self, name: str, options: RunOptions) -> RunFolder:
        attended = self.begin(name, options)
        try:
            attended.until_over()
            if attended.follower.state is not State.FINISHED:
                raise SystemExit(f"{name} is {attended.follower.state}: see {self.folder / name}")
        finally:
            attended.end()
        return attended.run

    def begin(self, name: str, options: RunOptions) -> Attended:
        return Attended(new_run(options, self.folder / name))

    @property
    def local(self) -> Reference:
        """The run with dropout, on this computer."""
        return self.alone("here", small_options(self.data, self.epochs))

    def far(self, run: RunFolder, host: Host) -> RunFolder:
        """The run's folder on another computer."""
        connection = run.connection()
        assert connection is not None
        return RunFolder(host.far / "home" / "runs" / connection.folder)

    def wrong_with_copy(self, run: RunFolder, host: Host) -> list[str]:
        """What of the run here isn't what is there."""
        far, wrong = self.far(run, host), []
        for name in (
            "events.jsonl",
            "machine.jsonl",
            "log.txt",
            "model/model.safetensors",
            "model/config.json",
        ):
            here, there = run.path / name, far.path / name
            if not here.exists() or here.read_bytes() != there.read_bytes():
                wrong.append(f"{name} differs from the one there")
        numbers = [
            event.number for event in EventReader(run.events_file).read_all() if hasattr(event, "number")
        ]
        if len(numbers) != len(set(numbers)):
            wrong.append("an event is doubled")
        return wrong

    def left_running(self, seconds: float = 15.0) -> list[str]:
        """What still runs on any of the computers."""
        deadline = time.monotonic() + seconds
        while True:
            left = [
                f"{process.pid} still runs on {host.name}"
                for host in self.network.hosts.values()
                for process in host.processes()
                if "core.hosts.far" not in " ".join(_command(process))
            ]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.2)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def sentences(run: RunFolder) -> str:
    """All that the run has said of itself as messages."""
    return " ".join(
        f"{event.title} {event.detail}"
        for event in EventReader(run.events_file).read_all()
        if isinstance(event, MessageRaised)
    )


def until_step(attended: Attended, step: int) -> bool:
    attempt = attended.run.attempt_kept()
    return attended.until(
        lambda: attended.follower.status.attempt == attempt and attended.follower.status.step >= step
    )


# --- One computer


def elsewhere(campaign: Campaign, _count: int) -> Iterator[Case]:
    workshop = campaign.network["workshop"]
    began, carried = time.monotonic(), workshop.carried()
    attended = campaign.begin("elsewhere", campaign.options("cpu@workshop"))
    try:
        attended.until_over()
        wrong = differences(attended, campaign.local) + campaign.wrong_with_copy(attended.run, workshop)
    finally:
        attended.end()
    seconds, far = time.monotonic() - began, campaign.far(attended.run, workshop)
    files = [far.events_file, far.machine_file, far.log_file, *far.model.iterdir(), campaign.data]
    copied = sum(path.stat().st_size for path in files)
    campaign.figures += [
        figure("a run elsewhere, from start to end", seconds, "s"),
        figure("bytes of its files that were copied", copied),
        figure("bytes on the line for them", workshop.carried() - carried),
    ]
    yield Case("elsewhere", "as here", wrong + campaign.left_running())


def connections(campaign: Campaign, count: int) -> Iterator[Case]:
    workshop = campaign.network["workshop"]
    cut = number = 0
    while cut < count:
        attended = campaign.begin(f"cut-{number}", campaign.options("cpu@workshop"))
        number += 1
        before = cut
        try:
            while cut < count and not attended.follower.is_over:
                pause = campaign.chance.uniform(0.2, 6.0)
                attended.until(lambda: False, pause)
                cut += bool(workshop.kill_connections())
            attended.until_over()
            wrong = differences(attended, campaign.local) + campaign.wrong_with_copy(attended.run, workshop)
        finally:
            attended.end()
        for _ in range(cut - before):
            yield Case("connections", "went on", wrong, f"run {number}")


class Again(psutil.Process):
    """The keeper that follows a run again, as `Attended` knows one."""

    def poll(self) -> int | None:
        return None if self.is_running() and self.status() != psutil.STATUS_ZOMBIE else 0


def keeper(campaign: Campaign, count: int) -> Iterator[Case]:
    workshop = campaign.network["workshop"]
    attended = campaign.begin("keeper", campaign.options("cpu@workshop"))
    try:
        for time_killed in range(count):
            until_step(attended, (time_killed + 1) * 10)
            attended.keeper.kill()
            attended.keeper.wait()
            wrong = [] if attended.run.is_alive() else ["the run reads as dead without its keeper here"]
            time.sleep(campaign.chance.uniform(0.5, 3.0))
            if not runs_start.follow_again(attended.run):
                wrong.append("it isn't followed again")
            record = attended.run.keeper_record()
            attended.keeper = Again(record.pid if record else 0)
            yield Case("keeper", "went on", wrong)
        attended.until_over()
        wrong = differences(attended, campaign.local) + campaign.wrong_with_copy(attended.run, workshop)
    finally:
        attended.end()
    yield Case("keeper", "as here", wrong)


def resume(campaign: Campaign, _count: int) -> Iterator[Case]:
    attended = campaign.begin("resume", campaign.options("cpu@workshop"))
    yield paused_and_resumed(campaign, attended, campaign.local, "resume")


def paused_and_resumed(campaign: Campaign, attended: Attended, reference: Reference, kind: str) -> Case:
    try:
        until_step(attended, 30)
        attended.run.request(Action.PAUSE)
        attended.until_over()
        wrong = (
            [] if attended.follower.state is State.PAUSED else [f"it isn't paused: {attended.follower.state}"]
        )
        paused_at = attended.follower.status.step
        wrong += campaign.left_running()
        attended.resume()
        attended.until_over()
        wrong += differences(attended, reference)
        wrong += campaign.wrong_with_copy(attended.run, campaign.network["workshop"])
    finally:
        attended.end()
    return Case(kind, "bit for bit", wrong, f"paused at step {paused_at}")


# --- Two computers

TOGETHER = "cpu@workshop+attic"


def together(campaign: Campaign, _count: int) -> Iterator[Case]:
    began = time.monotonic()
    both = campaign.alone(TOGETHER)
    campaign.figures.append(figure("a run on two, from start to end", time.monotonic() - began, "s"))
    one = campaign.alone("cpu")
    apart = max(
        abs((both.losses.get(step) or 0.0) - (loss or 0.0)) for step, loss in list(one.losses.items())[:50]
    )
    campaign.figures.append(
        figure("losses of 50 steps on two, apart from one process", apart, goal=at_most(NEAR))
    )
    wrong = [] if apart <= NEAR and len(both.losses) == len(one.losses) else [f"losses are {apart} apart"]
    yield Case("together", "as one", wrong + campaign.left_running())
    attended = campaign.begin("together-paused", campaign.options(TOGETHER))
    yield paused_and_resumed(campaign, attended, both, "together")


def ranks(campaign: Campaign, count: int) -> Iterator[Case]:
    """Kill a rank on either computer in turn; the run is resumed each time."""
    reference = campaign.alone(TOGETHER)
    attended = campaign.begin("ranks", campaign.options(TOGETHER))
    slowest = 0.0
    cases = []
    try:
        for number in range(count):
            if not until_step(attended, (number + 1) * 7 + campaign.chance.randrange(5)):
                break
            host = campaign.network[("attic", "workshop")[number % 2]]
            rank = next(process for process in host.processes() if "RANK" in _environment(process))
            killed = time.monotonic()
            rank.send_signal(signal.SIGKILL)
            attended.until_over()
            took = time.monotonic() - killed
            slowest = max(slowest, took)
            wrong = campaign.left_running()
            if attended.follower.state is not State.FAILED:
                wrong.append(f"it is {attended.follower.state}")
            if host.name == "attic" and "attic: Process 2 of 2" not in sentences(attended.run):
                wrong.append(f"the process of attic isn't named: {sentences(attended.run)}")
            if took > KILLED_SECONDS:
                wrong.append(f"it ended after {took:.0f} s")
            cases.append(Case("ranks", "ended and resumed", wrong, f"on {host.name}, {took:.1f} s"))
            attended.resume()
        attended.until_over()
        cases[-1].wrong += differences(attended, reference)
    finally:
        attended.end()
    campaign.figures.append(
        figure("slowest end after a killed rank", slowest, "s", goal=at_most(KILLED_SECONDS))
    )
    yield from cases


def cable(campaign: Campaign, count: int) -> Iterator[Case]:
    """Pull the cable of the first or the second computer, plug it in again once both have ended, and resume."""
    reference = campaign.alone(TOGETHER)
    slowest = 0.0
    for number in range(count):
        pulled, other = [
            campaign.network[name] for name in (("attic", "workshop"), ("workshop", "attic"))[number % 2]
        ]
        attended = campaign.begin(f"cable-{number}", campaign.options(TOGETHER))
        try:
            until_step(attended, 15)
            began = time.monotonic()
            pulled.pull_cable()
            wrong = campaign.left_running(ENDED_SECONDS)
            took = time.monotonic() - began
            slowest = max(slowest, took)
            pulled.plug_in()
            attended.until_over()
            if pulled.name == "attic" and "attic" not in sentences(attended.run):
                wrong.append(f"attic isn't named: {sentences(attended.run)}")
            if pulled.name == "workshop" and other.name not in sentences(attended.run):
                wrong.append(f"nobody is named: {sentences(attended.run)}")
            attended.resume()
            attended.until_over()
            wrong += differences(attended, reference)
        finally:
            attended.end()
            pulled.plug_in()
        yield Case("cable", "ended and resumed", wrong, f"{pulled.name}'s, {took:.0f} s")
    campaign.figures.append(
        figure("slowest end after a pulled cable", slowest, "s", goal=at_most(ENDED_SECONDS))
    )


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


PARTS: dict[str, tuple[Callable[[Campaign, int], Iterator[Case]], int]] = {
    "elsewhere": (elsewhere, 1),
    "connections": (connections, 20),
    "keeper": (keeper, 3),
    "resume": (resume, 1),
    "together": (together, 1),
    "ranks": (ranks, 10),
    "cable": (cable, 2),
}


def measure(arguments: argparse.Namespace) -> list[Figure]:
    if without_namespaces():
        raise SystemExit(without_namespaces())
    os.environ["HF_HUB_OFFLINE"] = "1"
    line = {} if arguments.good else {"delay": 0.05, "loss": 0.01}
    cases = []
    parts = arguments.parts or list(PARTS)
    with (
        own_home() as folder,
        tempfile.TemporaryDirectory(prefix="hone-net-") as far,
        Network(Path(far), **line) as network,
    ):
        campaign = Campaign(folder, network, arguments.seed)
        for name in parts:
            run_part, usual = PARTS[name]
            for case in run_part(campaign, arguments.count or usual):
                cases.append(case)
                progress(case)
    print(table(cases, parts))
    failed = sum(bool(case.wrong) for case in cases)
    return [
        figure("faults and comparisons", len(cases)),
        figure("lost, doubled, different or left running", failed, goal=at_most(0)),
        *campaign.figures,
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which; default: all")
    parser.add_argument("--count", type=int, help="how many faults; default: 20 cuts, 10 killed ranks, ...")
    parser.add_argument("--good", action="store_true", help="a line without delay and loss")


if __name__ == "__main__":
    main(__doc__, measure, {"seed": 1}, add_arguments)
