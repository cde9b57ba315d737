"""The real command line with a fake engine: `python hone.py SCENARIO ARGUMENTS...`."""

import sys

import pytest

from core.cli.main import main
from tests.fakes import runs

if __name__ == "__main__":
    scenario, *arguments = sys.argv[1:]
    runs.play(scenario, pytest.MonkeyPatch())
    sys.exit(main(arguments))
