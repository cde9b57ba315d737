"""The person's other computers: where they are kept, how ssh reaches them, and what its errors mean.

Nothing here asks a question: host keys and passwords are the business of ssh in a terminal, and of `~/.ssh/config`.
"""

import os
import re
import shlex

import msgspec

from core.base.errors import Fix, UserError
from core.base.files import read_record, write_atomically
from core.base.language import _
from core.base.settings import home
from core.options.device_support import MachineReport

CONNECT_SECONDS = 10
ALIVE_SECONDS = 5
"""ssh asks the other side for a sign of life this often, and gives up after three without an answer."""

SSH_CONFIG = "HONE_SSH_CONFIG"
"""Environment variable: a configuration file for ssh instead of the person's own."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)
ADDRESS = re.compile(
    r"(ssh://)?([^@\s\"'`$;&|<>\\-][^@\s\"'`$;&|<>\\]*@)?[A-Za-z0-9_.:\[\]%][A-Za-z0-9_.:\[\]%-]*"
)


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found on a computer, at `time` (unix seconds).

    `source` is the digest of the Hone installed there, empty without one; `uv` and `python` are versions, empty where
    absent; `versions` those of the libraries that train; `free` bytes on the disk of its folder.
    """

    time: float
    system: str = ""
    processor: str = ""
    python: str = ""
    uv: str = ""
    free: int | None = None
    source: str = ""
    versions: dict[str, str] = {}
    machine: MachineReport | None = None


class Computer(msgspec.Struct, frozen=True, kw_only=True):
    """Another computer. `address` is as for ssh, `folder` is Hone's there, relative to the home folder or absolute."""

    name: str
    address: str
    folder: str = "hone"
    checked: Checked | None = None


def computers() -> tuple[Computer, ...]:
    """All known computers, in the order in which they were added."""
    return read_record(home() / "computers.json", tuple[Computer, ...]) or ()


def find(name: str) -> Computer:
    """The computer of that name.

    Raises:
        UserError: None has it.
    """
    for computer in computers():
        if computer.name == name:
            return computer
    known = ", ".join(computer.name for computer in computers()) or _("none")
    raise UserError(
        _("There is no computer called {name}").format(name=name),
        _("Known computers: {names}.").format(names=known),
        (Fix(_("Add it in Settings, or with `hone hosts add`")),),
    )


def save(computer: Computer) -> None:
    """Add a computer, or replace the one of its name.

    Raises:
        UserError: Its name or address can't be used.
    """
    if not NAME.fullmatch(computer.name):
        raise UserError(
            _("“{name}” can't be a computer's name").format(name=computer.name),
            _("A name has letters, digits, dots, hyphens and underscores, such as workshop or gpu-2."),
        )
    if not ADDRESS.fullmatch(computer.address):
        raise UserError(
            _("“{address}” can't be an address").format(address=computer.address),
            _("An address is as for ssh: user@host, or a name from your ~/.ssh/config."),
        )
    others = {known.name: known for known in computers()}
    _write((others | {computer.name: computer}).values())


def forget(name: str) -> None:
    _write(computer for computer in computers() if computer.name != name)


def _write(known: object) -> None:
    home().mkdir(parents=True, exist_ok=True)
    write_atomically(home() / "computers.json", msgspec.json.format(msgspec.json.encode(known)))


# --- ssh


def ssh_command(computer: Computer, line: str) -> list[str]:
    """The command that runs a line of shell in Hone's folder on another computer.

    ssh neither asks (BatchMode) nor accepts an unknown host key; a dead connection ends it within 15 s.
    """
    settings = {
        "BatchMode": "yes",
        "ConnectTimeout": str(CONNECT_SECONDS),
        "ServerAliveInterval": str(ALIVE_SECONDS),
        "ServerAliveCountMax": "3",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    config = os.environ.get(SSH_CONFIG)
    options += ["-F", config] if config else []
    folder = shlex.quote(computer.folder)
    return [
        "ssh",
        "-T",
        *options,
        "--",
        computer.address,
        f"mkdir -p -- {folder} && cd -- {folder} && {line}",
    ]


def python_command(computer: Computer, *arguments: str) -> list[str]:
    """The command that runs a module of the Hone installed there, such as `("core.engine", "devices")`.

    In Hone's folder there, `env` is its environment, `source` its source, `home` its HONE_HOME with the runs.
    """
    places = 'HONE_HOME="$PWD/home" PYTHONPATH="$PWD/source" PYTHONUTF8=1'
    return ssh_command(computer, f"{places} exec env/bin/python -P -s -m {shlex.join(arguments)}")
