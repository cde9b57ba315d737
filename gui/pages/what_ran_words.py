"""What actually ran, in rows below headings: `core.statements` has the words."""

from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter

from PySide6.QtCore import QCoreApplication

from core.events import WhatRan
from core.statements import Statement, statements
from gui import numbers
from gui.widgets.form_row import sentence
from gui.widgets.key_value import Group, Row

_translate = QCoreApplication.translate


def what_ran_groups(ran: WhatRan | None, versions: Mapping[str, str]) -> list[Group]:
    """All that is known of what ran; groups of which nothing is known are left out."""
    told = statements(ran, numbers.memory, versions)
    groups = [
        Group(_translate("run", title), tuple(map(_row, lines)))
        for title, lines in groupby(told, attrgetter("group"))
    ]
    if ran is None:
        later = Row(_translate("run", "What ran"), _translate("run", "Known after the first step"))
        groups.insert(0, Group("", (later,)))
    return groups


def _row(told: Statement) -> Row:
    return Row(_translate("run", told.title), told.value, sentence(told.reason))
