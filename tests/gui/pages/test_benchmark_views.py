"""What a benchmark came to, as its page shows it: the figures, the reasons, the marks, and what one may press."""

import msgspec
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from core.base.format import memory, three_figures
from core.base.settings import Appearance
from core.benchmark.result import Pass, memory_against, speed_against
from core.benchmark.table import agreement
from gui.base.theme import Theme
from gui.base.tokens import LIGHT
from gui.benchmark.devices import DevicesView
from gui.benchmark.methods import MethodsView
from gui.benchmark.results import Tone
from gui.charts.bars import MARK
from gui.widgets.layout import PageScroll
from tests.fakes.bench import devices_result, methods_result

WIDE, CLOSE = 1150, 770


@pytest.fixture
def shown(qtbot):
    """Shows a view as its page does, in what scrolls."""
    pages = []

    def show(view, width=WIDE, direction=Qt.LayoutDirection.LeftToRight):
        inner = QWidget()
        QVBoxLayout(inner).addWidget(view)
        page = PageScroll(inner)
        page.setLayoutDirection(direction)
        qtbot.addWidget(page)
        page.resize(width, 640)
        page.show()
        pages.append(page)
        return page

    return show


@pytest.fixture
def methods():
    return MethodsView(Theme(Appearance.LIGHT))


@pytest.fixture
def devices():
    return DevicesView(Theme(Appearance.LIGHT))


def texts(table, key):
    """The texts of a line, by the titles of the columns; of two alike, the last one's is called by its place."""
    model = table.rows
    row = [line.key for line in model.lines].index(key)
    return [model.index(row, column).data() for column in range(model.columnCount())]


def bar_of(chart, title):
    return next(bar for bar in chart.bars.bars if bar.title == title)


def test_figures_are_those_of_the_result(qtbot, shown, methods):
    result = methods_result()
    shown(methods)
    methods.show_result(result)
    plain, bf16 = result.rows[0], result.rows[3]
    cells = texts(methods.table, "bf16")
    assert cells[0] == "bf16"
    assert cells[2] == three_figures(bf16.samples_per_second.median)
    assert cells[4] == f"{speed_against(bf16, plain):.2f} ×"
    assert cells[5] == memory(bf16.peak)
    assert cells[6] == f"{memory_against(bf16, plain):.2f} ×"
    assert cells[8] == three_figures(bf16.samples_per_joule)
    speed, held = bar_of(methods.speed, "bf16"), bar_of(methods.memory, "bf16")
    assert (speed.length, speed.highest) == (
        bf16.samples_per_second.median,
        bf16.samples_per_second.highest,
    )
    assert sum(piece.length for piece in held.pieces) == held.length == bf16.peak
    assert bar_of(methods.speed, "plain").colour == "others"


def test_what_was_not_measured_says_why_and_offers_nothing(qtbot, shown, methods):
    result = methods_result()
    shown(methods)
    methods.show_result(result)
    refused, failed = texts(methods.table, "adamw-8bit"), texts(methods.table, "large-batch")
    assert refused[1].startswith("not measured: needs an NVIDIA GPU")
    assert failed[1].startswith("failed: Memory ran out: 9.1 GB")
    assert methods.table.columnSpan(6, 1) == methods.table.rows.columnCount() - 1
    assert methods.table.columnSpan(5, 1) == 1
    assert bar_of(methods.speed, "8-bit AdamW").length is None
    measured = {row.rung.name for row in result.rows if row.is_measured}
    assert set(methods.table.links()) == measured


def test_a_row_measured_beside_other_load_is_marked(qtbot, shown, methods):
    shown(methods)
    methods.show_result(methods_result())
    assert texts(methods.table, "adafactor")[0] == f"Adafactor {MARK}"
    assert texts(methods.table, "bf16")[0] == "bf16"
    adafactor = bar_of(methods.speed, "Adafactor")
    assert adafactor.at_end.endswith(MARK)
    assert "other programs took 31 % of the processor" in adafactor.told
    assert MARK in methods.note.text()


def test_use_this_hands_on_the_rung_of_its_row(qtbot, shown, methods):
    result = methods_result()
    shown(methods)
    methods.show_result(result)
    link = methods.table.links()["bf16-lora"]
    assert link.accessibleName() == "Use this: LoRA, bf16"
    with qtbot.waitSignal(methods.use_requested) as told:
        link.click()
    assert told.args == [result.plan.rungs[10]]


