"""First lines of the frozen program: Hone, and beside it what `start.py bundle` tries it out with."""

import sys

from gui.__main__ import main

if __name__ == "__main__":
    if sys.argv[1:2] == ["--draw-run"]:
        from draw_run import draw_run

        sys.exit(draw_run(*sys.argv[2:]))
    sys.exit(main())
