"""Checks what another computer has (`check`), installs this version of Hone there (`install`), and removes it.

Only Hone's folder there is changed. It contains `env` (the environment), `source` (core and resources of this Hone),
`home` (its runs), `cache` and `python` (of uv), `hone.txt` (whose folder it is), and `installed.json`, written last.
"""

import contextlib
import hashlib
import io
import math
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO

import msgspec

from core.base import formats, uv
from core.base.errors import ComputerError, Fix, UserError
from core.base.jobs import EngineCrashed, EngineJob, JobCancelled, JobProgress, TellProgress, decoded
from core.base.language import _
from core.base.processes import (
    SOURCE_ROOT,
    is_frozen,
    kill_with_children,
    source_digest,
    source_files,
    start_worker,
)
from core.base.settings import VERSION
from core.hosts.computers import (
    INSTALL_IT,
    SSH_FAILED,
    CheckedComputer,
    Computer,
    computers,
    explain,
    python_command,
    save,
    ssh_command,
)
from core.options.device_support import DeviceReport, MachineReport

GB = 1 << 30
CPU_NEEDED, CUDA_NEEDED = int(2.5 * GB), int(7.5 * GB)
"""Bytes that an installation takes while it is made."""

PROBE_SECONDS, DEVICES_SECONDS = 60.0, 300.0
LOOK_SECONDS = 0.1
OUTPUT_BYTES = 16 << 20
"""The most that a script there prints."""

# --- What is brought there


WINDOW_PACKAGES = frozenset({"pyqtgraph", "pyside6-essentials", "send2trash", "wakepy"})


def requirements() -> tuple[list[str], list[str]]:
    """Returns the engine's requirements and constraints, as pip takes them.

    Raises:
        UserError: This Hone has no list of its libraries.
    """
    from importlib import metadata  # slow to import

    # see packaging/hone.spec
    pins = SOURCE_ROOT / ("pins" if is_frozen() else "packaging") / "constraints.txt"
    try:
        wanted = metadata.requires("hone") or []
        pinned = pins.read_text(encoding="utf-8").splitlines()
    except (metadata.PackageNotFoundError, OSError) as error:
        raise UserError(_("This Hone has no list of the libraries it needs"), str(error)) from error
    return [
        line for line in wanted if "extra ==" not in line and name_of(line) not in WINDOW_PACKAGES
    ], pinned


def name_of(requirement: str) -> str:
    """Returns the normalized name of a requirement's package."""
    found = re.match(r"[\w.-]+", requirement, re.ASCII)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def _archive(texts: dict[str, str]) -> bytes:
    """Returns the source and some texts as a tar."""
    files = {name: path.read_bytes() for name, path in source_files().items()}
    files |= {name: text.encode() for name, text in texts.items()}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


# --- Scripts


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """`installed.json`: the digests of the source and of the lists of libraries."""

    source: str
    packages: str
    hone: str


_PLACES = f"""
PATH="$PATH:$HOME/.local/bin:$HOME/.cargo/bin:/opt/homebrew/bin:/usr/local/bin:/usr/lib/wsl/lib"
own='import sys
assert (3, 11) <= sys.version_info < (3, 15)
print("%d.%d.%d" % sys.version_info[:3])'
for python in python3 python3.14 python3.13 python3.12 python3.11 ''; do
  [ -z "$python" ] || {{ version=$("$python" -c "$own" 2>/dev/null) && break; }}
done
capability=$({uv.CAPABILITY_QUERY} 2>/dev/null | sort -n | head -n 1)
"""
"""Programs are also sought where installers put them: a shell that isn't for people to type in rarely knows those."""

TRY_IT = """
from core.engine.environment import prepare_torchvision
prepare_torchvision()
import torch, core.engine.train
"""

