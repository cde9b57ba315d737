"""Standard streams that whoever started the program has closed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import os, subprocess, sys
from core.cli import program as streams
streams.open_missing()
print("into nothing")
print("the same", file=sys.stderr)
opened = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
child = subprocess.run(["cat"])
os.write(opened, f"{opened > 2} {sys.stdin.read()!r} {child.returncode}".encode())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell closes them")
def test_closed_streams_lead_nowhere_and_no_file_takes_their_place(tmp_path: Path) -> None:
    found = tmp_path / "found"
    command = ["sh", "-c", 'exec "$0" "$@" 0<&- 1>&- 2>&-', sys.executable, "-c", CODE, str(found)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=False)
    assert done.returncode == 0
    assert found.read_text() == "True '' 0"


def test_open_streams_stay_as_they_are() -> None:
    code = "from core.cli import program as streams; streams.open_missing(); print(input())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, input=b"said\n", capture_output=True, env=environment, timeout=60, check=True
    )
    assert done.stdout.split() == [b"said"]
