"""The names by which the style sheet reaches widgets: a dynamic property `role`."""

from enum import StrEnum

from PySide6.QtWidgets import QWidget


class Role(StrEnum):
    """What a widget is, where its class does not say enough. `gui.style_sheet` says how each looks."""

    CARD = "card"
    CARD_TITLE = "card-title"
    GROUP_TITLE = "group-title"
    PAGE = "page"
    APP_NAME = "app-name"
    PAGE_TITLE = "title"
    MUTED = "muted"
    HINT = "hint"
    STRONG = "strong"
    LABEL = "label"
    CHANGED = "changed"
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    PROBLEM_MARK = "mark-bad"
    VERDICT = "verdict"
    VERDICT_GOOD = "verdict-good"
    VERDICT_TIGHT = "verdict-tight"
    VERDICT_BAD = "verdict-bad"
    PRIMARY = "primary"
    LINK = "link"
    MORE = "more"
    SIDEBAR = "sidebar"
    NAVIGATION = "navigation"
    SEGMENTS = "segments"
    SEGMENT = "segment"
    RULE = "rule"
    MONOSPACE = "monospace"
    INSET = "inset"
    TABS = "tabs"
    SAID = "said"
    ANSWER = "answer"
    DROP = "drop"
    STRIP_INFO = "strip-info"
    STRIP_WARNING = "strip-warning"
    STRIP_ERROR = "strip-error"


def set_role(widget: QWidget, role: Role) -> None:
    """Say what a widget is; its looks follow at once."""
    if widget.property("role") == role.value:
        return
    widget.setProperty("role", role.value)
    style = widget.style()
    style.unpolish(widget)
    style.polish(widget)


def set_flag(widget: QWidget, name: str, on: bool) -> None:
    """Set a dynamic property the style sheet asks for, such as `invalid`."""
    if bool(widget.property(name)) == on:
        return
    widget.setProperty(name, on)
    style = widget.style()
    style.unpolish(widget)
    style.polish(widget)