_PROBE = f"""{_PLACES}
say() {{ printf 'hone:%s=%s\\n' "$1" "$2"; }}
say system "$(uname -s)"
say processor "$(uname -m)"
say python "$version"
say uv "$(uv --version 2>/dev/null | cut -d' ' -f2)"
say capability "$capability"
place=$folder
until [ -d "$place" ]; do place=$(dirname -- "$place"); done
[ -w "$place" ] && say writable yes
[ ! -d "$folder" ] || [ -e "$folder/hone.txt" ] || [ -z "$(ls -A -- "$folder")" ] || say foreign yes
df -Pk -- "$place" | {{
  read -r _; read -r _ all _ free _ && if [ "$all" = 0 ]; then say foreign yes; else say free "$free"; fi
}}
say installed "$(cat -- "$folder/installed.json" 2>/dev/null)"
"""

_VENV = " ".join(uv.VENV)
_SETTINGS = " ".join(f'{name}="${{{name}:-{value}}}"' for name, value in uv.SETTINGS.items())

_INSTALL = f"""set -e
{_PLACES}
mkdir -p -- "$folder"
cd -- "$folder"
printf '%s\\n' "$whose" > hone.txt
rm -rf source.new
mkdir source.new
head -c "$size" | tar -xzf - -C source.new
exec 3<&0
{{ cat <&3 >/dev/null; kill -- -$$; }} 2>/dev/null &
watcher=$!
trap 'kill $watcher 2>/dev/null' EXIT
export UV_CACHE_DIR="$PWD/cache" UV_PYTHON_INSTALL_DIR="$PWD/python" UV_NO_PROGRESS=1 PYTHONUTF8=1
export {_SETTINGS}
export UV_TORCH_BACKEND="${{UV_TORCH_BACKEND:-$backend}}"
rm -f installed.json
if [ "$with_packages" = yes ]; then
  uv=$(command -v uv) || uv=$(PYTHONPATH="$PWD/source.new" "$python" -P -s -m core.base.uv "$PWD/cache")
  "$uv" {_VENV} "$wanted" env --quiet --managed-python 2>/dev/null ||
    "$uv" {_VENV} "${{python:-$wanted}}" env --quiet
  "$uv" {" ".join(uv.INSTALL)} env/bin/python --only-binary :all: \\
    --requirement source.new/requirements.txt --constraint source.new/constraints.txt
fi
echo "$checking"
printed=$(PYTHONPATH="$PWD/source.new" env/bin/python -P -s -c "$try_it" 2>&1) || {{ echo "$printed"; exit 1; }}
rm -rf source
mv source.new source
printf '%s' "$installed" > installed.new
mv installed.new installed.json
"""
"""One shell leads a process group; when nobody listens any more, its input ends and the group is killed."""

_BUSY = """
import os, psutil
inside = os.path.join(os.getcwd(), "env", "")
for process in psutil.process_iter(["cmdline"]):
    words = process.info["cmdline"] or [""]
    if words[0].startswith(inside) and "core.monitor.keeper" in words:
        print("hone:busy=yes")
"""

_REMOVE = """cd -- "$folder" 2>/dev/null && [ -e hone.txt ] || exit 0
set -e
rm -rf installed.json source source.new env home cache python
rm -f hone.txt installed.new
folder=$PWD
cd ..
rmdir -- "$folder" 2>/dev/null || true
"""


def _assigned(script: str, **variables: str) -> str:
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items()) + script


