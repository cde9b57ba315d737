"""A .deb as somebody installs it: dpkg puts it in place, it is used, and it goes again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bootstrap import smoke
from bootstrap.errors import SetupError
from bootstrap.trial import Person, somebody

NAME = "hone"
OF_DPKG = "var/lib/dpkg"
"""Where dpkg keeps account, below the root it installs into."""


def run(package: Path, checkout: Path) -> None:
    """Install a .deb into a scratch root, let somebody who isn't root use it there, and remove it.

    Where Xvfb makes a screen, the window opens on that.

    Args:
        package: The .deb.
        checkout: What it was built from.

    Raises:
        SetupError: It can't be installed or removed, or a step failed.
    """
    with somebody() as person:
        root = person.home.parent / "root"
        ask_for_dependencies(package)
        program = install(package, root)
        print(f"\n{package.name} is installed in {root}, by dpkg", flush=True)
        smoke.use(person, program, checkout, *_on_a_screen(person))
        remove(root)
        print(f"\n{package.name} is removed again, and left nothing", flush=True)


def ask_for_dependencies(package: Path) -> None:
    """Ask apt, where there is one, whether it would install the package with all that it depends on.

    Raises:
        SetupError: It wouldn't.
    """
    if shutil.which("apt-get") is None:
        print("What the .deb depends on is not tried: that takes apt-get.")
        return
    said = _said_by("apt-get", "--simulate", "install", str(package.absolute()))
    also = [line.split()[1] for line in said.splitlines() if line.startswith("Inst ")]
    print(f"apt would install {', '.join(also) or 'nothing more'}", flush=True)


def install(package: Path, root: Path) -> Path:
    """Have dpkg install a package into an empty root; returns the program that the link in the path leads to.

    Raises:
        SetupError: dpkg failed, or the package isn't what it notes as installed.
    """
    for name in ("info", "updates", "triggers"):
        (root / OF_DPKG / name).mkdir(parents=True)
    for name in ("status", "available"):
        (root / OF_DPKG / name).touch()
    _dpkg(root, "--install", str(package))
    status = _said_by("dpkg-query", f"--admindir={root / OF_DPKG}", "-W", "-f=${Status}", NAME)
    if status != "install ok installed":
        raise SetupError(f"After dpkg has installed {package.name}, its state is “{status}”.")
    return root / (root / "usr/bin" / NAME).readlink().relative_to("/")


def remove(root: Path) -> None:
    """Have dpkg remove the package with all that belongs to it.

    Raises:
        SetupError: dpkg failed, or something stays.
    """
    _dpkg(root, "--purge", NAME)
    left = [path for path in root.rglob("*") if path.is_file() and not path.is_relative_to(root / OF_DPKG)]
    if left:
        raise SetupError(
            f"After dpkg has removed the package, this is left: {', '.join(map(str, left[:5]))}."
        )


def _dpkg(root: Path, *arguments: str) -> None:
    """What it depends on isn't in a scratch root; apt was asked about that. Who isn't root owns what dpkg writes."""
    not_root = [] if os.geteuid() == 0 else ["--force-not-root", "--force-bad-path"]
    log = root / OF_DPKG / "log"
    _said_by("dpkg", f"--root={root}", f"--log={log}", "--force-depends", *not_root, *arguments)


def _said_by(*command: str) -> str:
    """What a program prints, in English, that has to succeed.

    Raises:
        SetupError: It fails.
    """
    english = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=english)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise SetupError(f"{command[0]} {command[-2]} {command[-1]} failed and said:\n{tail}")
    return done.stdout


def _on_a_screen(person: Person) -> tuple[list[str], dict[str, str]]:
    """What starts the window on a screen made by Xvfb, and its variables; nothing where there is no Xvfb."""
    if shutil.which("xvfb-run") is None:
        return [], {}
    # xvfb-run stumbles over spaces in the folder for temporary files; the program must not.
    through = ["xvfb-run", "-a", "-s", "-screen 0 1400x900x24", "env", f"TMPDIR={person.environ['TMPDIR']}"]
    return through, {"QT_QPA_PLATFORM": "xcb", "TMPDIR": "/tmp"}
