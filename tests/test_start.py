"""start.py, up to where it would download something."""

import functools
import os
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bootstrap import checks, environment, graphics, main, pythons, system_libraries
from bootstrap.environment import (
    Environment,
    Stamp,
    hash_of_inputs,
    read_stamp,
    set_up,
    write_stamp,
)
from bootstrap.errors import SetupError
from bootstrap.installer import Installer, explain
from bootstrap.pythons import Facts
from bootstrap.system_libraries import ALWAYS, ON_WAYLAND, ON_X11
from core.base import uv

ENSURE, EXPLAIN = system_libraries.ensure, system_libraries.explain
ROOT = Path(__file__).resolve().parents[1]
LINUX = Facts((3, 11), is_64_bit=True, machine="x86_64")
needs_scripts = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in programs are shell scripts")


@pytest.fixture
def checkout(tmp_path):
    """A checkout in which everything has been installed."""
    (tmp_path / "packaging").mkdir()
    (tmp_path / "packaging" / "constraints.txt").write_text("torch==2.13.0\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    checkout = Environment(tmp_path)
    Path(checkout.python).parent.mkdir(parents=True)
    Path(checkout.python).touch()
    write_stamp(checkout.folder, Stamp(hash_of_inputs(tmp_path), frozenset({"test"})))
    return checkout


@pytest.fixture
def started(checkout, monkeypatch):
    """Runs start.py in that checkout, with this Python and all system libraries."""
    monkeypatch.setattr(main, "ROOT", checkout.root)
    monkeypatch.setattr(pythons, "better_python", lambda _installer: "")
    monkeypatch.setattr(system_libraries, "ensure", lambda *_: None)
    return main.main


def put(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def script(checkout, name, text):
    put(Path(checkout.program(name)), text)


@pytest.mark.parametrize(
    ("facts", "system", "apple_chip", "words"),
    [
        *((LINUX._replace(version=(3, minor)), "linux", False, "") for minor in (11, 12, 13, 14)),
        (LINUX._replace(version=(3, 10)), "linux", False, "Python 3.10"),
        (LINUX._replace(version=(3, 15)), "linux", False, "3.11 to 3.14"),
        (LINUX._replace(version=(2, 7)), "linux", False, "Python 2.7"),
        (LINUX._replace(is_64_bit=False, machine="x86"), "win32", False, "32-bit"),
        (LINUX._replace(machine="ARM64"), "win32", False, "Windows on Arm"),
        (LINUX, "darwin", True, "arm64 Python"),
        (LINUX, "darwin", False, "Intel processor"),
    ],
)
def test_an_unsuitable_python_is_refused_with_a_reason(facts, system, apple_chip, words):
    reason = pythons.why_not(facts, system, apple_chip)
    assert words in reason
    assert bool(reason) == bool(words)


class FakeInstaller:
    """Stands in for uv: keeps what it is told; with `answers`, by the second word, it fails for all other words."""

    def __init__(self, **answers):
        self.calls, self._answers = [], answers

    def __call__(self, *arguments):
        self.calls.append(arguments)
        if self._answers and arguments[1] not in self._answers:
            raise SetupError("There is none.")
        return self._answers.get(arguments[1], "")


OLD = LINUX._replace(version=(3, 9))


def test_another_python_is_taken_where_the_version_is_wrong(monkeypatch):
    installer = FakeInstaller(find="/usr/bin/python3.13")
    monkeypatch.setattr(pythons, "here", lambda: LINUX)
    assert pythons.better_python(installer) == ""
    assert installer.calls == []
    monkeypatch.setattr(pythons, "here", lambda: OLD)
    assert pythons.better_python(installer) == "/usr/bin/python3.13"


@pytest.mark.parametrize(
    ("facts", "calls", "reason"),
    [(OLD, ["find", "install", "find"], "There is none."), (OLD._replace(is_64_bit=False), [], "32-bit")],
)
def test_without_another_python_it_is_said_what_to_install(facts, calls, reason, monkeypatch):
    installer = FakeInstaller(install="")
    monkeypatch.setattr(pythons, "here", lambda: facts)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(SetupError, match=f"{reason}(.|\n)*Install one from your system"):
        pythons.better_python(installer)
    assert [call[1] for call in installer.calls] == calls


def test_the_versions_of_python_are_those_of_the_project():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'requires-python = "{pythons.RANGE}"' in text


@pytest.fixture
def installer(monkeypatch):
    """Stands in for uv where there is no card and PyTorch's index is in reach."""
    monkeypatch.setattr(graphics, "torch_backend", lambda for_bundle: "cpu" if for_bundle else "auto")
    monkeypatch.setattr(graphics, "DISK_NEEDED_WITH_CUDA", 1)
    return FakeInstaller()


def test_nothing_is_done_if_nothing_changed(checkout, installer, capsys):
    assert set_up(checkout.root, [], installer) == checkout
    assert set_up(checkout.root, ["test"], installer) == checkout
    assert installer.calls == []
    assert capsys.readouterr().out == ""


def test_another_extra_is_added_to_what_is_there(checkout, installer):
    set_up(checkout.root, ["bundle"], installer)
    (call,) = installer.calls
    assert call[:4] == ("pip", "install", "--python", checkout.python)
    assert call[call.index("--torch-backend") + 1] == "cpu", "programs carry the build for the CPU"
    assert call[-2:] == ("--editable", ".[bundle,test]")
    assert read_stamp(checkout.folder).extras == {"bundle", "test"}


def test_a_changed_pin_a_damaged_stamp_and_a_lost_python_take_a_new_environment(checkout, installer):
    def take_python_away():
        Path(checkout.python).unlink()

    stamp = checkout.folder / "hone-setup.json"
    changes = [take_python_away, *(functools.partial(stamp.write_text, text) for text in ("", "{", "{}"))]
    for name in ("pyproject.toml", "packaging/constraints.txt"):
        changes.append(functools.partial((checkout.root / name).write_text, "something else\n"))
    for change in changes:
        Path(checkout.python).touch()
        write_stamp(checkout.folder, Stamp(hash_of_inputs(checkout.root), frozenset()))
        installer.calls.clear()
        change()
        set_up(checkout.root, [], installer)
        made, filled = installer.calls
        assert made == ("venv", "--clear", "--python", sys.executable, str(checkout.folder))
        assert filled[-2:] == ("--editable", ".")
        assert read_stamp(checkout.folder) == Stamp(hash_of_inputs(checkout.root), frozenset())


def test_an_interrupted_set_up_is_done_again(checkout, installer):
    def fail(*_arguments):
        raise SetupError("no network")

    with pytest.raises(SetupError):
        set_up(checkout.root, ["bundle"], fail)
    set_up(checkout.root, ["test"], installer)
    assert [call[0] for call in installer.calls] == ["venv", "pip"]


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("error: failed to write\n  cause: No space left on device (os error 28)", "disk is full. Free some"),
        ("warning: retrying, timed out\nerror: No solution found when resolving dependencies", "no build"),
        ("error: failed to write\n  cause: Permission denied (os error 13)", "belongs to you"),
        ("error: something new", "something new"),
    ],
)
def test_failures_of_uv_become_sentences(output, words):
    text = explain(output, Path("setup.log"))
    assert words in text
    assert "setup.log" in text