def _run(
    computer: Computer,
    script: str,
    content: bytes = b"",
    watch: Callable[[str], None] = lambda line: None,
    seconds: float | None = None,
) -> tuple[int, str]:
    """Runs a script there; returns its exit status and its output.

    Args:
        content: Its input, which ends when the script does.
        watch: Called about once a second with the last line of the output; what it raises ends the script.
        seconds: Timeout; None: none.

    Raises:
        ComputerError: ssh failed.
    """
    begin, told = time.monotonic(), -math.inf
    with tempfile.TemporaryFile() as output:
        try:
            process = start_worker(
                ssh_command(computer, script),
                stdin=subprocess.PIPE,
                stdout=output.fileno(),
                stderr=output.fileno(),
            )
        except OSError as error:
            raise explain(computer, str(error), SSH_FAILED) from error
        assert process.stdin is not None
        with process:
            sending = threading.Thread(target=_send, args=(process.stdin, content), daemon=True)
            sending.start()  # what isn't read there must not hold up the timeout here
            try:
                while process.poll() is None:
                    now = time.monotonic()
                    if now - told >= 1.0:
                        told = now
                        watch(_last_line(output))
                    if seconds is not None and now - begin > seconds:
                        raise explain(computer, "ssh: timed out", SSH_FAILED)
                    if os.fstat(output.fileno()).st_size > OUTPUT_BYTES:
                        raise ComputerError(
                            "failed",
                            _("{name} prints without end").format(name=computer.name),
                            _(
                                "Its shell, or a program that the shell starts, prints more than {size}."
                            ).format(size=formats.memory(OUTPUT_BYTES)),
                            (Fix(_("Look into ~/.profile and ~/.bashrc there")),),
                        )
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(LOOK_SECONDS)
            except BaseException:  # cancelled, or Ctrl-C
                kill_with_children(process)
                raise
            finally:
                sending.join()
                with contextlib.suppress(OSError):
                    process.stdin.close()
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode == SSH_FAILED or process.returncode < 0:
        raise explain(computer, text, process.returncode)
    return process.returncode, text


def _send(target: IO[bytes], content: bytes) -> None:
    with contextlib.suppress(OSError):  # the end of the connection is explained elsewhere
        target.write(content)
        target.flush()


def _last_line(output: IO[bytes]) -> str:
    output.seek(max(0, output.seek(0, io.SEEK_END) - 2000))
    lines = output.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


# --- Check


def check(computer: Computer, watch: Callable[[str], None] = lambda line: None) -> CheckedComputer:
    """Checks the computer; stores the result, or the error, with it if it is in the list.

    Args:
        watch: Called about once a second while it isn't reached yet; what it raises ends the check.

    Raises:
        ComputerError: It can't be reached, or isn't one that Hone can use.
    """
    before = computer.checked or CheckedComputer(time=0.0)
    try:
        checked = _look(computer, watch)
    except ComputerError as error:
        _keep(computer, msgspec.structs.replace(before, problem=error.title))
        raise
    if not obstacles(computer, checked):
        job = EngineJob("devices", python_command(computer, "core.engine", "devices"))
        timer = threading.Timer(DEVICES_SECONDS, job.kill)
        timer.start()
        try:
            machine = decoded("devices", job.ask(), MachineReport)
        except (EngineCrashed, JobCancelled) as error:
            failure = explain(computer, "ssh: timed out", SSH_FAILED)
            if isinstance(error, EngineCrashed):
                failure = explain(computer, error.report, error.code)
            _keep(computer, msgspec.structs.replace(checked, machine=before.machine, problem=failure.title))
            raise failure from error
        finally:
            timer.cancel()
        checked = msgspec.structs.replace(checked, machine=machine, versions=machine.versions)
    else:
        checked = msgspec.structs.replace(checked, machine=before.machine, versions=before.versions)
    _keep(computer, checked)
    return checked


def _keep(computer: Computer, checked: CheckedComputer) -> None:
    known = next((known for known in computers() if known.name == computer.name), None)
    if known is not None and (known.address, known.folder) == (computer.address, computer.folder):
        save(msgspec.structs.replace(known, checked=checked))


def _look(computer: Computer, watch: Callable[[str], None] = lambda line: None) -> CheckedComputer:
    script = _assigned(_PROBE, folder=computer.folder)
    code, output = _run(computer, script, watch=watch, seconds=PROBE_SECONDS)
    facts = dict(re.findall(r"^hone:(\w{1,20})=(.{0,1000}?)\r?$", output, re.MULTILINE))
    system = facts.get("system", "")
    if not system or re.match("MINGW|MSYS|CYGWIN", system):
        found = explain(computer, output, code)
        raise found if found.code != "failed" else explain(computer, "is not recognized as", 1)
    installed = None
    with contextlib.suppress(msgspec.MsgspecError):
        installed = msgspec.json.decode(facts.get("installed", ""), type=Installed)
    return CheckedComputer(
        time=time.time(),
        system=system,
        processor=facts.get("processor", ""),
        python=facts.get("python", ""),
        uv=facts.get("uv", ""),
        free=int(facts["free"]) << 10 if re.fullmatch("[0-9]{1,15}", facts.get("free", "")) else None,
        capability=facts.get("capability", ""),
        writable="writable" in facts and "foreign" not in facts,
        source=installed.source if installed else "",
        packages=installed.packages if installed else "",
        hone=installed.hone if installed else "",
    )


