"""What the parsers of several commands have in common."""

import argparse
from typing import TYPE_CHECKING

NAME_HELP = "a run's folder, or its name in `hone runs`"

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
    """Where a command adds its parser."""
