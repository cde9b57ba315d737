"""`core.hosts.far` whose runs play a scenario of the fake engine: `far.py SCENARIO -P -s -m core.hosts.far`."""

import sys
from functools import partial

from core.hosts import far
from core.runs import start
from tests.fakes.runs import keeper_command

if __name__ == "__main__":
    start.keeper_command = partial(keeper_command, scenario=sys.argv[1])
    sys.exit(far.main(sys.argv[sys.argv.index("core.hosts.far") + 1 :]))