def obstacles(computer: Computer, checked: CheckedComputer) -> list[ComputerError]:
    """Returns why nothing can be trained there yet, most important first; empty if it can."""
    words = {"name": computer.name, "folder": computer.folder}
    if checked.problem or not checked.time:
        check_it = Fix(_("Check it in Settings, or with `hone hosts check {name}`").format(**words))
        title = checked.problem or _("{name} wasn't checked yet").format(**words)
        return [ComputerError("unchecked", title, "", (check_it,))]
    if checked.source == source_digest():
        return []
    found = []
    if not checked.writable:
        title = _("Hone can't use the folder {folder} on {name}").format(**words)
        detail = _(
            "You may not write there, it holds other files already, or it isn't on a disk (such as /proc)."
        )
        found.append(ComputerError("not-writable", title, detail, (Fix(_("Choose another folder")),)))
    if not checked.python and not checked.uv and not checked.source:
        title = _("{name} has no Python that Hone can use").format(**words)
        detail = _("Hone needs Python 3.11 to 3.14, or uv, which brings one.")
        fixes = (
            Fix(_("Install uv there: docs.astral.sh/uv tells how; it needs no administrator")),
            Fix(_("Or install Python there: on Debian and Ubuntu the package python3")),
        )
        found.append(ComputerError("no-python", title, detail, fixes))
    needed = CUDA_NEEDED if checked.capability else CPU_NEEDED
    if not checked.source and checked.free is not None and checked.free < needed:
        title = _("The disk of {name} is too full").format(**words)
        detail = _("{free} are free where its folder {folder} is, {needed} are needed.").format(
            free=formats.memory(checked.free), needed=formats.memory(needed), **words
        )
        fix = Fix(_("Free some disk space there, or choose a folder on another disk"))
        found.append(ComputerError("no-room", title, detail, (fix,)))
    install_it = (Fix(INSTALL_IT.format(**words)),)
    if checked.source:
        title = _("{name} has another version of Hone").format(**words)
        detail = _("Hone {there} is there, {here} is here. Both must be exactly the same.").format(
            there=checked.hone, here=VERSION
        )
        found.append(ComputerError("other-version", title, detail, install_it))
    else:
        found.append(
            ComputerError("no-hone", _("Hone isn't installed on {name}").format(**words), "", install_it)
        )
    return found


INSTALLABLE = ("no-hone", "other-version")
"""Codes of obstacles that an installation clears."""


def differences(first: Computer, second: Computer) -> list[str]:
    """Lists libraries of two checked computers that differ in version, such as `torch: 2.13.0 on workshop, ...`."""
    one, other = ((each.checked or CheckedComputer(time=0.0)).versions for each in (first, second))
    return [
        _("{library}: {one} on {first}, {other} on {second}").format(
            library=name,
            one=one.get(name) or _("none"),
            other=other.get(name) or _("none"),
            first=first.name,
            second=second.name,
        )
        for name in sorted(one.keys() & other.keys())
        if one[name] != other[name]
    ]


def with_computers(machine: MachineReport) -> MachineReport:
    """Returns the devices of this computer, and those of the other known ones by names such as `cuda:0@workshop`.

    Titles stay as they are, as past runs on the device have them. Those of a computer on which nothing can be trained
    yet have the reason. If its devices are unknown, one device called `auto@workshop` stands for them.
    """
    devices = list(machine.devices)
    for computer in computers():
        checked = computer.checked or CheckedComputer(time=0.0)
        obstacle = next(iter(obstacles(computer, checked)), None)
        why = ""
        if obstacle is not None:
            why = formats.without_stop(formats.paragraph(obstacle.title, obstacle.fixes[0].label))
        there = checked.machine.devices if checked.machine is not None else ()
        known = [device for device in there if device.available]
        for device in known or [DeviceReport(name="auto", title=computer.name, available=False)]:
            name = f"{device.name}@{computer.name}"
            devices.append(msgspec.structs.replace(device, name=name, available=not why, reason=why))
    return msgspec.structs.replace(machine, devices=tuple(devices))


