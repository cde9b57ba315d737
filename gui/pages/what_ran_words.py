"""What actually ran, in rows below headings: `core.statements` has the words."""

from itertools import groupby
from operator import attrgetter

from PySide6.QtCore import QCoreApplication

from core.statements import Statement, statements
from core.story import RunStory
from gui import numbers
from gui.widgets.form_row import sentence
from gui.widgets.key_value import Group, Row

_translate = QCoreApplication.translate


def what_ran_groups(story: RunStory) -> list[Group]:
    """All that is known of what ran; groups of which nothing is known are left out."""
    told = statements(story.what_ran, numbers.memory, story.versions, story)
    groups = [
        Group(_translate("run", title), tuple(map(_row, lines)))
        for title, lines in groupby(told, attrgetter("group"))
    ]
    if story.what_ran is None:
        later = Row(_translate("run", "What ran"), _translate("run", "Known after the first step"))
        groups.insert(0, Group("", (later,)))
    return groups


def _row(told: Statement) -> Row:
    return Row(_translate("run", told.title), told.value, sentence(told.reason))
