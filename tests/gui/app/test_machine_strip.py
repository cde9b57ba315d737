"""The machine strip, with machines nobody of us has at hand."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import msgspec
import pytest
from PySide6.QtWidgets import QLabel

from core.base.settings import Appearance, Settings
from core.monitor.sampler import BATTERY_SECONDS, STALE_SECONDS, MachinePicture, MachineView
from core.options.device_support import DeviceReport, MachineReport
from core.runs.events import BatterySampled, DeviceSampled, Event, MemorySampled, Pressure, Source
from gui.app.closing import Closing
from gui.app.sidebar import SWAP_MATTERS, MachineStrip, sampler_for
from gui.app.window import MainWindow
from gui.base.theme import Theme
from gui.widgets.bars import Meter
from tests.fakes.jobs import FakeEngine
from tests.fakes.machines import CARD, GB, MAC, changed
from tests.fakes.machines import PC_PICTURE as PC
from tests.fakes.runs import make_folder


class FakeSampler:
    """Hands out the same events each time, as of now; `threads` are those in which it was asked."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.threads: list[object] = []
        self.is_finished = False

    def sample(self) -> list[Event]:
        self.threads.append(threading.current_thread())
        return [msgspec.structs.replace(event, time=time.time()) for event in self.events]

    def finish(self, seconds: float | None = None) -> None:
        self.is_finished = True


@pytest.fixture
def make_strip(qtbot):
    made = []

    def make(make_sampler: Callable = lambda _device: FakeSampler([])) -> MachineStrip:
        strip = MachineStrip(Theme(Appearance.LIGHT), make_sampler)
        qtbot.addWidget(strip)
        made.append(strip)
        return strip

    yield make
    for strip in made:
        strip.stop()


@pytest.fixture
def strip(make_strip):
    return make_strip()


def said(strip) -> list[str]:
    """The lines that can be seen, below the device's name."""
    return [label.text() for label in strip.findChildren(QLabel) if label.isVisibleTo(strip)][1:]


def alarming(strip) -> list[str]:
    labels = [label for label in strip.findChildren(QLabel) if label.isVisibleTo(strip)]
    return [label.text() for label in labels if label.property("alarming")]


def meters(strip) -> dict[str, Meter]:
    return {meter.accessibleName(): meter for meter in strip.findChildren(Meter) if meter.isVisibleTo(strip)}


CALM_MAC = {"memory": {"pressure": Pressure.NORMAL}, "gpu": {"thermal": 0}}
MAC_LINES = ["Memory 33.1 of 36 GB", "GPU 91 % busy"]
SWAPPED = {"memory": {"swap": 3 * GB}}


@pytest.mark.parametrize(
    ("picture", "trains", "lines", "alarms"),
    [
        (PC, False, ["Memory 11.2 of 32 GB", "CPU 38 % busy"], []),
        (CARD, False, ["GPU 18.3 of 23.6 GB", "Memory 14.0 of 64 GB", "GPU 97 % busy"], []),
        (changed(MAC, **CALM_MAC), False, MAC_LINES, []),
        (changed(MAC, memory={"pressure": None}, gpu={"thermal": 1}), False, MAC_LINES, []),
        (changed(MAC, gpu={"thermal": 1}), False, None, ["Memory pressure high"]),
        (
            changed(MAC, memory={"pressure": Pressure.CRITICAL}, gpu={"thermal": 1}),
            False,
            None,
            ["Memory pressure critical"],
        ),
        (changed(MAC, **CALM_MAC), True, [*MAC_LINES, "On battery, 43 % left"], ["On battery, 43 % left"]),
        (
            changed(MAC, memory={"pressure": None}, gpu={"busy": None}),
            False,
            ["Memory 33.1 of 36 GB", "CPU 20 % busy", "Slowed by heat"],
            ["Slowed by heat"],
        ),
        (
            changed(PC, swap_grown=SWAP_MATTERS - 1, **SWAPPED),
            False,
            ["Memory 11.2 of 32 GB", "CPU 38 % busy"],
            [],
        ),
        (
            changed(PC, swap_grown=SWAP_MATTERS, **SWAPPED),
            False,
            ["Memory 11.2 of 32 GB", "Swap grew to 3.00 GB", "CPU 38 % busy"],
            [],
        ),
        (MachinePicture(), False, [], []),
        (
            changed(CARD, card=None, gpu={"busy": None, "throttled": None}),
            False,
            ["Memory 14.0 of 64 GB", "CPU 12 % busy"],
            [],
        ),
    ],
)
def test_what_a_machine_tells(strip, picture, trains, lines, alarms):
    strip.show_picture(CARD)
    strip.show_picture(picture, trains=trains)
    assert lines is None or said(strip) == lines
    assert alarming(strip) == alarms


