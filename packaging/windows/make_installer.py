"""Make the installer for Windows from the folder PyInstaller made: `python packaging/windows/make_installer.py`.

Needs makensis (NSIS 3), which Windows, Linux and macOS have alike; writes dist/hone-VERSION-windows-x64.exe.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "packaging")]

from core.base.settings import VERSION  # noqa: E402
from windows.version_info import four_numbers  # noqa: E402

PROGRAMS = ("Hone.exe", "hone-cli.exe")
PLACES = (Path("C:/Program Files (x86)/NSIS"), Path("C:/Program Files/NSIS"))
"""Where NSIS's own installer puts it, which changes no path."""


def makensis() -> str | None:
    """The compiler; None where there is none."""
    found = shutil.which("makensis")
    return found or next(
        (str(place / "makensis.exe") for place in PLACES if (place / "makensis.exe").is_file()), None
    )


def command(compiler: str, source: Path, target: Path) -> list[str]:
    """What compiles the script, with every warning an error."""
    numbers = ".".join(str(number) for number in four_numbers(VERSION))
    names = {"VERSION": VERSION, "FOUR_NUMBERS": numbers, "SOURCE": source.resolve(), "OUT": target.resolve()}
    defined = [f"-D{name}={value}" for name, value in names.items()]
    return [compiler, "-WX", "-V2", *defined, str(ROOT / "packaging" / "windows" / "hone.nsi")]


def main(arguments: list[str]) -> int:
    """Make it; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", type=Path, default=ROOT / "dist" / "hone")
    parser.add_argument("--target", type=Path, default=ROOT / "dist" / f"hone-{VERSION}-windows-x64.exe")
    asked = parser.parse_args(arguments)
    missing = [name for name in PROGRAMS if not (asked.source / name).is_file()]
    if missing:
        print(
            f"{asked.source} holds no {' and no '.join(missing)}: run start.py bundle on Windows first.",
            file=sys.stderr,
        )
        return 1
    compiler = makensis()
    if compiler is None:
        print(
            "makensis isn't there: install NSIS 3 (winget install NSIS.NSIS; apt-get install nsis).",
            file=sys.stderr,
        )
        return 1
    asked.target.parent.mkdir(parents=True, exist_ok=True)
    status = subprocess.run(command(compiler, asked.source, asked.target), check=False).returncode
    if status == 0:
        print(f"{asked.target}: {asked.target.stat().st_size / 1e6:,.0f} MB")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
