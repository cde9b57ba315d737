"""What tests of the card about the data do to the page, as a person would."""

from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QPushButton


def drop(page, path):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    line = page._options.fields.train.line
    where, copy = line.rect().center().toPointF(), Qt.DropAction.CopyAction
    line.dropEvent(QDropEvent(where, copy, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier))


def await_reading(qtbot, page):
    qtbot.waitUntil(lambda: page._reading.report is not None and not page._reading.is_waiting)


def press(parent, text):
    next(button for button in parent.findChildren(QPushButton) if button.text() == text).click()


def lists(page):
    return page._options.data.views.rows.header.lists


def choose(page, column, use):
    box = lists(page)[column]
    box.setCurrentIndex(box.findData(use))
    box.activated.emit(box.currentIndex())


def load_chat(qtbot, page, talks):
    page.load_tree({"task": "chat", "data": {"train": str(talks)}})
    await_reading(qtbot, page)
