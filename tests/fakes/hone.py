"""The real command line with a fake engine: `python hone.py SCENARIO ARGUMENTS...`."""

import sys

from core.cli.main import main
from tests.fakes import runs

if __name__ == "__main__":
    scenario, *arguments = sys.argv[1:]
    sys.exit(
        main(
            arguments,
            start=lambda run, **how: runs.start(run, scenario, **how),
            keeper=lambda run, **how: runs.keeper_command(run, scenario, **how),
        )
    )