# --- Install and remove


def install(computer: Computer, tell: TellProgress) -> CheckedComputer:
    """Installs this version there, or only its source if the libraries are there; returns the check at the end.

    Args:
        tell: Called about once a second; what it raises ends the installation, here and there.

    Raises:
        ComputerError: The computer can't be reached or used, or the installation failed.
    """
    tell(JobProgress(done=0, total=0, what=_("Checking {name}").format(name=computer.name)))
    checked = _look(computer)
    wanted, pinned = ("\n".join([*lines, ""]) for lines in requirements())
    packages = hashlib.sha256(f"{wanted}\0{pinned}".encode()).hexdigest()
    if checked.source != source_digest() or checked.packages != packages:
        blocking = [each for each in obstacles(computer, checked) if each.code not in INSTALLABLE]
        if blocking:
            raise blocking[0]
        refuse_while_busy(computer)
        installed = Installed(source=source_digest(), packages=packages, hone=VERSION)
        archive = _archive({"requirements.txt": wanted, "constraints.txt": pinned})
        script = _assigned(
            _INSTALL,
            folder=computer.folder,
            size=str(len(archive)),
            wanted=f"{sys.version_info.major}.{sys.version_info.minor}",
            backend=uv.torch_backend(uv.capability_of(checked.capability)),
            with_packages="no" if checked.packages == packages else "yes",
            checking=_("Checking that it works"),
            try_it=TRY_IT,
            installed=msgspec.json.encode(installed).decode(),
            whose=_(
                "This folder belongs to Hone. `hone hosts remove {name}` deletes what it put here."
            ).format(name=computer.name),
        )
        title = _("Installing Hone on {name}").format(name=computer.name)

        def watch(line: str) -> None:
            what = f"{title}: {line}" if line else title
            tell(JobProgress(done=0, total=0, what=what))

        code, output = _run(computer, script, archive, watch)
        if code != 0:
            raise _failure(computer, code, output)
        tell(JobProgress(done=0, total=0, what=_("Looking for its devices")))
    return check(computer)


def _failure(computer: Computer, code: int, output: str) -> ComputerError:
    error = explain(computer, output, code)
    if error.code not in ("failed", "no-hone"):  # uv names env/bin/python in many errors
        return error
    cause, fix, shown = uv.why_not_installed(output)
    title = _("Hone wasn't installed on {name}").format(name=computer.name)
    again = Fix(_("Install it again; finished downloads are reused"))
    detail = "\n".join(filter(None, (cause, *shown)))
    return ComputerError("not-installed", title, detail, (*((Fix(fix),) if fix else ()), again))


def refuse_while_busy(computer: Computer) -> None:
    """Raises a ComputerError if a run trains there, or waits in its queue."""
    folder = shlex.quote(computer.folder)
    _code, output = _run(
        computer,
        f"cd -- {folder} && exec env/bin/python -P -s -c {shlex.quote(_BUSY)}",
        seconds=PROBE_SECONDS,
    )
    if "hone:busy=yes" in output:
        title = _("A run is at work on {name}").format(name=computer.name)
        detail = _("Its programs can't be replaced or removed meanwhile.")
        raise ComputerError("busy", title, detail, (Fix(_("Wait until runs there are over, or stop them")),))


def uninstall(computer: Computer) -> None:
    """Deletes what Hone put there, if it put anything there, with all runs there.

    Raises:
        ComputerError: It can't be reached, a run is at work there, or something can't be deleted.
    """
    refuse_while_busy(computer)
    code, output = _run(computer, _assigned(_REMOVE, folder=computer.folder))
    if code != 0:
        raise explain(computer, output, code)