@needs_scripts
def test_uv_is_fetched_for_the_checkout_and_what_it_says_is_shown_and_kept(checkout, capfd):
    build = checkout.root / "build"
    build.mkdir()
    script = "echo 'Downloading torch (500MiB)' >&2; echo ' + torch==2.13.0'; echo \"$*\"; exit $HONE_TEST"
    put(build / f"{uv.VERSION}-{uv.PROGRAM}", script)
    (checkout.root / "core").symlink_to(ROOT / "core")
    (checkout.root / "resources").symlink_to(ROOT / "resources")
    run = Installer(checkout.root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HONE_TEST", "0")
        assert run("pip", "install") == "pip install"
        patch.setenv("HONE_TEST", "2")
        with pytest.raises(SetupError, match=r"weren't installed(.|\n)* \+ torch==2.13.0"):
            run("pip", "install")
    assert capfd.readouterr().out.splitlines() == ["Downloading torch (500MiB)"] * 2
    assert (build / "setup.log").read_text().count(" + torch==2.13.0\n") == 2


def test_a_checkout_that_cannot_be_written_to_is_said(checkout):
    (checkout.root / "build").write_text("a file")
    with pytest.raises(SetupError, match="weren't installed"):
        Installer(checkout.root)("pip", "install")


@pytest.mark.parametrize(
    ("manager", "ending"),
    [
        ("apt-get", "sudo apt-get install libegl1 libxcb-cursor0"),
        ("dnf", "sudo dnf install 'libEGL.so.1()(64bit)' 'libxcb-cursor.so.0()(64bit)'"),
        ("", "then start again."),
    ],
)
def test_missing_libraries_are_named_with_the_command_that_installs_them(manager, ending):
    def load(name):
        if name in ("libEGL.so.1", "libxcb-cursor.so.0"):
            raise OSError(name)

    wanted = system_libraries.wanted_for(["xcb"], load)
    lacking = system_libraries.missing(wanted, load)
    assert lacking == ["libEGL.so.1", "libxcb-cursor.so.0"]
    text = system_libraries.explain(lacking, wanted, which=lambda program: program == manager or None)
    assert "libEGL.so.1, libxcb-cursor.so.0" in text
    assert text.endswith(ending)


@pytest.mark.parametrize(
    ("platforms", "absent", "more"),
    [
        ([], "libX11-xcb.so.1", {}),
        (["offscreen"], "libX11-xcb.so.1", {}),
        (["xcb"], "libX11-xcb.so.1", ON_X11),
        (["wayland", "xcb"], "libX11-xcb.so.1", ON_WAYLAND),
        (["wayland", "xcb"], "libwayland-cursor.so.0", ON_X11),
        (["wayland", "xcb"], "lib", ON_WAYLAND),
    ],
)
def test_only_the_libraries_of_one_platform_are_needed(platforms, absent, more):
    def load(name):
        if name.startswith(absent):
            raise OSError(name)

    assert system_libraries.wanted_for(platforms, load) == ALWAYS | more


@pytest.mark.parametrize(
    ("system", "environ", "platforms", "has_display"),
    [
        ("linux", {}, (), False),
        ("linux", {"DISPLAY": ""}, (), False),
        ("linux", {"DISPLAY": ":0"}, ("xcb",), True),
        ("linux", {"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}, ("wayland", "xcb"), True),
        ("linux", {"DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen"}, ("offscreen",), True),
        ("linux", {"QT_QPA_PLATFORM": "xcb:nograb;wayland"}, ("xcb", "wayland"), True),
        ("darwin", {}, (), True),
        ("win32", {}, (), True),
    ],
)
def test_the_display_is_searched_for_on_linux_as_qt_would(system, environ, platforms, has_display):
    assert main.qt_platforms(environ) == platforms
    assert (main.why_no_window(system, environ) == "") is has_display


@needs_scripts
def test_without_a_display_the_first_run_trains_in_the_terminal(checkout, monkeypatch, capfd):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    script(checkout, "hone", 'echo "started: $1 $(basename $2)"; exit 1')
    assert main.open_hone(checkout) == 1
    output = capfd.readouterr().out
    assert "no display" in output
    assert "started: train digits.hone" in output


@pytest.mark.parametrize(
    ("system", "capability", "in_reach", "backend"),
    [
        ("win32", None, True, "cpu"),
        ("win32", (8, 9), True, "auto"),
        ("win32", (6, 1), True, "cu126"),
        ("linux", None, True, "cpu"),
        ("linux", (8, 9), True, "auto"),
        ("linux", None, False, ""),
        ("linux", (8, 9), False, ""),
        ("linux", (6, 1), False, "cu126"),
        ("darwin", None, True, ""),
    ],
)
def test_the_build_of_torch_fits_the_card(system, capability, in_reach, backend, monkeypatch):
    monkeypatch.delenv("UV_TORCH_BACKEND", raising=False)
    monkeypatch.setattr(graphics, "compute_capability", lambda: capability)
    monkeypatch.setattr(graphics, "reaches", lambda _address: in_reach)
    assert graphics.torch_backend(False, system) == backend
    for_bundles = "cpu" if in_reach and system != "darwin" else ""
    assert graphics.torch_backend(True, system) == for_bundles, "a card is not asked about"
    monkeypatch.setenv("UV_TORCH_BACKEND", "xpu")
    assert graphics.torch_backend(False, system) == "xpu"


def test_an_index_out_of_reach_is_noticed(tmp_path):
    assert graphics.reaches(tmp_path.as_uri() + "/") is False
    (tmp_path / "index.html").touch()
    assert graphics.reaches((tmp_path / "index.html").as_uri())


@pytest.mark.parametrize(
    ("system", "backend", "gigabytes"),
    [("darwin", "", 3), ("linux", "", 8), ("linux", "auto", 8), ("linux", "cpu", 3), ("win32", "cu126", 8)],
)
def test_cuda_needs_more_space(system, backend, gigabytes):
    assert graphics.disk_needed(backend, system) == gigabytes * 10**9


def test_a_full_disk_is_refused_before_anything_is_made(checkout, installer, monkeypatch):
    monkeypatch.setattr(graphics, "DISK_NEEDED_WITH_CUDA", 8 * 10**9)
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda path: SimpleNamespace(free=7 * 10**9))
    shutil.rmtree(checkout.folder)
    with pytest.raises(SetupError, match=r"Only 7.0 GB (.|\n)*about 8 GB"):
        set_up(checkout.root, [], installer)
    assert installer.calls == []
    checkout.folder.mkdir()
    set_up(checkout.root, [], installer)
    assert installer.calls, "an earlier one makes room"


@pytest.fixture
def checked(checkout):
    """A checkout all of whose checks pass."""
    for check in checks.all_checks():
        script(checkout, check.command[0], f"echo ran {check.command[0]}; exit 0")
    return checkout


@needs_scripts
def test_all_checks_run_and_one_failure_is_enough(checked, capfd):
    assert checks.run_all(checked) == 0
    script(checked, "mypy", "echo a type is wrong; exit 1")
    assert checks.run_all(checked) == 1
    output = capfd.readouterr().out
    assert "a type is wrong" in output
    assert output.rstrip().endswith("1 of 5 checks failed: types (mypy)")
    assert output.count("ran pytest") == 2


OF_SSHD, OF_A_CARD = "other computers (58), for want of openssh-server", "CUDA (9), for want of an NVIDIA GPU"
OF_QT = "the window (99 files), for want of libegl1, libgl1"
PASSED, NOT_ENOUGH = "All 5 checks passed", "All 5 checks passed, which isn't enough where CI is set"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="start.py installs packages on Linux only")
@pytest.mark.parametrize(
    ("left_out", "ci", "sentence"),
    [
        ([OF_SSHD], "", f"{PASSED}; not tried: {OF_SSHD}."),
        ([OF_SSHD, OF_A_CARD], "", f"{PASSED}; not tried: {OF_SSHD}; {OF_A_CARD}."),
        ([OF_A_CARD], "true", f"{PASSED}; not tried: {OF_A_CARD}."),
        ([OF_QT], "true", f"{NOT_ENOUGH}; not tried: {OF_QT}."),
        ([OF_A_CARD, OF_SSHD], "1", f"{NOT_ENOUGH}; not tried: {OF_A_CARD}; {OF_SSHD}."),
        ([], "true", f"{PASSED}."),
    ],
)
def test_what_was_not_tried_is_said_at_the_end_and_fails_ci_where_a_package_is_missing(
    left_out, ci, sentence, checked, capfd
):
    notes = "".join(f"{line}\\n" for line in left_out)
    script(checked, "pytest", f"printf '{notes}' > \"$HONE_NOT_TRIED\"")
    assert checks.run_all(checked, {**os.environ, "CI": ci}) == int(sentence.startswith(NOT_ENOUGH))
    *output, last = capfd.readouterr().out.splitlines()
    assert last == sentence
    assert [line.removeprefix("not tried: ") for line in output if "for want of" in line] == left_out


def test_skips_are_counted_by_their_reason_those_of_whole_files_apart():
    sshd, qt = "other computers, for want of openssh-server", "the window, for want of libegl1"
    skips = [("on Windows only", False), *[(sshd, False)] * 3, (qt, False), (qt, True), (qt, True)]
    assert checks.counted(skips) == [
        "other computers (3), for want of openssh-server",
        "the window (2 files), for want of libegl1",
        "on Windows only (1)",
        "the window (1), for want of libegl1",
    ]


@pytest.mark.parametrize(
    ("prefix", "name", "wanted"),
    [
        ("/usr", "libpython3.11.so.1.0", {"libpython3.11.so.1.0": "libpython3.11"}),
        ("/opt/python", "libpython3.11.so.1.0", {}),
        ("/usr", "libpython3.11.a", {}),
        ("/usr", None, {}),
    ],
)
def test_a_bundle_needs_the_library_of_the_system_s_python(prefix, name, wanted, monkeypatch):
    monkeypatch.setattr(system_libraries.sysconfig, "get_config_var", lambda _name: name)
    assert system_libraries.of_python(prefix) == wanted


def test_the_readme_names_all_that_is_taken_from_a_system_before_the_commands_that_take_it():
    start, _, test = (ROOT / "README.md").read_text(encoding="utf-8").partition("python3 start.py test\n")
    lines = [
        set(re.search(r"apt-get install ((?:.*\\\n)*[^`\n]*)", text)[1].replace("\\", " ").split())
        for text in (start, test)
    ]
    window = {*ALWAYS.values(), *ON_X11.values()}
    assert lines == [window, {*system_libraries.FOR_TESTS.values()} - window]


@needs_scripts
def test_tests_go_on_without_what_is_missing(checked, monkeypatch, started, capfd):
    """Where this isn't root: all that is missing stands in one line, and Qt's plugin of pytest isn't loaded."""

    monkeypatch.setattr(system_libraries, "ensure", ENSURE)
    monkeypatch.setattr(system_libraries.apt, "may_install", lambda: False)
    monkeypatch.setattr(system_libraries, "_loads", lambda *_: False)
    monkeypatch.setattr(system_libraries, "find", lambda _program: None)
    monkeypatch.setattr(system_libraries, "explain", functools.partial(EXPLAIN, which=str))
    script(checked, "pytest", 'echo "ran pytest $*"')
    assert started(["test", "tests/core"]) == 0
    output = capfd.readouterr().out
    (line,) = [line for line in output.splitlines() if "apt-get install" in line]
    assert set(line.split()[3:]) == {*system_libraries.FOR_TESTS.values()}
    assert "The rest is tested without it." in output
    assert "ran pytest -p no:pytest-qt tests/core" in output


def test_tests_run_in_two_processes_if_there_are_cores_for_it():
    assert "-n" not in checks.tests(1).command
    for cores in (2, 16):
        command = checks.tests(cores).command
        assert command[command.index("-n") + 1] == "2"
        assert "-rs" in command, "what is left out is listed with its place"
        assert command[command.index("--dist") + 1] == "loadfile"  # fixtures of a module are made once


@needs_scripts
@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (["test", "tests/gui", "-k", "two words"], "pytest tests/gui -k two words"),
        (["bench", "events", "--quick"], "python -P -m tests.performance events --quick"),
    ],
)
def test_arguments_reach_the_program_and_its_status_comes_back(  # noqa: PLR0917
    checkout, started, capfd, monkeypatch, arguments, call
):
    monkeypatch.setattr(system_libraries, "missing", lambda _wanted: [])
    for program in ("ruff", "mypy", "lint-imports", "pytest", "python"):
        script(checkout, program, 'echo "ran $(basename $0) $*"; exit 1')
    assert started(arguments) == 1
    assert [line for line in capfd.readouterr().out.splitlines() if line.startswith("ran ")] == [
        f"ran {call}"
    ]


@pytest.mark.parametrize("arguments", [["setup", "tests/gui"], ["run", "-k"], ["instal"]])
def test_unknown_commands_and_arguments_are_refused(arguments):
    with pytest.raises(SystemExit, match="2"):
        main.main(arguments)


def test_a_failure_ends_in_a_sentence(monkeypatch, capsys):
    def no_python(_installer):
        raise SetupError("There is no Python here. Install one.")

    monkeypatch.setattr(pythons, "better_python", no_python)
    assert main.main(["setup"]) == 1
    assert capsys.readouterr().err == "\nThere is no Python here. Install one.\n"
