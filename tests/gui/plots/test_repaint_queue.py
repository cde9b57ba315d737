from gui.plots.repaint_queue import RepaintQueue


class FakeChart:
    def __init__(self, name, turns, shown=True):
        self.name, self.turns, self.shown = name, turns, shown

    def redraw(self):
        self.turns.append(self.name)

    def is_shown(self):
        return self.shown


def test_each_turn_redraws_one_chart_in_the_order_of_asking(qtbot):
    turns = []
    queue = RepaintQueue()
    charts = [FakeChart(name, turns) for name in "abcd"]
    for chart in (*charts, charts[0]):
        queue.request(chart)
    assert turns == []
    queue._turn.timeout.emit()
    assert turns == ["a"]
    qtbot.waitUntil(lambda: turns == ["a", "b", "c", "d"], timeout=2000)


def test_hidden_charts_cost_nothing(qtbot):
    turns = []
    queue = RepaintQueue()
    for chart in (FakeChart("hidden", turns, shown=False), FakeChart("seen", turns)):
        queue.request(chart)
    qtbot.waitUntil(lambda: turns == ["seen"], timeout=2000)
    qtbot.waitUntil(lambda: not queue._turn.isActive(), timeout=2000)