def test_bars_are_as_full_as_the_figures_and_warn(strip):
    strip.show_picture(PC)
    assert meters(strip)["Memory in use"].share == pytest.approx(11.2 / 32)
    assert meters(strip)["How busy the device is"].share == 0.38
    strip.show_picture(CARD)
    tip = "71 °C, 320 of 450 W, 2,520 of 3,105 MHz, at its power limit"
    assert meters(strip)["How busy the device is"].toolTip() == tip
    for picture, colour in ((changed(MAC, gpu={"thermal": 1}), "warn"), (changed(MAC, **CALM_MAC), "run")):
        strip.show_picture(picture)
        assert meters(strip)["Memory in use"].colour == colour


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"throttled": ()}, []),
        ({"throttled": None}, []),
        ({"throttled": ("power cap",)}, []),
        ({"throttled": ("power cap",), "clock": 1500.0}, ["Slowed greatly by its power limit"]),
        ({"throttled": ("thermal slowdown (hardware)",), "busy": 0.02}, []),
        ({"throttled": ("thermal slowdown (software)", "power cap")}, ["Slowed by heat, 87 °C"]),
        ({"throttled": ("thermal slowdown (hardware)",), "temperature": None}, ["Slowed by heat"]),
        ({"throttled": ("power brake",)}, ["Slowed by its power supply"]),
        ({"throttled": ("hardware slowdown",)}, ["Slowed by its hardware"]),
        ({"thermal": 1}, []),
        ({"thermal": 2, "temperature": None}, ["Slowed by heat"]),
    ],
)
def test_what_holds_the_gpu_back_is_said_only_while_it_does(strip, figures, words):
    strip.show_picture(changed(CARD, gpu={"throttled": (), "temperature": 87.0, **figures}))
    assert alarming(strip) == words


def test_it_looks_while_it_is_seen_and_in_a_thread_of_its_own(qtbot, make_strip):
    sampler = FakeSampler([PC.memory, PC.processor])
    strip = make_strip(lambda _device: sampler)
    assert sampler.threads == []
    strip.show()
    qtbot.waitUntil(lambda: len(said(strip)) == 2)
    assert threading.main_thread() not in sampler.threads
    strip.hide()
    assert strip._watch is None, "nobody looks at it"
    qtbot.waitUntil(lambda: sampler.is_finished)
    asked = len(sampler.threads)
    strip.show()
    qtbot.waitUntil(lambda: len(sampler.threads) > asked)


def test_it_asks_about_runs_only_on_battery(qtbot, make_strip):
    asked = []

    def trains() -> bool:
        asked.append(threading.current_thread())
        return True

    plugged = changed(MAC, battery={"is_plugged": True})
    for picture, words in ((plugged, False), (MAC, True)):
        strip = make_strip(lambda _device, seen=picture: FakeSampler([seen.memory, seen.battery]))
        strip.set_trains(trains)
        strip.show()
        qtbot.waitUntil(lambda shown=strip: "Memory 33.1 of 36 GB" in said(shown))
        assert ("On battery, 43 % left" in said(strip)) == words
        assert bool(asked) == words
        strip.hide()


