"""start.py, up to where it would download something."""

import functools
import io
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bootstrap import checks, environment, graphics, main, pip, pythons, system_libraries
from bootstrap.environment import (
    Environment,
    Stamp,
    hash_of_inputs,
    is_usable,
    read_stamp,
    set_up,
    write_stamp,
)
from bootstrap.errors import SetupError
from bootstrap.pythons import Facts
from bootstrap.system_libraries import ALWAYS, ON_WAYLAND, ON_X11

ENSURE, EXPLAIN = system_libraries.ensure, system_libraries.explain
ROOT = Path(__file__).resolve().parents[1]
LINUX = Facts((3, 11), is_64_bit=True, machine="x86_64")
needs_scripts = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in programs are shell scripts")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
    monkeypatch.setattr(pythons, "better_python", lambda: None)
    monkeypatch.setattr(system_libraries, "ensure", lambda *_: None)
    return main.main


def script(checkout, name, text):
    path = Path(checkout.program(name))
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


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


def test_the_first_suitable_python_is_taken():
    known = {"python3.11": None, "python3.12": LINUX._replace(version=(3, 9)), "python3.13": LINUX}
    commands = iter([["python3.11"], ["python3.12"], ["python3.13"], ["python3.14"]])
    assert pythons.find(commands, lambda command: known[command[0]]) == ["python3.13"]
    assert pythons.find(iter([["python3.11"]]), lambda command: None) is None
    assert pythons.probe([sys.executable]) == pythons.here()


@needs_scripts
@pytest.mark.parametrize("answer", ["", "3 11", "three eleven True x86_64", "Welcome! 3 11 True x86_64"])
def test_a_program_that_answers_something_else_is_no_python(checkout, answer):
    assert pythons.probe([str(script(checkout, "python3.11", f'echo "{answer}"'))]) is None


def test_nothing_is_done_if_nothing_changed(checkout, capsys):
    assert set_up(checkout.root) == checkout
    assert set_up(checkout.root, ["test"]) == checkout
    assert capsys.readouterr().out == ""


def test_a_changed_pin_another_extra_and_a_damaged_stamp_take_a_new_set_up(checkout):
    installed = read_stamp(checkout.folder)
    assert not installed.covers(installed._replace(extras=frozenset({"bundle"})))
    for name in ("pyproject.toml", "packaging/constraints.txt"):
        before = hash_of_inputs(checkout.root)
        (checkout.root / name).write_text("something else\n")
        assert not installed._replace(inputs=before).covers(Stamp(hash_of_inputs(checkout.root), frozenset()))
    for content in ("", "{", '{"inputs": "x"}'):
        (checkout.folder / "hone-setup.json").write_text(content)
        assert read_stamp(checkout.folder) is None


OWN = ".".join(map(str, sys.version_info[:2]))


@needs_scripts
@pytest.mark.parametrize(
    ("place", "python", "usable"),
    [
        ("{folder}", f'echo "pip 26.3 from somewhere (python {OWN})"', True),
        ("elsewhere", f'echo "pip 26.3 from somewhere (python {OWN})"', False),
        ("{folder}", 'echo "pip 26.3 from somewhere (python 3.10)"', False),
        ("{folder}", "exit 1", False),
    ],
)
def test_an_environment_of_another_place_or_python_is_made_again(checkout, place, python, usable):
    place = place.format(folder=checkout.folder)
    (checkout.folder / "pyvenv.cfg").write_text(f"command = python -m venv {place}\n")
    script(checkout, "python", python)
    assert is_usable(checkout) is usable


def test_progress_draws_one_moving_line_on_a_terminal():
    out = Terminal()
    line = pip.ProgressLine(out)
    line.feed("Collecting torch==2.13.0 (from hone==0.1.0)")
    line.feed("  Downloading torch-2.13.0-cp311-none-macosx_14_0_arm64.whl (80.0 MB)")
    line.feed("Progress 80000000 of 80000000")
    assert "\n" not in out.getvalue()
    assert "torch" in out.getvalue()
    assert "[####################] 80 of 80 MB" in out.getvalue()


def test_progress_names_large_downloads_elsewhere():
    out = io.StringIO()
    line = pip.ProgressLine(out)
    for name, size in [("torch-2.13.0", 80_000_000), ("tomli_w-1.2.0", 7_000)]:
        line.feed(f"  Downloading https://example.org/{name}-py3-none-any.whl")
        line.feed(f"Progress 0 of {size}")
        line.feed(f"Progress {size} of {size}")
    line.feed("Installing collected packages: " + ", ".join("abcdefghijkl"))
    first, second = out.getvalue().splitlines()
    assert first == "Downloading torch, 80 MB"
    assert second.startswith("Installing 12 libraries")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            "ERROR: Could not install because of an OSError: [Errno 28] No space left on device",
            "disk is full",
        ),
        ("WARNING: Retrying after NewConnectionError\nERROR: No matching distribution found", "No build"),
        ("WARNING: Retrying: Read timed out.\nTraceback", "couldn't be reached"),
        ("ERROR: Could not install: [Errno 13] Permission denied", "belongs to you"),
        ("ERROR: something new", "something new"),
    ],
)
def test_pips_failures_become_sentences(output, words):
    text = pip.explain(output.splitlines(), Path("install.log"))
    assert words in text
    assert "install.log" in text


def test_a_failed_install_keeps_its_log(tmp_path):
    log = tmp_path / "install.log"
    nowhere = ["--no-index", "--find-links", str(tmp_path), "no-such-library"]
    with pytest.raises(SetupError, match="No build of one of the libraries"):
        pip.install(sys.executable, nowhere, log, reports_progress=False)
    assert "no-such-library" in log.read_text()


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
    ("system", "capability", "build"),
    [
        ("win32", None, ""),
        ("win32", 8.9, "cu130"),
        ("win32", 6.1, "cu126"),
        ("linux", 8.9, ""),
        ("linux", 6.1, "cu126"),
        ("darwin", None, ""),
    ],
)
def test_the_build_of_torch_fits_the_card(system, capability, build):
    assert graphics.cuda_build(system, capability) == build


@pytest.mark.parametrize(
    ("system", "capability", "environ", "gigabytes"),
    [
        ("darwin", None, {}, 3),
        ("linux", None, {}, 8),
        ("linux", 8.9, {}, 8),
        ("linux", None, {"PIP_EXTRA_INDEX_URL": "https://other https://download.pytorch.org/whl/cpu/"}, 3),
        ("win32", 8.9, {}, 8),
        ("win32", None, {}, 3),
    ],
)
def test_cuda_needs_more_space(system, capability, environ, gigabytes, monkeypatch):
    monkeypatch.setattr(graphics, "compute_capability", lambda system: None)
    assert graphics.disk_needed(system, capability, environ) == gigabytes * 10**9


def test_a_full_disk_is_refused_before_anything_is_made(checkout, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda path: SimpleNamespace(free=7 * 10**9))
    environment.shutil.rmtree(checkout.folder)
    with pytest.raises(SetupError, match=r"Only 7.0 GB (.|\n)*about 8 GB(.|\n)*whl/cpu python3 start.py"):
        set_up(checkout.root)
    assert not checkout.folder.exists()


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
    assert lines == [window | {"python3-venv"}, {*system_libraries.FOR_TESTS.values()} - window]


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
    def no_python():
        raise SetupError("There is no Python here. Install one.")

    monkeypatch.setattr(pythons, "better_python", no_python)
    assert main.main(["setup"]) == 1
    assert capsys.readouterr().err == "\nThere is no Python here. Install one.\n"
