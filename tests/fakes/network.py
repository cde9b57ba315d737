"""Other computers for tests: an sshd of one's own, and network namespaces joined by a bridge, with an sshd in each.

Nothing outside a temporary folder and the namespaces is touched, and only their addresses are spoken to. The disk and
the processes are this computer's, so that a test can look at both ends.
"""

import atexit
import contextlib
import fcntl
import functools
import getpass
import heapq
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import psutil

from bootstrap import system_libraries
from core.hosts.computers import SSH_CONFIG, Computer

ROOT = Path(__file__).resolve().parents[2]
SEVERAL = "other computers in networks of their own"
START_SECONDS = 20.0
SUBNETS = [f"198.{second}.{third}" for second in (18, 19) for third in range(1, 255)]
"""Addresses set aside for tests of networks (RFC 2544): nothing real answers there."""


def without_sshd() -> str:
    """Why no sshd can be started here; empty if one can."""
    if sys.platform == "win32":
        return "other computers, for want of a system with POSIX"
    return system_libraries.not_tried("other computers", "ssh", "sshd")


@functools.cache
def without_namespaces() -> str:
    """Why no network can be made here; empty if one can."""
    if without_sshd():
        return without_sshd()
    if sys.platform != "linux" or os.geteuid() != 0:
        return f"{SEVERAL}, for want of Linux and root to make networks"
    if lacking := system_libraries.not_tried(SEVERAL, "ip"):
        return lacking
    name = f"hone-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    if made.returncode:
        return f"{SEVERAL}, for want of leave to make networks: {made.stderr.decode().strip()}"
    return "" if Path("/dev/net/tun").exists() else f"{SEVERAL}, for want of /dev/net/tun"


class Sshd:
    """An sshd without root's ports, passwords or settings, and how ssh reaches it.

    Args:
        folder: Where its keys, settings, log and Hone's folder (`far`) are.
        namespace: The network namespace it runs in; None: this computer's own network.
        known: Whether its host key is in known_hosts.
        environment: What commands there find in their environment.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "workshop",
        *,
        address: str = "127.0.0.1",
        namespace: str | None = None,
        known: bool = True,
        user: str = "",
        environment: dict[str, str] | None = None,
    ) -> None:
        self.folder, self.name, self.address, self.namespace = folder, name, address, namespace
        self.known, self.user = known, user or getpass.getuser()
        self.environment = {"HF_HUB_OFFLINE": "1", **(environment or {})}
        self.port = 2222 if namespace else free_port()
        self.far = folder / "far"
        self._process: subprocess.Popen[bytes] | None = None
        self.far.mkdir(parents=True, exist_ok=True)
        for key in ("host_key", "user_key"):
            if not (folder / key).exists():
                make_key = [
                    "ssh-keygen",
                    "-q",
                    "-t",
                    "ed25519",
                    "-N",
                    "",
                    "-C",
                    name,
                    "-f",
                    str(folder / key),
                ]
                subprocess.run(make_key, check=True)

    @property
    def computer(self) -> Computer:
        """It, as the person would have added it."""
        return Computer(name=self.name, address=self.name, folder=str(self.far))

    def prepare(self) -> Self:
        """Make its folder look as an installation of this very Hone, in a moment: by links."""
        for name, target in (("env", Path(sys.prefix)), ("source", ROOT)):
            (self.far / name).unlink(missing_ok=True)
            (self.far / name).symlink_to(target)
        return self

    def start(self) -> Self:
        settings = {
            "Port": self.port,
            "ListenAddress": self.address,
            "HostKey": self.folder / "host_key",
            "AuthorizedKeysFile": self.folder / "user_key.pub",
            "PidFile": "none",
            "StrictModes": "no",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "PrintMotd": "no",
            "MaxStartups": 100,
            "SetEnv": " ".join(f'"{name}={value}"' for name, value in self.environment.items()),
        }
        config = self.folder / "sshd_config"
        config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd of root wants to shut itself in there
        inside = within(self.namespace) if self.namespace else []
        sshd = str(system_libraries.find("sshd"))
        command = [*inside, sshd, "-D", "-f", str(config), "-E", str(self.folder / "sshd.log")]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "sshd.log").read_text())
            time.sleep(0.05)
        return self

    def _listens(self) -> bool:
        log = self.folder / "sshd.log"
        return log.exists() and log.read_text().count("Server listening") > self._starts_before

    _starts_before = 0

    def stop(self) -> None:
        """End it, and all connections: the computer is off, but what it ran without a connection goes on."""
        if self._process is not None:
            self.resume()
            connections = self._connections()
            self._process.kill()
            self._process.wait()
            kill(connections)
            self._process = None
            self._starts_before = (self.folder / "sshd.log").read_text().count("Server listening")

    def kill_connections(self) -> int:
        """Cut every open connection, as a router that is switched off would; returns how many there were."""
        return kill(self._connections())

    def sleep(self) -> None:
        """Let it answer no more, its connections neither: a computer that sleeps."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _connections(self) -> list[psutil.Process]:
        if self._process is None:
            return []
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children()
        return []

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            for process in (psutil.Process(self._process.pid), *self._connections()):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)

    @property
    def known_hosts_line(self) -> str:
        kind, key, *_rest = (self.folder / "host_key.pub").read_text().split()
        return f"[{self.address}]:{self.port} {kind} {key}\n"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_rest: object) -> None:
        self.stop()


