"""Every page in light and dark as PNG files: `python -m gui.screenshots FOLDER`.

Nothing is measured and no engine is started: the pages show an invented machine and invented runs. Whoever changes a
page looks at these pictures before it is committed.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QFont, QFontDatabase
from PySide6.QtWidgets import QApplication

from core.presets import presets
from core.run_folder import RunFolder
from core.settings import Appearance, Settings
from gui.app import dress
from gui.invented_exports import OFFERS, InventedExport
from gui.invented_memory import make_memory_run, write_on_card, write_paging
from gui.pages.export_sheet import ExportSheet
from gui.pages.import_sheet import ImportSheet
from gui.pages.new_run_header import DIGITS
from gui.pages.support_sheet import SupportSheet
from gui.plots.repaint_queue import RepaintQueue
from gui.screenshot_bench import BenchShots
from gui.screenshot_compare import make_tried
from gui.screenshot_data import DataShots
from gui.screenshot_fit import FitShots
from gui.screenshot_memory import InventedMemory
from gui.screenshot_runs import TOTAL_STEPS, InventedJob, make_run
from gui.screenshot_survive import SurviveShots
from gui.screenshot_try import SHOTS, TryShots
from gui.sidebar import Place
from gui.theme import Theme
from gui.window import MainWindow

SIZES = ((1280, 820), (1024, 700))
SCRIPT = """python run_glue.py --model_name_or_path bert-base-cased --task_name mrpc --do_train \\
  --max_seq_length 128 --per_device_train_batch_size 32 --learning_rate 2e-5 --num_train_epochs 3 \\
  --fp16 --evaluation_strategy epoch --optim adamw_hf --no_cuda --overwrite_output_dir"""
"""As people keep it from the guides of 2022."""

SETTLE_MS = 1600
"""Time in which a page hears from its threads and paints."""

POLL_MS = 50
PAINT_MS = 300
"""For what has just come to be painted."""

PATIENCE_SECONDS = 20.0
"""What has not come by then is missed in the picture."""


@dataclass(frozen=True)
class Shot:
    """One picture: its name, what brings the window there, and whether all is there that it is to show."""

    name: str
    prepare: Callable[[], None]
    is_there: Callable[[], bool] = lambda: True


class Photographer(QObject):
    """Takes one shot after the other as the event loop turns, then ends it."""

    def __init__(
        self,
        window: MainWindow,
        theme: Theme,
        folder: Path,
        runs: dict[str, RunFolder],
        memory: InventedMemory,
        *,
        tried: list[RunFolder],
    ) -> None:
        super().__init__()
        self._tried = tried
        self._window = window
        self._fit = FitShots(window, memory, self._text_form)
        self._theme = theme
        self._folder = folder
        self._runs = runs
        self._reviews = runs["live"].path.parent.parent / "reviews.csv"
        self._reviews.write_text("review,stars\n")
        self._model = self._reviews.with_name("distilbert-base-uncased")
        self._model.mkdir()
        for name in ("config.json", "model.safetensors"):
            (self._model / name).touch()
        self._data = DataShots(window, self._model, self._reviews.parent)
        self._tries = TryShots(window, theme, self._reviews.with_name("tried"))
        self._survive = SurviveShots(window, self._reviews.with_name("survive"))
        self._bench = BenchShots(window)
        self._series = self._all_shots()
        self._name = ""
        self._sheet: ImportSheet | None = None
        self._exporting: ExportSheet | None = None

    def begin(self) -> None:
        """Prepare the next shot and take it once the window has settled."""
        shot = next(self._series, None)
        if shot is None:
            self._window.end_work()
            QApplication.exit(0)
            return
        self._name = shot.name
        self._fit.tidy()
        self._survive.tidy()
        self._bench.tidy()
        shot.prepare()
        QTimer.singleShot(SETTLE_MS, lambda: self._await(shot.is_there, self._take))

    def _await(self, is_there: Callable[[], bool], then: Callable[[], None]) -> None:
        """Wait for threads that a busy machine keeps waiting, and for charts, which take turns."""
        deadline = time.monotonic() + PATIENCE_SECONDS

        def look() -> None:
            charts = self._window.findChildren(RepaintQueue)
            if (is_there() and all(queue.is_idle for queue in charts)) or time.monotonic() > deadline:
                QTimer.singleShot(PAINT_MS, then)
            else:
                QTimer.singleShot(POLL_MS, look)

        look()

    def _take(self) -> None:
        path = self._folder / f"{self._name}.png"
        sheet = QApplication.activeModalWidget()
        picture = (sheet or self._window).grab()
        if sheet is not None:
            sheet.close()
        if not picture.save(str(path)):
            print(f"{path} can't be written", file=sys.stderr)
            QApplication.exit(1)
            return
        print(path)
        self.begin()

    def _all_shots(self) -> Iterator[Shot]:
        for appearance in (Appearance.LIGHT, Appearance.DARK):
            for width, height in SIZES:
                self._theme.set_appearance(appearance)
                self._window.resize(width, height)
                for shot in self._pages():
                    yield replace(shot, name=f"{shot.name}-{appearance.value}-{width}")

    def _pages(self) -> tuple[Shot, ...]:
        window = self._window
        return (
            Shot("new-run", self._fresh_form),
            Shot("new-run-texts", self._text_form),
            Shot("new-run-problems", self._wrong_form),
            Shot("new-run-more", self._form_with_more),
            Shot("new-run-model", self._wrong_targets),
            Shot("new-run-preset", self._preset),
            *(Shot(name, prepare) for name, prepare in self._fit.shots().items()),
            *(Shot(name, prepare) for name, prepare in self._data.shots().items()),
            Shot("device-check", self._device_check),
            Shot("import", self._import),
            Shot("support", self._support),
            Shot("hub", self._hub),
            *(
                Shot(f"run-{name}", partial(window.show_run, run), self._run_is_read)
                for name, run in self._runs.items()
            ),
            Shot("export", self._export, self._can_be_exported),
            Shot("exported", self._exported, self._is_exported),
            Shot("runs", lambda: window.go_to(Place.RUNS)),
            Shot("compare", self._compare, self._is_compared),
            Shot("compare-differences", self._what_differs, self._is_compared),
            *(Shot(f"try-{name}", partial(self._tries.show, name)) for name in SHOTS),
            *(Shot(name, prepare) for name, prepare in self._survive.shots().items()),
            *(Shot(name, prepare) for name, prepare in self._bench.shots().items()),
            Shot("settings", lambda: window.go_to(Place.SETTINGS)),
        )

    def _fresh_form(self) -> None:
        self._window.open_path(DIGITS)

    def _text_form(self) -> None:
        tree = {"task": "text-classification", "model": {"source": str(self._model)}}
        self._window.edit({**tree, "data": {"train": str(self._reviews)}})

    def _form_with_more(self) -> None:
        self._window.edit(
            {
                "task": "text-classification",
                "model": {"source": str(self._model), "method": "lora"},
                "data": {"train": str(self._reviews)},
                "device": {"compile": True},
                "training": {"learning_rate": 2e-5},
            }
        )
        self._window.new_run.open_more()
        self._window.new_run.go_to_option("model.lora_rank")

    def _wrong_targets(self) -> None:
        lora = {"source": str(self._model), "method": "lora", "lora_targets": ["query", "value"]}
        data = {"train": str(self._reviews), "max_length": 1024}
        self._window.edit({"task": "text-classification", "model": lora, "data": data})
        self._window.new_run.open_more()
        self._window.new_run.go_to_option("model.lora_targets")

    def _preset(self) -> None:
        self._fresh_form()
        self._window.new_run.apply_preset(presets()[0])

    def _device_check(self) -> None:
        self._window.check_device("auto")

    def _import(self) -> None:
        self._sheet = ImportSheet(self._window)
        self._sheet.set_text(SCRIPT)
        self._sheet.open()

    def _export(self) -> None:
        self._window.show_run(self._runs["live"])
        self._exporting = ExportSheet(
            self._runs["live"], "Reviews", self._window, make=InventedExport, find=lambda _run: OFFERS
        )
        self._exporting.open()

    def _exported(self) -> None:
        self._export()
        self._await(self._can_be_exported, self._press_export)

    def _press_export(self) -> None:
        assert self._exporting is not None
        self._exporting.take.click()

    def _can_be_exported(self) -> bool:
        return self._exporting is not None and self._exporting.take.isEnabled()

    def _is_exported(self) -> bool:
        return self._exporting is not None and self._exporting.show_folder.isVisible()

    def _support(self) -> None:
        run = self._runs["finished"]
        self._window.show_run(run)
        SupportSheet(run, run.name, self._window, choose=lambda *_: "").open()

    def _hub(self) -> None:
        self._text_form()
        self._window.new_run.hub.open()
        sheet = self._window.new_run.hub.sheet
        assert sheet is not None
        sheet.words.setText("bert")
        sheet.button.click()

    def _run_is_read(self) -> bool:
        view = None if self._window.run is None else self._window.run.view
        return view is not None and view.state is not None

    def _is_compared(self) -> bool:
        return self._window.compare is not None and self._window.compare.has_caught_up

    def _compare(self) -> None:
        self._window.compare_runs([self._runs["finished"], *self._tried])
        assert self._window.compare is not None
        self._window.compare.tabs.setCurrentIndex(0)

    def _what_differs(self) -> None:
        assert self._window.compare is not None
        page = self._window.compare
        page.tabs.setCurrentWidget(page.table)

    def _wrong_form(self) -> None:
        self._window.edit(
            {
                "task": "text-classification",
                "model": {"source": ""},
                "data": {"train": str(self._reviews), "eval": "/data/held-out.csv"},
                "device": {"name": "cpu", "precision": "fp16"},
                "training": {"learning_rate": 20.0},
            }
        )


def main(arguments: list[str]) -> int:
    """Render every page into the folder named; returns the exit status."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m gui.screenshots FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory() as home:
        os.environ["HONE_HOME"] = home
        return _render(folder, Path(home) / "runs")


