"""What tries a bundle out, without one: the home it is given, what is told, a package put in place."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from bootstrap import debian, mishaps, smoke
from bootstrap.errors import SetupError
from bootstrap.mishaps import Case, NotTriedError

ROOT = Path(__file__).resolve().parents[2]
SOCKET_OF_TORCH = "torch-shm-dir-XXXXXX/manager.sock"
LONGEST_OF_A_MAC = 103
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="a folder /tmp, and rights of POSIX")
needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg is Debian's")


@needs_posix
def test_a_mac_s_sockets_have_room_in_the_folder_for_temporary_files(tmp_path, monkeypatch):
    usual = tmp_path / "var/folders/vq" / ("x" * 30) / "T"
    usual.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(usual))
    monkeypatch.setattr(sys, "platform", "darwin")
    with smoke.somebody(is_us=True) as person:
        place = person.environ["TMPDIR"]
        assert " " in place
        assert not place.isascii()
        assert len(os.fsencode(f"/private{place}/{SOCKET_OF_TORCH}")) <= LONGEST_OF_A_MAC
        assert Path(place).stat().st_mode & 0o777 == 0o700
    assert not Path(place).exists()


def cannot(person, program):
    raise NotTriedError("that takes root")


@pytest.mark.parametrize(
    ("look", "line", "passes"),
    [
        (lambda person, program: "", "ok", True),
        (lambda person, program: "it said nothing", "FAILED", False),
        (cannot, "not tried", True),
    ],
)
def test_a_mishap_that_was_not_tried_says_so(look, line, passes, tmp_path, capsys):
    assert mishaps.passes(Case("no screen", look), tmp_path) is passes
    assert capsys.readouterr().out.startswith(f"{line} ")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what goes wrong is tried on Linux")
@pytest.mark.parametrize(("lends", "words"), [(False, "takes root"), (True, "takes unshare")])
def test_hiding_libraries_takes_what_not_everybody_has(lends, words, tmp_path, monkeypatch):
    monkeypatch.setattr(mishaps.shutil, "which", lambda name: None)
    with pytest.raises(NotTriedError, match=words):
        mishaps.no_libraries(smoke.Person(tmp_path, {}, lends), tmp_path / "hone")


@pytest.fixture
def package(tmp_path):
    """A .deb of a bundle that holds next to nothing."""
    folder = tmp_path / "dist" / "hone"
    (folder / "_internal").mkdir(parents=True)
    (folder / "hone").write_text("#!/bin/sh\n")
    (folder / "hone").chmod(0o755)
    for name in ("packaging/linux", "packaging/icons", "resources/icons"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copyfile(ROOT / "NOTICE", tmp_path / "NOTICE")

    def control(size):
        return debian.control_text("0.1.0", "x86_64", size, ["libc6 (>= 2.34)", "libegl1"])

    return debian.build(tmp_path, folder, tmp_path / "hone.deb", control)


@needs_dpkg
def test_a_package_is_installed_by_dpkg_and_removed_with_all_of_it(package, tmp_path):
    root = tmp_path / "scratch"
    program = smoke.install_package(package, root)
    assert program == root / "opt/hone/hone"
    assert os.access(program, os.X_OK)
    assert (root / "usr/share/applications/hone.desktop").is_file()
    smoke.remove_package(root)
    assert not program.exists()


@needs_dpkg
def test_what_a_package_leaves_is_told(package, tmp_path):
    root = tmp_path / "scratch"
    program = smoke.install_package(package, root)
    (program.parent / "of nobody").touch()
    with pytest.raises(SetupError, match=r"this is left: .*of nobody"):
        smoke.remove_package(root)


@needs_dpkg
def test_a_package_that_is_none_is_told_in_dpkg_s_words(tmp_path):
    broken = tmp_path / "hone.deb"
    broken.write_bytes(b"no archive")
    with pytest.raises(SetupError, match=r"dpkg --install .*hone\.deb failed and said:\ndpkg-deb: error"):
        smoke.install_package(broken, tmp_path / "scratch")
