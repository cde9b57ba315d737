"""Hone on another computer: checked, installed by a stand-in for uv, removed; and each way it is refused."""

import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import msgspec
import psutil
import pytest

from core.base import uv
from core.base.errors import ComputerError
from core.base.jobs import JobCancelled
from core.base.processes import SOURCE_ROOT, source_digest
from core.hosts import computers, install
from core.hosts.computers import CheckedComputer, Computer, find, python_command, save
from core.memory.model import Room
from core.monitor.device_memory import room_of
from core.options.device_support import DeviceReport, MachineReport, machine_problems
from core.options.validate import check_tree
from tests.fakes.network import Sshd, ssh_config, without_sshd

pytestmark = pytest.mark.skipif(without_sshd() != "", reason=without_sshd())

UV = f"""#!/bin/sh
echo "$*" >> "$HOME/calls"
case "$*" in
  --version) echo "uv 0.13.9 (test)";;
  *managed-python*) exit 2;;  # none can be downloaded here
  "venv "*) rm -rf env; ln -s '{sys.prefix}' env;;
  "pip install"*) test -s source.new/requirements.txt; {{fails}} exit 0;;
esac
"""
REPORT = MachineReport(devices=(), automatic="cpu", versions={"python": "3.11.7", "torch": "2.13.0+cpu"})


class Job:
    """In place of the engine's job there, which takes seconds."""

    def __init__(self, name, command):
        assert command == python_command(find("workshop"), "core.engine", name)

    def kill(self):
        pass

    def ask(self):
        return msgspec.json.encode(REPORT)


class Workshop:
    """A computer with an empty home folder of its own, and programs that tests put there."""

    def __init__(self, server: Sshd, home: Path) -> None:
        self.server, self.home = server, home
        self.programs = home / ".local" / "bin"
        self.computer = Computer(name="workshop", address="workshop", folder=f'{home}/it\'s "hone" $HOME')
        self.folder = Path(self.computer.folder)
        save(self.computer)

    def put(self, name: str, script: str, folder: Path | None = None) -> None:
        path = (folder or self.programs) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)

    def put_uv(self, fails: str = "") -> None:
        self.put("uv", UV.format(fails=fails))

    def calls(self) -> list[str]:
        return [line for line in (self.home / "calls").read_text().splitlines() if line != "--version"]

    def install(self, tell=lambda progress: None) -> CheckedComputer:
        return install.install(find("workshop"), tell)


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    home = tmp_path / "home"
    first = tmp_path / "first"  # found before this computer's own programs
    environment = {"HOME": str(home), "UV_DEFAULT_INDEX": "https://nowhere.invalid/simple"}
    environment |= {"PATH": f"{first}:/usr/bin:/bin:{Path(sys.executable).parent}"}
    home.mkdir()
    monkeypatch.setattr(install, "EngineJob", Job)
    monkeypatch.setattr(install, "TRY_IT", "import core.base.errors")
    with Sshd(tmp_path / "workshop", environment=environment) as server:
        ssh_config(tmp_path, server)
        found = Workshop(server, home)
        found.first = first
        yield found


