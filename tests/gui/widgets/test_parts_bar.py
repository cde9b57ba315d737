"""The bar of parts: where everything stands, in any width and direction, and what it says without being seen."""

import pytest
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from core.base.settings import Appearance
from gui.base.theme import Theme
from gui.widgets.bars import SQUARE, THINNEST, Limit, Part, PartsBar
from gui.widgets.labels import mirrored

GB = 1 << 30
PARTS = (
    Part("weights", 2 * GB, "run", "The numbers."),
    Part("gradients", 0, "gradients"),
    Part("optimizer", 4 * GB, "optimizer"),
    Part("overhead", 1, "others"),
)
LIMITS = (Limit("12.0 GB free now", 12 * GB, "text"), Limit("16.0 GB in all", 16 * GB, "bad"))


@pytest.fixture
def bar(qtbot):
    bar = PartsBar(Theme(Appearance.LIGHT), "Memory")
    qtbot.addWidget(bar)
    bar.resize(400, 80)
    bar.show_parts(PARTS, LIMITS)
    return bar


def test_it_says_in_words_what_it_shows(bar):
    assert bar.accessibleName() == "Memory"
    told = "weights 2.00 GB, optimizer 4.00 GB, overhead 1 B, 12.0 GB free now, 16.0 GB in all"
    assert bar.accessibleDescription() == told


def test_parts_stand_side_by_side_at_one_scale(bar):
    (weights, _), (optimizer, _), (overhead, _) = bar.placed(400).parts
    assert (weights.left(), weights.width()) == (0, 50)
    assert (optimizer.left(), optimizer.width()) == (50, 100)
    assert overhead.width() == THINNEST  # too little to be seen otherwise


def test_a_run_that_is_too_large_reaches_beyond_the_limits(bar):
    bar.show_parts([Part("weights", 32 * GB, "run")], LIMITS)
    placed = bar.placed(400)
    assert placed.parts[0][0].width() == 400
    assert [place for place, _, _ in placed.limits] == [150, 200]


@pytest.mark.parametrize("width", [180, 260, 400, 1200])
def test_words_stay_within_and_apart(bar, width):
    placed = bar.placed(width)
    rects = [rect for _, rect, _ in placed.limits] + [rect for rect, _ in placed.legend]
    assert all(rect.left() >= 0 and rect.right() <= width for rect in rects)
    assert not any(one.intersects(other) for one in rects for other in rects if one is not other)
    assert bar.heightForWidth(width) >= max(rect.bottom() for rect in rects)


def test_it_is_never_narrower_than_its_words(bar):
    width = bar.minimumSizeHint().width()
    words = bar.fontMetrics().horizontalAdvance("optimizer 4.00 GB")
    assert width >= words + SQUARE


def test_a_part_tells_what_it_is_where_the_pointer_is(bar):
    assert bar.part_at(10, 10).name == "weights"
    assert bar.part_at(390, 10) is None
    rect, part = bar.placed(bar.width()).legend[1]
    assert bar.part_at(rect.center().x(), rect.center().y()) is part


def test_right_to_left_it_begins_at_the_right(bar):
    bar.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    assert bar.part_at(390, 10).name == "weights"
    assert bar.part_at(10, 10) is None
    assert mirrored(bar, QRectF(0, 0, 50, 10)) == QRectF(350, 0, 50, 10)


def test_it_paints_in_the_colours_of_the_theme(bar):
    picture = bar.grab().toImage()
    assert picture.pixelColor(QPoint(20, 10)).name() == bar._theme.tokens.run
    assert picture.pixelColor(QPoint(100, 10)).name() == bar._theme.tokens.optimizer
    assert picture.pixelColor(QPoint(250, 10)).name() == bar._theme.tokens.grid
    assert picture.pixelColor(QPoint(350, 10)).name() == bar._theme.tokens.line  # there, but taken


def test_nothing_to_show_is_no_error(bar):
    bar.show_parts([])
    assert bar.placed(100).parts == ()
    bar.grab()


def test_what_stands_below_doesnt_move_when_words_take_fewer_lines(bar):
    bar.show_parts([Part(f"part {number}", 10_000, "run") for number in range(6)])
    tall = bar.heightForWidth(220)
    bar.show_parts([Part("one", 10, "run")])
    assert bar.heightForWidth(220) == tall
    assert bar.heightForWidth(400) < tall


def test_no_line_of_the_legend_is_cut_off_where_the_window_becomes_narrow(qtbot):
    bar, around = PartsBar(Theme(Appearance.LIGHT), "Memory"), QWidget()
    bar.show_parts([Part(f"part {number} of the memory", GB, "run") for number in range(7)], LIMITS)
    layout = QVBoxLayout(around)
    layout.addWidget(QLabel("above"))
    layout.addWidget(bar)
    layout.addStretch(1)
    qtbot.addWidget(around)
    around.resize(1200, 400)
    around.show()
    around.resize(300, 400)
    qtbot.waitUntil(lambda: bar.height() >= bar.placed(bar.width()).height)
