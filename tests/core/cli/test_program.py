"""The one program: which part of it an argument asks for, and what each part may import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.cli import program
from core.options.choices import Task

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("PySide6", "shiboken6", "torch", "transformers", "datasets", "sklearn", "numpy")


def run_python(code, *arguments, home, **more):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HONE_HOME": str(home)},
        **more,
    )


@pytest.mark.parametrize(
    ("arguments", "opens"),
    [
        ([], True),
        (["my.hone"], True),
        (["/a folder/my.TOML"], True),
        (["gone.csv"], True),
        (["gone.jsonl.gz"], True),
        (["gone/photos"], True),
        (["my photos"], True),
        (["."], True),
        (["open", "notes"], True),
        (["./runs"], True),
        (["notes", "nothing", "runs"], True),
        (["runs", "notes"], False),
        (["nothing"], False),
        ([""], False),
        (["a.hone", "--json"], False),
    ],
)
def test_what_opens_the_window(arguments, opens, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").write_text("")
    (tmp_path / "my photos").mkdir()
    (tmp_path / "runs").mkdir()
    assert program.opens_window(arguments) == opens
    if opens:
        assert program.run(arguments, lambda: 41) == 41


def test_files_to_open():
    assert program.files_to_open(["open", "a", "b"]) == program.files_to_open(["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing", "a.csv"], "“nothing a.csv”"),
        (["trian", "a.csv"], "Did you mean train?"),
        ([""], "“”"),
    ],
)
def test_without_a_terminal_unknown_arguments_are_shown(arguments, words):
    messages = []
    assert program.run(arguments, lambda: 41, messages.append) == 2
    assert [words in message for message in messages] == [True]


def test_commands_and_flags_are_known(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    assert program.run(["runs"], lambda: 41, pytest.fail) == 0
    with pytest.raises(SystemExit) as ended:
        program.run(["--version"], lambda: 41, pytest.fail)
    assert ended.value.code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("arguments", [[], ["runs"], ["--keeper", "x"], ["a.hone"]])
def test_a_home_whose_name_is_not_utf_8_is_refused_in_words_by_every_part(arguments, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", os.fsdecode(os.fsencode(tmp_path) + b"/b\xffd"))
    messages = []
    assert program.run(arguments, lambda: pytest.fail("opened"), messages.append) == 2
    assert "b�d" in messages[0]
    assert "HONE_HOME" in messages[0]


def test_the_start_removes_what_killed_processes_left(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    left = "import os; from core.base.ceiling import Ceiling; Ceiling(); os._exit(9)"
    again = "from core.cli import program; program.run([], lambda: 0)"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HONE_HOME": str(tmp_path),
        "TMPDIR": str(temporary),
    }
    for code, files in ((left, 1), (again, 0)):
        subprocess.run([sys.executable, "-c", code], check=False, timeout=60, env=environment)
        assert len(list(temporary.iterdir())) == files


def test_a_path_is_opened_without_loading_the_commands(tmp_path):
    code = """
import sys
from core.cli import program
print(program.run(sys.argv[1:], lambda: 41), "core.cli.main" in sys.modules)
"""
    assert run_python(code, "/a/b", "a.hone", home=tmp_path).stdout == "41 False\n"


@pytest.mark.parametrize(
    ("arguments", "status"), [(["new", "--task", Task.TEXT_CLASSIFICATION], 0), (["train", "nothing"], 2)]
)
def test_the_command_line_loads_neither_qt_nor_torch(arguments, status, tmp_path):
    code = f"""
import atexit, sys
atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr))
from gui.__main__ import main
sys.exit(main())
"""
    done = run_python(code, *arguments, home=tmp_path)
    assert done.stderr.splitlines()[-1] == "[]"
    assert done.returncode == status


def test_the_keeper_loads_neither_qt_nor_torch_and_needs_its_run(tmp_path):
    code = f"""
import sys
from core.cli import program
print(program.run(["--keeper"], lambda: 41), [name for name in {HEAVY} if name in sys.modules])
"""
    assert run_python(code, home=tmp_path).stdout == "2 []\n"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["-c", "print(1)"], 2),
        (["-B", "-c", ""], 2),
        (["script.py", "x"], 2),
        ([], 41),
        (["options"], 0),
    ],
    ids=str,
)
def test_a_bundle_is_not_a_python_interpreter(arguments, status, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert program.run(arguments, lambda: 41) == status


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
def test_closed_streams_lead_to_the_null_device(tmp_path):
    output = tmp_path / "output"
    command = ["sh", "-c", 'exec "$0" "$@" 0<&- 1>&- 2>&-', sys.executable, "-c", CODE, str(output)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=False)
    assert done.returncode == 0
    assert output.read_text() == "True '' 0"


def test_open_streams_stay_as_they_are(tmp_path):
    code = "from core.cli import program; program._open_missing_streams(); print(input())"
    assert run_python(code, home=tmp_path, input="a line\n").stdout == "a line\n"
