"""What tries a bundle out: in use where HONE_PROGRAM names one, else its home, its judgement and its packages."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from bootstrap import mishaps, smoke
from bootstrap.errors import SetupError
from bootstrap.mishaps import Case, NotTriedError
from bootstrap.smoke import Done, Person
from tests.sentences import messages

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("HONE_PROGRAM")
SOCKET_OF_TORCH = "torch-shm-dir-XXXXXX/manager.sock"
LONGEST_OF_A_MAC = 103
LINUX = sys.platform.startswith("linux")
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="shells and rights of POSIX")


@pytest.mark.skipif(not PROGRAM, reason="a built program, for want of HONE_PROGRAM")
def test_a_built_program_in_use():
    smoke.run(Path(str(PROGRAM)).absolute(), ROOT)


def test_the_steps_that_take_seconds_work_with_this_checkout_s_own_program(capsys):
    """So that it is seen at once where an answer is no longer what building a program waits for."""
    with smoke.somebody(is_us=True) as person:
        smoke.write_data(person.home, ROOT)
        cheap = [step for step in smoke.steps(person.home, smoke.version(ROOT)) if step.is_cheap]
        failed = [
            step.name
            for step in cheap
            if not smoke.passes(person, Path(sys.executable).with_name("hone"), step)
        ]
    assert failed == [], capsys.readouterr().out
    assert len(cheap) == 4


@needs_posix
def test_each_step_that_fails_is_named(tmp_path, capsys):
    program = tmp_path / "hone"
    version = smoke.version(ROOT)
    program.write_text(f"#!/bin/sh\ncase $1 in --version) echo hone {version};; *) exit 3;; esac\n")
    program.chmod(0o755)
    with smoke.somebody(is_us=True) as person, pytest.raises(SetupError, match="the window is painted"):
        smoke.use(person, program, ROOT)
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines() if " s  " in line]
    assert words == ["ok"] + ["FAILED"] * len(smoke.steps(tmp_path, ""))


@pytest.mark.skipif(not LINUX, reason="a home's variables differ")
def test_a_new_person_has_a_home_and_none_of_our_variables(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/ours")
    monkeypatch.setenv("HONE_HOME", "/ours")
    with smoke.somebody(is_us=True) as person:
        assert not {"PYTHONPATH", "HONE_HOME"} & set(person.environ)
        assert person.environ["HOME"] == str(person.home)
        assert " " in person.home.name
    assert not person.home.exists()


@needs_posix
def test_paths_of_sockets_fit_in_a_mac_s_folder_for_temporary_files(tmp_path, monkeypatch):
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


@needs_posix
def test_a_program_that_does_not_start_is_an_error(tmp_path):
    with pytest.raises(SetupError, match="doesn't start"):
        Person(tmp_path, dict(os.environ), lends=False).run([tmp_path / "nothing"])


@needs_posix
def test_a_folder_is_read_only_for_a_while(tmp_path):
    (program := tmp_path / "hone").touch(0o700)
    with smoke.read_only(tmp_path):
        assert program.stat().st_mode & 0o777 == 0o500
    assert program.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("done", "words"),
    [
        (Done(1, "There is no screen here"), ""),
        (Done(0, "There is no screen here"), "ended with 0, not 1"),
        (Done(1, ""), "never said"),
        (Done(1, "no screen\nTraceback (most recent call last):"), "a traceback"),
    ],
)
def test_a_mishap_is_judged_by_status_and_words(done, words):
    judgement = smoke.judged(done, 1, "screen")
    assert words in judgement
    assert bool(judgement) == bool(words)


def test_what_mishaps_wait_for_is_what_hone_says():
    said = {sentence for _file, _line, sentences in messages() for sentence in sentences}
    assert [words for words in mishaps.SENTENCES if sum(words in sentence for sentence in said) != 1] == []


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
def test_a_mishap_that_was_not_tried_is_no_failure(look, line, passes, tmp_path, capsys):
    assert mishaps.passes(Case("no screen", look), tmp_path) is passes
    assert capsys.readouterr().out.startswith(f"{line} ")


@pytest.mark.skipif(not LINUX, reason="mishaps are tried on Linux")
@pytest.mark.parametrize(("lends", "words"), [(False, "takes root"), (True, "takes unshare")])
def test_hiding_libraries_takes_root_and_unshare(lends, words, tmp_path, monkeypatch):
    monkeypatch.setattr(mishaps.shutil, "which", lambda name: None)
    with pytest.raises(NotTriedError, match=words):
        mishaps.no_libraries(Person(tmp_path, {}, lends), tmp_path / "hone")


@pytest.mark.skipif(not LINUX, reason="mishaps are tried on Linux")
def test_libraries_are_not_hidden_where_there_are_no_mounts_of_ones_own(tmp_path, monkeypatch):
    """As in a chroot, where unshare says “Invalid argument”."""
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\nexit 1\n")
    unshare.chmod(0o755)
    (tmp_path / "ldconfig").write_text(
        "#!/bin/sh\necho 'libEGL.so.1 (libc6,x86-64) => /usr/lib/libEGL.so.1'\n"
    )
    (tmp_path / "ldconfig").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(NotTriedError, match="chroot"):
        mishaps.no_libraries(Person(tmp_path, dict(os.environ), lends=True), tmp_path / "hone")


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="packages of Debian, for want of dpkg")
def test_a_broken_package_is_refused_in_dpkg_s_words(tmp_path):
    broken = tmp_path / "hone.deb"
    broken.write_bytes(b"no archive")
    with pytest.raises(SetupError, match=r"dpkg --install .*hone\.deb failed and said:\ndpkg-deb: error"):
        smoke.install_package(broken, tmp_path / "scratch")
