"""Checks that every page has to pass, in light and dark, left to right and right to left."""

import tempfile
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
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

from core.base.settings import Appearance, Settings
from core.benchmark.result import Saved
from core.memory.model import Room
from core.options.choices import Task
from core.options.presets import presets
from core.runs.folder import RunFolder
from gui.app.application import set_up
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.theme import Theme
from tests.fakes.bench import methods_result
from tests.fakes.data_reports import report_for
from tests.fakes.jobs import FakeEngine
from tests.fakes.memory import MEASURED, FakeMemory
from tests.fakes.runs import Plot, finish, make_folder, write_story
from tests.screenshots.answers import make_tried

PAGES = (
    *("new-run-images", "new-run-texts", "new-run-talks", "new-run-more", "new-run-short"),
    *("try-talk", "run", "runs", "compare", "settings"),
    *("bench-methods", "bench-devices", "bench-measuring", "bench-earlier"),
)
CONTROLS = (QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QAbstractItemView, QTabBar)


def write_finished(run):
    plot = Plot(steps=16, reached=16)
    finish(run, plot, write_story(run, plot))


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages") / "runs"
    run = make_folder(folder / "done")
    write_finished(run)
    return folder


@pytest.fixture(
    scope="module",
    params=[(Appearance.LIGHT, False), (Appearance.DARK, True)],
    ids=["light", "dark-right-to-left"],
)
def theme(request, qapp):
    """The application in one appearance, for all tests in turn: each style sheet set costs every window there is."""
    appearance, right_to_left = request.param
    set_up(qapp)
    theme = Theme(appearance)
    theme.apply()
    qapp.setLayoutDirection(
        Qt.LayoutDirection.RightToLeft if right_to_left else Qt.LayoutDirection.LeftToRight
    )
    yield theme
    qapp.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
    qapp.setStyleSheet("")


@pytest.fixture
def window(qtbot, theme, runs_folder):
    memory = FakeMemory()
    window = MainWindow(theme, Settings(runs_folder=str(runs_folder)), FakeEngine(), tools=memory.tools)
    qtbot.addWidget(window)
    window.resize(1024, 700)
    window.show()
    with qtbot.waitSignal(window._devices.done):
        window.ask_for_devices()
    yield window
    window.end_work()


def open_page(qtbot, window, name, runs_folder):
    match name:
        case "new-run-images":
            window.go_to(Place.NEW_RUN)
            qtbot.waitUntil(lambda: not window.new_run._reading.is_waiting)
        case "new-run-texts":
            data = runs_folder / "pairs.tsv"
            data.write_text("first\tsecond\tsame\n")
            window.edit({"task": "text-classification", "data": {"train": str(data)}})
            qtbot.waitUntil(lambda: not window.new_run._reading.is_waiting)
        case "new-run-talks":
            data = runs_folder / "talks.json"
            data.write_text("[]")
            window._ask.answers["inspect"] = report_for(Task.CHAT, str(data))
            window.edit({"task": "chat", "data": {"train": str(data)}})
            qtbot.waitUntil(lambda: bool(window.new_run._options.data.findings.summary.text()))
        case "new-run-more":
            window.edit(
                {
                    "task": "text-classification",
                    "model": {"source": "", "method": "lora"},
                    "device": {"compile": True},
                }
            )
            window.new_run.open_more()
            window.new_run.apply_preset(presets()[0])
        case "new-run-short":
            show_short_memory(qtbot, window, runs_folder)
        case "run":
            window.open_path(runs_folder / "done")
        case "try-talk" | "try-images":
            kind = name.removeprefix("try-")
            place = Path(tempfile.mkdtemp(dir=runs_folder.parent))
            run = make_tried(place)["chat" if kind == "talk" else "image"]
            window.try_run(run)
            qtbot.waitUntil(window.try_it.input.examples.isVisible)
            window.try_it.input.more.setChecked(True)
        case "runs":
            window.go_to(Place.RUNS)
            qtbot.waitUntil(lambda: window.runs.model.rowCount() == 1)
        case "compare":
            run = RunFolder(runs_folder / "done")
            window.compare_runs([run, run])
            qtbot.waitUntil(lambda: window.compare.table.model.rowCount() > 0)
        case "settings":
            window.go_to(Place.SETTINGS)
        case _:
            show_benchmark(qtbot, window, name, runs_folder)
    QApplication.sendPostedEvents()
    assert (window.width(), window.height()) == (1024, 700)
    return window.pages.currentWidget()


