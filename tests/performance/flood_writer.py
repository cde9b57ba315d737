"""Goes on with a run as if it trained a hundred times too fast, for `window_flood.py`.

    python tests/performance/flood_writer.py RUN STEPS EVENTS_A_SECOND

Says "ready" once the run counts as live, begins when a line comes in, and ends when its input does. Prints how many
events it has written.
"""

import random
import select
import sys
import time
from pathlib import Path

from long_story import START, STEP_SECONDS, samples, step

from core.runs.events import encode
from core.runs.folder import RunFolder

TURN_SECONDS = 0.01


def main() -> int:
    """Write until there is no more input."""
    run, done, pace = RunFolder(Path(sys.argv[1])), int(sys.argv[2]), float(sys.argv[3])
    chance = random.Random(5)
    print("ready", flush=True)
    sys.stdin.readline()
    began, written = time.monotonic(), 0
    with (
        run.events_file.open("ab", buffering=0) as events,
        run.machine_file.open("ab", buffering=0) as machine,
    ):
        while not select.select([sys.stdin], [], [], TURN_SECONDS)[0]:
            wanted = int(pace * (time.monotonic() - began))
            steps = range(done + 1, done + 1 + wanted - written)
            events.write(b"".join(encode(step(number, 2 * done, chance)) for number in steps))
            for number in steps:
                if number % round(1 / STEP_SECONDS) == 0:
                    told = samples(START + number * STEP_SECONDS, chance)
                    machine.write(b"".join(map(encode, told)))
            done, written = done + len(steps), written + len(steps)
    print(written, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