def test_it_turns_to_the_device_that_a_run_would_take(qtbot, make_strip):
    made = []

    def make(device: str | None) -> FakeSampler:
        made.append(device)
        return FakeSampler([])

    strip = make_strip(make)
    strip.show()
    card = DeviceReport(name="cuda:0", title="NVIDIA GeForce RTX 4090", available=True)
    machine = MachineReport(devices=(card,), automatic="cuda:0")
    strip.set_machine(machine)
    strip.set_machine(machine)
    qtbot.waitUntil(lambda: made[-1:] == ["cuda:0"])
    strip.stop()
    assert made.count("cuda:0") == 1, "the same answer again changes nothing"
    assert strip._device.text() == "NVIDIA GeForce RTX 4090"


HUNG = """
import threading

from PySide6.QtWidgets import QApplication

from core.base.settings import Appearance
from gui.app.sidebar import MachineStrip
from gui.base.theme import Theme

begun = threading.Event()


def hang(_device):
    begun.set()
    threading.Event().wait()


application = QApplication([])
strip = MachineStrip(Theme(Appearance.LIGHT), hang)
strip.show()
assert begun.wait(10)
strip.stop()
print("closed", len(strip._ending), "left")
"""


def test_a_driver_that_never_answers_does_not_keep_the_program_from_ending():
    done = subprocess.run(
        [sys.executable, "-c", HUNG], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "closed 1 left\n"), done.stderr
    assert "QThread" not in done.stderr
    assert "Traceback" not in done.stderr


def test_the_window_tells_whether_a_run_trains_and_leaves_no_thread(qtbot, tmp_path):
    chosen = Settings(runs_folder=str(tmp_path))
    window = MainWindow(
        Theme(Appearance.LIGHT), chosen, FakeEngine(), lambda *_, **_more: Closing.KEEP_TRAINING
    )
    qtbot.addWidget(window)
    window.show()
    machine = window.sidebar.machine
    assert machine._watch.worker.is_alive()
    assert not machine._trains()
    make_folder(tmp_path / "live").record_keeper(os.getpid())
    qtbot.waitUntil(machine._trains, timeout=5000)
    window.end_work()
    assert machine._watch is None


def test_no_gpu_is_woken_where_no_run_would_take_it():
    assert [sampler_for(device)._nvidia.find for device in (None, "cpu", "mps")] == [None] * 3
    assert sampler_for("cuda:0")._nvidia.find is not None


class TestView:
    def test_the_gpu_that_tells_and_the_card_with_its_own_memory(self):
        view = MachineView()
        view.take([CARD.memory, CARD.card, CARD.gpu, CARD.processor])
        picture = view.picture(now=1.0)
        assert (picture.card.bytes, picture.gpu.name) == (CARD.card.bytes, CARD.gpu.name)
        assert picture.processor.busy == CARD.processor.busy
        assert picture.battery is None
        view = MachineView()
        view.take([MAC.memory, MemorySampled(time=0.0, source=Source.APPLE, bytes=GB), MAC.gpu])
        assert view.picture(now=1.0).card is None
        assert view.picture(now=1.0).gpu.source is Source.APPLE

    def test_a_figure_that_comes_no_more_is_soon_gone(self):
        view = MachineView()
        view.take([MAC.gpu, MAC.battery])
        assert view.picture(STALE_SECONDS - 0.1).gpu is not None
        assert view.picture(STALE_SECONDS + 0.1).gpu is None
        assert view.picture(STALE_SECONDS + 0.1).battery is not None
        assert view.picture(BATTERY_SECONDS + 0.1).battery is None

    def test_swap_grows_from_the_least_that_was_seen(self):
        view = MachineView()
        for swap, grown in ((3 * GB, 0), (2 * GB, 0), (4 * GB, 2 * GB), (None, 0)):
            view.take([MemorySampled(time=0.0, source=Source.SYSTEM, bytes=GB, ceiling=2 * GB, swap=swap)])
            assert view.picture(0.0).swap_grown == grown

    def test_the_battery_is_kept_between_its_samples(self):
        view = MachineView()
        view.take([BatterySampled(time=0.0, share=0.5, is_plugged=False)])
        view.take([DeviceSampled(time=9.0, source=Source.SYSTEM, name="CPU", busy=0.1)])
        picture = view.picture(9.0)
        assert picture.battery == BatterySampled(time=0.0, share=0.5, is_plugged=False)
        assert msgspec.structs.asdict(picture.processor)["busy"] == 0.1