def show_benchmark(qtbot, window, name, runs_folder):
    """The page Benchmark: what can be chosen, figures that come in, or those of earlier."""
    window.go_to(Place.BENCHMARK)
    page = window.benchmark
    qtbot.waitUntil(page.methods.start.isEnabled)
    match name:
        case "bench-methods":
            page.methods.setup.models.setCurrentIndex(page.methods.setup.models.findData("file"))
        case "bench-devices":
            page.tabs.setCurrentWidget(page.devices)
            page.devices.setup.data.setCurrentIndex(page.devices.setup.data.findData("folder"))
        case "bench-measuring":
            page.methods.show_result(methods_result(done=7))
            page.methods.show_progress(page.measuring)
        case "bench-earlier":
            page.tabs.setCurrentWidget(page.earlier)
            page.earlier.show_saved([Saved(runs_folder / "one.json", methods_result())])


def show_short_memory(qtbot, window, runs_folder):
    """The card "Will it fit?" at its fullest: measured, too little memory, the ladder with all its rows."""
    data, model = runs_folder / "pairs.tsv", runs_folder / "model"
    data.write_text("first\tsecond\tsame\n")
    model.mkdir(exist_ok=True)
    for name in ("config.json", "model.safetensors"):
        (model / name).touch()
    texts = {"task": "text-classification", "model": {"source": str(model)}, "data": {"train": str(data)}}
    page = window.new_run
    window.edit(texts)
    qtbot.waitUntil(lambda: not (page._reading.is_waiting or page._questions.model.is_waiting))
    page._fit.tools.room.room = Room(free=1 << 30, ceiling=2 << 30)
    page._fit.read_room()
    page._fit.add_measurement(page._fit.case.options, MEASURED)
    assert page._outcome.fit.ladder.is_open


def seen(root: QWidget, kind: type[QWidget] | tuple[type[QWidget], ...]) -> list[QWidget]:
    return [child for child in root.findChildren(QWidget) if isinstance(child, kind) and child.isVisible()]


def is_inner(widget: QWidget) -> bool:
    """Whether it is a part of a control rather than one: the line of a spin box, a scroll bar, a header's corner."""
    parents = []
    parent = widget.parentWidget()
    while parent is not None:
        parents.append(parent)
        parent = parent.parentWidget()
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


@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_read_and_reached_and_has_its_colours(qtbot, window, runs_folder, name):
    page = open_page(qtbot, window, name, runs_folder)

    def all_can_be_read() -> None:  # texts that wrap make Qt's layouts go round more than once
        assert cut_off(window) == [], "a text is cut off at the smallest size"

    qtbot.waitUntil(all_can_be_read)
    assert_reachable_by_tab(window, page)
    assert_painted_in_its_colours(window, page)


def assert_reachable_by_tab(window, page):
    controls = [control for control in seen(page, CONTROLS) if not is_inner(control) and control.isEnabled()]
    assert controls
    nameless = [type(control).__name__ for control in controls if not spoken_name(control)]
    assert nameless == []
    reachable = tab_chain(window)
    lost = [described(control) for control in controls if not takes_tab(control, reachable)]
    assert lost == []


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


def takes_tab(control: QWidget, reachable: set[QWidget]) -> bool:
    """Whether Tab stops at it, or at the choice of its group that is taken (arrow keys lead to the others)."""
    if isinstance(control, QAbstractButton) and control.group() is not None and control.group().exclusive():
        return any(button in reachable for button in control.group().buttons())
    return control in reachable


def assert_painted_in_its_colours(window, page):
    corner = window.grab().toImage()
    tokens = window._theme.tokens
    at = page.mapTo(window, QPoint(page.width() - 2, page.height() // 2))
    assert corner.pixelColor(at).name() == tokens.background
    assert not any(isinstance(area, QAbstractScrollArea) and area.isWindow() for area in seen(page, QWidget))
