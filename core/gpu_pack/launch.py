"""Starts the engine in a GPU pack: `python -P -s launch.py LIBRARIES OWN_SOURCE JOB …`. Standard library only.

Both folders come before whatever else this Python knows, also for the processes that the engine starts.
"""

import os
import runpy
import sys


def launch() -> None:
    """Become `python -m core.engine`."""
    libraries, own, *arguments = sys.argv[1:]
    sys.path[:0] = [libraries, own]
    os.environ["PYTHONPATH"] = os.pathsep.join((libraries, own))
    sys.argv[1:] = arguments
    runpy.run_module("core.engine", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    launch()
