"""Set Hone up and run it: `python3 start.py`. Only Python itself is needed; everything else goes into `.venv`.

Written so that even Python 2 can read this file and say what to do. The work is done in packaging/bootstrap.
"""

import os
import sys

if sys.version_info < (3, 8):
    sys.exit(
        "This is Python %d.%d, which is too old even to set Hone up. Start it with Python 3.11 to 3.14, such as: "
        "python3.13 start.py" % sys.version_info[:2]
    )

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "packaging"))

from bootstrap.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
