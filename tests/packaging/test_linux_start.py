"""The script that starts Hone from a folder or an AppImage, and says if the C library is too old."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap import linux
from bootstrap.errors import SetupError

SCRIPTS = Path(__file__).resolve().parents[2] / "packaging" / "linux"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="scripts for Linux")


@pytest.fixture
def folder(tmp_path):
    """A bundle's folder with the script in it, and a program that prints its arguments."""
    folder = tmp_path / "Zoë’s hone"
    (folder / "_internal").mkdir(parents=True)
    (folder / "_internal" / "libnew.so").write_bytes(b"\x7fELF GLIBC_2.17\0 GLIBC_2.36\0")
    program(folder / "hone", 'echo "started $*"')
    linux.put_into(folder, SCRIPTS / "start-hone.sh")
    return folder


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, **more)


def start(script, libc, *arguments, **environment):
    programs = script.parent.parent / "programs"
    program(programs / "getconf", f'[ -n "{libc}" ] && echo "{libc}"')
    path = f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin"
    return run(script, *arguments, env={"PATH": path, **environment})


@pytest.mark.parametrize("libc", ["glibc 2.36", "glibc 2.41", "glibc 3.0"])
def test_it_starts_the_program_with_its_arguments(folder, libc):
    done = start(folder / "start-hone.sh", libc, "a b.hone")
    assert (done.returncode, done.stdout) == (0, "started a b.hone\n")


@pytest.mark.parametrize("named", ["{folder}/start-hone.sh", "start-hone.sh"])
def test_it_starts_without_a_path(folder, named):
    done = run("/bin/sh", named.format(folder=folder), "a.hone", cwd=folder, env={"PATH": ""})
    assert (done.returncode, done.stdout, done.stderr) == (0, "started a.hone\n", "")


@pytest.mark.parametrize(("libc", "words"), [("glibc 2.35", "has glibc 2.35"), ("", "another C library")])
def test_an_older_system_is_refused_with_the_names_of_newer_ones(folder, libc, words):
    done = start(folder / "start-hone.sh", libc)
    assert done.returncode == 1
    assert words in done.stderr
    assert "needs glibc 2.36" in done.stderr
    assert "Ubuntu 24.04, Debian 12, Fedora 37, RHEL 10 and newer" in done.stderr


def test_without_a_terminal_a_box_is_shown_and_not_waited_for(folder, tmp_path):
    shown = tmp_path / "shown"
    os.mkfifo(shown)
    program(tmp_path / "programs" / "zenity", f'for last; do :; done; echo "$last" > "{shown}"')
    assert start(folder / "start-hone.sh", "glibc 2.17", DISPLAY=":0").returncode == 1
    assert "has glibc 2.17" in shown.read_text()


def test_a_box_of_xmessage_gets_short_lines(folder, tmp_path):
    shown, programs = tmp_path / "shown", tmp_path / "programs"
    os.mkfifo(shown)
    program(programs / "xmessage", f'echo "$2" > "{shown}"')
    program(programs / "getconf", "echo glibc 2.17")
    for name in ("readlink", "fold"):
        (programs / name).symlink_to(shutil.which(name))
    run(folder / "start-hone.sh", env={"PATH": str(programs), "DISPLAY": ":0"})
    lines = shown.read_text().splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 72


def test_an_appimage_stays_until_runs_that_outlive_the_window_are_over(folder, tmp_path):
    """Its files go when its first process ends; the stand-in for a run reads a pipe until the test closes it."""
    shutil.copy(shutil.which("cat"), folder / "engine")
    os.mkfifo(tmp_path / "pipe")
    program(folder / "hone", f'"$(dirname "$0")/engine" < "{tmp_path}/pipe" > /dev/null 2>&1 &\nexit 7')
    environment = {**os.environ, "APPIMAGE": str(tmp_path / "Hone.AppImage")}
    with subprocess.Popen([str(folder / "start-hone.sh")], env=environment) as process:
        with (tmp_path / "pipe").open("wb"), pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        assert process.wait(timeout=30) == 7


def test_an_unknown_c_library_is_refused():
    with pytest.raises(SetupError, match=r"glibc 3\.0"):
        linux.filled("", (3, 0))


def make_appimage(folder, image, **environment):
    return run(SCRIPTS / "make_appimage.sh", folder, image, env={**os.environ, **environment})


def test_an_appimage_has_what_the_format_asks_for_and_starts(folder, tmp_path):
    packer, arguments, kept = (
        tmp_path / "programs" / "appimagetool",
        tmp_path / "arguments",
        tmp_path / "kept",
    )
    program(
        packer,
        f'echo "$*" > "{arguments}"; for last; do folder=$image; image=$last; done\n'
        f'cp -a "$folder" "{kept}"; touch "$image"',
    )
    image = tmp_path / "Hone.AppImage"
    done = make_appimage(folder, image, APPIMAGETOOL=str(packer), APPIMAGE_RUNTIME="the-runtime")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--runtime-file the-runtime " in arguments.read_text()
    assert os.access(image, os.X_OK)
    assert {"AppRun", "hone.desktop", "hone.png", ".DirIcon"} <= {path.name for path in kept.iterdir()}
    assert start(kept / "AppRun", "glibc 2.36", "--version").stdout == "started --version\n"
    assert start(kept / "AppRun", "glibc 2.35").returncode == 1


def test_an_appimage_takes_a_runtime_and_a_packed_bundle(folder, tmp_path):
    assert "APPIMAGE_RUNTIME" in make_appimage(folder, tmp_path / "x").stderr
    (folder / "start-hone.sh").unlink()
    assert "--only pack" in make_appimage(folder, tmp_path / "x", APPIMAGE_RUNTIME="the-runtime").stderr
