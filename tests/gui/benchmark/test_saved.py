"""Earlier results: the list, one of them opened, two compared, and the trash."""

import msgspec
import pytest

from core.base.settings import Appearance
from core.benchmark import result as results
from core.benchmark.plan import Kind
from gui.base.theme import Theme
from gui.benchmark.saved import SavedResults
from tests.fakes.bench import BEGUN, NOTEBOOK, devices_result, methods_result, updated_result

OLD, NEW = methods_result(), updated_result()
DEVICES = devices_result()
INTERRUPTED = methods_result(NOTEBOOK, done=3, begun=BEGUN - 9 * 86_400)


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    for result in (OLD, NEW, DEVICES, INTERRUPTED):
        results.save(result)
    return tmp_path / "benchmarks"


@pytest.fixture
def page(qtbot, home):
    def remove(path):
        page.gone.append(path.name)
        path.unlink()

    page = SavedResults(Theme(Appearance.LIGHT), remove=remove)
    page.gone = []
    qtbot.addWidget(page)
    page.resize(1000, 640)
    page.show()
    qtbot.waitUntil(lambda: len(lines_of(page.table)) == 4)
    yield page
    page.end_work()


def path_of(result):
    return str(results.path_of(result))


def lines_of(table):
    return {line.key: line for line in table.table.lines}


def texts(line):
    return [cell.text for cell in line.cells]


def test_the_newest_come_first_with_where_and_how_far(page):
    lines = lines_of(page.table)
    assert list(lines) == [path_of(one) for one in (NEW, DEVICES, OLD, INTERRUPTED)]
    assert texts(lines[path_of(INTERRUPTED)])[:3] == [OLD.plan.title, "Methods", "Invented notebook"]
    assert texts(lines[path_of(INTERRUPTED)])[4:] == ["3 of 12", "interrupted"]
    assert texts(lines[path_of(NEW)])[4:] == ["10 of 12", "complete"]


def test_a_damaged_file_says_why_and_only_goes_to_the_bin(qtbot, home, page):
    (home / "2020-01-01-methods.json").write_bytes(b"\xff{")
    page.refresh()
    qtbot.waitUntil(lambda: len(lines_of(page.table)) == 5)
    line = list(lines_of(page.table).values())[-1]
    assert texts(line) == ["2020-01-01-methods.json"]
    assert "is damaged" in line.words.text
    page.table.select(line.key)
    assert not page.open.isEnabled()
    assert page.bin.isEnabled()
    page.table.opened.emit(line.key)
    assert page.shown == "list"


def test_one_is_opened_in_the_view_of_its_kind(page):
    page.table.select(path_of(DEVICES))
    page.open.click()
    assert page.shown == "opened"
    assert page.views[Kind.DEVICES].isVisible()
    assert page.views[Kind.DEVICES].result == DEVICES
    page.show_list()
    page.table.opened.emit(path_of(OLD))
    assert page.views[Kind.METHODS].isVisible()
    assert not page.views[Kind.DEVICES].isVisible()
    assert page.title.text() == OLD.plan.title
    page.views[Kind.METHODS].copy_csv.click()
    assert "CSV" in page.strip.accessibleName()


def test_what_was_interrupted_waits_for_nothing(page):
    page.show_result(INTERRUPTED)
    lines = lines_of(page.views[Kind.METHODS].table)
    assert lines["bf16"].words.text == "not measured"
    assert lines["plain"].words is None


def test_a_row_of_an_earlier_result_can_be_used(qtbot, page):
    page.show_result(OLD)
    with qtbot.waitSignal(page.use_requested) as told:
        page.views[Kind.METHODS].table.opened.emit("bf16")
    assert told.args == [OLD.plan.variants[3]]


def test_two_of_a_kind_are_compared(page):
    page.table.select(path_of(OLD), path_of(NEW))
    page.compare.click()
    assert page.shown == "compared"
    lines = lines_of(page.compared)
    assert texts(lines["bf16"])[1:5] == ["5.81", "6.45", "1.11 ×", "faster"]
    assert texts(lines["plain"])[4] == "within the spread"
    assert texts(lines["adafactor"])[4] == "slower"
    assert "torch: earlier 2.13.0, later 2.14.0." in page.notes.text()
    bars = {bar.title: bar for bar in page.chart.bars.bars}
    assert (bars["bf16"].colour, bars["Adafactor"].colour) == ("activations", "optimizer")
    placed = {row.bar.title: row for row in page.chart.bars.placed().rows}
    assert placed["Adafactor"].body.right() == pytest.approx(placed["bf16"].body.left())
    assert placed["Adafactor"].text.left() > placed["Adafactor"].body.right()


@pytest.mark.parametrize(
    ("selected", "reason"),
    [
        ((OLD,), "Select two of the same kind"),
        ((OLD, DEVICES), "Methods and devices can't be compared"),
        ((OLD, NEW, INTERRUPTED), "Only two"),
    ],
)
def test_others_are_not(page, selected, reason):
    page.table.select(*map(path_of, selected))
    assert not page.compare.isEnabled()
    assert reason in page.said.text()


def test_the_list_read_again_keeps_what_is_selected(qtbot, page):
    page.table.select(path_of(OLD))
    results.save(msgspec.structs.replace(DEVICES, begun=BEGUN + 99 * 86_400))
    page.refresh()
    qtbot.waitUntil(lambda: len(lines_of(page.table)) == 5)
    assert page.table.selected == (path_of(OLD),)


def test_some_go_to_the_bin_when_that_is_agreed_to(qtbot, page):
    page.table.select(path_of(OLD))
    page.table.delete_pressed.emit()
    page.question.put_away()
    assert page.gone == []
    page.table.select(path_of(OLD), path_of(DEVICES))
    page.bin.click()
    box = page.question.box
    assert box.text() == "Move 2 results to the trash?"
    assert OLD.plan.title in box.informativeText()
    next(button for button in box.buttons() if "trash" in button.text()).click()
    qtbot.waitUntil(lambda: len(lines_of(page.table)) == 2)
    assert sorted(page.gone) == sorted(results.path_of(one).name for one in (OLD, DEVICES))
