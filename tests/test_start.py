"""start.py, up to where it would download something."""

import io
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
    environment = Environment(tmp_path)
    Path(environment.python).parent.mkdir(parents=True)
    Path(environment.python).touch()
    write_stamp(environment.folder, Stamp(hash_of_inputs(tmp_path), frozenset({"test"})))
    return environment


def script(environment, name, text):
    path = Path(environment.program(name))
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_every_supported_python_will_do(minor):
    assert pythons.why_not(LINUX._replace(version=(3, minor)), "linux") == ""


@pytest.mark.parametrize(
    ("facts", "system", "apple_chip", "words"),
    [
        (LINUX._replace(version=(3, 10)), "linux", False, "Python 3.10"),
        (LINUX._replace(version=(3, 15)), "linux", False, "3.11 to 3.14"),
        (LINUX._replace(version=(2, 7)), "linux", False, "Python 2.7"),
        (LINUX._replace(is_64_bit=False, machine="x86"), "win32", False, "32-bit"),
        (LINUX._replace(machine="ARM64"), "win32", False, "Windows on Arm"),
        (LINUX, "darwin", True, "arm64 Python"),
        (LINUX, "darwin", False, "Intel processor"),
    ],
)
def test_an_unsuitable_python_is_told_why(facts, system, apple_chip, words):
    assert words in pythons.why_not(facts, system, apple_chip)


def test_the_first_suitable_python_is_taken():
    known = {"python3.11": None, "python3.12": LINUX._replace(version=(3, 9)), "python3.13": LINUX}
    commands = iter([["python3.11"], ["python3.12"], ["python3.13"], ["python3.14"]])
    assert pythons.find(commands, lambda command: known[command[0]]) == ["python3.13"]


def test_no_python_found():
    assert pythons.find(iter([["python3.11"]]), lambda command: None) is None


def test_a_real_python_says_what_it_is():
    assert pythons.probe([sys.executable]) == pythons.here()
    assert pythons.probe([sys.executable, "--no-such-option"]) is None


@needs_scripts
@pytest.mark.parametrize("said", ["", "3 11", "three eleven True x86_64", "Welcome! 3 11 True x86_64"])
def test_a_program_that_answers_something_else_is_no_python(checkout, said):
    assert pythons.probe([str(script(checkout, "python3.11", f'echo "{said}"'))]) is None


def test_nothing_is_done_where_nothing_changed(checkout, capsys):
    assert set_up(checkout.root) == checkout
    assert set_up(checkout.root, ["test"]) == checkout
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["pyproject.toml", "packaging/constraints.txt"])
def test_a_changed_pin_asks_for_a_new_set_up(checkout, name):
    before = read_stamp(checkout.folder)
    (checkout.root / name).write_text("something else\n")
    assert not before.covers(Stamp(hash_of_inputs(checkout.root), frozenset()))


def test_another_extra_asks_for_a_new_set_up(checkout):
    installed = read_stamp(checkout.folder)
    assert not installed.covers(installed._replace(extras=frozenset({"bundle"})))


@pytest.mark.parametrize("content", ["", "{", '{"inputs": "x"}'])
def test_a_damaged_stamp_counts_as_none(checkout, content):
    (checkout.folder / "hone-setup.json").write_text(content)
    assert read_stamp(checkout.folder) is None


@needs_scripts
def test_an_environment_of_another_place_or_python_is_made_anew(checkout):
    own = ".".join(str(part) for part in sys.version_info[:2])
    note = checkout.folder / "pyvenv.cfg"
    note.write_text(f"command = python -m venv {checkout.folder}\n")
    script(checkout, "python", f'echo "pip 26.3 from somewhere (python {own})"')
    assert is_usable(checkout)
    note.write_text("command = python -m venv elsewhere\n")
    assert not is_usable(checkout)
    note.write_text(f"command = python -m venv {checkout.folder}\n")
    script(checkout, "python", 'echo "pip 26.3 from somewhere (python 3.10)"')
    assert not is_usable(checkout)
    script(checkout, "python", "exit 1")
    assert not is_usable(checkout)


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
    assert out.getvalue().splitlines() == [
        "Downloading torch, 80 MB",
        "Installing 12 libraries, which takes about a minute …",
    ]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "disk is full",
        ),
        (
            "WARNING: Retrying after NewConnectionError\nERROR: No matching distribution found for x",
            "No build",
        ),
        ("WARNING: Retrying: Read timed out.\nTraceback", "couldn't be reached"),
        ("ERROR: Could not install: [Errno 13] Permission denied", "belongs to you"),
        ("ERROR: something new", "something new"),
    ],
)
def test_pips_failures_become_sentences(said, words):
    text = pip.explain(said.splitlines(), Path("install.log"))
    assert words in text
    assert "install.log" in text


