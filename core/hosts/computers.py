"""The person's other computers: where they are kept, how ssh reaches them, and what its errors mean.

Nothing here asks a question: host keys and passwords are the business of ssh in a terminal, and of `~/.ssh/config`.
"""

import os
import re
import shlex
from pathlib import PurePosixPath

import msgspec

from core.base.errors import ComputerError, Fix, UserError
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
FOLDER = re.compile(r"(?![~-])(?!(.*/)?\.{1,2}(/|\Z))(?!/*\Z)[^\x00-\x1f\x7f]+")
"""Neither the home folder nor `/`, without `..`; anything else is quoted, spaces and quotes too."""


class CheckedComputer(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found on a computer, at `time` (unix seconds).

    `source` and `packages` are digests of the Hone installed there and of its list of libraries, `hone` its version,
    empty without one; `uv` and `python` are versions, empty where absent; `versions` those of the libraries that
    train; `free` bytes on the disk of its folder, which Hone may have if it is `writable`; `capability` that of the
    oldest NVIDIA card, empty without one. `problem` says why the latest check failed: the rest is of an earlier one.
    """

    time: float
    system: str = ""
    processor: str = ""
    python: str = ""
    uv: str = ""
    free: int | None = None
    capability: str = ""
    writable: bool = True
    hone: str = ""
    packages: str = ""
    problem: str = ""
    source: str = ""
    versions: dict[str, str] = {}
    machine: MachineReport | None = None


class Computer(msgspec.Struct, frozen=True, kw_only=True):
    """Another computer. `address` is as for ssh, `folder` is Hone's there, relative to the home folder or absolute."""

    name: str
    address: str
    folder: str = "hone"
    checked: CheckedComputer | None = None


def computers() -> tuple[Computer, ...]:
    """Returns all known computers, in the order in which they were added."""
    return read_record(home() / "computers.json", tuple[Computer, ...]) or ()


def find(name: str) -> Computer:
    """Returns the computer of that name.

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


def _place(computer: Computer) -> tuple[str, PurePosixPath]:
    """Returns a place that is equal for `hone` and `hone/`, too."""
    return computer.address, PurePosixPath(computer.folder)


def save(computer: Computer) -> None:
    """Adds a computer, or replaces the one of its name.

    Raises:
        UserError: Its name, address or folder can't be used.
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
    if not FOLDER.fullmatch(computer.folder):
        raise UserError(
            _("“{folder}” can't be Hone's folder").format(folder=computer.folder),
            _("It is a folder below your home folder there, such as hone, or an absolute path."),
        )
    others = {known.name: known for known in computers()}
    names = [known.name for known in others.values() if _place(known) == _place(computer)]
    if names and computer.name not in names:
        raise UserError(
            _("“{name}” would be a second name for {other}").format(name=computer.name, other=names[0]),
            _(
                "Both would be the folder {folder} at {address}: removing one would delete the other's runs."
            ).format(folder=computer.folder, address=computer.address),
            (Fix(_("Choose another folder, or remove {other} first").format(other=names[0])),),
        )
    _write(tuple((others | {computer.name: computer}).values()))


def forget(name: str) -> None:
    _write(tuple(computer for computer in computers() if computer.name != name))


def _write(known: tuple[Computer, ...]) -> None:
    home().mkdir(parents=True, exist_ok=True)
    write_atomically(home() / "computers.json", msgspec.json.format(msgspec.json.encode(known)))


# --- ssh


def ssh_command(computer: Computer, script: str) -> list[str]:
    """Returns the command that runs a script of POSIX sh in the home folder of another computer.

    ssh neither asks (BatchMode) nor accepts an unknown host key; a dead connection ends it within 15 s. What the
    person's settings open for a terminal (keys of the agent, ports, another command) stays closed. The login shell
    there, which may be another one than sh, sees one quoted word.
    """
    settings = {
        "BatchMode": "yes",
        "ConnectTimeout": str(CONNECT_SECONDS),
        "ServerAliveInterval": str(ALIVE_SECONDS),
        "ServerAliveCountMax": "3",
        "ForwardAgent": "no",
        "ClearAllForwardings": "yes",
        "RemoteCommand": "none",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    config = os.environ.get(SSH_CONFIG)
    options += ["-F", config] if config else []
    return ["ssh", "-T", *options, "--", computer.address, f"exec sh -c {shlex.quote(script)}"]


def python_command(computer: Computer, *arguments: str) -> list[str]:
    """Returns the command that runs a module of the Hone installed there, such as `("core.engine", "devices")`.

    In Hone's folder there, `env` is its environment, `source` its source, `home` its HONE_HOME with the runs.
    """
    places = 'HONE_HOME="$PWD/home" PYTHONPATH="$PWD/source" PYTHONUTF8=1'
    line = f"cd -- {shlex.quote(computer.folder)} && {places} exec env/bin/python -P -s -m {shlex.join(arguments)}"
    return ssh_command(computer, line)


INSTALL_IT = _("Install it in Settings, or with `hone hosts install {name}`")

SSH_FAILED = 255
"""Exit status of ssh when it failed itself; any other is that of the command there."""

_SHOWN_LINES = 4


_GONE = _("If it is gone for good, remove it in Settings, or with `hone hosts remove {name} --here-only`")

_OF_SSH = (
    (
        "no-ssh",
        r"No such file or directory: '?ssh'?|WinError 2\b",
        _("ssh isn't installed on this computer"),
        _("Hone reaches other computers with the ssh program of OpenSSH."),
        _("Install it: the package openssh-client on Linux, the optional feature OpenSSH Client on Windows"),
    ),
    (
        "changed-key",
        r"HOST IDENTIFICATION HAS CHANGED|[Hh]ost key for .* has changed",
        _("{name} shows another host key than before"),
        _(
            "Somebody may be pretending to be it, or it was installed anew: nothing is sent to it until you know."
        ),
        _("Ask whoever set it up for its new fingerprint"),
        _("Only if it is the same: forget the old key with `ssh-keygen -R`, then run `ssh {address}` once"),
    ),
    (
        "unknown-key",
        r"Host key verification failed|No .* host key is known",
        _("The host key of {name} isn't known yet"),
        _("ssh can't tell whether this is the right computer, so nothing is sent to it."),
        _("In a terminal, run `ssh {address}` once, and compare the fingerprint with that of the computer"),
    ),
    (
        "refused-key",
        r"Permission denied \(|Too many authentication failures",
        _("{name} doesn't let you in"),
        _("It knows no user of that name, or doesn't accept your key. Hone can't type a password."),
        _("Check the user in the address {address}"),
        _("Let it accept your key: `ssh-copy-id {address}`"),
        _("If your key has a passphrase, give it to ssh once with `ssh-add`"),
    ),
    (
        "no-name",
        r"[Cc]ould not resolve|hostname contains invalid",
        _("There is no computer at {address}"),
        _("Its name leads to no address. A rented computer that was ended has lost its name for good."),
        _("Check the address and the network (is a VPN needed?)"),
        _GONE,
    ),
    (
        "no-server",
        r"Connection refused",
        _("{name} is on, but accepts no ssh connections"),
        _("No ssh server listens at {address}."),
        _("Turn it on there: Remote Login in the settings of a Mac, the package openssh-server on Linux"),
        _("A rented computer may need another port: ssh://user@host:port"),
    ),
    (
        "bad-config",
        r"[Bb]ad configuration option|bad configuration options|Can't open user config|Bad owner or permissions",
        _("ssh can't read its settings"),
        "",
        _("Correct your ~/.ssh/config"),
    ),
    (
        "closed",
        r"not responding|closed by|[Cc]onnection reset|Broken pipe|Connection to .* closed|"
        r"kex_exchange_identification",
        _("The connection to {name} was closed"),
        _("The network failed, or the computer went to sleep, was restarted or switched off."),
        _("Wake it up, or check the network, and try again"),
    ),
    (
        "no-answer",
        r"timed out|No route to host|Network is (unreachable|down)|Host is down",
        _("{name} doesn't answer"),
        _("It sleeps, is switched off, or is in another network. A rented computer may have been ended."),
        _("Switch it on or wake it up, and keep it awake while it trains"),
        _GONE,
    ),
)
"""Code, pattern, title, detail and remedies of what ssh prints (OpenSSH 9.2). The first match counts: a changed key is
an unknown one, too.
"""

_OF_THE_COMPUTER = (
    (
        "windows",
        r"is not recognized as|CommandNotFoundException",
        _("{name} has no POSIX shell"),
        _("Hone trains on other computers with Linux or macOS."),
        _("On Windows, install WSL with an ssh server inside, and give its address"),
    ),
    (
        "no-room",
        r"No space left|[Dd]isk quota exceeded|os error (28|122)",
        _("The disk of {name} is full"),
        _("Hone's folder there is {folder}."),
        _("Free some disk space there, or choose a folder on another disk"),
    ),
    (
        "not-writable",
        r"[Pp]ermission denied|Read-only file system|cannot create directory|mkdir: |Operation not permitted",
        _("Hone's folder on {name} can't be written"),
        _("Hone's folder there is {folder}."),
        _("Choose a folder that belongs to you"),
    ),
    (
        "no-hone",
        r"env/bin/python|cd: .*|No module named '?core",
        _("Hone isn't installed on {name}"),
        _("Its folder there, {folder}, has no Hone that works."),
        INSTALL_IT,
    ),
)
"""The same for what the shell or a program prints there."""


def explain(computer: Computer, stderr: str, code: int) -> ComputerError:
    """Returns the error of a command for another computer.

    Args:
        stderr: What it printed; if ssh couldn't be started, the OSError as text.
        code: Its exit status; if ssh couldn't be started, `SSH_FAILED`.
    """
    lines = [line.strip() for line in stderr.splitlines() if line.strip(" @\r\n")]
    words = {"name": computer.name, "address": computer.address, "folder": computer.folder}
    shown = "\n".join(lines[-_SHOWN_LINES:])
    for word, pattern, title, detail, *remedies in _OF_SSH if code == SSH_FAILED else _OF_THE_COMPUTER:
        if re.search(pattern, stderr):
            found = "\n".join(filter(None, (detail.format(**words), shown)))
            fixes = tuple(Fix(remedy.format(**words)) for remedy in remedies)
            return ComputerError(word, title.format(**words), found, fixes)
    if code < 0 or code == SSH_FAILED:
        return ComputerError("closed", _("The connection to {name} was closed").format(**words), shown)
    title = _("A command on {name} failed with exit status {code}").format(code=code, **words)
    return ComputerError("failed", title, shown)
