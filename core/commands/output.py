"""How the command line prints what isn't meant for people."""

import sys
from typing import Any

import msgspec


def print_json(value: Any) -> None:
    """Print a value as JSON, indented."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")