def test_a_failed_install_keeps_its_log(tmp_path):
    log = tmp_path / "install.log"
    nowhere = ["--no-index", "--find-links", str(tmp_path), "no-such-library"]
    with pytest.raises(SetupError, match="No build of one of the libraries"):
        pip.install(sys.executable, nowhere, log, reports_progress=False)
    assert "no-such-library" in log.read_text()


def test_missing_libraries_are_found_and_named():
    def load(name):
        if name in ("libEGL.so.1", "libxcb-cursor.so.0"):
            raise OSError(name)

    wanted = system_libraries.wanted_for(["xcb"], load)
    lacking = system_libraries.missing(wanted, load)
    assert lacking == ["libEGL.so.1", "libxcb-cursor.so.0"]
    on_debian = system_libraries.explain(lacking, wanted, lambda program: program == "apt-get" or None)
    assert on_debian.endswith("sudo apt-get install libegl1 libxcb-cursor0")
    on_fedora = system_libraries.explain(lacking, wanted, lambda program: program == "dnf" or None)
    assert on_fedora.endswith("sudo dnf install 'libEGL.so.1()(64bit)' 'libxcb-cursor.so.0()(64bit)'")
    assert "libEGL.so.1" in system_libraries.explain(lacking, wanted, lambda program: None)


@pytest.mark.parametrize(
    ("platforms", "absent", "asked_for"),
    [
        ([], "libX11-xcb.so.1", set()),
        (["offscreen"], "libX11-xcb.so.1", set()),
        (["xcb"], "libX11-xcb.so.1", set(system_libraries.ON_X11)),
        (["wayland"], "libX11-xcb.so.1", set(system_libraries.ON_WAYLAND)),
        (["wayland", "xcb"], "libX11-xcb.so.1", set(system_libraries.ON_WAYLAND)),
        (["wayland", "xcb"], "libwayland-cursor.so.0", set(system_libraries.ON_X11)),
        (["wayland", "xcb"], "lib", set(system_libraries.ON_WAYLAND)),
    ],
)
def test_only_the_libraries_of_one_platform_are_asked_for(platforms, absent, asked_for):
    def load(name):
        if name.startswith(absent):
            raise OSError(name)

    wanted = system_libraries.wanted_for(platforms, load)
    assert set(wanted) == set(system_libraries.ALWAYS) | asked_for


@pytest.mark.parametrize(
    ("environ", "platforms"),
    [
        ({}, ()),
        ({"DISPLAY": ":0"}, ("xcb",)),
        ({"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}, ("wayland", "xcb")),
        ({"DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen"}, ("offscreen",)),
        ({"DISPLAY": ":0", "QT_QPA_PLATFORM": "xcb:nograb;wayland"}, ("xcb", "wayland")),
    ],
)
def test_the_platforms_are_those_qt_would_try(environ, platforms):
    assert main.qt_platforms(environ) == platforms


@pytest.mark.parametrize(
    ("system", "environ", "has_one"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ""}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("linux", {"QT_QPA_PLATFORM": "offscreen"}, True),
        ("darwin", {}, True),
        ("win32", {}, True),
    ],
)
def test_the_display_is_looked_for_on_linux(system, environ, has_one):
    assert (main.why_no_window(system, environ) == "") is has_one


@needs_scripts
def test_without_a_display_the_first_run_trains_in_the_terminal(checkout, monkeypatch, capfd):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    script(checkout, "hone", 'echo "asked for: $1 $(basename $2)"; exit 1')
    assert main.open_hone(checkout) == 1
    said = capfd.readouterr().out
    assert "no display" in said
    assert "asked for: train digits.hone" in said


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
    ],
)
def test_cuda_needs_more_room(system, capability, environ, gigabytes):
    assert graphics.disk_needed(system, capability, environ) == gigabytes * 10**9


