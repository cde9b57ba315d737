"""The installer at work, under Wine: what it writes, what an update takes away, and what the uninstaller leaves."""

import os
import shutil
import subprocess

import pytest

from windows import make_installer

WINE = shutil.which("wine64") or shutil.which("/usr/lib/wine/wine64")
FOR_WINE = "-XTarget amd64-unicode"
"""Debian's Wine without its 32-bit half starts only such an installer; the one that is published has 32 bits."""

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
