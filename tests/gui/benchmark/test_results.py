"""A result as its page shows it: the figures, the reasons, the marks, and what can be pressed."""

import csv
import io

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QVBoxLayout, QWidget

from core.base.formats import memory, three_figures
from core.base.settings import Appearance
from core.benchmark.plan import Kind
from core.benchmark.result import Pass
from core.benchmark.table import MARK, Tone, agreement
from gui.base.theme import Theme
from gui.benchmark.results import ResultView
from gui.widgets.layout import PageScroll
from tests.fakes.bench import devices_result, methods_result

WIDE, NARROW = 1150, 420
RESULT = methods_result()
DEVICES = devices_result()


@pytest.fixture
def shown(qtbot):
    """Shows a view as its page does, in what scrolls."""

    def show(kind, width=WIDE):
        view, inner = ResultView(Theme(Appearance.LIGHT), kind), QWidget()
        QVBoxLayout(inner).addWidget(view)
        view.page = PageScroll(inner)
        qtbot.addWidget(view.page)
        view.page.resize(width, 640)
        view.page.show()
        return view

    return show


@pytest.fixture
def methods(shown):
    view = shown(Kind.METHODS)
    view.show_result(RESULT)
    return view


@pytest.fixture
def devices(shown):
    view = shown(Kind.DEVICES)
    view.show_result(DEVICES)
    return view


def texts(view, key):
    model, row = view.table.model(), view.table.table.keys.index(key)
    return [model.index(row, column).data() for column in range(model.columnCount())]


def titles(view):
    return [heading.title for heading in view.table.table.headings]


def bar_of(chart, title):
    return next(bar for bar in chart.bars.bars if bar.title == title)


def test_figures_are_those_of_the_result(methods):
    plain, bf16 = RESULT.rows[0], RESULT.rows[3]
    cells = texts(methods, "bf16")
    assert (cells[0], cells[3]) == ("bf16", three_figures(bf16.samples_per_second.median))
    assert cells[5:8] == [
        f"{bf16.speed_against(plain):.2f} ×",
        memory(bf16.peak),
        f"{bf16.memory_against(plain):.2f} ×",
    ]
    speed, held = bar_of(methods.speed, "bf16"), bar_of(methods.memory, "bf16")
    assert (speed.length, speed.highest) == (bf16.samples_per_second.median, bf16.samples_per_second.highest)
    assert sum(piece.length for piece in held.pieces) == held.length == bf16.peak
    assert bar_of(methods.speed, "plain").colour == "others"
    assert methods.conclusion.text().startswith("Fastest, with the least memory: LoRA")
    assert any("torch 2.13.0" in fact for fact in methods.facts.details)


def test_what_was_not_measured_says_why_and_cant_be_used(qtbot, methods):
    assert texts(methods, "adamw-8bit")[1].startswith("not measured: needs an NVIDIA GPU")
    assert texts(methods, "large-batch")[1].startswith("failed: Memory ran out: 9.1 GB")
    assert methods.table.columnSpan(6, 1) == len(titles(methods)) - 1
    assert methods.table.columnSpan(5, 1) == 1
    assert bar_of(methods.speed, "8-bit AdamW").length is None
    with qtbot.assertNotEmitted(methods.use_requested):
        methods.table.opened.emit("adamw-8bit")


def test_a_row_measured_beside_other_load_is_marked(methods):
    assert texts(methods, "adafactor")[0] == f"Adafactor {MARK}"
    assert texts(methods, "bf16")[0] == "bf16"
    adafactor = bar_of(methods.speed, "Adafactor")
    assert adafactor.text.endswith(MARK)
    assert "other load of 31 %" in adafactor.tip
    assert MARK in methods.note.text()


@pytest.mark.parametrize("by", ["link", "enter"])
def test_a_variant_can_be_used_by_mouse_and_keyboard(qtbot, methods, by):
    index = methods.table.model().index(10, 1)
    assert index.data() == "Use this"
    with qtbot.waitSignal(methods.use_requested) as told:
        if by == "link":
            methods.table.clicked.emit(index)
        else:
            methods.table.setCurrentIndex(index)
            qtbot.keyClick(methods.table, Qt.Key.Key_Return)
    assert told.args == [RESULT.plan.variants[10]]
    with qtbot.assertNotEmitted(methods.use_requested):
        methods.table.clicked.emit(methods.table.model().index(10, 0))