def test_this_very_version_is_installed_used_and_removed(workshop, monkeypatch):
    workshop.put_uv()
    beside = workshop.home / "photos"
    beside.mkdir()
    steps = {}
    found = workshop.install(lambda progress: steps.setdefault(progress.what))
    assert next(iter(steps)) == "Checking workshop"
    assert found.machine == REPORT
    assert find("workshop").checked == found
    assert install.obstacles(workshop.computer, found) == []
    assert {path.name for path in workshop.folder.iterdir()} == {
        "env",
        "source",
        "hone.txt",
        "installed.json",
    }
    there = {
        path.relative_to(workshop.folder / "source").as_posix() for path in workshop.folder.rglob("*.py")
    }
    assert "core/engine/__main__.py" in there
    assert not any(name.startswith("gui/") for name in there)
    venv, other_venv, packages = workshop.calls()
    assert "--managed-python" in venv
    assert "--managed-python" not in other_venv
    assert "--constraint source.new/constraints.txt" in packages
    wanted = (workshop.folder / "source" / "requirements.txt").read_text()
    assert "torch==" in wanted
    assert "PySide6" not in wanted

    # the second time it only looks
    assert workshop.install().source == source_digest()
    assert len(workshop.calls()) == 3

    # of another version only the source is brought, with other libraries these too
    for other, calls in (("source_digest", 3), ("requirements", 6)):
        with monkeypatch.context() as patch:
            patch.setattr(
                install,
                other,
                {"source_digest": lambda: "another", "requirements": lambda: (["x"], [])}[other],
            )
            if other == "source_digest":
                assert [each.code for each in install.obstacles(workshop.computer, found)] == [
                    "other-version"
                ]
            assert install.obstacles(workshop.computer, workshop.install()) == []
        assert len(workshop.calls()) == calls

    # neither changed nor removed while a run is at work
    code = "import sys; print(flush=True); sys.stdin.read()"
    command = [str(workshop.folder / "env/bin/python"), "-c", code, "-m", "core.monitor.keeper"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        keeper.stdout.readline()
        for act in (lambda: install.uninstall(workshop.computer), workshop.install):
            with pytest.raises(ComputerError) as refused:
                act()
            assert refused.value.code == "busy"
        keeper.stdin.close()

    # what the person put into the folder stays, and a folder that isn't Hone's altogether
    others = msgspec.structs.replace(workshop.computer, folder=str(workshop.home / "mine"))
    install.uninstall(others)
    (workshop.home / "mine" / "source").mkdir(parents=True)
    install.uninstall(others)
    assert (workshop.home / "mine" / "source").exists()
    (workshop.folder / "notes.txt").write_text("mine")
    install.uninstall(workshop.computer)
    assert [path.name for path in workshop.folder.iterdir()] == ["notes.txt"]
    with pytest.raises(ComputerError) as refused:
        workshop.install()
    assert refused.value.code == "not-writable"
    assert beside.exists()
    (workshop.folder / "notes.txt").unlink()
    workshop.install()
    install.uninstall(workshop.computer)
    assert not workshop.folder.exists()


def test_no_empty_folder_is_left_of_one_in_another(tmp_path):
    nested = tmp_path / "deep" / "hone"
    nested.mkdir(parents=True)
    (nested / "hone.txt").touch()
    script = install._assigned(install._REMOVE, folder="deep/hone")
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["deep"]


def test_without_uv_the_python_there_fetches_it(workshop):
    fetched = workshop.folder / "cache"
    workshop.put(f"{uv.VERSION}-{uv.PROGRAM}", UV.format(fails=""), fetched)  # as if it had been
    (workshop.folder / "hone.txt").touch()
    found = workshop.install()
    assert found.uv == ""
    assert found.python
    assert found.source == source_digest()
    assert [call.split(" --")[0] for call in workshop.calls()] == ["venv", "venv", "pip install"]


def test_uv_that_cannot_be_fetched_is_said(workshop):
    with pytest.raises(ComputerError) as failed:
        workshop.install()
    assert failed.value.code == "not-installed"
    assert "nowhere.invalid can't be reached" in failed.value.detail


@pytest.mark.parametrize(("capability", "backend"), [("8.6", "auto"), ("7.0", "cu126"), ("", "auto")])
def test_a_card_before_turing_gets_the_last_cuda_that_knows_it(workshop, capability, backend):
    workshop.put("nvidia-smi", f"#!/bin/sh\necho '{capability}'\n", workshop.first)
    workshop.put_uv(fails='echo "backend $UV_TORCH_BACKEND" >> "$HOME/calls";')
    workshop.install()
    assert workshop.calls()[-1] == f"backend {backend}"


def test_what_uv_can_not_do_is_explained_and_half_of_it_is_not_used(workshop):
    workshop.put_uv(
        fails="echo 'error sending request for url (https://pypi.org/simple/torch/)' >&2; exit 2;"
    )
    with pytest.raises(ComputerError) as failed:
        workshop.install()
    assert failed.value.code == "not-installed"
    assert failed.value.detail.startswith("pypi.org can't be reached")
    assert "no-hone" in [
        each.code for each in install.obstacles(workshop.computer, install.check(workshop.computer))
    ]
    workshop.put_uv()
    assert workshop.install().source == source_digest()


def test_a_cancelled_installation_ends_there_as_well(workshop):
    workshop.put_uv(fails='echo "$$" > "$HOME/pid"; sleep 60;')
    pid = workshop.home / "pid"

    def tell(progress):
        if pid.exists() and pid.read_text():
            raise JobCancelled("install")

    with pytest.raises(JobCancelled):
        workshop.install(tell)
    deadline = time.monotonic() + 10
    while psutil.pid_exists(int(pid.read_text())):
        assert time.monotonic() < deadline, "it goes on there"
        time.sleep(0.05)


def test_a_check_that_fails_keeps_what_was_known(workshop, monkeypatch):
    workshop.put_uv()
    workshop.install()
    before = find("workshop").checked
    workshop.server.stop()
    with pytest.raises(ComputerError) as failed:
        install.check(find("workshop"))
    assert failed.value.code == "no-server"
    now = find("workshop").checked
    assert now == msgspec.structs.replace(before, problem=failed.value.title)
    (obstacle,) = install.obstacles(workshop.computer, now)
    assert obstacle.title == failed.value.title


def test_a_computer_without_python_and_uv(workshop):
    for name in ("python3", *(f"python3.{minor}" for minor in (11, 12, 13, 14)), "uv"):
        workshop.put(name, "#!/bin/sh\nexit 1\n", workshop.first)
    with pytest.raises(ComputerError) as refused:
        workshop.install()
    assert refused.value.code == "no-python"
    assert "uv" in refused.value.fixes[0].label


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_folder_on_no_disk_is_no_full_disk(workshop):
    workshop.put_uv()
    save(msgspec.structs.replace(workshop.computer, folder="/proc/hone"))
    with pytest.raises(ComputerError, match="can't use the folder /proc/hone") as refused:
        workshop.install()
    assert "on a disk" in refused.value.detail


PRINTED = {
    "free=" + "9" * 5000: ["no-hone"],
    "free=" + "9" * 15: ["no-hone"],
    "free=-1": ["no-hone"],
    "free=0": ["no-room", "no-hone"],
    "python=" + "3" * 100_000: ["no-hone"],
    "installed=" + "[" * 100_000: ["no-hone"],
    'installed={"source":"' + "x" * 100_000: ["no-hone"],
}


@pytest.mark.parametrize("printed", PRINTED)
def test_what_a_shell_there_makes_up_is_no_error_here(printed, tmp_path, monkeypatch):
    ssh = tmp_path / "ssh"
    lines = f"hone:system=Linux\nhone:writable=yes\nhone:uv=0.13.9\nhone:{printed}\n"
    (tmp_path / "printed").write_text(lines)
    ssh.write_text(f'#!/bin/sh\ncat "{tmp_path}/printed"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    computer = Computer(name="workshop", address="workshop")
    found = install.check(computer)
    assert [each.code for each in install.obstacles(computer, found)] == PRINTED[printed]
    assert len(found.python) < 2000


def test_a_shell_there_that_prints_without_end_ends_the_check(tmp_path, monkeypatch):
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec yes\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ComputerError, match="prints without end"):
        install.check(Computer(name="workshop", address="workshop"))


@pytest.mark.parametrize("does", ["exec sleep 1000", "exec yes"])
def test_the_engine_there_answers_in_time_and_with_an_end(does, tmp_path, monkeypatch):
    installed = msgspec.json.encode(
        install.Installed(source=source_digest(), packages="", hone="0.1.0")
    ).decode()
    ssh = tmp_path / "ssh"
    ssh.write_text(
        f'#!/bin/sh\ncase "$*" in *core.engine*) {does};; esac\n'
        f"echo hone:system=Linux; echo hone:writable=yes; echo 'hone:installed={installed}'\n"
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(install, "DEVICES_SECONDS", 1.0)
    computer = Computer(name="workshop", address="workshop")
    save(computer)
    with pytest.raises(ComputerError, match="doesn't answer"):
        install.check(computer)
    assert find("workshop").checked.problem


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="a full disk, for want of root to make one"
)
def test_a_full_disk(workshop, monkeypatch):
    disk = workshop.home / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], check=False).returncode:
        pytest.skip("a full disk, for want of leave to make one")
    try:
        save(msgspec.structs.replace(workshop.computer, folder=str(disk)))
        workshop.put_uv()
        with pytest.raises(ComputerError, match="too full") as refused:
            workshop.install()
        assert refused.value.code == "no-room"
        monkeypatch.setattr(install, "CPU_NEEDED", 0)
        with pytest.raises(ComputerError, match="disk of workshop is full") as refused:
            workshop.install()
        assert refused.value.code == "no-room"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def checked(**changes):
    usual = CheckedComputer(time=1.0, system="Linux", python="3.12.1", free=100 << 30)
    return msgspec.structs.replace(usual, **changes)


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({}, ["no-hone"]),
        ({"writable": False}, ["not-writable", "no-hone"]),
        ({"python": ""}, ["no-python", "no-hone"]),
        ({"python": "", "uv": "0.13.9"}, ["no-hone"]),
        ({"free": 3 << 30}, ["no-hone"]),
        ({"free": 3 << 30, "capability": "8.6"}, ["no-room", "no-hone"]),
        ({"source": "older", "hone": "0.0.9", "free": 0, "python": ""}, ["other-version"]),
        ({"problem": "workshop doesn't answer"}, ["unchecked"]),
    ],
)
def test_obstacles(changes, codes):
    computer = Computer(name="workshop", address="workshop")
    found = install.obstacles(computer, checked(**changes))
    assert [each.code for each in found] == codes
    assert all(each.fixes for each in found)


