"""The user guide in a window of its own, with a search in all of its chapters."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QByteArray, Qt, QUrl
from PySide6.QtGui import (
    QColor,
    QFont,
    QKeySequence,
    QShortcut,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextTable,
    QTextTableFormat,
)
from PySide6.QtWidgets import QDialog, QLineEdit, QListWidget, QListWidgetItem, QTextBrowser, QWidget

from core.base.language import IS_RIGHT_TO_LEFT, LANGUAGE, SOURCE, _
from gui.base.theme import GUIDE, RESOURCES, Role, Theme
from gui.base.tokens import SPACING
from gui.widgets.labels import push_button, role_label
from gui.widgets.layout import InOrder, fill_dialog, hbox

CONTENTS = "README.md"
NOTICE = RESOURCES.parent / "NOTICE"
LAST_FOUND = (CONTENTS, "glossary.md")
LEFT_OF_HIT = 40


class GuideWindow(InOrder, QDialog):
    """Shows chapters of the user guide, which comes with the program, and other texts; Escape closes it."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.setWindowTitle(_("Hone user guide"))
        self.resize(860, 640)
        self.browser = GuideBrowser(theme)
        self.search = QLineEdit(placeholderText=_("Find in the guide"), clearButtonEnabled=True)
        self.search.setAccessibleName(_("Find in the guide"))
        self.search.textChanged.connect(self._list_hits)
        self.search.returnPressed.connect(self._open_next)
        self.missing = role_label(Role.MUTED)
        self._pages = {path: QTextDocument() for path in GUIDE.glob("*.md")}
        for path, page in self._pages.items():
            page.setMarkdown(_with_whole_tables(path.read_text("utf-8")))
        self.hits = QListWidget()
        self.hits.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.hits.setAccessibleName(_("Places in the guide"))
        self.hits.itemActivated.connect(self._open_hit)
        self.hits.itemClicked.connect(self._open_hit)
        self.hits.hide()
        back = push_button(_("Back"), self.browser.backward)
        forward = push_button(_("Forward"), self.browser.forward)
        contents = push_button(_("Contents"), partial(self.open_chapter, CONTENTS))
        for button in (back, forward, contents):
            button.setAutoDefault(False)  # Return in the line finds
            button.setEnabled(button is contents)
        self.browser.backwardAvailable.connect(back.setEnabled)
        self.browser.forwardAvailable.connect(forward.setEnabled)
        line = hbox(back, forward, contents, None, self.missing, self.search)
        fill_dialog(self, line, (self.hits, 1), (self.browser, 3))
        QShortcut(QKeySequence(QKeySequence.StandardKey.Find), self, self.search.setFocus)
        QShortcut(QKeySequence("Ctrl+W"), self, self.close)
        theme.changed.connect(self.browser.reload)

    def open_chapter(self, name: str) -> None:
        """Show a file of the guide, or another text by its path."""
        self._theme.dress(self)
        self.browser.setSource(QUrl.fromLocalFile(str(GUIDE / name)))
        self.show()
        self.activateWindow()
        self.browser.setFocus()

    def _list_hits(self) -> None:
        """List the paragraphs with the text, as a whole word if it is one anywhere; chapters about it come first."""
        text, found = self.search.text().strip(), list[tuple[tuple[bool, bool, str, int], str, Path]]()
        for words in (QTextDocument.FindFlag.FindWholeWords, QTextDocument.FindFlag(0)):
            for path, page in self._pages.items() if not found else ():
                title = page.firstBlock().text()
                hit = page.find(text, 0, words)
                while not hit.isNull():
                    block, start = hit.block(), hit.selectionStart()
                    rank = text.lower() not in title.lower(), path.name in LAST_FOUND, path.name, start
                    cut = max(0, start - block.position() - LEFT_OF_HIT)
                    found.append((rank, f"{title}: {'…' * bool(cut)}{block.text()[cut:]}", path))
                    hit = page.find(text, block.position() + block.length(), words)
        self.hits.clear()
        for rank, shown, path in sorted(found):
            QListWidgetItem(shown, self.hits).setData(Qt.ItemDataRole.UserRole, (path, rank[-1]))
        self.hits.setVisible(bool(found))
        self.missing.setText(_("Not found in the guide") if text and not found else "")

    def _open_hit(self, item: QListWidgetItem) -> None:
        path, start = item.data(Qt.ItemDataRole.UserRole)
        self.browser.setSource(QUrl.fromLocalFile(str(path)))
        hit = self.browser.textCursor()
        hit.setPosition(start)
        self.browser.setTextCursor(hit)
        self.browser.find(self.search.text().strip())

    def _open_next(self) -> None:
        if self.hits.count():
            self.hits.setCurrentRow((self.hits.currentRow() + 1) % self.hits.count())
            self._open_hit(self.hits.currentItem())


