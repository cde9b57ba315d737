"""The machine's memory and load in the sidebar, with recorded machines, and the thread that samples it."""

import subprocess
import sys
import threading
import time

import msgspec
import pytest
from PySide6.QtWidgets import QLabel

from core.base.settings import Appearance
from core.monitor.sampler import BATTERY_SECONDS, STALE_SECONDS, MachinePicture, MachineView
from core.options.device_support import DeviceReport, MachineReport
from core.runs.events import MemorySampled, Pressure, Source
from gui.app.sidebar import SWAP_MATTERS, MachineStrip, sampler_for
from gui.base.theme import Theme
from tests.fakes.machines import CARD, GB, MAC, changed
from tests.fakes.machines import PC_PICTURE as PC


class FakeSampler:
    """Samples the same events each time; `threads` are those in which it was called."""

    def __init__(self, *events):
        self.events, self.threads, self.is_finished = events, [], False

    def sample(self):
        self.threads.append(threading.current_thread())
        return [msgspec.structs.replace(event, time=time.time()) for event in self.events]

    def finish(self, seconds=None):
        self.is_finished = True


@pytest.fixture
def make_strip(qtbot):
    made = []

    def make(make_sampler=lambda _device: FakeSampler()):
        strip = MachineStrip(Theme(Appearance.LIGHT), make_sampler)
        qtbot.addWidget(strip)
        made.append(strip)
        return strip

    yield make
    for strip in made:
        strip.stop()


def lines(strip, *, alarming=False):
    """The visible lines below the device's name, all or those that alarm."""
    labels = [label for label in strip.findChildren(QLabel) if label.isVisibleTo(strip)][1:]
    return [label.text() for label in labels if not alarming or label.property("alarming")]


CALM_MAC = changed(MAC, memory={"pressure": Pressure.NORMAL}, gpu={"thermal": 0})
MAC_LINES = ["Memory 33.1 of 36 GB", "GPU 91 % busy"]
PC_LINES = ["Memory 11.2 of 32 GB", "CPU 38 % busy"]
BATTERY = ["On battery, 43 % left"]
UNKNOWN_GPU = changed(MAC, memory={"pressure": None}, gpu={"busy": None})


@pytest.mark.parametrize(
    ("picture", "trains", "shown", "alarms"),
    [
        (PC, False, PC_LINES, []),
        (CARD, False, ["GPU 18.3 of 23.6 GB", "Memory 14.0 of 64 GB", "GPU 97 % busy"], []),
        (CALM_MAC, False, MAC_LINES, []),
        (CALM_MAC, True, MAC_LINES + BATTERY, BATTERY),
        (changed(MAC, memory={"pressure": None}, gpu={"thermal": 1}), False, MAC_LINES, []),
        (changed(MAC, gpu={"thermal": 1}), False, None, ["Memory pressure high"]),
        (
            changed(CALM_MAC, memory={"pressure": Pressure.CRITICAL}),
            False,
            None,
            ["Memory pressure critical"],
        ),
        (UNKNOWN_GPU, False, None, ["Slowed by heat"]),
        (changed(PC, swap_grown=SWAP_MATTERS - 1, memory={"swap": 3 * GB}), False, PC_LINES, []),
        (
            changed(PC, swap_grown=SWAP_MATTERS, memory={"swap": 3 * GB}),
            False,
            [PC_LINES[0], "Swap grew to 3.00 GB", PC_LINES[1]],
            [],
        ),
        (MachinePicture(), False, [], []),
    ],
)
def test_what_is_shown_of_a_machine(make_strip, picture, trains, shown, alarms):
    strip = make_strip()
    strip.show_picture(CARD)
    strip.show_picture(picture, trains=trains)
    assert shown is None or lines(strip) == shown
    assert lines(strip, alarming=True) == alarms


