"""The one program: which part of it an argument asks for, and what each part may import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.cli import main, program
from core.options.choices import Task

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("PySide6", "shiboken6", "torch", "transformers", "datasets", "sklearn", "numpy")


def run_python(code: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HONE_HOME": str(home)},
    )


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working folder: in it a file and folders with names of their own and of a command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").write_text("")
    (tmp_path / "my photos").mkdir()
    (tmp_path / "runs").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["my.hone"], ["/a folder/my.TOML"], ["gone.csv"], ["gone.jsonl.gz"], ["gone/photos"],
        ["notes"], ["my photos"], ["."], ["open"], ["open", "notes"], ["./runs"],
        ["a.hone", "b.hone"], ["notes", "nothing", "runs"],
    ],
)  # fmt: skip
@pytest.mark.usefixtures("place")
def test_no_arguments_or_what_is_to_be_opened_open_the_window(arguments):
    assert program.run(arguments, lambda: 41) == 41


def test_what_is_opened():
    assert program.files_to_open(["open", "a", "b"]) == program.files_to_open(["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize("arguments", [["runs"], ["runs", "notes"], ["nothing"], [""], ["a.hone", "--json"]])
@pytest.mark.usefixtures("place")
def test_a_command_goes_before_what_is_called_like_it(arguments):
    assert not program.opens_window(arguments)


def test_commands_are_known_by_name():
    assert {"train", "runs", "options", "gpu"} <= main.names()


@pytest.mark.parametrize("arguments", [["nothing"], ["nothing", "a.csv"], [""]])
def test_what_is_neither_is_said_where_nobody_reads_along(arguments):
    told: list[str] = []
    assert program.run(arguments, lambda: 41, told.append) == 2
    (words,) = told
    assert f"“{' '.join(arguments)}”" in words
    assert "`hone --help`" in words


def test_in_a_terminal_argparse_names_the_commands(capsys):
    with pytest.raises(SystemExit) as ended:
        program.run(["nothing"], lambda: 41)
    assert ended.value.code == 2
    assert "gpu" in capsys.readouterr().err


def test_commands_and_options_are_not_complained_of(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    assert program.run(["runs"], lambda: 41, pytest.fail) == 0
    with pytest.raises(SystemExit) as ended:
        program.run(["--version"], lambda: 41, pytest.fail)
    assert ended.value.code == 0


@pytest.mark.parametrize("arguments", [["a.hone"], ["/a/b", "/c/d"]])
def test_what_is_plainly_a_path_is_opened_without_loading_the_commands(arguments, tmp_path):
    code = """
import sys
from core.cli import program
print(program.run(sys.argv[1:], lambda: 41), "core.cli.main" in sys.modules)
"""
    assert run_python(code, *arguments, home=tmp_path).stdout == "41 False\n"


@pytest.mark.parametrize(
    "arguments",
    [["runs"], ["options"], ["new", "--task", Task.TEXT_CLASSIFICATION], ["train", "nothing"], ["--help"]],
)
def test_the_command_line_loads_neither_qt_nor_torch(arguments, tmp_path):
    code = f"""
import atexit, sys
atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr))
from gui.__main__ import main
sys.exit(main())
"""
    done = run_python(code, *arguments, home=tmp_path)
    assert done.stderr.splitlines()[-1] == "[]"
    assert done.returncode == (2 if "train" in arguments else 0)


def test_the_keeper_loads_neither_qt_nor_torch(tmp_path):
    code = f"""
import sys
import core.monitor.keeper
print([name for name in {HEAVY} if name in sys.modules])
"""
    assert run_python(code, home=tmp_path).stdout == "[]\n"


def test_the_keeper_wants_its_run(capsys):
    assert program.run(["--keeper"], lambda: 41) == 2
    assert "one run folder" in capsys.readouterr().err


class TestInABundle:
    @pytest.fixture(autouse=True)
    def frozen(self, monkeypatch):
        monkeypatch.setattr(sys, "frozen", True, raising=False)

    @pytest.mark.parametrize(
        "arguments", [["-c", "print(1)"], ["-m", "pip"], ["-B", "-c", ""], ["script.py", "x"]]
    )
    def test_what_means_a_python_interpreter_is_refused(self, arguments, capsys):
        assert program.run(arguments, lambda: 41) == 2
        assert "not a Python interpreter" in capsys.readouterr().err

    def test_the_window_and_the_command_line_are_there(self, capsys):
        assert program.run([], lambda: 41) == 41
        assert program.run(["options"], lambda: 41) == 0
        assert "memory.batch_size" in capsys.readouterr().out


CODE = """
import os, subprocess, sys
from core.cli import program
program._open_missing_streams()
print("into nothing")
print("the same", file=sys.stderr)
opened = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
child = subprocess.run(["cat"])
os.write(opened, f"{opened > 2} {sys.stdin.read()!r} {child.returncode}".encode())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell closes them")
def test_closed_streams_lead_nowhere_and_no_file_takes_their_place(tmp_path):
    found = tmp_path / "found"
    command = ["sh", "-c", 'exec "$0" "$@" 0<&- 1>&- 2>&-', sys.executable, "-c", CODE, str(found)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=False)
    assert done.returncode == 0
    assert found.read_text() == "True '' 0"


def test_open_streams_stay_as_they_are():
    code = "from core.cli import program; program._open_missing_streams(); print(input())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, input=b"said\n", capture_output=True, env=environment, timeout=60, check=True
    )
    assert done.stdout.split() == [b"said"]