def test_windows_without_a_card_needs_little_room(monkeypatch):
    monkeypatch.setattr(graphics, "compute_capability", lambda system: None)
    assert graphics.disk_needed("win32", None, {}) == 3 * 10**9


def test_a_full_disk_is_told_before_anything_is_made(tmp_path, monkeypatch):
    for name, content in [("pyproject.toml", "[project]"), ("packaging/constraints.txt", "")]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda path: SimpleNamespace(free=7 * 10**9))
    with pytest.raises(SetupError, match=r"Only 7.0 GB (.|\n)*about 8 GB(.|\n)*whl/cpu python3 start.py"):
        set_up(tmp_path)
    assert not (tmp_path / ".venv").exists()


@needs_scripts
def test_all_checks_run_and_one_failure_is_enough(checkout, capfd):
    for check in checks.CHECKS:
        script(checkout, check.command[0], f"echo ran {check.command[0]}; exit 0")
    assert checks.run_all(checkout) == 0
    script(checkout, "mypy", "echo a type is wrong; exit 1")
    assert checks.run_all(checkout) == 1
    said = capfd.readouterr().out
    assert "a type is wrong" in said
    assert "types (mypy): FAILED" in said
    assert said.rstrip().endswith("1 of 5 checks failed: types (mypy)")
    assert said.count("ran pytest") == 2


def test_tests_run_side_by_side_where_there_are_cores_for_it():
    assert "-n" not in checks.tests(1).command
    for many in (2, 16):
        command = checks.tests(many).command
        assert command[command.index("-n") + 1] == "2"
        assert command[command.index("--dist") + 1] == "loadfile"  # fixtures of a module are made once


@needs_scripts
@pytest.mark.parametrize("status", [0, 3])
def test_arguments_for_pytest_run_pytest_with_them_alone(checkout, monkeypatch, capfd, status):
    for check in checks.CHECKS:
        script(checkout, check.command[0], f'echo "ran {check.command[0]} $*"; exit {status}')
    monkeypatch.setattr(main, "ROOT", checkout.root)
    monkeypatch.setattr(pythons, "better_python", lambda: None)
    monkeypatch.setattr(system_libraries, "ensure", lambda: None)
    assert main.main(["test", "tests/gui", "-k", "two words"]) == (1 if status else 0)
    said = capfd.readouterr().out
    assert "ran pytest tests/gui -k two words\n" in said
    assert said.count("ran ") == 1


@needs_scripts
def test_arguments_for_the_benchmarks_reach_them_and_their_status_comes_back(checkout, monkeypatch, capfd):
    script(checkout, "python", 'echo "ran $*"; exit 1')
    monkeypatch.setattr(main, "ROOT", checkout.root)
    monkeypatch.setattr(pythons, "better_python", lambda: None)
    monkeypatch.setattr(system_libraries, "ensure", lambda: None)
    assert main.main(["bench", "events", "--quick"]) == 1
    assert "ran -P -m tests.performance events --quick\n" in capfd.readouterr().out


@pytest.mark.parametrize("arguments", [["setup", "tests/gui"], ["run", "-k"]])
def test_no_other_command_takes_arguments(arguments):
    with pytest.raises(SystemExit, match="2"):
        main.main(arguments)


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main.main(["instal"])
    assert "invalid choice" in capsys.readouterr().err


def test_trouble_ends_in_a_sentence(monkeypatch, capsys):
    def no_python():
        raise SetupError("There is no Python here. Install one.")

    monkeypatch.setattr(pythons, "better_python", no_python)
    assert main.main(["setup"]) == 1
    assert capsys.readouterr().err == "\nThere is no Python here. Install one.\n"