def _render(folder: Path, runs: Path) -> int:
    application = QApplication(["hone"])
    if "Inter" in QFontDatabase.families():
        font = QFont("Inter")
        font.setPointSizeF(10.0)
        application.setFont(font)
    dress(application)
    theme = Theme(Appearance.LIGHT, application)
    theme.apply()
    shown = {
        "live": make_run(runs / "2026-11-21-0915-handwritten-digits", DIGITS, 130),
        "finished": make_run(runs / "2026-11-20-2012-handwritten-digits", DIGITS, TOTAL_STEPS),
        "paging": make_memory_run(runs.with_name("elsewhere") / "mac", write_paging),
        "card": make_memory_run(runs.with_name("elsewhere") / "card", write_on_card),
    }
    memory = InventedMemory()
    window = MainWindow(theme, Settings(), InventedJob, tools=memory.tools)
    sys.excepthook = _give_up
    photographer = Photographer(window, theme, folder, shown, memory, tried=make_tried(runs, DIGITS))
    window.show()
    window.ask_for_devices()
    QTimer.singleShot(0, photographer.begin)
    return application.exec()


def _give_up(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """An error in a slot would leave the event loop turning for ever: say what it was, and end."""
    sys.__excepthook__(kind, error, where)
    QApplication.exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
