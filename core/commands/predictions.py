"""`hone predictions`: what a run's model said of its held-out examples, before training and at last."""

import textwrap

from core import figures
from core.commands.output import print_json, say
from core.commands.runs import find_run
from core.errors import RunFolderError
from core.event_files import EventReader
from core.events import Predicted
from core.figures import visible
from core.prediction_story import PredictionStory
from core.predictions import Example, Said

WIDTH = 96


def predictions(name: str, *, as_json: bool) -> int:
    """Print each example with what was expected and what was said of it.

    Args:
        name: The run's folder, or its name among all runs.
        as_json: Whether all that was said at every evaluation is printed as JSON.

    Raises:
        OptionsError: There is no such run.
        RunFolderError: What happened in it can't be read.
    """
    story, reader = PredictionStory(), EventReader(find_run(name).events_file)
    story.apply_all(reader.read_all())
    if reader.trouble:
        raise RunFolderError("The run can't be read", reader.trouble)
    if as_json:
        print_json({"examples": story.examples, "told": story.told, "confusion": story.confusion})
        return 0
    if not story.told:
        say("No predictions were kept of this run.")
        return 0
    first, last = story.told[0], story.told[-1]
    for number, example in enumerate(story.examples):
        say(_words(number, example, first, last))
    say(_summary(story.told))
    return 0


def _words(number: int, example: Example, first: Predicted, last: Predicted) -> str:
    lines = [_line(f"{number + 1:>3} ", example.image or example.given)]
    if example.expected:
        lines.append(_line("    expected:        ", example.expected))
    if last is not first:
        lines.append(_line(f"    {_moment(first) + ':':<17}", _said(first, number)))
    lines.append(_line(f"    {_moment(last) + ':':<17}", _said(last, number)))
    return "\n".join(lines) + "\n"


def _line(head: str, text: str) -> str:
    """A text on one line; what doesn't fit is cut."""
    return head + textwrap.shorten(visible(" ".join(text.split())), WIDTH - len(head), placeholder=" …")


def _moment(found: Predicted) -> str:
    return "before training" if found.step == 0 else f"step {found.step:,}"


def _said(found: Predicted, number: int) -> str:
    if number >= len(found.said):
        return figures.MISSING
    said: Said = found.said[number]
    sure = "" if said.sure is None else f" ({said.sure:.0%})"
    right = "" if said.right is None else ", right" if said.right else ", wrong"
    return f"{said.text}{sure}{right}"


def _summary(told: list[Predicted]) -> str:
    """How many were right at each evaluation, where that is a matter of yes or no."""
    rows = []
    for found in told:
        judged = [said.right for said in found.said if said.right is not None]
        if judged:
            rows.append((_moment(found), f"{sum(judged)} of {len(judged)}"))
    return figures.table(("ASKED", "RIGHT"), rows) if rows else ""
