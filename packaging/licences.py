"""Gather the licences and notices of everything in the bundle, as hone.spec found it.

Python's packages carry theirs in their .dist-info folder; what came from the Linux that built the bundle has them in
/usr/share/doc. Where a package names its licence and brings no text of it, what it says of itself goes along.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

FOLDER = "licences"
"""Its name in the bundle."""

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ROOT / "packaging" / "licence_texts"
"""The GNU licences, which Qt refers to and PySide6 doesn't bring."""

IS_LICENCE = re.compile(r"(^|[-_.])(licen[cs]es?|copying|notices?|copyright|authors)([-_.]|$)", re.IGNORECASE)
BUILD_TOOLS = ("pyinstaller",)
"""Their start-up code is in every bundle; its licence allows that."""


class Shipped(NamedTuple):
    """One thing in the bundle that is somebody else's, and the files that say under which terms."""

    name: str
    version: str
    licence: str
    home: str
    files: tuple[Path, ...]


def collect(
    folder: Path, modules: Iterable[str], files: Sequence[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """Write everything into `folder` and return what PyInstaller is to put into the bundle.

    Args:
        folder: A folder for this alone; it is made anew.
        modules: Full names of the Python modules in the bundle.
        files: Place in the bundle and place on this computer, of every other file.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(TEXTS, folder)
    shutil.copyfile(ROOT / "LICENSE", folder / "Apache-2.0.txt")
    tops = {name.partition(".")[0] for name in modules}
    tops |= {place.replace("\\", "/").partition("/")[0].partition(".")[0] for place, _ in files}
    found = [python(), *distributions(tops), *system_packages(source for _, source in files)]
    for one in found:
        _copy(one, folder / f"{one.name}-{one.version}")
    (folder / "README.txt").write_text(overview(found), encoding="utf-8")
    return [
        (f"{FOLDER}/{path.relative_to(folder).as_posix()}", str(path), "DATA")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]


def distributions(modules: set[str]) -> list[Shipped]:
    """The Python packages that hold these top-level modules, by name."""
    holders = metadata.packages_distributions()
    names = {name for module in modules for name in holders.get(module, ())} | set(BUILD_TOOLS)
    found = {}
    for name in names:
        try:
            one = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if one.metadata["Name"].lower() != "hone":
            found[one.metadata["Name"].lower()] = _of(one)
    return [found[name] for name in sorted(found)]


def _of(one: metadata.Distribution) -> Shipped:
    said = one.metadata
    files = [
        Path(str(one.locate_file(file)))
        for file in one.files or ()
        if ".dist-info" in str(file) and IS_LICENCE.search(file.name)
    ]
    kept = [file for file in files if file.is_file()]
    if not kept:
        kept = [Path(str(one.locate_file(file))) for file in one.files or () if file.name == "METADATA"][:1]
    classifiers = [text for text in said.get_all("Classifier") or () if text.startswith("License ::")]
    told = said.get("License-Expression") or said.get("License") or ""
    if not told or "\n" in told:
        told = classifiers[0].rpartition(" :: ")[2] if classifiers else told.partition("\n")[0]
    homes = [text.partition(", ")[2] for text in said.get_all("Project-URL") or ()]
    return Shipped(
        said["Name"], one.version, told, said.get("Home-page") or next(iter(homes), ""), tuple(kept)
    )


def python() -> Shipped:
    """Python itself, whose interpreter and standard library are in the bundle."""
    texts = [Path(sysconfig.get_paths()["stdlib"]) / "LICENSE.txt", Path(sys.base_prefix) / "LICENSE.txt"]
    found = tuple(path for path in texts if path.is_file())[:1]
    return Shipped("Python", sys.version.partition(" ")[0], "Python-2.0", "https://www.python.org", found)


def system_packages(sources: Iterable[str]) -> list[Shipped]:
    """The Debian packages that shared libraries were taken from; none on other systems."""
    taken = sorted(
        {str(Path(source).resolve()) for source in sources if source.startswith(("/usr/lib", "/lib"))}
    )
    if not taken or shutil.which("dpkg-query") is None:
        return []
    said = _said("dpkg-query", "--search", *taken) + _said(
        "dpkg-query", "--search", *(path.removeprefix("/usr") for path in taken)
    )
    names = sorted({line.partition(":")[0] for line in said.splitlines() if ": /" in line})
    lines = _said(
        "dpkg-query", "--show", "--showformat=${Package}\t${Version}\t${Homepage}\n", *names
    ).splitlines()
    rows = [line.split("\t") for line in lines]
    return [
        Shipped(name, version, "see its copyright file", home, _copyright(name))
        for name, version, home in rows
    ]


def _copyright(package: str) -> tuple[Path, ...]:
    path = Path("/usr/share/doc") / package / "copyright"
    return (path,) if path.is_file() else ()


def _said(*command: str) -> str:
    """What a program says, without what it doesn't find."""
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout


def _copy(one: Shipped, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in one.files:
        shutil.copyfile(file, folder / _flat_name(file))


def _flat_name(file: Path) -> str:
    """A file's name with the folders above it within .dist-info, where a library's own libraries have theirs."""
    within = [number for number, part in enumerate(file.parts) if part.endswith(".dist-info")]
    parts = file.parts[within[-1] + 1 :] if within else file.parts[-1:]
    return "-".join(part for part in parts if part != "licenses")


def overview(found: Sequence[Shipped]) -> str:
    """The page that says what there is."""
    head = (ROOT / "NOTICE").read_text(encoding="utf-8").rstrip()
    rows = "\n".join(
        f"{one.name:28} {one.version:18} {' '.join(one.licence.split())[:100]:40} {one.home}" for one in found
    )
    return (
        f"{head}\n\n\nEverything in this program that is not Hone's own, and its licence\n\n"
        "The texts are in the folders beside this file, by name and version.\n"
        "Apache-2.0.txt, LGPL-3.0.txt and GPL-3.0.txt are here for those that only name them.\n\n"
        f"{rows}\n"
    )
