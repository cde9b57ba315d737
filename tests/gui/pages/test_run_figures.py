"""What came of a run stays in the window, however long its figures are."""

from gui.run.header import RunFigures

ROWS = [
    ("Last evaluated at step 12,345", "Loss 0.147 · Accuracy 98.1 % · F1 97.7 %"),
    ("Speed", "1,149 rows/s"),
    ("Time", "3 h 12 min 40 s"),
    ("Peak memory", "21.2 GB"),
]


def test_figures_that_have_no_room_beside_each_other_take_a_second_line(qtbot):
    figures = RunFigures()
    qtbot.addWidget(figures)
    figures.show_figures(ROWS)
    line = figures.sizeHint()
    assert figures.heightForWidth(line.width()) == line.height()
    assert figures.heightForWidth(line.width() - 1) > 2 * line.height()
    assert figures.minimumSizeHint().width() < 0.6 * line.width()


def test_nothing_takes_no_room(qtbot):
    figures = RunFigures()
    qtbot.addWidget(figures)
    figures.show_figures([])
    assert figures.isHidden()
