"""Every page in light and dark and in two sizes, as PNG files: `.venv/bin/python tests/screenshots/make.py FOLDER`.

Nothing is measured and no engine is started: the pages show an invented machine and invented runs. Whoever changes a
page looks at these pictures before it is committed; `make.py FOLDER run- data-chat` makes those whose names begin so,
and `make.py docs/screenshots --readme` those that the README shows.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtGui import QFont, QFontDatabase
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton, QWidget

from core.base.language import _
from core.base.processes import source_digest
from core.base.settings import Appearance, Settings
from core.benchmark.plan import BenchmarkKind
from core.hosts import computers
from core.hosts.computers import CheckedComputer, Computer
from core.jobs.chat import Which
from core.memory.model import Room
from core.options import presets, run_file
from core.options.choices import Task
from core.options.device_support import DeviceReport, MachineReport
from core.options.past_runs import RunNotes
from core.runs.crash import Interrupted
from core.runs.folder import ExitRecord, RunFolder
from core.runs.notes import write as write_notes
from core.runs.queue import EndedRun, LiveRun
from core.runs.status import RunStatus, State
from core.services.chat import LoadVerdict
from gui.app import closing
from gui.app.application import collect_garbage, set_up
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.questions import Question
from gui.base.theme import Theme
from gui.charts.chart import RepaintQueue
from gui.new_run.device_field import SEVERAL
from gui.new_run.header import ImportSheet
from gui.new_run.memory_card import FitCard
from gui.new_run.page import starting_tree
from gui.new_run.sweep import SweepSheet
from gui.run import export_dialog
from gui.run.header import RunAction
from gui.run.share import SupportSheet
from gui.try_it.input import TryQuestion as Asked
from gui.try_it.page import TryPage
from gui.widgets.layout import PageScroll
from tests.fakes.bench import make_benchmark
from tests.fakes.memory import RAN_OUT, FakeMemory
from tests.fakes.runs import (
    Plot,
    finish,
    keep_alive,
    link,
    make_folder,
    make_memory_run,
    pause,
    write_on_card,
    write_paging,
    write_story,
)
from tests.screenshots.answers import OFFERS, TRIED, FakeTry, engine, make_tried, measured
from tests.screenshots.texts import cut_texts, shown_texts

DIGITS = presets.RESOURCES / "examples" / "digits.hone"
SIZES = ((1280, 820), (1024, 700))
README = (("run-live", (1280, 980)), ("new-run", (1280, 820)))
SETTLE_SECONDS, PAINT_SECONDS = 1.6, 0.3
"""Time in which a page hears from its threads, and in which what has just come is painted."""
TEXT_SECONDS = 0.4
PATIENCE_SECONDS = 20.0
"""What has not come by then is missed in the picture."""
GB, DAY = 1 << 30, 86_400
STEPS, EPOCHS, REACHED, MEASURED = 225, 5, 130, 5
PLENTY = Room(free=17_200_000_000, ceiling=24 * GB)
LITTLE = Room(free=round(2.35 * GB), ceiling=8 * GB)
TOO_LITTLE = Room(free=round(1.6 * GB), ceiling=4 * GB)
SCRIPT = """python run_glue.py --model_name_or_path bert-base-cased --task_name mrpc --do_train \\
  --max_seq_length 128 --per_device_train_batch_size 32 --learning_rate 2e-5 --num_train_epochs 3 \\
  --fp16 --evaluation_strategy epoch --optim adamw_hf --no_cuda --overwrite_output_dir"""
"""As people keep it from the guides of 2022."""
FILES = {
    Task.TEXT_CLASSIFICATION: "paraphrases.tsv",
    Task.TEXT_REGRESSION: "scores.csv",
    Task.TOKEN_CLASSIFICATION: "names.conll",
    Task.CAUSAL_LM: "plays.txt",
    Task.CHAT: "instructions.json",
    Task.PREFERENCE: "answers.json",
    Task.IMAGE_CLASSIFICATION: "pets",
}
WRONG = {
    "model": {"source": ""},
    "data": {"eval": "/data/held-out.csv"},
    "device": {"name": "cpu", "precision": "fp16"},
    "training": {"learning_rate": 20.0},
}
MORE = {"model": {"method": "lora"}, "device": {"compile": True}, "training": {"learning_rate": 2e-5}}
RTX = DeviceReport(name="cuda:0", title="NVIDIA GeForce RTX 4090", available=True, memory_bytes=24 * GB)
READY = CheckedComputer(
    time=time.time() - 600,
    system="Linux",
    free=812 * GB,
    source=source_digest(),
    writable=True,
    python="3.12.3",
    machine=MachineReport(devices=(RTX,), automatic="cuda:0"),
)
COMPUTERS = (
    Computer(name="workshop", address="sam@workshop.local", checked=READY),
    Computer(name="attic", address="sam@192.168.1.20", checked=READY),
    Computer(
        name="rented-a100",
        address="ssh://root@gpu.example:2222",
        checked=msgspec.structs.replace(READY, problem="rented-a100 doesn't answer"),
    ),
)
OTHER_RATES = (
    ("Digits, lr 3e-4", 3e-4, 0.55, RunNotes(tags=("lr",), text="Too slow, still falling.")),
    ("Digits, lr 3e-3", 3e-3, 1.7, RunNotes(tags=("lr", "best"), text="The best so far.")),
    ("Digits, lr 1e-2", 1e-2, 0.8, RunNotes(tags=("lr",))),
)


def run_out(run: RunFolder, _: Plot, clock: float) -> None:
    """Let the system end the engine of a run for lack of memory."""
    words = {"signal": "SIGKILL", "reason": "The system ended it."}
    run.record_exit(ExitRecord(time=clock + 0.8, code=-9, **words, out_of_memory=True))


def wait(seconds: float) -> None:
    """Let the event loop turn."""
    loop = QEventLoop()
    QTimer.singleShot(round(1000 * seconds), loop.quit)
    loop.exec()


def wait_until(is_so: Callable[[], bool]) -> None:
    """Let the event loop turn until something is so; on a busy machine threads are kept waiting."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so() and time.monotonic() < deadline:
        wait(0.05)


