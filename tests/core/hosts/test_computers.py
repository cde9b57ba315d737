"""Other computers: how they are kept, and what ssh's errors mean. The errors come from a real sshd on 127.0.0.1."""

import contextlib
import socket
import subprocess
from pathlib import Path

import msgspec
import pytest

from core.base.errors import ComputerError, UserError
from core.hosts import computers
from core.hosts.computers import SSH_FAILED, Computer, explain, ssh_command
from tests.fakes.network import Network, Sshd, free_port, ssh_config, without_namespaces, without_sshd

HERE = Computer(name="workshop", address="workshop")


@pytest.fixture
def server(tmp_path):
    if without_sshd():
        pytest.skip(without_sshd())
    with Sshd(tmp_path / "workshop") as server:
        ssh_config(tmp_path, server)
        yield server


def configure(server: Sshd, *first: str) -> Path:
    """Put settings before those of the server, so that they win."""
    config = ssh_config(server.folder, server)
    host, rest = config.read_text().split("\n", 1)
    config.write_text("\n".join((host, *first, rest)))
    return config


def tried(script: str = "true", computer: Computer = HERE) -> ComputerError:
    """The error of a script on the computer, which has to fail."""
    answer = subprocess.run(ssh_command(computer, script), capture_output=True, text=True, check=False)
    assert answer.returncode != 0
    return explain(computer, answer.stderr, answer.returncode)


def test_a_script_runs_in_sh_whatever_is_quoted_in_it(server: Sshd) -> None:
    script = """printf '%s|' "it's" '$HOME "x"'"""
    answer = subprocess.run(ssh_command(HERE, script), capture_output=True, text=True, check=True)
    assert answer.stdout == """it's|$HOME "x"|"""


def test_an_unknown_host_key_is_never_accepted(server: Sshd) -> None:
    server.known = False
    config = configure(server, "StrictHostKeyChecking ask")  # as it is unless someone changed it
    error = tried()
    assert error.code == "unknown-key"
    assert "ssh workshop" in error.fixes[0].label
    assert (config.parent / "known_hosts").read_text() == ""


def test_a_changed_host_key_warns(server: Sshd) -> None:
    known_hosts = configure(server).parent / "known_hosts"
    kind, key, *_rest = (server.folder / "user_key.pub").read_text().split()
    known_hosts.write_text(f"[127.0.0.1]:{server.port} {kind} {key}\n")
    error = tried()
    assert error.code == "changed-key"
    assert "pretending" in error.detail


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("User no-such-user", "refused-key"),
        ("IdentityFile none\nIdentityFile {folder}/host_key", "refused-key"),
        ("HostName no-such-host.invalid", "no-name"),
        ("Port {closed}", "no-server"),
        ("Port {silent}", "no-answer"),
        ("ProxyCommand true", "closed"),
        ("NoSuchSetting yes", "bad-config"),
    ],
)
def test_errors_of_ssh(server: Sshd, setting: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computers, "CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config = configure(server, setting.format(folder=server.folder, closed=free_port(), silent=port))
        if code == "refused-key" and "IdentityFile" in setting:  # any of several keys may open the door
            config.write_text(config.read_text().replace(f"IdentityFile {server.folder / 'user_key'}", ""))
        assert tried().code == code


def test_a_computer_that_sleeps_does_not_answer(server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computers, "CONNECT_SECONDS", 1)
    server.sleep()
    assert tried().code == "no-answer"
    server.resume()


@pytest.mark.skipif(without_namespaces() != "", reason=without_namespaces())
def test_a_computer_whose_cable_is_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computers, "CONNECT_SECONDS", 1)
    monkeypatch.setattr(computers, "ALIVE_SECONDS", 1)
    with Network(tmp_path, ["workshop"]) as network:
        host = network["workshop"]
        waiting = subprocess.Popen(
            ssh_command(host.computer, "echo ready; sleep 60"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with waiting:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == b"ready\n"
            host.pull_cable()
            assert tried(computer=host.computer).code == "no-answer"
            _output, messages = waiting.communicate(timeout=30)
        assert explain(host.computer, messages.decode(), waiting.returncode).code == "closed"


def test_a_connection_that_ends_in_the_middle_was_closed(server: Sshd) -> None:
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
def test_errors_of_the_shell_there(server: Sshd, script: str, code: str) -> None:
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
        computers.save(Computer(name=name, address=f"old-{name}"))
    computers.save(Computer(name="workshop", address="ssh://me@10.0.0.7:2222"))
    assert [known.name for known in computers.computers()] == ["workshop", "attic"]
    assert computers.find("workshop").address == "ssh://me@10.0.0.7:2222"
    computers.forget("workshop")
    with pytest.raises(UserError, match="no computer called workshop"):
        computers.find("workshop")


@pytest.mark.parametrize(
    ("name", "address", "folder", "is_same"),
    [
        ("attic", "me@host", "hone", True),
        ("attic", "me@host", "hone//", True),
        ("attic", "me@host", "other", False),
        ("attic", "you@host", "hone", False),
        ("workshop", "me@host", "hone", False),  # itself
    ],
)
def test_one_folder_there_has_one_name(name: str, address: str, folder: str, is_same: bool) -> None:
    computers.save(Computer(name="workshop", address="me@host"))
    with (
        pytest.raises(UserError, match="a second name for workshop") if is_same else contextlib.nullcontext()
    ):
        computers.save(Computer(name=name, address=address, folder=folder))


def test_what_an_earlier_version_kept_twice_can_be_kept_on() -> None:
    one = Computer(name="workshop", address="me@host")
    other = msgspec.structs.replace(one, name="attic")
    computers._write((one, other))
    computers.save(one)
    computers.save(other)
