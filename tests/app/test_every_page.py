"""Every page in the smallest window: no text is cut off, and every control has a name and is reached by Tab."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QScrollArea,
    QTabBar,
    QWidget,
)

from core.base.settings import Appearance
from core.benchmark.result import Saved
from core.memory.model import Room
from core.options.choices import Task
from core.options.presets import presets
from core.runs.folder import RunFolder
from gui.app.application import set_up
from gui.app.sidebar import Place
from gui.widgets.cards import Note
from gui.widgets.form import FormRow
from tests.fakes.bench import methods_result
from tests.fakes.data_reports import report_for
from tests.fakes.jobs import FakeEngine
from tests.fakes.memory import MEASURED, FakeMemory
from tests.fakes.runs import Plot, finish, make_folder, write_story
from tests.screenshots.answers import make_tried

CONTROLS = (QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QAbstractItemView, QTabBar)


class Pages:
    """Opens each page of a window, with what makes it fullest."""

    def __init__(self, qtbot, window, folder):
        self.qtbot, self.window, self.folder = qtbot, window, folder
        self.data = folder / "pairs.tsv"
        self.data.write_text("first\tsecond\tsame\n")

    def edit(self, **options):
        self.window.edit({"task": "text-classification", "data": {"train": str(self.data)}, **options})
        self.qtbot.waitUntil(lambda: not self.window.new_run._reading.is_waiting)

    def welcome(self):
        self.window.go_to(Place.WELCOME)

    def images(self):
        self.window.go_to(Place.NEW_RUN)
        self.qtbot.waitUntil(lambda: not self.window.new_run._reading.is_waiting)

    def texts(self):
        self.edit()

    def lora_with_all_options(self):
        self.edit(data={}, model={"source": "", "method": "lora"}, device={"compile": True})
        for card in self.window.new_run._options.cards:
            card.open()
        self.window.new_run.apply_preset(presets()[0])

    def too_little_memory(self):
        """The card "Will it fit?" at its fullest: measured, too little memory, the ladder with all its rows."""
        model = self.folder / "model"
        model.mkdir()
        for name in ("config.json", "model.safetensors"):
            (model / name).touch()
        self.edit(model={"source": str(model)})
        page = self.window.new_run
        self.qtbot.waitUntil(lambda: not (page._reading.is_waiting or page._questions.model.is_waiting))
        page._fit.tools.room.room = Room(free=1 << 30, ceiling=2 << 30)
        page._fit.read_room()
        page._fit.add_measurement(page._fit.case.options, MEASURED)
        assert page._outcome.fit.ladder.is_open

    def conversations(self):
        data = self.folder / "talks.json"
        data.write_text("[]")
        self.window._ask.answers["inspect"] = report_for(Task.CHAT, str(data))
        self.edit(task="chat", data={"train": str(data)})
        self.qtbot.waitUntil(lambda: bool(self.window.new_run._options.data.findings.summary.text()))

    def run(self):
        self.window.open_path(self.folder / "runs" / "done")

    def runs(self):
        self.window.go_to(Place.RUNS)
        self.qtbot.waitUntil(lambda: self.window.runs.model.rowCount() == 1)

    def compare(self):
        run = RunFolder(self.folder / "runs" / "done")
        self.window.compare_runs([run, run])
        self.qtbot.waitUntil(lambda: self.window.compare.table.model.rowCount() > 0)

    def try_it(self):
        (self.folder / "tried").mkdir()
        self.window.try_run(make_tried(self.folder / "tried")["chat"])
        self.qtbot.waitUntil(self.window.try_it.input.examples.isVisible)
        self.window.try_it.input.more.setChecked(True)

    def settings(self):
        self.window.go_to(Place.SETTINGS)

    def benchmark_of_methods(self):
        self.window.go_to(Place.BENCHMARK)
        page = self.window.benchmark
        self.qtbot.waitUntil(page.methods.start.isEnabled)

    def benchmark_of_devices(self):
        page = self.window.benchmark
        page.tabs.setCurrentWidget(page.devices)

    def benchmark_under_way(self):
        page = self.window.benchmark
        page.tabs.setCurrentWidget(page.methods)
        page.methods.show_result(methods_result(done=7))
        page.methods.show_progress(page.measuring)

    def earlier_benchmarks(self):
        page = self.window.benchmark
        page.tabs.setCurrentWidget(page.earlier)
        page.earlier.show_saved([Saved(self.folder / "one.json", methods_result())])

    def all(self) -> list[Callable[[], None]]:
        return [
            *(
                self.welcome,
                self.images,
                self.texts,
                self.lora_with_all_options,
                self.too_little_memory,
                self.conversations,
            ),
            *(self.run, self.runs, self.compare, self.try_it, self.settings),
            *(self.benchmark_of_methods, self.benchmark_of_devices, self.benchmark_under_way),
            self.earlier_benchmarks,
        ]


@pytest.fixture
def turn_to(qapp):
    """Sets the direction of reading of the whole application."""
    set_up(qapp)
    yield qapp.setLayoutDirection
    qapp.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
    qapp.setStyleSheet("")


@pytest.mark.parametrize(
    "look",
    [(Appearance.LIGHT, Qt.LayoutDirection.LeftToRight), (Appearance.DARK, Qt.LayoutDirection.RightToLeft)],
    ids=["light", "dark-right-to-left"],
)
def test_every_page_can_be_read_and_reached_and_has_its_colours(qtbot, tmp_path, make_window, turn_to, look):
    colours, direction = look
    run, plot = make_folder(tmp_path / "runs" / "done"), Plot(steps=16, reached=16)
    finish(run, plot, write_story(run, plot))
    turn_to(direction)
    window = make_window(FakeEngine(), is_shown=False, tools=FakeMemory().tools)
    window._theme.set_appearance(colours)
    window._theme.apply()
    window.resize(1008, 700)
    window.show()
    with qtbot.waitSignal(window._devices.done):
        window.ask_for_devices()
    for open_page in Pages(qtbot, window, tmp_path).all():
        open_page()
        QApplication.sendPostedEvents()
        assert (window.width(), window.height()) == (1008, 700), open_page.__name__
        page = window.pages.currentWidget()

        def all_can_be_read(name=open_page.__name__):
            assert cut_off(window) == [], name

        qtbot.waitUntil(all_can_be_read)  # texts that wrap make Qt's layouts go round more than once
        assert unreachable_by_tab(window, page) == [], open_page.__name__
        assert backwards(window) == [], open_page.__name__
        assert background_beside(window, page) == window._theme.tokens.background, open_page.__name__


def seen(root: QWidget, kind: type[QWidget] | tuple[type[QWidget], ...]) -> list[QWidget]:
    return [child for child in root.findChildren(QWidget) if isinstance(child, kind) and child.isVisible()]


def is_inner(widget: QWidget) -> bool:
    """Whether it is a part of a control rather than one: the line of a spin box, a scroll bar, a header's corner."""
    parents = []
    parent = widget.parentWidget()
    while parent is not None:
        parents.append(parent)
        parent = parent.parentWidget()
    if any(isinstance(parent, FormRow) and widget is parent.mark for parent in parents):
        return True  # Tab leaves it out: Undo does the same
    if any(isinstance(parent, (QAbstractSpinBox, QComboBox, QTabBar, QLineEdit)) for parent in parents):
        return True
    name = type(widget).__name__
    return name in ("QHeaderView", "QTableCornerButton", "QComboBoxListView") or any(
        isinstance(parent, QAbstractItemView) for parent in parents
    )


