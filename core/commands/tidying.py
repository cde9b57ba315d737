"""The commands that compare runs, name them, and take them away: how they are called."""

import argparse
from typing import TYPE_CHECKING

from core.commands.arguments import NAME_HELP
from core.commands.bin import throw_away
from core.commands.compare import compare
from core.commands.notes import note, rename, tag

if TYPE_CHECKING:
    from core.commands.arguments import Commands


def add_tidying(commands: "Commands") -> None:
    """Add `compare`, `rename`, `tag`, `note` and `bin`."""
    _add_compare(commands)
    _add_notes(commands)
    _add_bin(commands)


def _add_compare(commands: "Commands") -> None:
    comparing = commands.add_parser(
        "compare",
        help="tell in what runs differ, and what they came to",
        description="Tell what 2 to 8 runs came to, the options in which they differ, and what else did: the device, "
        "what ran, versions. Options that were left alone count as their defaults.",
    )
    comparing.add_argument("names", nargs="+", metavar="RUN", help=NAME_HELP)
    comparing.add_argument("--json", action="store_true")
    comparing.set_defaults(run=lambda asked: compare(asked.names, as_json=asked.json))


def _add_notes(commands: "Commands") -> None:
    renaming = commands.add_parser("rename", help="call a run otherwise")
    renaming.add_argument("name", metavar="RUN", help=NAME_HELP)
    renaming.add_argument("title", metavar="NAME", help='the new name; "" gives it its own name back')
    renaming.set_defaults(run=lambda asked: rename(asked.name, asked.title))
    tagging = commands.add_parser(
        "tag",
        help="give a run tags, or take some away",
        description="Give a run tags and take some away; without any, tell those it has.",
    )
    tagging.add_argument("name", metavar="RUN", help=NAME_HELP)
    tagging.add_argument("tags", nargs=argparse.REMAINDER, metavar="+TAG -TAG")
    tagging.set_defaults(run=lambda asked: tag(asked.name, asked.tags))
    noting = commands.add_parser("note", help="write a note to a run, or read it")
    noting.add_argument("name", metavar="RUN", help=NAME_HELP)
    noting.add_argument("text", nargs="?", metavar="TEXT", help='"" takes the note away')
    noting.set_defaults(run=lambda asked: note(asked.name, asked.text))


def _add_bin(commands: "Commands") -> None:
    throwing = commands.add_parser(
        "bin",
        help="move runs to the system's bin",
        description="Say what goes and how much room it takes, ask, and move it to the system's bin. A run that trains "
        "or waits stays. Ends with 1 when anything stayed.",
    )
    throwing.add_argument("names", nargs="+", metavar="RUN", help=NAME_HELP)
    throwing.add_argument("--yes", action="store_true", help="don't ask")
    throwing.add_argument(
        "--for-good", action="store_true", help="delete instead; nothing can be put back then"
    )
    throwing.set_defaults(
        run=lambda asked: throw_away(asked.names, agreed=asked.yes, for_good=asked.for_good)
    )
