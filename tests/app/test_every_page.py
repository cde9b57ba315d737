"""Every page in the smallest window: no text is cut off, and every control has a name and is reached by Tab."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QWidget

from core.base.settings import Appearance
from core.benchmark.plan import BenchmarkKind
from core.memory.model import Room
from core.options.choices import Task
from core.options.presets import presets
from core.runs.folder import RunFolder
from gui.app.application import set_up
from gui.app.sidebar import Place
from gui.widgets.layout import tab_stops
from tests.fakes.bench import make_benchmark
from tests.fakes.data_reports import report_for
from tests.fakes.jobs import FakeEngine
from tests.fakes.memory import MEASURED, FakeMemory
from tests.fakes.on_screen import astray, cut_off, seen, unnamed, without_ring
from tests.fakes.runs import Plot, finish, make_folder, write_story
from tests.screenshots.answers import make_tried


class Pages:
    """Opens each page of a window, with what makes it fullest."""

    def __init__(self, qtbot, window, folder):
        self.qtbot, self.window, self.folder = qtbot, window, folder
        self.data = folder / "pairs.tsv"
        self.data.write_text("first\tsecond\tsame\n")

    def edit(self, **options):
        self.window.pages.edit({"task": "text-classification", "data": {"train": str(self.data)}, **options})
        self.qtbot.waitUntil(lambda: not self.window.pages.new_run.reading.is_waiting)

    def welcome(self):
        self.window.pages.go_to(Place.WELCOME)

    def images(self):
        self.window.pages.go_to(Place.NEW_RUN)
        self.qtbot.waitUntil(lambda: not self.window.pages.new_run.reading.is_waiting)

    def texts(self):
        self.edit()

    def lora_with_all_options(self):
        self.edit(data={}, model={"source": "", "method": "lora"}, device={"compile": True})
        for card in self.window.pages.new_run.options.cards:
            card.open()
        self.window.pages.new_run.apply_preset(presets()[0])

    def too_little_memory(self):
        """The card "Will it fit?" at its fullest: measured, too little memory, the ladder with all its rows."""
        model = self.folder / "model"
        model.mkdir()
        for name in ("config.json", "model.safetensors"):
            (model / name).touch()
        self.edit(model={"source": str(model)})
        page = self.window.pages.new_run
        self.qtbot.waitUntil(lambda: not (page.reading.is_waiting or page.questions.model.is_waiting))
        page.fit.tools.room.room = Room(free=1 << 30, ceiling=2 << 30)
        page.fit.read_room()
        page.fit.add_measurement(page.fit.case.options, MEASURED)
        assert page.outcome.fit.ladder.is_open

    def conversations(self):
        data = self.folder / "talks.json"
        data.write_text("[]")
        self.window._ask.answers["inspect"] = report_for(Task.CHAT, str(data))
        self.edit(task="chat", data={"train": str(data)})
        self.qtbot.waitUntil(lambda: bool(self.window.pages.new_run.options.data.findings.summary.text()))

    def run(self):
        self.window.open_path(self.folder / "runs" / "done")

    def runs(self):
        self.window.pages.go_to(Place.RUNS)
        self.qtbot.waitUntil(lambda: self.window.pages.runs.model.rowCount() == 1)

    def compare(self):
        run = RunFolder(self.folder / "runs" / "done")
        self.window.pages.compare_runs([run, run])
        self.qtbot.waitUntil(lambda: self.window.pages.compare.table.model.rowCount() > 0)

    def try_it(self):
        (self.folder / "tried").mkdir()
        self.window.pages.try_run(make_tried(self.folder / "tried")["chat"])
        self.qtbot.waitUntil(self.window.pages.try_it.input.examples.isVisible)
        self.window.pages.try_it.input.more.setChecked(True)

    def settings(self):
        self.window.pages.go_to(Place.SETTINGS)

    def benchmark_of_methods(self):
        measured = make_benchmark(self.folder / "methods", done=7)
        self.window.pages.compare_runs([*measured.runs.values()])
        self.qtbot.waitUntil(lambda: self.window.pages.compare.benchmark.result is not None)

    def benchmark_of_devices(self):
        measured = make_benchmark(self.folder / "devices", BenchmarkKind.DEVICES)
        self.window.pages.compare_runs([*measured.runs.values()])
        view = self.window.pages.compare.benchmark
        self.qtbot.waitUntil(
            lambda: view.result is not None and view.result.benchmark.kind is BenchmarkKind.DEVICES
        )
        view.published.setChecked(True)

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
            *(self.benchmark_of_methods, self.benchmark_of_devices),
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
    window.theme.set_appearance(colours)
    window.theme.apply()
    window.resize(1008, 700)
    window.show()
    with qtbot.waitSignal(window.devices.done):
        window.ask_for_devices()
    for open_page in Pages(qtbot, window, tmp_path).all():
        open_page()
        QApplication.sendPostedEvents()
        assert (window.width(), window.height()) == (1008, 700), open_page.__name__
        page = window.pages.currentWidget()

        def all_can_be_read(name=open_page.__name__):
            assert cut_off(window) == [], name

        qtbot.waitUntil(all_can_be_read)  # texts that wrap make Qt's layouts go round more than once
        assert unnamed(page) == [], open_page.__name__
        assert astray(window) == [], open_page.__name__
        assert without_ring(tab_stops(window)) == [], open_page.__name__
        assert background_beside(window, page) == window.theme.tokens.background, open_page.__name__


def background_beside(window: QWidget, page: QWidget) -> str:
    """The colour painted at the page's edge."""
    assert not any(isinstance(area, QAbstractScrollArea) and area.isWindow() for area in seen(page, QWidget))
    edge = page.mapTo(window, QPoint(page.width() - 2, page.height() // 2))
    return window.grab().toImage().pixelColor(edge).name()
