"""Build the program that needs no Python, use it, pack it, and tell what it weighs."""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from bootstrap import debian, linux, mishaps, smoke
from bootstrap.environment import Environment
from bootstrap.errors import SetupError

DEB_GOAL = 350e6
GZIP_LEVEL = 6
STAGES = ("build", "smoke", "mishaps", "pack", "install")


def main(environment: Environment, arguments: list[str]) -> int:
    """Go through the stages, all or those asked for; 0 where all went well.

    Raises:
        SetupError: PyInstaller failed, or the program built doesn't work.
    """
    parser = argparse.ArgumentParser(
        prog="start.py bundle",
        description="Build a program that needs no Python for this system: in dist/, with archives beside it.",
        epilog="Stages: build (PyInstaller), smoke (the program is used, in a folder that can't be written to), "
        "mishaps (what it says where something is wrong), pack (archives), install (the .deb into a scratch "
        "root, used there, with its window on a screen made by Xvfb).",
    )
    parser.add_argument(
        "--only", action="append", choices=STAGES, metavar="STAGE", help="only this one; repeatable"
    )
    parser.add_argument(
        "--try",
        dest="program",
        type=Path,
        metavar="PROGRAM",
        help="only use PROGRAM, such as an installed one",
    )
    asked = parser.parse_args(arguments)
    if asked.program:
        smoke.run(asked.program.absolute(), environment.root)
        return 0
    stages = asked.only or STAGES
    folder = environment.root / "dist" / "hone"
    if "build" in stages:
        build(environment)
    elif not folder.is_dir():
        raise SetupError(f"There is no bundle in {folder} yet; leave --only away to build it.")
    print(f"\n{folder}, its largest parts\n{debian.table(folder)}", flush=True)
    program = program_in(environment.root)
    if "smoke" in stages:
        with smoke.read_only(program.parent):
            smoke.run(program, environment.root)
    if "mishaps" in stages:
        mishaps.run(program)
    made = pack(environment.root, folder) if "pack" in stages else archives(environment.root)
    for path in made:
        print(f"{path}, {path.stat().st_size / debian.MB:,.0f} MB", flush=True)
    for path in made:
        if path.suffix == ".deb":
            print(
                f"  goal {DEB_GOAL / debian.MB:.0f} MB: {'reached' if path.stat().st_size <= DEB_GOAL else 'missed'}"
            )
            if "install" in stages:
                smoke.try_package(path, environment.root)
    return 0


def program_in(root: Path) -> Path:
    """The executable that PyInstaller made, where there are two the one that can print."""
    programs = {"win32": "hone/hone-cli.exe", "darwin": "Hone.app/Contents/MacOS/hone"}
    return root / "dist" / programs.get(sys.platform, "hone/hone")


def build(environment: Environment) -> None:
    """Run PyInstaller on packaging/hone.spec.

    Raises:
        SetupError: It failed; holds the end of what it said. Or PyTorch is built for graphics cards.
    """
    refuse_graphics(environment)
    root = environment.root
    log = root / "build" / "pyinstaller.log"
    print(
        f"Building with PyInstaller, which takes 4 minutes and more (its output goes to {log}) …", flush=True
    )
    began = time.monotonic()
    log.parent.mkdir(exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            [
                environment.program("pyinstaller"),
                "--noconfirm",
                "--clean",
                str(root / "packaging" / "hone.spec"),
            ],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:])
        raise SetupError(f"PyInstaller failed; the end of {log}:\n{tail}")
    strip(root / "dist" / "hone")
    print(f"Built in {time.monotonic() - began:.0f} s", flush=True)


def refuse_graphics(environment: Environment) -> None:
    """See that the environment has PyTorch for the CPU; Apple's has Metal in it, which needs no libraries of its own.

    Raises:
        SetupError: It has another one, or none that loads.
    """
    asked = "import torch; print(torch.version.cuda or torch.version.hip or '')"
    done = subprocess.run(
        [environment.python, "-P", "-c", asked], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        raise SetupError(f"PyTorch doesn't load in {environment.folder}:\n{done.stderr[-500:]}")
    if done.stdout.strip():
        raise SetupError(
            f"The PyTorch in {environment.folder} is built for graphics cards ({done.stdout.strip()}), and a bundle "
            f"carries the one for the CPU. Delete {environment.folder}, then start again: python3 start.py bundle"
        )


def strip(folder: Path) -> None:
    """Take what only debuggers read out of Python's own library: of some builds three quarters."""
    tool = shutil.which("strip") if sys.platform.startswith("linux") else None
    for library in (folder / "_internal").glob("libpython*.so*") if tool else ():
        subprocess.run([str(tool), "--strip-unneeded", str(library)], check=False)


def named(root: Path, suffix: str) -> Path:
    """Where an archive of this system goes, such as `dist/hone-0.1.0-linux-x86_64.deb`."""
    system = {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")
    return root / "dist" / f"hone-{smoke.version(root)}-{system}-{platform.machine()}{suffix}"


def archives(root: Path) -> list[Path]:
    """Those that are there."""
    return [path for suffix in (".tar.gz", ".deb") if (path := named(root, suffix)).is_file()]


def pack(root: Path, folder: Path) -> list[Path]:
    """Make the archives of this system, the .deb where there is dpkg-deb; packaging/macos and windows pack elsewhere.

    Raises:
        SetupError: dpkg-deb failed.
    """
    if not sys.platform.startswith("linux"):
        return []
    began = time.monotonic()
    linux.put_into(folder, root / "packaging" / "linux" / linux.NAME)
    archive = tar(folder, named(root, ".tar.gz"))
    if not debian.can_build():
        print("No .deb is made: that takes dpkg-deb, which Debian and Ubuntu have.")
        return [archive]
    depends = linux.debian_packages(folder)
    print(f"\nTaken from the system: {', '.join(depends)}")

    def control(size: int) -> str:
        return debian.control_text(smoke.version(root), platform.machine(), size, depends)

    package = debian.build(root, folder, named(root, ".deb"), control)
    print(f"Packed in {time.monotonic() - began:.0f} s")
    return [archive, package]


def tar(folder: Path, target: Path) -> Path:
    """Pack a folder with its links and rights; returns `target`."""

    def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    with tarfile.open(target, "w:gz", compresslevel=GZIP_LEVEL) as archive:
        archive.add(folder, target.name.removesuffix(".tar.gz"), filter=owned_by_root)
    return target
