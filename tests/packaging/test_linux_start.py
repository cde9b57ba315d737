"""What starts Hone from a folder or an AppImage says so where the C library is too old."""

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
    """A bundle's folder with the script in it, and a program that says what it was given."""
    folder = tmp_path / "Zoë’s hone"
    folder.mkdir()
    (folder / "_internal").mkdir()
    (folder / "_internal" / "libnew.so").write_bytes(b"\x7fELF GLIBC_2.17\0 GLIBC_2.36\0")
    program(folder / "hone", 'echo "started $*"')
    linux.put_into(folder, SCRIPTS / "start-hone.sh")
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


@pytest.mark.parametrize("libc", ["glibc 2.36", "glibc 2.41", "glibc 3.0"])
def test_it_starts_the_program_with_its_arguments(folder, libc):
    done = start(folder / "start-hone.sh", libc, "a b.hone")
    assert (done.returncode, done.stdout) == (0, "started a b.hone\n")


@pytest.mark.parametrize(("libc", "words"), [("glibc 2.35", "has glibc 2.35"), ("", "another C library")])
def test_an_older_system_is_told(folder, libc, words):
    done = start(folder / "start-hone.sh", libc)
    assert done.returncode == 1
    assert words in done.stderr
    assert "needs glibc 2.36" in done.stderr
    assert "Ubuntu 24.04, Debian 12, Fedora 37, RHEL 10 and newer" in done.stderr


@pytest.mark.parametrize("named", ["{folder}/start-hone.sh", "start-hone.sh"])
def test_it_starts_where_path_leads_nowhere(folder, named):
    command = ["/bin/sh", named.format(folder=folder), "a.hone"]
    done = subprocess.run(
        command, cwd=folder, env={"PATH": ""}, capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "started a.hone\n", "")


def test_who_has_no_terminal_gets_a_box(folder, tmp_path):
    told = tmp_path / "told"
    os.mkfifo(told)  # reading it waits for the box, which the script doesn't
    program(tmp_path / "programs" / "zenity", f'for last; do :; done; echo "$last" > "{told}"')
    assert start(folder / "start-hone.sh", "glibc 2.17", DISPLAY=":0").returncode == 1
    assert "has glibc 2.17" in told.read_text()


def test_a_box_of_xmessage_gets_short_lines(folder, tmp_path):
    told, programs = tmp_path / "told", tmp_path / "programs"
    os.mkfifo(told)
    program(programs / "xmessage", f'echo "$2" > "{told}"')
    program(programs / "getconf", "echo glibc 2.17")
    for name in ("readlink", "fold"):
        (programs / name).symlink_to(shutil.which(name))
    command = [str(folder / "start-hone.sh")]
    subprocess.run(command, env={"PATH": str(programs), "DISPLAY": ":0"}, capture_output=True, check=False)
    lines = told.read_text().splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 72


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


@pytest.mark.parametrize(
    ("minor", "names"),
    [
        (34, "Ubuntu 22.04, Debian 12, Fedora 35, RHEL 9"),
        (35, "Ubuntu 22.04, Debian 12, Fedora 36, RHEL 10"),
        (40, "Debian 13, Fedora 41"),
    ],
)
def test_it_names_systems_that_have_what_the_bundle_asks_for(minor, names):
    assert linux.systems_with(minor) == names


def test_nothing_in_it_is_left_to_be_filled_in(folder):
    text = (folder / "start-hone.sh").read_text(encoding="utf-8")
    assert "oldest=36 " in text
    assert "@" not in text.replace('"$@"', "")


def test_a_c_library_that_nobody_has_is_refused():
    with pytest.raises(SetupError, match=r"glibc 3\.0"):
        linux.filled("", (3, 0))


def make_appimage(folder, image, **environment):
    return subprocess.run(
        [str(SCRIPTS / "make_appimage.sh"), str(folder), str(image)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_appimage_has_what_the_format_asks_for_and_starts(folder, tmp_path):
    packer, said = tmp_path / "programs" / "appimagetool", tmp_path / "said"
    program(
        packer,
        f'echo "$*" > "{said}"; for last; do folder=$image; image=$last; done\n'
        f'cp -a "$folder" "{tmp_path}/kept"; touch "$image"',
    )
    image = tmp_path / "Hone.AppImage"
    done = make_appimage(folder, image, APPIMAGETOOL=str(packer), APPIMAGE_RUNTIME="the-runtime")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--runtime-file the-runtime " in said.read_text()
    kept = tmp_path / "kept"
    assert os.access(image, os.X_OK)
    assert {"AppRun", "hone.desktop", "hone.png", ".DirIcon"} <= {path.name for path in kept.iterdir()}
    assert start(kept / "AppRun", "glibc 2.36", "--version").stdout == "started --version\n"
    assert start(kept / "AppRun", "glibc 2.35").returncode == 1


def test_an_appimage_takes_a_runtime_that_is_named_and_a_bundle_that_was_packed(folder, tmp_path):
    assert "APPIMAGE_RUNTIME" in make_appimage(folder, tmp_path / "x").stderr
    (folder / "start-hone.sh").unlink()
    assert "--only pack" in make_appimage(folder, tmp_path / "x", APPIMAGE_RUNTIME="the-runtime").stderr