def test_news_leaves_choice_links_and_place_as_they_are(qtbot, shown, methods):
    page = shown(methods)
    page.resize(WIDE, 420)
    methods.show_result(methods_result(done=4), "bf16-all")
    methods.table.choose("bf16")
    qtbot.waitUntil(lambda: page.verticalScrollBar().maximum() > 120)
    page.verticalScrollBar().setValue(120)
    place, link = page.verticalScrollBar().value(), methods.table.links()["bf16"]
    assert place == 120
    assert texts(methods.table, "bf16-all")[1] == "being measured…"
    assert texts(methods.table, "bf16-lora")[1] == "waits for its turn"
    methods.show_result(methods_result(done=5), "adafactor")
    assert methods.table.chosen == ("bf16",)
    assert methods.table.links()["bf16"] is link
    assert "bf16-all" in methods.table.links()
    assert page.verticalScrollBar().value() == place


def test_tab_goes_from_link_to_link_whenever_they_came(shown, methods):
    shown(methods)
    result = methods_result()
    methods.show_result(msgspec.structs.replace(result, rows=result.rows[3:4]))
    assert set(methods.table.links()) == {"bf16"}
    methods.show_result(result)
    links = methods.table.links()
    chain, place = [], methods.table.nextInFocusChain()
    while place is not methods.table:
        chain.append(place)
        place = place.nextInFocusChain()
    names = [row.rung.name for row in result.rows if row.is_measured]
    assert [one for one in chain if one in links.values()] == [links[name] for name in names]


def test_columns_leave_where_there_is_no_room(qtbot, shown, methods):
    page = shown(methods)
    methods.show_result(methods_result())
    table = methods.table
    titles = [heading.title for heading in table.rows.headings]
    assert not any(table.isColumnHidden(column) for column in range(len(titles)))
    page.resize(CLOSE, 640)
    qtbot.waitUntil(lambda: table.isColumnHidden(titles.index("middle half")))
    assert not table.isColumnHidden(len(titles) - 1)
    widths = sum(table.columnWidth(column) for column in range(len(titles)))
    assert widths <= table.viewport().width()


def test_where_it_is_close_one_chart_has_the_names_of_both(qtbot, shown, methods):
    page = shown(methods)
    methods.show_result(methods_result())
    assert methods.memory.bars.placed().rows[0].name.width() > 0
    page.resize(CLOSE, 640)
    qtbot.waitUntil(lambda: methods.memory.bars.placed().rows[0].name.width() == 0)
    speed, held = methods.speed.bars, methods.memory.bars
    tops = [bars.mapTo(page, QPointF(0, 0)).y() for bars in (speed, held)]
    assert tops[0] == tops[1]  # or the names would stand beside other rows
    assert "plain: 14.6 GB" in held.accessibleDescription()


@pytest.mark.parametrize("width", [260, 420, 900])
def test_nothing_in_a_chart_stands_on_anything_else(qtbot, methods, width):
    qtbot.addWidget(methods)
    methods.show_result(methods_result())
    for bars in (methods.speed.bars, methods.memory.bars):
        bars.resize(width, bars.sizeHint().height())
        for row in bars.placed().rows:
            assert row.name.right() <= row.body.left()
            if row.bar.length is not None:
                assert row.body.right() <= row.text.left()
                assert row.text.left() + bars.fontMetrics().horizontalAdvance(row.bar.at_end) <= width


