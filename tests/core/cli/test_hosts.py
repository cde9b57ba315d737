"""`hone hosts`: computers added, checked, listed, made ready and removed; what is there is invented."""

import msgspec
import pytest

from core.base.errors import ComputerError
from core.base.jobs import JobProgress
from core.base.processes import source_digest
from core.hosts import computers, install
from core.hosts.computers import CheckedComputer, Computer, explain
from core.options.device_support import DeviceReport, MachineReport
from tests.fakes.runs import link

CARD = DeviceReport(name="cuda:0", title="RTX 4090", available=True, memory_bytes=24 << 30)
REPORT = MachineReport(devices=(CARD,), automatic="cuda:0", versions={"torch": "2.13.0+cu130"})


@pytest.fixture
def found(monkeypatch):
    """What a check finds, by name of the computer; an error is raised."""
    known = {}

    def check(computer):
        checked = known[computer.name]
        if isinstance(checked, ComputerError):
            raise checked
        computers.save(msgspec.structs.replace(computer, checked=checked))
        return checked

    monkeypatch.setattr(install, "check", check)
    return known


BARE = CheckedComputer(
    time=1.0, system="Linux", processor="x86_64", python="3.12.3", uv="0.13.9", free=80 << 30
)
READY = msgspec.structs.replace(BARE, source=source_digest(), machine=REPORT, versions=REPORT.versions)


def test_from_the_first_computer_to_none(hone, found, monkeypatch):
    assert "hone hosts add" in hone("hosts").out
    found["workshop"] = BARE
    printed = hone("hosts", "add", "workshop", "me@10.0.0.7", "--folder", "/mnt/big/hone/")
    assert "Linux x86_64, Python 3.12.3, uv 0.13.9, 80.0 GB free" in printed.out
    assert "hone hosts install workshop" in printed.out
    assert computers.find("workshop").folder == "/mnt/big/hone"
    assert "Hone isn't installed on workshop" in hone("hosts").out

    def bring(computer, tell):
        tell(JobProgress(done=0, total=0, what="Installing"))
        found["workshop"] = READY
        return install.check(computer)

    monkeypatch.setattr(install, "install", bring)
    assert "cuda:0: RTX 4090, 24.0 GB" in hone("hosts", "install", "workshop").out
    assert "torch 2.13.0+cu130" in hone("hosts", "check", "workshop").out
    assert hone("hosts", "check", "workshop", "--json").json["machine"]["automatic"] == "cuda:0"
    assert "RTX 4090" in hone("hosts").out
    assert hone("hosts", "--json").json[0]["address"] == "me@10.0.0.7"

    removed = []
    monkeypatch.setattr(install, "uninstall", removed.append)
    assert "--yes" in hone("hosts", "remove", "workshop", status=2).err
    hone("hosts", "remove", "workshop", "--yes")
    assert [each.name for each in removed] == ["workshop"]
    assert computers.computers() == ()


def test_a_computer_that_is_gone_is_forgotten(hone, found, run):
    gone = Computer(name="rented", address="me@rented.invalid")
    found["rented"] = explain(gone, "ssh: Could not resolve hostname rented.invalid", 255)
    printed = hone("hosts", "add", gone.name, gone.address)
    assert "rented was added all the same" in printed.err
    hone("hosts", "check", gone.name, status=1)
    assert "hone hosts remove rented --here-only" in printed.err
    link(run, computer="rented", is_own=False)
    assert "Digits" not in hone("hosts", "remove", "rented", status=2).err
    link(run, computer="rented")
    assert "Digits hasn't ended there" in hone("hosts", "remove", "rented", status=2).err
    hone("hosts", "remove", "rented", "--here-only")
    assert computers.computers() == ()


@pytest.mark.parametrize(
    "words",
    [
        ["add", "it's mine", "me@host"],
        ["add", "workshop", "-oProxyCommand=x"],
        ["add", "workshop", "host", "--folder", "/"],
        ["check", "nowhere"],
        ["install", "nowhere"],
        ["remove", "nowhere"],
        ["add", "workshop"],
        ["add", "attic", "me@loft"],
    ],
)
def test_wrong_requests(hone, words):
    computers.save(Computer(name="loft", address="me@loft"))
    assert hone("hosts", *words, status=2).err
    assert [known.name for known in computers.computers()] == ["loft"]