def ssh_config(folder: Path, *servers: Sshd) -> Path:
    """Write a configuration for ssh that knows these servers by name; for `core.hosts.computers.SSH_CONFIG`."""
    known_hosts, config = folder / "known_hosts", folder / "ssh_config"
    known_hosts.write_text("".join(server.known_hosts_line for server in servers if server.known))
    config.write_text(
        "".join(
            f"Host {server.name}\n"
            f"  HostName {server.address}\n"
            f"  Port {server.port}\n"
            f"  User {server.user}\n"
            f"  IdentityFile {server.folder / 'user_key'}\n"
            f"  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {known_hosts}\n"
            f"  GlobalKnownHostsFile /dev/null\n"
            f"  StrictHostKeyChecking yes\n"
            for server in servers
        )
    )
    os.environ[SSH_CONFIG] = str(config)  # tests give back the environment they were given
    return config


def kill(processes: Sequence[psutil.Process]) -> int:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return len(processes)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


# --- Namespaces


def within(namespace: str) -> list[str]:
    """What runs a command in a namespace. `ip netns exec` and `ip -n` remount `/`, which in a chroot is no mount."""
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def ip(*words: str, namespace: str = "") -> None:
    """Run `ip`; what it says when it fails is in the error."""
    command = [*(within(namespace) if namespace else []), "ip", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)}: {ran.stderr.strip()}")


