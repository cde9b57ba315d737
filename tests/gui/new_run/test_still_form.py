"""Nothing in the form moves while it is edited: hints, problems and notices have places that are kept for them."""

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QApplication, QFrame, QPushButton

from core.base.errors import Fix, Problem
from core.options.choices import Method, Task
from core.runs.events import Level
from gui.new_run.model_field import ModelOrigin
from gui.widgets.bars import Part
from tests.fakes.on_screen import press
from tests.gui.new_run.steps import drop, load, put, row, settle

LONG = (
    "is a sentence with many words that no line of the form has enough room for, at any width of the window"
)
FIXES = (Fix("Use 2e-5", {"training.learning_rate": 2e-5}), Fix("Choose another one"))


@pytest.fixture
def places(qtbot, page):
    """Returns where the rows are on the page now, in pixels, in the smallest window; all cards are open."""
    page.resize(815, 650)
    page.set_machine(None)
    for card in page.options.cards:
        card.open()
    settle(qtbot, page)

    def look() -> dict[str, int]:
        for _round in range(5):  # texts that wrap make layouts go round twice
            QApplication.processEvents()
        controls = {path: page.options.form.field(path).control for path in page.options.form.paths}
        return {
            path: control.mapTo(page, QPoint()).y()
            for path, control in controls.items()
            if control.isVisible()
        }

    yield look
    for path in page.options.form.paths:
        page.options.form.field(path).remarked.emit("")
    page.resize(1000, 700)


def show(page, kind, path):
    shown, problem = row(page, path), Problem(path, LONG, FIXES)
    if kind == "hint":
        shown.set_hint(LONG)
    elif kind == "typing":
        shown.field.remarked.emit("Press Return")
    else:
        getattr(shown, f"set_{kind}")([problem, problem])


@pytest.mark.parametrize("kind", ["hint", "advice", "problems", "typing"])
def test_no_row_moves_by_what_is_said_at_any_row(page, places, kind):
    before = places()
    assert len(before) > 30
    for path in before:
        show(page, kind, path)
    assert places() == before


@pytest.mark.parametrize(
    ("path", "value", "note"),
    [
        ("memory.gradient_accumulation_steps", 4, "Effective batch size: 128"),
        ("training.learning_rate", 0.5, "usual"),
        ("training.learning_rate", "fast", "number"),
        ("memory.batch_size", 0, "must be 1 or more"),
    ],
)
def test_no_row_moves_while_values_are_typed(page, places, path, value, note):
    before = places()
    put(page, **{path: value})
    after = places()
    assert {path: y for path, y in after.items() if path in before} == {
        path: y for path, y in before.items() if path in after
    }
    assert note.lower() in " ".join(row(page, path).note.lines).lower()


def test_another_source_of_the_model_moves_nothing(page, places):
    heights = set()
    for place in ModelOrigin:
        page.options.fields.model.place.buttons()[place.value].click()
        places()
        heights.add(row(page, "model.source").height())
    assert len(heights) == 1


def test_notices_move_nothing_and_take_a_few_lines_while_they_are_there(page, places):
    def say_and_hide():
        for strip in page.strips:
            strip.show_message(Level.ERROR, LONG, "\n".join([LONG] * 9), FIXES)
        yield
        for strip in page.strips:
            strip.hide()
        places()

    [*say_and_hide()]  # that of the example's options has taken more than one line
    before, area = places(), page.scroll_area.geometry()
    saying = say_and_hide()
    next(saying)
    assert places() == before
    assert page.scroll_area.geometry().topLeft() == area.topLeft()
    assert page.scroll_area.geometry().bottom() < page.strips[0].mapTo(page, QPoint()).y()
    assert page.strips[0].height() < 4.5 * page.fontMetrics().height()
    next(saying, None)
    assert page.scroll_area.geometry() == area


def test_another_task_leaves_the_form_where_it_is(page, places):
    page.header.show_restored(True)
    tops = {(page.scroll_area.y(), places()["model.source"])}
    for task in Task:
        page.header.task_chosen.emit(task)
        tops.add((page.scroll_area.y(), places()["model.source"]))
    assert page.options.form.task is list(Task)[-1]
    assert len(tops) == 1


def test_a_card_without_more_options_is_as_high(page, places):
    card = next(card for card in page.options.cards if card.isAncestorOf(row(page, "model.source")))
    seen = {}
    for method in Method.HEAD, Method.LORA:
        put(page, model__method=method)
        of_model = {path: y for path, y in places().items() if path in ("model.source", "model.method")}
        seen[card.more.isVisible()] = of_model
    assert seen[False] == seen[True]


def test_the_memory_card_keeps_its_height_whatever_its_parts_are(page, places):
    bar, heights = page.outcome.fit.bar, set()
    limits = [Part("free now", 8.0, "text"), Part("in total", 9.0, "bad")]
    for count in range(1, 6):
        bar.show_parts([Part(f"part {number}", 1.0, "run") for number in range(count)], limits)
        places()
        heights.add(bar.sizeHint().height())
    assert len(heights) == 1


def in_front(page):
    """What is read where the notices are."""
    front = next(strip for strip in reversed(page.strips) if strip.isVisible() and strip.isEnabled())
    middle = QRect(front.mapTo(page, QPoint()), front.size()).center()
    assert front.isAncestorOf(page.childAt(middle)) or page.childAt(middle) is front
    return front.note.lines[0]


def test_an_older_notice_that_holds_comes_back_when_the_newer_one_is_done(page, talks):
    load(page)
    drop(page, talks)
    asked = "talks.json looks like data for “Chat”"
    assert in_front(page) == asked
    page.remedies.apply(Fix("Remove duplicates", {"training.seed": 3}))
    assert in_front(page) == "Remove duplicates"
    press(page, "1 more")
    assert in_front(page) == asked
    press(page, "1 more")
    press(page.changes, "Undo")
    assert in_front(page) == asked
    press(page.offer, "✕")
    assert page.offer.isHidden()


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_what_a_line_has_no_room_for_is_over_the_page(qtbot, page, places):
    show(page, "problems", "training.learning_rate")
    places()
    note = row(page, "training.learning_rate").note
    press(note, "Details")
    popup = next(frame for frame in note.findChildren(QFrame) if frame.isWindow())
    assert popup.isVisible()
    with qtbot.waitSignal(note.fix_chosen) as caught:
        press(popup, "Use 2e-5")
    assert caught.args == [FIXES[0]]
    assert not popup.isVisible()
    assert not [one for one in note.findChildren(QPushButton) if one.text() == "Use 2e-5" and one.isVisible()]