@pytest.mark.parametrize(
    ("figures", "words"),
    [
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
def test_what_slows_the_gpu_down_is_shown_while_it_does(make_strip, figures, words):
    strip = make_strip()
    strip.show_picture(changed(CARD, gpu={"throttled": (), "temperature": 87.0, **figures}))
    assert lines(strip, alarming=True) == words


def test_it_samples_in_a_thread_while_it_is_visible(qtbot, make_strip):
    sampler = FakeSampler(PC.memory, PC.processor)
    strip = make_strip(lambda _device: sampler)
    assert sampler.threads == []
    strip.show()
    qtbot.waitUntil(lambda: len(lines(strip)) == 2)
    assert threading.main_thread() not in sampler.threads
    strip.hide()
    qtbot.waitUntil(lambda: sampler.is_finished)
    sampled = len(sampler.threads)
    strip.show()
    qtbot.waitUntil(lambda: len(sampler.threads) > sampled)


@pytest.mark.parametrize("is_plugged", [True, False])
def test_only_on_battery_it_asks_whether_a_run_trains(qtbot, make_strip, is_plugged):
    battery = msgspec.structs.replace(MAC.battery, is_plugged=is_plugged)
    strip, asked = make_strip(lambda _device: FakeSampler(MAC.memory, battery)), []
    strip.trains = lambda: not asked.append(True)
    strip.show()
    qtbot.waitUntil(lambda: MAC_LINES[0] in lines(strip))
    assert (BATTERY[0] in lines(strip)) == bool(asked) == (not is_plugged)


def test_it_samples_the_device_that_a_run_would_use(qtbot, make_strip):
    made = []
    strip = make_strip(lambda device: made.append(device) or FakeSampler())
    strip.show()
    card = DeviceReport(name="cuda:0", title="NVIDIA GeForce RTX 4090", available=True)
    for _ in range(2):
        strip.set_machine(MachineReport(devices=(card,), automatic="cuda:0"))
    qtbot.waitUntil(lambda: made[-1:] == ["cuda:0"])
    strip.stop()
    assert made.count("cuda:0") == 1, "the same report again changes nothing"
    assert strip.device.text() == "NVIDIA GeForce RTX 4090"


def test_no_gpu_is_woken_where_no_run_would_use_it():
    assert [sampler_for(device)._nvidia.find for device in (None, "cpu", "mps")] == [None] * 3
    assert sampler_for("cuda:0")._nvidia.find is not None


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


def test_a_driver_that_never_answers_doesnt_keep_the_program_from_ending():
    ended = subprocess.run(
        [sys.executable, "-c", HUNG], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "closed 1 left\n"), ended.stderr
    assert "QThread" not in ended.stderr
    assert "Traceback" not in ended.stderr


# --- The picture that its samples add up to


def test_a_picture_has_the_card_with_its_own_memory_and_drops_old_samples():
    view = MachineView()
    view.take([CARD.memory, CARD.card, CARD.gpu, CARD.processor])
    picture = view.picture(now=1.0)
    assert (picture.card.bytes, picture.gpu.name) == (CARD.card.bytes, CARD.gpu.name)
    assert (picture.processor.busy, picture.battery) == (CARD.processor.busy, None)
    view = MachineView()
    view.take([MAC.memory, MemorySampled(time=0.0, source=Source.APPLE, bytes=GB), MAC.gpu, MAC.battery])
    assert (view.picture(1.0).card, view.picture(1.0).gpu.source) == (None, Source.APPLE)
    assert view.picture(STALE_SECONDS - 0.1).gpu is not None
    assert view.picture(STALE_SECONDS + 0.1).gpu is None
    assert view.picture(STALE_SECONDS + 0.1).battery is not None
    assert view.picture(BATTERY_SECONDS + 0.1).battery is None


def test_swap_grows_from_the_least_that_was_sampled():
    view = MachineView()
    for swap, grown in ((3 * GB, 0), (2 * GB, 0), (4 * GB, 2 * GB), (None, 0)):
        view.take([MemorySampled(time=0.0, source=Source.SYSTEM, bytes=GB, ceiling=2 * GB, swap=swap)])
        assert view.picture(0.0).swap_grown == grown
