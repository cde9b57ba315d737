"""Tool tips of text that was made by others."""

import html

from PySide6 import QtGui


def plain_tip(text: str) -> str:
    """A tool tip that shows a text as it is, in lines that fit; by itself, Qt takes what looks like HTML for HTML."""
    return f'<p style="white-space:pre-wrap">{html.escape(text)}</p>' if text.strip() else ""


def tip_of(text: str) -> str:
    """A tool tip of one line, as it is where Qt takes it for plain text anyway."""
    return plain_tip(text) if QtGui.Qt.mightBeRichText(text) else text