End = Callable[[RunFolder, Plot, float], None]


class Stage:
    """The window, the runs it shows, and what brings it to each picture.

    Args:
        theme: Colours.
        home: Where Hone keeps its things; data and models are put there, too.
    """

    def __init__(self, theme: Theme, home: Path) -> None:
        self.home = home
        self.runs, self.survived, self.others = self._make_runs()
        self.tried = make_tried(home / "tried")
        self.reviews, self.model, self.writer = self._make_sources()
        self.memory = FakeMemory()
        self.memory.dry_runs.answer = lambda options: measured(options, self.memory.room.room)
        self.window = MainWindow(theme, Settings(), engine(), tools=self.memory.tools)
        self.page = TryPage(
            theme, lambda: home / "tried", FakeTry, lambda *_, **__: LoadVerdict(tuple(Which))
        )
        self.window.pages.make = replace(self.window.pages.make, try_it=lambda: self.page)
        self.benchmarks = {
            "methods": make_benchmark(home / "methods"),
            "devices": make_benchmark(home / "devices", BenchmarkKind.DEVICES),
            "running": make_benchmark(home / "running", done=MEASURED),
        }
        self.box: QMessageBox | None = None
        self.window.pages.go_to(Place.NEW_RUN)
        self.window.show()
        self.window.ask_for_devices()

    def pictures(self) -> dict[str, Callable[[], object]]:
        """All of them: the name, and what brings the window there."""
        show_run, go_to, live = self.window.pages.show_run, self.window.pages.go_to, self.runs["live"]
        return {
            "welcome": partial(go_to, Place.WELCOME),
            "new-run": self.digits,
            "new-run-texts": self.texts,
            "new-run-problems": partial(self.texts, **WRONG),
            "new-run-more": partial(self.texts, "model.lora_rank", **MORE),
            "fit-tight": partial(self.fit, LITTLE),
            "fit-too-large": partial(self.fit, TOO_LITTLE),
            "fit-measured": partial(self.fit, PLENTY, self.measured),
            "fit-ran-out": partial(self.fit, TOO_LITTLE, self.ran_out),
            "fit-sheet": partial(self.fit, TOO_LITTLE, partial(self.press, _("Fit it for me…"))),
            **{f"data-{task.value}": partial(self.data, task) for task in Task},
            "data-sees-chat": partial(self.data, Task.CHAT, view=1),
            "data-lengths": partial(self.data, Task.CHAT, view=2),
            "data-findings": self.findings,
            "device-check": partial(self.window.check_device, "auto"),
            "import": self.importing,
            "support": self.support,
            "hub": self.hub,
            **{f"run-{name}": partial(show_run, run) for name, run in self.runs.items()},
            "export": partial(self.export, live),
            "runs": partial(go_to, Place.RUNS),
            "compare": partial(self.compare, "panels"),
            "compare-differences": partial(self.compare, "table"),
            **{f"try-{name}": partial(self.ask, name) for name in TRIED},
            "found-runs": self.found_runs,
            "run-paused": partial(show_run, self.survived[0]),
            "run-broken-off": partial(show_run, self.survived[1]),
            "extend": self.extend,
            "runs-waiting": self.queue,
            "closing": self.closing,
            **{f"bench-{name}": partial(self.bench, name) for name in self.benchmarks},
            "sweep": self.sweep,
            "sweep-methods": partial(self.sweep, 1),
            "sweep-devices": partial(self.sweep, 2),
            "settings": partial(go_to, Place.SETTINGS),
            "computers-none": self.computers,
            "computers": partial(self.computers, *COMPUTERS),
            "device-elsewhere": self.device_elsewhere,
            "computers-together": self.together,
            "elsewhere-live": partial(self.elsewhere, heard=0),
            "elsewhere-sending": partial(
                self.elsewhere, heard=0, doing="Sending the data: 34.1 MB of 120 MB"
            ),
            "elsewhere-lost": partial(self.elsewhere, heard=130),
            "elsewhere-gone": partial(self.elsewhere, heard=4000),
        }

    def tidy(self) -> None:
        """Take back what one picture would leave in the next."""
        self.memory.room.room = PLENTY
        self.fit_card.state._measured.clear()
        strip = self.window.found.strip
        for shown in (strip.interrupted, strip.ended):
            shown.hide()
        if self.window.pages.runs is not None:
            self.window.pages.runs.queue.show_waiting(())

    def settle(self, *, is_painted: bool = True) -> None:
        """Wait until all is there that is to be seen; without pictures, until all texts are."""
        wait(SETTLE_SECONDS if is_painted else TEXT_SECONDS)
        wait_until(self._is_there)
        wait(PAINT_SECONDS)

    def cut(self) -> dict[str, list[str]]:
        """Texts without room, also at a second look: what has just come is laid out in between."""
        if not (found := cut_texts(self.window)):
            return {}
        wait(SETTLE_SECONDS)
        return {place: texts for place, texts in cut_texts(self.window).items() if place in found}

    def _is_there(self) -> bool:
        page = self.window.pages.currentWidget()
        if page is self.window.pages.run and (page.view is None or page.view.state is State.STARTING):
            return False
        if page is self.window.pages.compare and not page.has_caught_up:
            return False
        return not any(queue.waiting for queue in self.window.findChildren(RepaintQueue))

    # Runs and data

    def _make_runs(self) -> tuple[dict[str, RunFolder], list[RunFolder], list[RunFolder]]:
        now, listed, aside = time.time(), self.home / "runs", self.home / "elsewhere"
        example = run_file.read(DIGITS)
        whole = partial(Plot, steps=STEPS, epochs=EPOCHS, reached=STEPS)
        part = partial(Plot, steps=STEPS, epochs=EPOCHS, reached=REACHED)
        live = self._digits(
            listed / "2026-11-21-0915-handwritten-digits", part(start=now - REACHED * 0.23 - 8)
        )
        keep_alive(live)
        away = msgspec.structs.replace(example.device, name="cuda@workshop")
        self.away = self._digits(aside / "away", part(start=now - REACHED * 0.23 - 8), device=away)
        keep_alive(self.away)
        link(self.away)
        finished = self._digits(listed / "2026-11-20-2012-handwritten-digits", whole(start=now - DAY), finish)
        finished.model.mkdir()
        paused = self._digits(aside / "paused", part(start=now - 3600), pause)
        broken = self._digits(aside / "broken", part(start=now - 3600), run_out)
        done = self._digits(aside / "done", whole(start=now - 7200), finish)
        others = []
        for number, (name, rate, pace, notes) in enumerate(OTHER_RATES):
            plot = whole(start=now - 2 * DAY + 900 * number, pace=pace, seed=11 + number)
            asked = {
                "training": msgspec.structs.replace(example.training, learning_rate=rate),
                "output": msgspec.structs.replace(example.output, name=name),
            }
            run = self._digits(listed / f"2026-11-19-210{number}-digits", plot, finish, **asked)
            run.model.mkdir()
            (run.model / "model.safetensors").write_bytes(bytes(45_000_000 - 2_000_000 * number))
            write_notes(run.path, notes)
            others.append(run)
        shown = {
            "live": live,
            "finished": finished,
            "paging": make_memory_run(aside / "mac", write_paging),
            "card": make_memory_run(aside / "card", write_on_card),
        }
        return shown, [paused, broken, done], others

    def _digits(self, path: Path, plot: Plot, end: End | None = None, **changes: object) -> RunFolder:
        """A run of the first example, told by a plot; `changes` are sections that ask otherwise."""
        run = make_folder(path, msgspec.structs.replace(run_file.read(DIGITS), **changes))
        run.log_file.write_text("loading torchvision:resnet18\n1,438 samples to train on, 359 held out\n")
        clock = write_story(run, plot)
        if end is not None:
            end(run, plot, clock)
        return run

    def _make_sources(self) -> tuple[Path, Path, Path]:
        """Reviews, the folder of a model that reads texts, and one of a model that can say something."""
        for name in (*FILES.values(), "reviews.csv"):
            (self.home / name).mkdir() if name == "pets" else (self.home / name).write_text("{}")
        models = self.home / "distilbert-base-uncased", self.home / "SmolLM2-135M-Instruct"
        for folder in models:
            folder.mkdir()
            for name in ("config.json", "model.safetensors"):
                (folder / name).touch()
        return self.home / "reviews.csv", *models

    # New run

    def digits(self) -> None:
        self.window.pages.open_example(presets.find_example("digits"))

    def texts(self, shown: str = "", **sections: dict[str, Any]) -> None:
        """Reviews for DistilBERT, with more options in some sections, one of them `shown`."""
        asked: dict[str, Any] = {"model": {"source": str(self.model)}, "data": {"train": str(self.reviews)}}
        for name, values in sections.items():
            asked[name] = {**asked.get(name, {}), **values}
        self.window.pages.edit({"task": "text-classification", **asked})
        if shown:
            for card in self.window.pages.new_run.options.cards:
                card.open()
            self.window.pages.new_run.go_to_option(shown)

    def data(self, task: Task, view: int = 0) -> None:
        """The card about the data of a task, with one of its views."""
        tree = starting_tree(task)
        tree["data"]["train"] = str(self.home / FILES[task])
        if task.reads_text:
            tree["model"]["source"] = str(self.writer if task.writes_text else self.model)
        if task is Task.CHAT:
            tree["data"]["max_length"] = 512
        self.window.pages.edit(tree)
        wait(0.9)
        self.window.pages.new_run.options.data.views.setCurrentIndex(view)

    def findings(self) -> None:
        self.data(Task.CHAT)
        self.window.pages.new_run.go_to_option("data.max_length")

    def importing(self) -> None:
        sheet = ImportSheet(self.window)
        sheet.text.setPlainText(SCRIPT)
        sheet.open()

    def hub(self) -> None:
        self.texts()
        self.window.pages.new_run.open_hub()
        sheet = self.window.pages.new_run.hub_sheet
        assert sheet is not None
        sheet.words.setText("bert")
        sheet.button.click()

    # Other computers

    def computers(self, *known: Computer) -> None:
        for one in computers.computers():
            computers.forget(one.name)
        for one in known:
            computers.save(one)
        self.window.pages.go_to(Place.SETTINGS)
        page = self.window.pages.settings_page()
        page.computers.end_work()
        for row in list(page.computers.rows.values()):
            row.reload()
        page.computers._on_change()
        wait(0.2)
        scroll = page.findChild(PageScroll)
        assert scroll is not None
        scroll.verticalScrollBar().setValue(page.computers.y() - 90)

    def device_elsewhere(self) -> None:
        self.computers(*COMPUTERS)
        self.texts("device.name", device={"name": "cuda@workshop"}, model={"source": str(self.model)})

    def together(self) -> None:
        self.device_elsewhere()
        self.window.pages.new_run.options.fields.device._choose(SEVERAL)

    def elsewhere(self, heard: float, **how: Any) -> None:
        """A run on workshop, which was heard so many seconds ago; 0: it is connected."""
        lost: dict[str, Any] = {
            "connected": False,
            "heard": time.time() - heard,
            "problem": "workshop doesn't answer",
        }
        link(self.away, **(lost if heard else {}), **how)
        self.window.pages.show_run(self.away)

    # Will it fit?

    @property
    def fit_card(self) -> FitCard:
        return self.window.pages.new_run.findChild(FitCard)

    def fit(self, room: Room, then: Callable[[], None] = lambda: None) -> None:
        """The card where so much memory is free, once the model has been looked at and traced."""
        self.memory.room.room = room
        self.texts()
        wait(1.2)
        self.fit_card.state.read_room()
        then()

    def measured(self) -> None:
        case = self.fit_card.state.case
        assert case is not None
        self.fit_card.state.add_measurement(case.options, measured(case.options, PLENTY))

    def ran_out(self) -> None:
        state = self.fit_card.state
        state.add_measurement(state.case.options, RAN_OUT)

    def press(self, text: str) -> None:
        next(button for button in self.fit_card.findChildren(QPushButton) if button.text() == text).click()

    # A run

    def support(self) -> None:
        run = self.runs["finished"]
        self.window.pages.show_run(run)
        SupportSheet(run, run.name, self.window).open()

    def export(self, run: RunFolder) -> None:
        self.window.pages.show_run(run)
        export_dialog.find_source = lambda _run: OFFERS
        export_dialog.offers = lambda found, _hold: found
        sheet = export_dialog.ExportSheet(run, "Reviews", self.window)
        sheet.open()
        wait_until(sheet.take.isEnabled)

    def extend(self) -> None:
        self.window.pages.show_run(self.survived[2])
        wait(0.5)
        assert self.window.pages.run is not None
        assert self.window.pages.run.view is not None
        self.window.pages.run.view.header.buttons.requested.emit(RunAction.EXTEND)

    # Runs

    def compare(self, tab: str) -> None:
        self.window.pages.compare_runs([self.runs["finished"], *self.others])
        page = self.window.pages.compare
        assert page is not None
        page.tabs.setCurrentWidget(page.table) if tab == "table" else page.tabs.setCurrentIndex(0)

    def _waiting(self) -> list[LiveRun]:
        named = zip(self.survived, ("Handwritten digits", "Reviews, LoRA", "Names in news"), strict=True)
        return [LiveRun(run, name, 0.0, State.QUEUED) for run, name in named]

    def found_runs(self) -> None:
        self.digits()
        paused, _, done = self.survived
        self.window.found.strip.show_interrupted(
            [Interrupted(paused, "Reviews, LoRA", 120), Interrupted(done, "Names in news")]
        )
        self.window.found.strip.show_end(EndedRun(done, "Names_in_news-longer", State.FAILED, RunStatus()))

    def queue(self) -> None:
        self.window.pages.go_to(Place.RUNS)
        if self.window.pages.runs is not None:
            self.window.pages.runs.queue.show_waiting(self._waiting())

    def closing(self) -> None:
        waits = False, False, True
        found = [
            closing.Underway(one.run, one.title, is_waiting)
            for one, is_waiting in zip(self._waiting(), waits, strict=True)
        ]
        self.box = closing.question_about(found, self.window)
        self.box.open()

    def ask(self, name: str) -> None:
        """Ask the models of a run that can be tried."""
        self.window.pages.try_run(self.tried[name])
        wait(0.5)
        if name == "chat":
            self.page.input.asked.emit(Asked(texts=("How do I keep basil alive on a window sill?",)))
        else:
            self.page.input.examples.buttons[0].click()

    # Several runs

    def bench(self, name: str) -> None:
        self.window.pages.compare_runs([*self.benchmarks[name].runs.values()])
        page = self.window.pages.compare
        assert page is not None
        wait_until(lambda: page.benchmark.result is not None)
        page.benchmark.published.setChecked(name == "devices")

    def sweep(self, what: int = 0) -> None:
        self.digits()
        page = self.window.pages.new_run
        wait_until(lambda: page.ready is not None)
        page.try_values()
        sheet = page.findChildren(SweepSheet)[-1]
        sheet.what.setCurrentIndex(what)
        sheet.what.activated.emit(what)