@pytest.mark.parametrize("system", ["MINGW64_NT-10.0", "MSYS_NT-10.0", ""])
def test_windows_is_refused_with_a_word_on_wsl(workshop, system):
    workshop.put("uname", f"#!/bin/sh\necho '{system}'\n", workshop.first)
    with pytest.raises(ComputerError) as refused:
        install.check(workshop.computer)
    assert refused.value.code == "windows"
    assert "WSL" in refused.value.fixes[0].label


def test_libraries_that_differ_between_two_computers_are_listed():
    one, other = (
        Computer(
            name=name, address=name, checked=checked(versions={"python": "3.12.1", "torch": torch, **more})
        )
        for name, torch, more in (("workshop", "2.13.0+cu130", {"triton": "3"}), ("attic", "2.12.1", {}))
    )
    assert install.differences(one, other) == ["torch: 2.13.0+cu130 on workshop, 2.12.1 on attic"]
    assert install.differences(one, one) == []


def test_the_versions_of_python_are_those_of_the_project():
    tree = tomllib.loads((SOURCE_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lowest, end = map(int, re.fullmatch(r">=3\.(\d+),<3\.(\d+)", tree["project"]["requires-python"]).groups())
    assert f"(3, {lowest}) <= sys.version_info < (3, {end})" in install._PLACES
    assert f"python3.{end - 1}" in install._PLACES


def test_the_engine_there_tells_its_devices(tmp_path):
    with Sshd(tmp_path / "workshop") as server:
        ssh_config(tmp_path, server)
        computer = server.prepare().computer
        save(computer)
        installed = install.Installed(source=source_digest(), packages="", hone="0.1.0")
        (server.far / "installed.json").write_bytes(msgspec.json.encode(installed))
        (server.far / "hone.txt").write_text("")
        found = install.check(computer)
    assert "cpu" in [device.name for device in found.machine.devices]
    assert found.versions["torch"] == find("workshop").checked.versions["torch"]
    assert computers.find("workshop").checked == found


def options(device):
    found, problems = check_tree(
        {
            "task": "text-classification",
            "data": {"train": "synthetic:64x64"},
            "model": {"source": "bert-base-cased"},
            "device": {"name": device},
        }
    )
    assert problems == ()
    return found


def test_devices_of_known_computers_stand_beside_those_of_this_one():
    cpu = DeviceReport(name="cpu", title="Ryzen", available=True)
    here = MachineReport(devices=(cpu,), automatic="cpu")
    card = DeviceReport(
        name="cuda:0",
        title="RTX 4090",
        available=True,
        memory_bytes=24 << 30,
        refusals={"model.method": {"a": "b"}},
    )
    there = MachineReport(devices=(card, msgspec.structs.replace(cpu, title="Xeon")), automatic="cuda:0")
    found = {"source": source_digest(), "machine": there}
    for name, state in (
        ("workshop", checked(**found)),
        ("older", checked(**{**found, "source": "older"})),
        ("asleep", checked(**found, problem="asleep doesn't answer")),
        ("new", None),
    ):
        save(Computer(name=name, address=name, checked=state))
    machine = install.with_computers(here)
    assert machine.automatic == "cpu"
    assert machine.devices[0] == cpu
    assert [(each.name, each.title, each.available) for each in machine.devices[1:]] == [
        ("cuda:0@workshop", "RTX 4090", True),
        ("cpu@workshop", "Xeon", True),
        ("cuda:0@older", "RTX 4090", False),
        ("cpu@older", "Xeon", False),
        ("cuda:0@asleep", "RTX 4090", False),
        ("cpu@asleep", "Xeon", False),
        ("auto@new", "new", False),
    ]
    gpu = machine.devices[1]
    assert (gpu.memory_bytes, gpu.refusals) == (card.memory_bytes, card.refusals)
    assert room_of(gpu) == Room(free=24 << 30, ceiling=24 << 30)

    def problems(name):
        return [str(each) for each in machine_problems(machine, options(name))]

    assert problems("cuda@workshop") == problems("auto@workshop") == problems("auto") == []
    for name, sentence in (
        (
            "cuda@older",
            "older has another version of Hone. Install it in Settings, or with `hone hosts install older`",
        ),
        (
            "auto@asleep",
            "asleep doesn't answer. Check it in Settings, or with `hone hosts check asleep`",
        ),
        (
            "cpu@workshop+new",
            "new wasn't checked yet. Check it in Settings, or with `hone hosts check new`",
        ),
        (
            "cpu@nowhere",
            "CPU on nowhere is not known: add or check the computer in Settings, or with `hone hosts`",
        ),
        ("mps@workshop", "there is no MPS on workshop; `hone devices` lists what the computer has"),
    ):
        assert problems(name) == [f"device.name: {sentence}"]
