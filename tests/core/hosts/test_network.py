"""The network that other tests rely on (tests/fakes/network.py): it works, and leaves nothing behind."""

import subprocess
import time

import pytest

from core.hosts.computers import python_command, ssh_command
from tests.fakes.network import Network, Sshd, ssh_config, without_namespaces, without_sshd


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.skipif(without_sshd() != "", reason=without_sshd())
def test_an_sshd_of_ones_own_runs_hone_until_its_connection_is_cut(tmp_path):
    with Sshd(tmp_path / "workshop").prepare() as server:
        ssh_config(tmp_path, server)
        assert run(ssh_command(server.computer, "echo $HF_HUB_OFFLINE")).stdout.strip() == "1"
        answer = run(python_command(server.computer, "core.engine", "nonsense"))
        assert "no such engine job: nonsense" in answer.stderr
        waiting = subprocess.Popen(
            ssh_command(server.computer, "echo ready; sleep 60"), stdout=subprocess.PIPE
        )
        assert waiting.stdout.readline() == b"ready\n"
        assert server.kill_connections() == 1
        assert waiting.wait(timeout=20) == 255
        waiting.stdout.close()
        server.known = False
        ssh_config(tmp_path, server)
        assert "Host key verification failed" in run(ssh_command(server.computer, "true")).stderr


@pytest.mark.skipif(without_namespaces() != "", reason=without_namespaces())
def test_two_computers_on_a_bad_line_reach_each_other(tmp_path):
    with Network(tmp_path, delay=0.05, loss=0.01) as network:
        workshop, attic = network["workshop"], network["attic"]
        began = time.monotonic()
        asked = run(ssh_command(attic.computer, f"bash -c 'head -c 7 </dev/tcp/{workshop.address}/2222'"))
        assert asked.stdout == "SSH-2.0"
        assert time.monotonic() - began > 0.3  # each of ssh's turns takes 50 ms and more
    listed = run(["ip", "netns", "list"]).stdout + run(["ip", "-br", "link"]).stdout
    assert attic.namespace not in listed
    assert network.bridge not in listed