def enclosing_scroll(widget: QWidget) -> QScrollArea | None:
    parent = widget.parentWidget()
    while parent is not None and not isinstance(parent, QScrollArea):
        parent = parent.parentWidget()
    return parent


def described(widget: QWidget) -> str:
    text = widget.text() if isinstance(widget, QLabel | QAbstractButton) else widget.accessibleName()
    return f"{type(widget).__name__} {text!r}"


def cut_off(window: QWidget) -> list[str]:
    """The texts that can't be read whole."""
    cut = []
    for widget in seen(window, (QLabel, QAbstractButton)):
        if is_inner(widget):
            continue
        wraps = isinstance(widget, QLabel) and widget.wordWrap()
        note = widget.parentWidget()
        if isinstance(note, Note) and note._more.isVisible():
            continue  # its link opens the whole text
        if not wraps and widget.sizeHint().width() > widget.width():
            cut.append(described(widget))
        if wraps and widget.heightForWidth(widget.width()) > widget.height():
            cut.append(f"{described(widget)} is squashed")
        scroll = enclosing_scroll(widget)
        room = scroll.viewport() if scroll is not None else window
        left = widget.mapTo(room, QPoint(0, 0)).x()
        if left < 0 or left + widget.width() > room.width():
            cut.append(f"{described(widget)} reaches over the edge")
    return cut