class Host(Sshd):
    """A network namespace with an sshd: a computer with an address of its own on the network's bridge."""

    def __init__(self, folder: Path, name: str, number: int, address: str, network: "Network") -> None:
        namespace = f"hone-{os.getpid()}-{network.number}-{number}"
        self.cable = f"hn{os.getpid()}n{network.number}c{number}"
        super().__init__(folder, name, address=address, namespace=namespace)
        self._wire: Wire | None = None
        ip("netns", "add", namespace)
        ip("link", "set", "lo", "up", namespace=namespace)
        if network.delay or network.loss:
            self._wire = Wire(self.cable, "eth0", namespace, network.delay, network.loss)
        else:
            ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        ip("link", "set", self.cable, "master", network.bridge, "up")
        ip("address", "add", f"{address}/24", "dev", "eth0", namespace=namespace)
        ip("link", "set", "eth0", "up", namespace=namespace)

    def pull_cable(self) -> None:
        ip("link", "set", self.cable, "down")

    def plug_in(self) -> None:
        ip("link", "set", self.cable, "up")

    def carried(self) -> int:
        """Bytes that have gone through the cable, in both directions."""
        counters = psutil.net_io_counters(pernic=True)[self.cable]
        return int(counters.bytes_sent + counters.bytes_recv)

    def processes(self) -> list[psutil.Process]:
        """What runs there, without its sshd and connections."""
        listed = subprocess.run(
            ["ip", "netns", "pids", str(self.namespace)], capture_output=True, text=True, check=False
        )
        found = []
        for pid in map(int, listed.stdout.split()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if not process.name().startswith("sshd"):
                    found.append(process)
        return found

    def remove(self) -> None:
        self.stop()
        kill(self.processes())
        if self._wire is not None:
            self._wire.close()
        with contextlib.suppress(RuntimeError):
            ip("netns", "del", str(self.namespace))  # and the cable with it


class Network:
    """Computers on a bridge, on which this computer (the near end) has the address `.1`.

    Args:
        delay: Seconds by which what a computer sends comes late, as `tc netem delay` on its interface does.
        loss: Share of what it sends that is lost.
    """

    count = 0

    def __init__(
        self,
        folder: Path,
        names: Sequence[str] = ("workshop", "attic"),
        *,
        delay: float = 0.0,
        loss: float = 0.0,
    ) -> None:
        Network.count += 1
        self.number, self.delay, self.loss = Network.count, delay, loss
        self.folder, self.names = folder, names
        self.bridge = f"hn{os.getpid()}n{self.number}"
        self.hosts: dict[str, Host] = {}

    def __enter__(self) -> Self:
        remove_left_over()
        atexit.register(self.remove)
        try:
            taken = subprocess.run(
                ["ip", "-br", "address"], capture_output=True, text=True, check=True
            ).stdout
            subnet = random.choice([each for each in SUBNETS if f"{each}." not in taken])
            ip("link", "add", self.bridge, "type", "bridge")
            ip("address", "add", f"{subnet}.1/24", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
            for number, name in enumerate(self.names):
                host = Host(self.folder / name, name, number, f"{subnet}.{number + 11}", self)
                self.hosts[name] = host
                host.prepare().start()
            ssh_config(self.folder, *self.hosts.values())
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_rest: object) -> None:
        self.remove()
        atexit.unregister(self.remove)

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def remove(self) -> None:
        for host in self.hosts.values():
            host.remove()
        self.hosts.clear()
        with contextlib.suppress(RuntimeError):
            ip("link", "del", self.bridge)


def remove_left_over() -> None:
    """Remove namespaces of tests that were killed, with what still runs in them."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    for name in re.findall(r"^\S+", listed.stdout, re.MULTILINE):
        kind, _, rest = name.partition("-")
        pid = rest.partition("-")[0]
        if kind == "hone" and pid.isdecimal() and not psutil.pid_exists(int(pid)):
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
            for left in map(int, pids.stdout.split()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    bridges = subprocess.run(
        ["ip", "-br", "link", "show", "type", "bridge"], capture_output=True, text=True, check=False
    )
    for made in re.finditer(r"^hn(\d+)n\d+\b", bridges.stdout, re.MULTILINE):
        if not psutil.pid_exists(int(made[1])):
            subprocess.run(["ip", "link", "del", made[0]], capture_output=True, check=False)


# --- A bad line

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000


class Wire:
    """Two tap devices, one here and one in a namespace; what the latter sends comes late, or not at all.

    It stands in for `tc netem`, which many kernels (small virtual machines') are built without.
    """

    def __init__(self, here: str, there: str, namespace: str, delay: float, loss: float) -> None:
        inner = f"{here}i"
        self._here, self._there = _tap(here), _tap(inner)
        ip("link", "set", inner, "netns", namespace, "name", there)
        self._delay, self._loss = delay, loss
        self._closed, self._wake = os.pipe()
        self._random = random.Random(0)
        self._thread = threading.Thread(target=self._carry, name="wire", daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        late: list[tuple[float, int, bytes]] = []
        number = 0
        while True:
            wait = max(0.0, late[0][0] - time.monotonic()) if late else None
            ready, _, _ = select.select([self._here, self._there, self._closed], [], [], wait)
            if self._closed in ready:
                return
            with contextlib.suppress(OSError):  # an end that is down takes nothing and gives nothing
                if self._here in ready:
                    os.write(self._there, os.read(self._here, 65536))
            with contextlib.suppress(OSError):
                if self._there in ready:
                    frame = os.read(self._there, 65536)
                    if self._random.random() >= self._loss:
                        number += 1
                        heapq.heappush(late, (time.monotonic() + self._delay, number, frame))
            while late and late[0][0] <= time.monotonic():
                with contextlib.suppress(OSError):
                    os.write(self._here, heapq.heappop(late)[2])

    def close(self) -> None:
        os.close(self._wake)
        self._thread.join()
        for end in (self._here, self._there, self._closed):
            os.close(end)


def _tap(name: str) -> int:
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return end
