"""`core.hosts.far` whose runs, and dry runs, play a scenario of a fake: `far.py SCENARIO -P -s -m core.hosts.far`."""

import sys
from functools import partial

from core.hosts import far
from core.runs import start
from tests.fakes.runs import FAKES, keeper_command

if __name__ == "__main__":
    start.keeper_command = partial(keeper_command, scenario=sys.argv[1])
    far.engine_command = lambda _job: [sys.executable, "-P", str(FAKES / "measuring_job.py"), sys.argv[1]]
    sys.exit(far.main(sys.argv[sys.argv.index("core.hosts.far") + 1 :]))