def test_news_leaves_selection_and_place_as_they_are(qtbot, shown):
    view = shown(Kind.METHODS)
    view.page.resize(WIDE, 420)
    view.show_result(methods_result(done=4), "bf16-all")
    view.table.select("bf16")
    bar = view.page.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 120)
    bar.setValue(120)
    assert texts(view, "bf16-all")[1] == "being measured…"
    assert texts(view, "bf16-lora")[1] == "waits for its turn"
    view.show_result(methods_result(done=5), "adafactor")
    assert view.table.selected == ("bf16",)
    assert bar.value() == 120


def test_without_room_columns_are_scrolled_to(qtbot, methods):
    bar = methods.table.horizontalScrollBar()
    assert bar.maximum() == 0
    methods.page.resize(NARROW, 640)
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    assert methods.table.height() >= methods.table.verticalHeader().length()


def test_devices_are_compared_with_the_first(devices):
    cpu, mps = (row for row in DEVICES.rows if row.variant.group == "resnet18-4")
    cells = texts(devices, "resnet18-4-mps")
    assert cells[:3] == ["ResNet-18, batch 4", "MPS", f"{three_figures(mps.epoch_seconds)} s"]
    assert f"{mps.speed_against(cpu):.2f} ×" in cells
    assert devices.speed.title == "Speed-up of MPS over CPU"
    assert bar_of(devices.speed, "ResNet-18, batch 4").length == mps.speed_against(cpu)
    assert bar_of(devices.speed, "MobileNet V2, batch 64").is_marked
    assert not devices.memory.isVisible()


def test_a_device_that_fails_leaves_the_other_its_figure(devices):
    failed = Pass(begun=0.0, problem="The GPU was lost.")
    rows = (DEVICES.rows[0], msgspec.structs.replace(DEVICES.rows[1], passes=(failed,)), *DEVICES.rows[2:])
    devices.show_result(msgspec.structs.replace(DEVICES, rows=rows))
    assert texts(devices, "vgg16-4-cpu")[2].endswith(" s")
    assert texts(devices, "vgg16-4-mps")[:2] == ["VGG-16, batch 4, MPS", "failed: The GPU was lost"]
    assert bar_of(devices.speed, "VGG-16, batch 4").words == "MPS: failed: The GPU was lost"
    devices.show_result(devices_result(done=5), "resnet18-4-mps")
    assert bar_of(devices.speed, "MobileNet V2, batch 4").words == ""


def test_whether_losses_agree_stands_beside(devices):
    cpu, mps, *others = DEVICES.rows
    wrong = msgspec.structs.replace(mps.passes[0].sample, first_loss=2.9)
    apart = msgspec.structs.replace(mps, passes=(msgspec.structs.replace(mps.passes[0], sample=wrong),))
    devices.show_result(msgspec.structs.replace(DEVICES, rows=(cpu, apart, *others)))
    place = titles(devices).index("Losses")
    cells = {line.key: line.cell(place) for line in devices.table.table.lines}
    good, bad = cells["alexnet-4-mps"], cells["vgg16-4-mps"]
    assert (good.text, good.tone) == (agreement(others[1], others[0]).text, Tone.GOOD)
    assert (bad.text, bad.tone) == ("differ by 20 %", Tone.WARNING)
    assert "before training" in bad.tip


@pytest.mark.parametrize(
    ("kind", "result", "source"), [("methods", RESULT, "V100"), ("devices", DEVICES, "M1 Max")]
)
def test_published_figures_are_shown_and_copied_where_asked_for(shown, kind, result, source):
    view = shown(Kind(kind))
    view.show_result(result)
    columns = len(titles(view))
    view.copy_markdown.click()
    assert "ublished" not in QGuiApplication.clipboard().text()
    view.published.click()
    assert len(titles(view)) == columns + 1
    assert source in view.note.text()
    view.copy_markdown.click()
    assert source in QGuiApplication.clipboard().text()
    view.published.click()
    assert source not in view.note.text()


def test_csv_on_the_clipboard_has_the_figures_of_the_result(qtbot, methods):
    with qtbot.waitSignal(methods.copied) as told:
        methods.copy_csv.click()
    assert told.args == ["CSV"]
    lines = {line["name"]: line for line in csv.DictReader(io.StringIO(QGuiApplication.clipboard().text()))}
    bf16 = RESULT.rows[3]
    assert float(lines["bf16"]["samples_per_second"]) == bf16.samples_per_second.median
    assert int(lines["bf16"]["peak_bytes"]) == bf16.peak
    methods.show_result(methods_result(done=0))  # nothing measured, nothing to copy
    assert not methods.copy_markdown.isEnabled()
    assert not methods.copy_csv.isEnabled()
    assert not methods.conclusion.isVisible()