class GuideBrowser(QTextBrowser):
    """Shows Markdown files; `file.md#a-heading` goes to a heading, which Qt knows from HTML only."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.setOpenExternalLinks(True)
        self.setAccessibleName(_("User guide"))

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Go from link to link; backwards from one at the beginning of a line Qt would find it again."""
        cursor = self.textCursor()
        start = cursor.selectionStart()
        if not is_next and cursor.hasSelection() and start == self.document().findBlock(start).position():
            cursor.setPosition(start)
            cursor.movePosition(QTextCursor.MoveOperation.PreviousCharacter, QTextCursor.MoveMode.KeepAnchor)
            self.setTextCursor(cursor)
            if not cursor.hasSelection():
                return QWidget.focusNextPrevChild(self, is_next)
        return super().focusNextPrevChild(is_next)

    def loadResource(self, kind: int, name: QUrl | str) -> object:  # noqa: N802 - Qt's name
        found = super().loadResource(kind, name)
        if isinstance(found, QByteArray) and QUrl(name).path().endswith(".md"):
            return QByteArray(_with_whole_tables(bytes(found.data()).decode()).encode())
        return found

    def show_markdown(self, text: str) -> None:
        self.setMarkdown(text)
        self._lay_out()

    def doSetSource(  # noqa: N802 - Qt's name
        self,
        url: QUrl | str,
        kind: QTextDocument.ResourceType = QTextDocument.ResourceType.UnknownResource,
    ) -> None:
        super().doSetSource(url, kind)
        heading = self._lay_out().get(QUrl(url).fragment())
        if heading is not None:
            place = self.document().documentLayout().blockBoundingRect(heading)
            self.verticalScrollBar().setValue(round(place.top()))

    def _lay_out(self) -> dict[str, QTextBlock]:
        """Give tables and headings space; returns the headings by their anchors."""
        document, headings = self.document(), {}
        document.setDocumentMargin(3 * SPACING)
        for frame in document.rootFrame().childFrames():
            if isinstance(frame, QTextTable):
                table = frame.format()
                table.setBorderStyle(QTextTableFormat.BorderStyle.BorderStyle_Solid)
                table.setBorderBrush(QColor(self._theme.tokens.line))
                table.setCellPadding(6)
                table.setTopMargin(2 * SPACING)
                if IS_RIGHT_TO_LEFT:
                    table.setAlignment(Qt.AlignmentFlag.AlignRight)
                    table.setRightMargin(3 * SPACING)
                frame.setFormat(table)
        block = document.begin()
        while block.isValid():
            if LANGUAGE != SOURCE:
                _straighten(block)
            layout = block.blockFormat()
            if layout.headingLevel():
                name = "".join(
                    letter for letter in block.text().lower() if letter.isalnum() or letter in " -"
                )
                headings[name.replace(" ", "-")] = block
                layout.setTopMargin(3 * SPACING)
                QTextCursor(block).setBlockFormat(layout)
            block = block.next()
        return headings


def _with_whole_tables(text: str) -> str:
    """Return Markdown whose tables Qt draws right.

    It merges an empty cell with the one before, so that each has a space. It puts first columns on the left, also where
    they are read first on the right, so that they come last there.
    """
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if line.startswith("| "):
            cells = [cell.strip() or "\u00a0" for cell in line.rstrip()[1:-1].split(" | ")]
            lines[place] = f"| {' | '.join(reversed(cells) if IS_RIGHT_TO_LEFT else cells)} |"
    return "\n".join(lines)


def _straighten(block: QTextBlock) -> None:
    """Make what is slanted bold: Arabic, Korean and Chinese letters have no italics."""
    bold = QTextCharFormat()
    bold.setFontItalic(False)
    bold.setFontWeight(QFont.Weight.DemiBold)
    place = block.begin()
    slanted = []
    while not place.atEnd():
        fragment = place.fragment()
        if fragment.charFormat().fontItalic():
            slanted.append((fragment.position(), fragment.length()))
        place += 1
    for start, length in slanted:
        cursor = QTextCursor(block)
        cursor.setPosition(start)
        cursor.setPosition(start + length, QTextCursor.MoveMode.KeepAnchor)
        cursor.mergeCharFormat(bold)
