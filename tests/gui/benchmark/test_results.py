"""A result on its page: the figures, the reasons, the marks, and what can be pressed."""

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

RESULT = methods_result()
DEVICES = devices_result()


@pytest.fixture
def show(qtbot):
    """Shows a result in a scroll area, as its page does."""

    def make(result, *underway):
        view, inner = ResultView(Theme(Appearance.LIGHT), result.kind), QWidget()
        QVBoxLayout(inner).addWidget(view)
        view.page = PageScroll(inner)
        qtbot.addWidget(view.page)
        view.page.resize(1150, 640)
        view.page.show()
        view.show_result(result, *underway)
        return view

    return make


@pytest.fixture
def methods(show):
    return show(RESULT)


@pytest.fixture
def devices(show):
    return show(DEVICES)


def texts(view, key):
    model, row = view.table.model(), view.table.table.keys.index(key)
    return [model.index(row, column).data() for column in range(model.columnCount())]


def titles(view):
    return [heading.title for heading in view.table.table.headings]


def bar_of(chart, title):
    return next(bar for bar in chart.bars.bars if bar.title == title)


def test_methods_are_shown_with_their_figures_reasons_and_marks(qtbot, methods):
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
    assert methods.conclusion.text().startswith("Fastest, with the least memory: LoRA")
    assert any("torch 2.13.0" in fact for fact in methods.facts.lines)
    assert texts(methods, "adamw-8bit")[1].startswith("not measured: needs an NVIDIA GPU")
    assert texts(methods, "large-batch")[1].startswith("failed: Memory ran out: 9.1 GB")
    assert methods.table.columnSpan(6, 1) == len(titles(methods)) - 1
    assert bar_of(methods.speed, "8-bit AdamW").length is None
    with qtbot.assertNotEmitted(methods.use_requested):
        methods.table.opened.emit("adamw-8bit")
    assert texts(methods, "adafactor")[0] == f"Adafactor {MARK}"
    adafactor = bar_of(methods.speed, "Adafactor")
    assert adafactor.text.endswith(MARK)
    assert "other load of 31 %" in adafactor.tip
    assert MARK in methods.note.text()


def test_a_variant_is_used_by_mouse_and_by_keyboard(qtbot, methods):
    link = methods.table.model().index(10, 1)
    assert link.data() == "Use this"
    with qtbot.waitSignal(methods.use_requested) as used:
        methods.table.clicked.emit(link)
    assert used.args == [RESULT.plan.variants[10]]
    methods.table.setCurrentIndex(link)
    with qtbot.waitSignal(methods.use_requested) as used:
        qtbot.keyClick(methods.table, Qt.Key.Key_Return)
    assert used.args == [RESULT.plan.variants[10]]
    with qtbot.assertNotEmitted(methods.use_requested):
        methods.table.clicked.emit(methods.table.model().index(10, 0))


def test_new_figures_leave_selection_and_scroll_position(qtbot, show):
    view = show(methods_result(done=4), "bf16-all")
    view.page.resize(1150, 420)
    view.table.select("bf16")
    bar = view.page.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 120)
    bar.setValue(120)
    assert texts(view, "bf16-all")[1] == "being measured…"
    assert texts(view, "bf16-lora")[1] == "waits for its turn"
    assert view.table.columnSpan(4, 1) > 1
    view.show_result(methods_result(done=5), "adafactor")
    assert view.table.columnSpan(4, 1) == 1
    assert view.table.selected == ("bf16",)
    assert bar.value() == 120


def test_devices_are_compared_with_the_first(devices):
    cpu, mps = (row for row in DEVICES.rows if row.variant.group == "resnet18-4")
    cells = texts(devices, "resnet18-4-mps")
    assert cells[:3] == ["ResNet-18, batch 4", "MPS", f"{three_figures(mps.epoch_seconds)} s"]
    assert f"{mps.speed_against(cpu):.2f} ×" in cells
    assert devices.speed.title == "Speed-up of MPS over CPU"
    assert bar_of(devices.speed, "ResNet-18, batch 4").length == mps.speed_against(cpu)
    assert bar_of(devices.speed, "MobileNet V2, batch 64").is_marked
    assert not devices.memory.isVisible()


def test_a_device_that_fails_or_computes_something_else_is_shown(devices):
    cpu, mps, *others = DEVICES.rows
    failed = msgspec.structs.replace(mps, passes=(Pass(begun=0.0, problem="The GPU was lost."),))
    devices.show_result(msgspec.structs.replace(DEVICES, rows=(cpu, failed, *others)))
    assert texts(devices, "vgg16-4-cpu")[2].endswith(" s")
    assert texts(devices, "vgg16-4-mps")[:2] == ["VGG-16, batch 4, MPS", "failed: The GPU was lost"]
    assert bar_of(devices.speed, "VGG-16, batch 4").words == "MPS: failed: The GPU was lost"
    wrong = msgspec.structs.replace(mps.passes[0].sample, first_loss=2.9)
    apart = msgspec.structs.replace(mps, passes=(msgspec.structs.replace(mps.passes[0], sample=wrong),))
    devices.show_result(msgspec.structs.replace(DEVICES, rows=(cpu, apart, *others)))
    losses = titles(devices).index("Losses")
    cells = {line.key: line.cell(losses) for line in devices.table.table.lines}
    good, bad = cells["alexnet-4-mps"], cells["vgg16-4-mps"]
    assert (good.text, good.tone) == (agreement(others[1], others[0]).text, Tone.GOOD)
    assert (bad.text, bad.tone) == ("differ by 20 %", Tone.WARNING)
    devices.show_result(devices_result(done=5), "resnet18-4-mps")
    assert bar_of(devices.speed, "MobileNet V2, batch 4").words == ""


@pytest.mark.parametrize(("result", "source"), [(RESULT, "V100"), (DEVICES, "M1 Max")], ids=list(Kind))
def test_published_figures_are_shown_and_copied_where_they_are_chosen(show, result, source):
    view = show(result)
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
    with qtbot.waitSignal(methods.copied):
        methods.copy_csv.click()
    lines = {line["name"]: line for line in csv.DictReader(io.StringIO(QGuiApplication.clipboard().text()))}
    bf16 = RESULT.rows[3]
    assert float(lines["bf16"]["samples_per_second"]) == bf16.samples_per_second.median
    assert int(lines["bf16"]["peak_bytes"]) == bf16.peak
    methods.show_result(methods_result(done=0))  # nothing measured, nothing to copy
    assert not methods.copy_markdown.isEnabled()
    assert not methods.copy_csv.isEnabled()
    assert not methods.conclusion.isVisible()
