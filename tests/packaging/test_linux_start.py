"""What starts Hone from a folder or an AppImage says so where the C library is too old."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap.old_systems import OLDEST_GLIBC

SCRIPTS = Path(__file__).resolve().parents[2] / "packaging" / "linux"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="scripts for Linux")


@pytest.fixture
def folder(tmp_path):
    """A bundle's folder with the script in it, and a program that says what it was given."""
    folder = tmp_path / "Zoë’s hone"
    folder.mkdir()
    shutil.copy(SCRIPTS / "start-hone.sh", folder / "start-hone.sh")
    program(folder / "hone", 'echo "started $*"')
    return folder


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def start(script, libc, *arguments, **environment):
    programs = script.parent.parent / "programs"
    program(programs / "getconf", f'[ -n "{libc}" ] && echo "{libc}"')
    return subprocess.run(
        [str(script), *arguments],
        env={"PATH": f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.mark.parametrize("libc", ["glibc 2.34", "glibc 2.41", "glibc 3.0"])
def test_it_starts_the_program_with_its_arguments(folder, libc):
    done = start(folder / "start-hone.sh", libc, "a b.hone")
    assert (done.returncode, done.stdout) == (0, "started a b.hone\n")


@pytest.mark.parametrize(("libc", "words"), [("glibc 2.31", "has glibc 2.31"), ("", "another C library")])
def test_an_older_system_is_told(folder, libc, words):
    done = start(folder / "start-hone.sh", libc)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Ubuntu 22.04" in done.stderr


def test_who_has_no_terminal_gets_a_box(folder, tmp_path):
    told = tmp_path / "told"
    os.mkfifo(told)  # reading it waits for the box, which the script doesn't
    program(tmp_path / "programs" / "zenity", f'for last; do :; done; echo "$last" > "{told}"')
    assert start(folder / "start-hone.sh", "glibc 2.17", DISPLAY=":0").returncode == 1
    assert "has glibc 2.17" in told.read_text()


def test_an_appimage_stays_until_what_the_window_left_training_is_done(folder, tmp_path):
    """Its files go when its first process ends; the stand-in for a run reads a pipe until the test closes it."""
    shutil.copy(shutil.which("cat"), folder / "engine")
    os.mkfifo(tmp_path / "pipe")
    program(folder / "hone", f'"$(dirname "$0")/engine" < "{tmp_path}/pipe" > /dev/null 2>&1 &\nexit 7')
    environment = {**os.environ, "APPIMAGE": str(tmp_path / "Hone.AppImage")}
    with subprocess.Popen([str(folder / "start-hone.sh")], env=environment) as process:
        with (tmp_path / "pipe").open("wb"), pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1.5)
        assert process.wait(timeout=30) == 7


def test_it_names_the_version_that_the_set_up_names():
    text = (SCRIPTS / "start-hone.sh").read_text(encoding="utf-8")
    assert f"oldest={OLDEST_GLIBC[1]} " in text


@pytest.mark.skipif(not (SCRIPTS / "hone.desktop").is_file(), reason="comes with the bundle for Linux")
def test_an_appimage_has_what_the_format_asks_for_and_starts(folder, tmp_path):
    packer = tmp_path / "programs" / "appimagetool"
    program(packer, f'cp -a "$2" "{tmp_path}/kept"; touch "$3"')
    image = tmp_path / "Hone.AppImage"
    subprocess.run(
        [str(SCRIPTS / "make_appimage.sh"), str(folder), str(image)],
        env={**os.environ, "APPIMAGETOOL": str(packer)},
        check=True,
    )
    kept = tmp_path / "kept"
    assert os.access(image, os.X_OK)
    assert {"AppRun", "hone.desktop", "hone.png", ".DirIcon"} <= {path.name for path in kept.iterdir()}
    assert start(kept / "AppRun", "glibc 2.36", "--selftest").stdout == "started --selftest\n"
