import pytest

from gui.charts.axes import SharedView, Stretch, XKind


@pytest.fixture
def view(qapp):
    return SharedView()


def test_following_shows_the_newest_part_and_moves_with_it(view):
    view.advance(1000.0)
    view.follow(True)
    assert view.stretch == Stretch(800.0, 1000.0)
    view.advance(1030.0)
    assert view.stretch == Stretch(830.0, 1030.0)


def test_following_keeps_the_width_that_was_chosen(view):
    view.advance(1000.0)
    view.zoom_to(Stretch(100.0, 130.0))
    view.follow(True)
    assert view.stretch == Stretch(970.0, 1000.0)


def test_zooming_lets_go_of_the_end_and_so_does_the_whole_run(view):
    view.advance(500.0)
    view.follow(True)
    view.zoom_to(Stretch(10.0, 20.0))
    view.advance(600.0)
    assert (view.follows, view.stretch) == (False, Stretch(10.0, 20.0))
    view.follow(True)
    view.zoom_to(None)
    view.advance(700.0)
    assert (view.follows, view.stretch) == (False, None)


def test_a_young_run_has_no_time_before_its_start(view):
    view.advance(20.0)
    view.follow(True)
    assert view.stretch == Stretch(0.0, 60.0)
    view.advance(90.0)
    assert view.stretch == Stretch(30.0, 90.0)


def test_letting_go_leaves_the_view_where_it_is(view):
    view.advance(300.0)
    view.follow(True)
    view.follow(False)
    view.advance(900.0)
    assert view.stretch == Stretch(240.0, 300.0)


def test_everyone_hears_of_a_change_and_of_nothing_else(view, qtbot):
    with qtbot.waitSignal(view.changed):
        view.lie_over(XKind.TIME)
    with qtbot.assertNotEmitted(view.changed):
        view.lie_over(XKind.TIME)
        view.zoom_to(None)
        view.point_at(None)
