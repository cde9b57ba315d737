"""The installer at work, under Wine: what it writes, what an update takes away, and what the uninstaller leaves."""

import os
import shutil
import subprocess

import pytest

from core.engine.hub import account
from windows import make_installer

WINE = shutil.which("wine64") or shutil.which("/usr/lib/wine/wine64")
FOR_WINE = "-XTarget amd64-unicode"
"""Debian's Wine without its 32-bit half starts only such an installer; the one that is published has 32 bits."""

TOKENS = """
Unicode true
SilentInstall silent
RequestExecutionLevel user
OutFile "{out}"
!include "LogicLib.nsh"
Section
    System::Call '*(i 1, i 2) p .r1'
    ${{If}} "{doing}" == "keep"
        System::Call '*(i 0, i 1, w "{name}", p 0, l 0, i 8, i 0, p r1, i 2, i 0, p 0, p 0, w "somebody") p .r0'
        System::Call 'advapi32::CredWriteW(p r0, i 0) i .r2'
    ${{Else}}
        System::Call 'advapi32::CredReadW(w "{name}", i 1, i 0, *p .r0) i .r2'
    ${{EndIf}}
    SetErrorLevel $2
SectionEnd
"""
"""A program that keeps something in the Credential Manager, or sees whether it is there: it ends with 1 then."""

PLACE = "C:\\users\\{}\\AppData\\Local\\Programs\\Hone"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(WINE is None, reason="needs wine64 (apt-get install wine64)"),
    pytest.mark.skipif(make_installer.makensis() is None, reason="needs makensis (apt-get install nsis)"),
]


class Windows:
    """A new Windows of Wine's."""

    def __init__(self, folder):
        self._environment = {
            **os.environ,
            "WINEPREFIX": str(folder),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "mscoree=",
        }
        self.run("wineboot", "-i")
        self._folder = folder

    def run(self, program, *arguments):
        """Runs a program to its end; returns its exit status and what it printed."""
        done = subprocess.run(
            [WINE, str(program), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=300,
        )
        return done.returncode, done.stdout

    @property
    def local(self):
        """The person's %LOCALAPPDATA%."""
        return next(
            path for path in self._folder.glob("drive_c/users/*/AppData/Local") if "Public" not in path.parts
        )

    def value(self, key):
        """What the registry has in a key of the person's; None: no such key."""
        status, said = self.run("reg", "query", f"HKCU\\Software\\{key}", "/ve")
        return said.partition("REG_SZ")[2].strip() if status == 0 else None


@pytest.fixture
def credential(windows, tmp_path):
    """Keeps a credential of a name, or tells whether it is there."""

    def do(doing, name):
        script, program = tmp_path / "script.nsi", tmp_path / f"{doing}.exe"
        script.write_text(TOKENS.format(out=program, doing=doing, name=name), encoding="utf-8")
        subprocess.run([make_installer.makensis(), FOR_WINE, str(script)], check=True, capture_output=True)
        return windows.run(program)[0] == 1

    return do


def written(folder, *names):
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)


def names_in(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def windows(tmp_path_factory):
    return Windows(tmp_path_factory.mktemp("wine"))


@pytest.fixture(scope="module")
def installer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    written(folder / "bundle", *make_installer.PROGRAMS, "_internal/a.dll", "_internal/PySide6/b.txt")
    compiler, *arguments = make_installer.command(
        make_installer.makensis(), folder / "bundle", folder / "hone-installer.exe"
    )
    subprocess.run([compiler, FOR_WINE, *arguments], check=True, capture_output=True)
    return folder / "hone-installer.exe"


def test_an_older_windows_is_refused(windows, installer):
    windows.run("winecfg", "-v", "win7")
    assert windows.run(installer, "/S")[0] == 1
    assert not (windows.local / "Programs" / "Hone").exists()


def test_the_token_for_the_hub_goes_when_hone_is_removed_and_not_before(windows, installer, credential):
    windows.run("winecfg", "-v", "win10")
    names = (account.SERVICE, f"{account.USER}@{account.SERVICE}", "of another program")
    assert all(credential("keep", name) for name in names)
    place = PLACE.format(windows.local.parts[-3])
    assert windows.run(installer, "/S")[0] == 0
    assert all(credential("see", name) for name in names)
    assert windows.run(f"{place}\\uninstall.exe", "/S", f"_?={place}")[0] == 0
    assert [credential("see", name) for name in names] == [False, False, True]


def test_it_installs_updates_and_removes_all_but_what_the_person_made(windows, installer):
    windows.run("winecfg", "-v", "win10")
    assert windows.run(installer, "/S")[0] == 0
    program, own = windows.local / "Programs" / "Hone", windows.local / "Hone"
    installed = {"Hone.exe", "hone-cli.exe", "uninstall.exe", "_internal/a.dll", "_internal/PySide6/b.txt"}
    assert names_in(program) == installed
    place = PLACE.format(windows.local.parts[-3])
    assert windows.value("Classes\\.hone") == "Hone.Run"
    assert windows.value("Classes\\Hone.Run\\shell\\open\\command") == f'"{place}\\Hone.exe" "%1"'
    (link,) = windows.local.parent.rglob("Hone.lnk")
    assert "Start Menu" in link.parts

    written(program, "_internal/of an older version.dll", "of the person.txt")
    assert windows.run(installer, "/S")[0] == 0
    assert names_in(program) == {*installed, "of the person.txt"}

    written(own, "runs/mine/run.toml", "benchmarks/b.json", "cache/old/deep.bin", "settings.json", ".dot")
    assert windows.run(f"{place}\\uninstall.exe", "/S", f"_?={place}")[0] == 0
    assert names_in(program) == {
        "of the person.txt",
        "uninstall.exe",
    }  # which can't delete itself here
    assert names_in(own) == {"runs/mine/run.toml", "benchmarks/b.json"}
    assert not link.exists()
    assert windows.value("Classes\\Hone.Run") is None
    assert windows.value("Classes\\.hone") is None
