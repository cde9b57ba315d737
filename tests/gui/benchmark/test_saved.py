"""Earlier results: the list, one of them opened, two compared, and the trash."""

import pytest

from core.base.settings import Appearance
from core.benchmark import result as results
from core.benchmark.plan import Kind
from gui.base.theme import Theme
from gui.benchmark.page import SavedResults
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


def buttons(page):
    return [button.isEnabled() for button in (page.open, page.compare, page.bin)]


def test_results_are_listed_newest_first_and_the_selection_stays(qtbot, home, page):
    lines = lines_of(page.table)
    assert list(lines) == [path_of(saved) for saved in (NEW, DEVICES, OLD, INTERRUPTED)]
    assert texts(lines[path_of(INTERRUPTED)])[:3] == [OLD.plan.title, "Methods", "Invented notebook"]
    assert texts(lines[path_of(INTERRUPTED)])[4:] == ["3 of 12", "interrupted"]
    assert texts(lines[path_of(NEW)])[4:] == ["10 of 12", "complete"]
    page.table.select(path_of(OLD))
    (home / "2020-01-01-methods.json").write_bytes(b"\xff{")
    page.refresh()
    qtbot.waitUntil(lambda: len(lines_of(page.table)) == 5)
    assert page.table.selected == (path_of(OLD),)
    damaged = list(lines_of(page.table).values())[-1]
    assert texts(damaged) == ["2020-01-01-methods.json"]
    assert "is damaged" in damaged.words.text
    page.table.select(damaged.key)
    assert buttons(page) == [False, False, True]
    page.table.opened.emit(damaged.key)
    assert page._pages.currentWidget() is page._list


def test_a_result_is_opened_in_the_view_of_its_kind(qtbot, page):
    page.table.select(path_of(DEVICES))
    page.open.click()
    assert page._pages.currentWidget() is page.opened
    assert page.opened.views[Kind.DEVICES].isVisible()
    assert page.opened.views[Kind.DEVICES].result == DEVICES
    page.show_list()
    page.table.opened.emit(path_of(INTERRUPTED))
    view = page.opened.views[Kind.METHODS]
    assert view.isVisible()
    assert not page.opened.views[Kind.DEVICES].isVisible()
    assert page.opened.title.text() == INTERRUPTED.plan.title
    assert lines_of(view.table)["bf16"].words.text == "not measured"
    with qtbot.waitSignal(page.use_requested) as used:
        view.table.opened.emit("plain")
    assert used.args == [INTERRUPTED.plan.variants[0]]
    view.copy_csv.click()
    assert "CSV" in page.strip.accessibleName()


def test_two_of_a_kind_are_compared(page):
    page.table.select(path_of(OLD), path_of(NEW))
    page.compare.click()
    assert page._pages.currentWidget() is page.compared
    lines = lines_of(page.compared.table)
    assert texts(lines["bf16"])[1:5] == ["5.76", "6.40", "1.11 ×", "faster"]
    assert texts(lines["plain"])[4] == "within the spread"
    assert texts(lines["adafactor"])[4] == "slower"
    assert "torch: earlier 2.13.0, later 2.14.0." in page.compared.notes.text()


@pytest.mark.parametrize(
    ("selected", "reason"),
    [
        ((OLD,), "Select two of the same kind"),
        ((OLD, DEVICES), "Methods and devices can't be compared"),
        ((OLD, NEW, INTERRUPTED), "Only two"),
    ],
)
def test_others_cant_be_compared_and_the_reason_is_shown(page, selected, reason):
    page.table.select(*map(path_of, selected))
    assert not page.compare.isEnabled()
    assert reason in page.reason.text()


def test_results_are_moved_to_the_trash(qtbot, page):
    page.table.select(path_of(OLD), path_of(DEVICES))
    page.table.delete_pressed.emit()
    qtbot.waitUntil(lambda: len(lines_of(page.table)) == 2)
    assert sorted(page.gone) == sorted(results.path_of(result).name for result in (OLD, DEVICES))