def unreachable_by_tab(window: QWidget, page: QWidget) -> list[str]:
    """The controls without a name, and those at which Tab doesn't stop."""
    controls = [control for control in seen(page, CONTROLS) if not is_inner(control) and control.isEnabled()]
    assert controls
    reachable = tab_chain(window)
    return [
        described(control)
        for control in controls
        if not spoken_name(control) or not takes_tab(control, reachable)
    ]


def spoken_name(control: QWidget) -> str:
    text = control.text() if isinstance(control, QAbstractButton) else ""
    if isinstance(control, QTabBar):
        text = " ".join(control.tabText(index) for index in range(control.count()))
    return control.accessibleName() or text


def tab_chain(window: QWidget) -> set[QWidget]:
    """Everything in the window's chain of focus that Tab stops at."""
    found = {window}
    widget = window.nextInFocusChain()
    while widget not in found:
        found.add(widget)
        widget = widget.nextInFocusChain()
    return {widget for widget in found if widget.focusPolicy() & Qt.FocusPolicy.TabFocus}


def backwards(window: QWidget) -> list[str]:
    """Where Tab goes back on the screen: up, other than to the top of the next column, or back in a line."""
    window.focusNextPrevChild(True)
    stops: list[QWidget] = []
    widget = window.nextInFocusChain()
    while widget is not window:
        is_stop = widget.focusPolicy() & Qt.FocusPolicy.TabFocus and not widget.focusProxy()
        if is_stop and widget.isVisible() and widget.isEnabled() and widget.window() is window:
            stops.append(widget)
        widget = widget.nextInFocusChain()
    wrong = []
    for before, after in pairwise(stops):
        start = place_of(seen_beside(before, after), window)
        end = place_of(seen_beside(after, before), window)
        goes_up = end.bottom() <= start.top() and end.left() < start.center().x()
        goes_back = abs(end.center().y() - start.center().y()) < 8 and end.right() <= start.left()
        if goes_up or goes_back:
            wrong.append(f"from {described(before)} to {described(after)}")
    return wrong


def seen_beside(widget: QWidget, other: QWidget) -> QWidget:
    """The widget, or the outermost area with it but not with the other: what is scrolled away is where its area is."""
    shown, area = widget, enclosing_scroll(widget)
    while area is not None and not area.isAncestorOf(other):
        shown, area = area, enclosing_scroll(area)
    return shown


def place_of(widget: QWidget, window: QWidget) -> QRect:
    """Where it is in a window, as if that were read from left to right."""
    place = QRect(widget.mapTo(window, QPoint(0, 0)), widget.size())
    if window.layoutDirection() is Qt.LayoutDirection.RightToLeft:
        place.moveLeft(window.width() - place.right())
    return place


def takes_tab(control: QWidget, reachable: set[QWidget]) -> bool:
    """Whether Tab stops at it, or at the choice of its group that is taken (arrow keys lead to the others)."""
    if isinstance(control, QAbstractButton) and control.group() is not None and control.group().exclusive():
        return any(button in reachable for button in control.group().buttons())
    return control in reachable


def background_beside(window: QWidget, page: QWidget) -> str:
    """The colour painted at the page's edge."""
    assert not any(isinstance(area, QAbstractScrollArea) and area.isWindow() for area in seen(page, QWidget))
    edge = page.mapTo(window, QPoint(page.width() - 2, page.height() // 2))
    return window.grab().toImage().pixelColor(edge).name()