def take(window: QWidget, path: Path) -> None:
    """Draw the window, or the sheet above it, into a file, and close the sheet."""
    sheet = QApplication.activeModalWidget()
    picture = (sheet or window).grab()
    if sheet is not None:
        sheet.close()
    if not picture.save(str(path)):
        sys.exit(f"{path} can't be written")
    print(path, flush=True)


def main() -> int:
    """Make the pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only pictures whose names begin so")
    parser.add_argument("--readme", action="store_true", help="only those that the README shows")
    parser.add_argument(
        "--texts", action="store_true", help="no pictures: all texts, and those without room, as JSON"
    )
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory() as home:
        os.environ["HONE_HOME"] = home
        return _make_all(asked, Path(home))


def _make_all(asked: argparse.Namespace, home: Path) -> int:
    application = QApplication(["hone"])
    if "Inter" in QFontDatabase.families():
        font = QFont("Inter")
        font.setPointSizeF(10.0)
        application.setFont(font)
    set_up(application)
    shown = Appearance.LIGHT
    theme = Theme(shown, application)
    theme.apply()
    failed: list[object] = []
    sys.excepthook = lambda *error: (failed.append(error), sys.__excepthook__(*error))
    Question.exec = Question.open  # shown, and not waited for
    collect_garbage(application)
    stage = Stage(theme, home)
    pictures = stage.pictures()
    names = [name for name in pictures if name.startswith(tuple(asked.names) or "")]
    wanted = (
        [(name, size, Appearance.LIGHT, "light") for name, size in README]
        if asked.readme
        else [(name, SIZES[1], Appearance.LIGHT, "") for name in names]
        if asked.texts
        else [
            (name, size, appearance, f"{appearance.value}-{size[0]}")
            for appearance in (Appearance.LIGHT, Appearance.DARK)
            for size in SIZES
            for name in names
        ]
    )
    cut: dict[str, list[str]] = {}
    texts: dict[str, list[str]] = {}
    for name, size, appearance, ending in wanted:
        if appearance is not shown:
            shown = appearance
            theme.set_appearance(shown)
        stage.window.resize(*size)
        stage.tidy()
        pictures[name]()
        stage.settle(is_painted=not asked.texts)
        if asked.texts:
            cut |= {f"{name} {place}": found for place, found in stage.cut().items()}
            texts[name] = shown_texts(stage.window)
        else:
            take(stage.window, asked.folder / f"{name}-{ending}.png")
    if asked.texts:
        for name, found in (("cut", cut), ("texts", texts)):
            file = asked.folder / f"{name}.json"
            file.write_text(json.dumps(found, ensure_ascii=False, indent=1), encoding="utf-8")
    stage.window.end_work()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
