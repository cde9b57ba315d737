"""Other computers: how they are kept, and what ssh's errors mean. The errors come from a real sshd on 127.0.0.1."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.base.errors import ComputerError, UserError
from core.hosts import computers
from core.hosts.computers import SSH_CONFIG, SSH_FAILED, Computer, explain, ssh_command

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
HERE = Computer(name="workshop", address="workshop")


@dataclass
class Server:
    """An sshd of this test's own; `settings` is the ssh configuration with `Host workshop` for it."""

    folder: Path
    port: int

    def configure(self, *first: str, known: str = "host.pub") -> None:
        """Write the ssh configuration; `first` come before the ordinary settings and therefore win."""
        key = " ".join((self.folder / known).read_text().split()[:2]) if known else ""
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.port} {key}\n" if key else "")
        usual = (
            "HostName 127.0.0.1",
            f"Port {self.port}",
            f"User {getpass.getuser()}",
            f"IdentityFile {self.folder / 'user'}",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {self.folder / 'known'}",
            "GlobalKnownHostsFile /dev/null",
        )
        (self.folder / "config").write_text("\n".join(("Host workshop", *first, *usual, "")))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    if not Path(SSHD).exists() or shutil.which("ssh") is None:
        pytest.skip("no OpenSSH server on this machine")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)
    for name in ("host", "user", "other"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True
        )
    port = free_port()
    settings = (
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {tmp_path / 'host'}",
        f"AuthorizedKeysFile {tmp_path / 'user.pub'}",
        f"PidFile {tmp_path / 'pid'}",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "",
    )
    (tmp_path / "sshd.conf").write_text("\n".join(settings))
    process = subprocess.Popen([SSHD, "-D", "-f", tmp_path / "sshd.conf", "-E", tmp_path / "sshd.log"])
    try:
        wait_for_port(port)
        monkeypatch.setenv(SSH_CONFIG, str(tmp_path / "config"))
        found = Server(tmp_path, port)
        found.configure()
        yield found
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def wait_for_port(port: int) -> None:
    for _attempt in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("sshd doesn't listen")


def tried(script: str = "true", computer: Computer = HERE) -> ComputerError:
    """The error of a script on the computer, which has to fail."""
    answer = subprocess.run(ssh_command(computer, script), capture_output=True, text=True, check=False)
    assert answer.returncode != 0
    return explain(computer, answer.stderr, answer.returncode)


def test_a_script_runs_in_sh_whatever_is_quoted_in_it(server: Server) -> None:
    script = """printf '%s|' "it's" '$HOME "x"'"""
    answer = subprocess.run(ssh_command(HERE, script), capture_output=True, text=True, check=True)
    assert answer.stdout == """it's|$HOME "x"|"""


def test_an_unknown_host_key_is_never_accepted(server: Server) -> None:
    server.configure(known="")
    error = tried()
    assert error.code == "unknown-key"
    assert "ssh workshop" in error.fixes[0].label
    assert (server.folder / "known").read_text() == ""


def test_a_changed_host_key_warns(server: Server) -> None:
    server.configure(known="other.pub")
    error = tried()
    assert error.code == "changed-key"
    assert "pretending" in error.detail


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("User no-such-user", "refused-key"),
        ("IdentityFile {folder}/other", "refused-key"),
        ("HostName no-such-host.invalid", "no-name"),
        ("Port {closed}", "no-server"),
        ("Port {silent}", "no-answer"),
        ("ProxyCommand true", "closed"),
        ("NoSuchSetting yes", "bad-config"),
    ],
)
def test_errors_of_ssh(server: Server, setting: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computers, "CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        only_other = "IdentityFile none" if "other" in setting else ""
        if only_other:
            (server.folder / "user").unlink()
        server.configure(only_other, setting.format(folder=server.folder, closed=free_port(), silent=port))
        assert tried().code == code


def test_a_connection_that_ends_in_the_middle_was_closed(server: Server) -> None:
    assert tried("kill $PPID; sleep 5").code == "closed"


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("mkdir -p /proc/hone", "not-writable"),
        ("cd hone-that-is-nowhere && exec env/bin/python -m core.engine", "no-hone"),
        ("exec env/bin/python -m core.engine", "no-hone"),
        ("exit 3", "failed"),
    ],
)
def test_errors_of_the_shell_there(server: Server, script: str, code: str) -> None:
    assert tried(script).code == code


@pytest.mark.parametrize(
    ("stderr", "exit_status", "code"),
    [
        ("[Errno 2] No such file or directory: 'ssh'", SSH_FAILED, "no-ssh"),
        ("[WinError 2] The system cannot find the file specified", SSH_FAILED, "no-ssh"),
        ("ssh: connect to host 10.0.0.9 port 22: No route to host", SSH_FAILED, "no-answer"),
        ("ssh: connect to host 10.0.0.9 port 22: Connection timed out", SSH_FAILED, "no-answer"),
        ("Timeout, server 10.0.0.9 not responding.", SSH_FAILED, "closed"),
        ("client_loop: send disconnect: Broken pipe", SSH_FAILED, "closed"),
        ("", -9, "closed"),
        ("tar: source/core: Cannot write: No space left on device", 2, "no-room"),
        ("zsh:1: no such file or directory: env/bin/python", 127, "no-hone"),
        ("'exec' is not recognized as an internal or external command,", 1, "windows"),
    ],
)
def test_errors_recorded_elsewhere(stderr: str, exit_status: int, code: str) -> None:
    assert explain(HERE, stderr, exit_status).code == code


@pytest.mark.parametrize("name", ["", "it's mine", "two words", "-x", "a/b", "x" * 41, "ä"])
def test_names_that_no_computer_can_have(name: str) -> None:
    with pytest.raises(UserError, match="can't be a computer's name"):
        computers.save(Computer(name=name, address="host"))


@pytest.mark.parametrize("address", ["-oProxyCommand=x", "a b", "host;reboot", "u@-x", "$(x)", "it's", ""])
def test_addresses_that_ssh_would_take_for_something_else(address: str) -> None:
    with pytest.raises(UserError, match="can't be an address"):
        computers.save(Computer(name="workshop", address=address))


@pytest.mark.parametrize("folder", ["", ".", "/", "~/hone", "..", "a/../..", "-x", "a\nb", "./", "//"])
def test_folders_that_hone_must_not_take(folder: str) -> None:
    with pytest.raises(UserError, match="can't be Hone's folder"):
        computers.save(Computer(name="workshop", address="host", folder=folder))


@pytest.mark.parametrize("folder", ["hone", '/mnt/big disk/it\'s "hone"', ".hone", "a..b"])
def test_folders_that_it_may_take(folder: str) -> None:
    computers.save(Computer(name="workshop", address="host", folder=folder))
    assert computers.find("workshop").folder == folder


def test_computers_are_kept_in_order_and_replaced_by_name() -> None:
    for name in ("workshop", "attic"):
        computers.save(Computer(name=name, address="old"))
    computers.save(Computer(name="workshop", address="ssh://me@10.0.0.7:2222"))
    assert [known.name for known in computers.computers()] == ["workshop", "attic"]
    assert computers.find("workshop").address == "ssh://me@10.0.0.7:2222"
    computers.forget("workshop")
    with pytest.raises(UserError, match="no computer called workshop"):
        computers.find("workshop")
