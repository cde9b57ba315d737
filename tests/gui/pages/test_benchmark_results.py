"""Earlier results: the list, one of them opened, two against each other, and the bin."""

import msgspec
import pytest

from core.base.settings import Appearance
from core.benchmark import result as benchmark_result
from core.benchmark.result import Kept
from gui.base.theme import Theme
from gui.benchmark.devices import DevicesView
from gui.benchmark.methods import MethodsView
from gui.benchmark.saved import EarlierResults
from tests.fakes.bench import BEGUN, NOTEBOOK, devices_result, methods_result, updated_result

OLD, NEW = methods_result(), updated_result()
DEVICES = devices_result()
BROKEN_OFF = methods_result(NOTEBOOK, done=3, begun=BEGUN - 9 * 86_400)


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    for result in (OLD, NEW, DEVICES, BROKEN_OFF):
        benchmark_result.save(result)
    return tmp_path / "benchmarks"


def path_of(result):
    return str(benchmark_result.path_of(result))


@pytest.fixture
def gone():
    return []


@pytest.fixture
def page(qtbot, home, gone):
    def remove(path):
        gone.append(path.name)
        path.unlink()

    page = EarlierResults(Theme(Appearance.LIGHT), remove=remove)
    qtbot.addWidget(page)
    page.resize(1000, 640)
    page.show()
    qtbot.waitUntil(lambda: len(page.list.table.rows.lines) == 4)
    yield page
    page.end_work()


def test_the_newest_stand_first_with_where_and_how_far(page):
    lines = page.list.table.rows.lines
    assert [line.key for line in lines] == [path_of(one) for one in (NEW, DEVICES, OLD, BROKEN_OFF)]
    texts = [cell.text for cell in lines[3].cells]
    assert texts[:3] == [OLD.plan.title, "Methods", "Invented notebook"]
    assert texts[4:] == ["3 of 12", "broken off"]
    assert [cell.text for cell in lines[0].cells][4:] == ["10 of 12", "whole"]


def test_a_damaged_file_says_why_and_only_goes_to_the_bin(qtbot, home, page):
    (home / "2020-01-01-methods.json").write_bytes(b"\xff{")
    page.refresh()
    qtbot.waitUntil(lambda: len(page.list.table.rows.lines) == 5)
    line = next(line for line in page.list.table.rows.lines if line.across is not None)
    assert line.cells[0].text == "2020-01-01-methods.json"
    assert "is damaged" in line.across.text
    page.list.table.choose(line.key)
    assert not page.list.open.isEnabled()
    assert page.list.bin.isEnabled()
    page.list.table.opened.emit(line.key)
    assert page.shown is page.list


def test_one_is_opened_in_the_view_of_its_kind(qtbot, page):
    page.list.table.choose(path_of(DEVICES))
    page.list.open.click()
    assert page.shown is page.opened
    assert isinstance(page.opened.view, DevicesView)
    page.opened.back.click()
    assert page.shown is page.list
    page.list.table.opened.emit(path_of(OLD))
    assert isinstance(page.opened.view, MethodsView)
    assert page.opened.title.text() == OLD.plan.title
    assert "torch 2.13.0" in page.opened.where.text()
    assert page.opened.view.result == OLD
    assert "The best trade here" in page.opened.notes.text()


def test_what_was_broken_off_waits_for_nothing(page):
    page.show_result(BROKEN_OFF)
    lines = {line.key: line for line in page.opened.view.table.rows.lines}
    assert lines["bf16"].across.text == "not measured"
    assert lines["plain"].across is None


def test_a_row_of_an_earlier_result_can_be_used(qtbot, page):
    page.show_result(OLD)
    with qtbot.waitSignal(page.use_requested) as told:
        page.opened.view.table.links()["bf16"].click()
    assert told.args == [OLD.plan.rungs[3]]


def test_two_of_a_kind_are_held_against_each_other(page):
    page.list.table.choose(path_of(OLD), path_of(NEW))
    assert page.list.compare.isEnabled()
    page.list.compare.click()
    assert page.shown is page.compared
    lines = {line.key: [cell.text for cell in line.cells] for line in page.compared.table.rows.lines}
    assert lines["bf16"][1:5] == ["5.81", "6.45", "1.11 ×", "faster"]
    assert lines["plain"][4] == "within the spread"
    assert lines["adafactor"][4] == "slower"
    assert "torch: 2.13.0 then, 2.14.0 later." in page.compared.notes.text()
    bars = {bar.title: bar for bar in page.compared.chart.bars.bars}
    assert (bars["bf16"].colour, bars["Adafactor"].colour) == ("activations", "optimizer")
    placed = {row.bar.title: row for row in page.compared.chart.bars.placed().rows}
    assert placed["Adafactor"].body.right() == pytest.approx(placed["bf16"].body.left())
    assert placed["Adafactor"].text.left() > placed["Adafactor"].body.right()


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        ((OLD,), "Choose two of the same kind"),
        ((OLD, DEVICES), "Methods and devices can't be compared"),
        ((OLD, NEW, BROKEN_OFF), "Only two"),
    ],
)
def test_others_are_not(page, chosen, why):
    page.list.table.choose(*map(path_of, chosen))
    assert not page.list.compare.isEnabled()
    assert why in page.list.said.text()


def test_the_list_read_anew_keeps_what_is_chosen(qtbot, page):
    page.list.table.choose(path_of(OLD))
    benchmark_result.save(msgspec.structs.replace(DEVICES, begun=BEGUN + 99 * 86_400))
    page.refresh()
    qtbot.waitUntil(lambda: len(page.list.table.rows.lines) == 5)
    assert page.list.table.chosen == (path_of(OLD),)


def test_some_go_to_the_bin_when_that_is_agreed_to(qtbot, page, gone):
    page.list.table.choose(path_of(OLD), path_of(DEVICES))
    page.list.bin.click()
    box = page.bin.asking.box
    assert box.text() == "Move 2 results to the bin?"
    assert OLD.plan.title in box.informativeText()
    next(button for button in box.buttons() if "bin" in button.text()).click()
    qtbot.waitUntil(lambda: len(page.list.table.rows.lines) == 2)
    assert sorted(gone) == sorted(benchmark_result.path_of(one).name for one in (OLD, DEVICES))


def test_cancel_leaves_them(qtbot, page, gone):
    page.list.table.choose(path_of(OLD))
    page.list.table.bin_wanted.emit()
    page.bin.asking.put_away()
    page.bin.end_work()
    assert gone == []
    assert len(page.list.table.rows.lines) == 4


def test_before_anything_was_measured_it_says_so(qtbot):
    page = EarlierResults(Theme(Appearance.LIGHT), read=list[Kept])
    qtbot.addWidget(page)
    page.show()
    page.end_work()
    assert page.list.empty.isVisible()
    assert not page.list.table.isVisible()
