"""First lines of the frozen program: Hone."""

import sys

from gui.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