def test_from_the_right_headings_stand_over_their_figures(qtbot, shown, methods):
    shown(methods, direction=Qt.LayoutDirection.RightToLeft)
    methods.show_result(methods_result())
    rows = methods.table.rows
    across = Qt.Orientation.Horizontal
    assert rows.headerData(0, across, Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignRight.value
    assert rows.headerData(1, across, Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignLeft.value
    assert texts(methods.table, "plain")[1].strip("\u2068\u2069") == "2 min 47 s"
    assert texts(methods.table, "plain")[1] != "2 min 47 s"  # it is isolated from what stands around it


@pytest.mark.parametrize("direction", list(Qt.LayoutDirection)[:2])
def test_bars_begin_where_reading_does(shown, methods, direction):
    shown(methods, direction=direction)
    methods.show_result(methods_result())
    bars = methods.speed.bars
    bars.resize(500, bars.sizeHint().height())
    row = bars.placed().rows[3]
    end, beyond = row.body.left() + 0.8 * row.body.width(), row.body.right() + 3
    image = bars.grab().toImage()
    colours = []
    for x in (end, beyond):
        place = x if direction is Qt.LayoutDirection.LeftToRight else bars.width() - x
        colours.append(image.pixelColor(round(place), round(row.body.center().y())).name())
    assert colours[0] == LIGHT.run
    assert colours[1] != LIGHT.run


def test_devices_are_held_against_the_first(shown, devices):
    result = devices_result()
    shown(devices)
    devices.show_result(result)
    cpu, mps = result.groups()["resnet18-4"]
    cells = texts(devices.table, "resnet18-4")
    assert cells[:2] == ["ResNet-18", "4"]
    assert cells[3] == f"{three_figures(mps.epoch_seconds.median)} s"
    assert cells[4] == f"{speed_against(mps, cpu):.2f} ×"
    assert devices.chart.title == "Speed-up of MPS over CPU"
    assert bar_of(devices.chart, "ResNet-18, batch 4").length == speed_against(mps, cpu)
    assert bar_of(devices.chart, "MobileNet V2, batch 64").is_marked


def test_a_device_that_fails_leaves_the_other_its_figure(shown, devices):
    result = devices_result()
    failed = Pass(begun=0.0, problem="The GPU was lost.")
    rows = (result.rows[0], msgspec.structs.replace(result.rows[1], passes=(failed,)), *result.rows[2:])
    shown(devices)
    devices.show_result(msgspec.structs.replace(result, rows=rows))
    cells = texts(devices.table, "vgg16-4")
    assert cells[2].endswith(" s")
    assert cells[3:5] == ["no figure", ""]
    assert bar_of(devices.chart, "VGG-16, batch 4").words == "MPS: failed: The GPU was lost"


def test_a_waiting_group_is_empty(shown, devices):
    shown(devices)
    devices.show_result(devices_result(done=5), "resnet18-4-mps")
    assert texts(devices.table, "resnet18-4")[3] == "measuring…"
    assert texts(devices.table, "mobilenet_v2-4")[2:5] == ["", "", ""]


def test_whether_losses_agree_stands_beside(shown, devices):
    result = devices_result()
    cpu, mps, *others = result.rows
    wrong = msgspec.structs.replace(mps.passes[0].sample, first_loss=2.9)
    apart = msgspec.structs.replace(mps, passes=(msgspec.structs.replace(mps.passes[0], sample=wrong),))
    shown(devices)
    devices.show_result(msgspec.structs.replace(result, rows=(cpu, apart, *others)))
    lines = {line.key: line.cells[-1] for line in devices.table.rows.lines}
    assert lines["alexnet-4"].text == agreement(*result.groups()["alexnet-4"]).words
    assert lines["alexnet-4"].tone is Tone.GOOD
    assert (lines["vgg16-4"].text, lines["vgg16-4"].tone) == ("differ by 20 %", Tone.WARNING)
    assert "before anything was learned" in lines["vgg16-4"].tip


def test_what_others_published_stands_beside_when_asked_for_and_says_so(qtbot, shown, devices):
    shown(devices)
    devices.show_result(devices_result())
    rows = devices.table.rows.rowCount()
    with qtbot.waitSignal(devices.published_toggled) as told:
        devices.published.click()
    assert told.args == [True]
    assert devices.table.rows.rowCount() == 2 * rows
    cells = texts(devices.table, "resnet18-64-published")
    assert cells[0].strip() == "published by others"
    assert cells[2:5] == ["CPU 1 min 04 s", "MPS 10.4 s", "6.14 ×"]
    assert "M1 Max" in devices.note.text()
    theirs = bar_of(devices.chart, "ResNet-18, batch 64: published by others, MPS over CPU")
    assert theirs.length == pytest.approx(63.9 / 10.4)
    assert theirs.is_faint
    devices.published.click()
    assert devices.table.rows.rowCount() == rows
    assert "M1 Max" not in devices.note.text()


def test_the_guides_figures_stand_below_the_methods_they_belong_to(shown, methods):
    shown(methods)
    methods.show_result(methods_result())
    methods.show_published(True)
    cells = texts(methods.table, "bf16-published")
    assert (cells[2], cells[4]) == ("18.6", "2.10 ×")
    keys = [line.key for line in methods.table.rows.lines]
    assert keys.index("bf16-published") == keys.index("bf16") + 1
    assert "bf16-lora-published" not in keys
    assert "bf16-published" not in methods.table.links()
    assert "V100" in methods.note.text()
