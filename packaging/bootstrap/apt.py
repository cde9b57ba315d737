"""Install Debian and Ubuntu packages, where this may be done without asking anybody."""

from __future__ import annotations

import os
import shutil
import subprocess

from bootstrap.errors import SetupError

SECONDS = 600


def may_install() -> bool:
    """Whether this is root on a system with apt-get."""
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(packages: list[str]) -> None:
    """Install packages without a question asked.

    Raises:
        SetupError: apt-get failed; it holds the end of what apt-get said.
    """
    print(f"Installing with apt-get: {' '.join(packages)}", flush=True)
    _run(["update"])  # one package list out of reach is no reason to stop: installing will tell
    done = _run(["install", "-y", "--no-install-recommends", *packages])
    if done.returncode != 0:
        said = "\n".join(done.stdout.splitlines()[-8:])
        raise SetupError(f"apt-get couldn't install {' '.join(packages)}. It said:\n{said}")


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["apt-get", "-q", *arguments],
            env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(
            f"apt-get {arguments[0]} took longer than {SECONDS // 60} minutes and was ended."
        ) from error
