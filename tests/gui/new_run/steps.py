"""What tests of the New run page do to it, as a person would, and what they read off it."""

from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDropEvent

TEXTS = "text-classification"


def load(page, task=TEXTS, source=None, data=None, **sections):
    """Fill the form; `source` is the model, `data` what it is trained on, `of_data` more options of it."""
    of_data = sections.pop("of_data", {})
    tree = {"task": task, **sections}
    if source is not None:
        tree["model"] = {"source": str(source), **sections.get("model", {})}
    if data is not None:
        tree["data"] = {"train": str(data), **of_data}
    page.load_tree(tree)


def put(page, **values):
    """Set options; a path's dot is written as two underscores."""
    page.options.form.set_values({path.replace("__", "."): value for path, value in values.items()})


def row(page, path):
    return page.options.form.row(path)


def rows(page):
    """What "What will run" says."""
    return dict(page.outcome.rows.rows())


def checks(page):
    return [(check.level, check.path) for check in page.outcome.checks.checks]


def start_text(page):
    return page.outcome.start.text()


def settle(qtbot, page):
    questions = page.questions
    qtbot.waitUntil(lambda: not (questions.data.is_waiting or questions.model.is_waiting))


def drop(page, path):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    line = page.options.fields.train.line
    where, copy = line.rect().center().toPointF(), Qt.DropAction.CopyAction
    line.dropEvent(QDropEvent(where, copy, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier))


def await_reading(qtbot, page):
    qtbot.waitUntil(lambda: page.reading.report is not None and not page.reading.is_waiting)


def uses(page):
    """What the table says the columns are used for."""
    rows = page.options.data.views.rows
    heads = [
        rows.model.headerData(place, Qt.Orientation.Horizontal) for place in range(rows.model.columnCount())
    ]
    return dict(head.removesuffix(" ▾").split("\n") for head in heads)


def choose(page, column, use):
    menu = page.options.data.views.rows.use_menu(list(uses(page)).index(column))
    next(action for action in menu.actions() if action.data() == use).trigger()


def load_chat(qtbot, page, talks):
    load(page, "chat", data=talks)
    await_reading(qtbot, page)
