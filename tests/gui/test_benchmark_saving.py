"""A benchmark's result taken elsewhere: what was written is read back."""

import csv

import msgspec
import pytest
from PySide6.QtGui import QGuiApplication, QImage

from core.base.settings import Appearance
from core.benchmark import result as benchmark_result
from core.benchmark.result import speed_against
from gui.base.theme import Theme
from gui.base.tokens import LIGHT
from gui.benchmark.saving import SCALE, WIDTH, BenchmarkSaving
from tests.fakes.bench import devices_result, methods_result


class Chooser:
    """A person who names a file."""

    def __init__(self, place):
        self.place, self.begins = str(place), ""

    def __call__(self, _parent, _title, begins, _kinds):
        self.begins = begins
        return self.place


@pytest.fixture
def save(qtbot):
    """Saves a result under a name, as its button does; returns the `BenchmarkSaving`."""
    made = []

    def do(result, place):
        saving = BenchmarkSaving(Theme(Appearance.LIGHT), choose=Chooser(place))
        qtbot.addWidget(saving)
        made.append(saving)
        saving.show_result(result)
        with qtbot.waitSignal(saving.saved) as told:
            saving.save.click()
        assert told.args == [place]
        return saving

    yield do
    for saving in made:
        saving.end_work()


def test_a_table_has_the_figures_of_the_result(save, tmp_path):
    result = methods_result()
    save(result, tmp_path / "methods.csv")
    with (tmp_path / "methods.csv").open(newline="") as file:
        lines = {line["name"]: line for line in csv.DictReader(file)}
    bf16 = result.rows[3]
    assert float(lines["bf16"]["samples_per_second"]) == bf16.samples_per_second.median
    assert float(lines["bf16"]["speed_ratio"]) == speed_against(bf16, result.rows[0])
    assert int(lines["bf16"]["peak_bytes"]) == bf16.peak
    assert lines["adamw-8bit"]["samples_per_second"] == ""
    assert lines["adamw-8bit"]["reason"].startswith("needs an NVIDIA GPU")


def test_all_that_was_measured_reads_back_the_same(save, tmp_path):
    result = devices_result()
    save(result, tmp_path / "all.json")
    assert benchmark_result.load(tmp_path / "all.json") == result


@pytest.mark.parametrize("result", [methods_result(), devices_result(done=7)], ids=["methods", "devices"])
def test_a_picture_is_whole_and_large_enough_for_print(save, tmp_path, result):
    saving = save(result, tmp_path / "picture.png")
    image = QImage(str(tmp_path / "picture.png"))
    assert image.width() == SCALE * WIDTH
    rows = len(result.groups()) if len(result.groups()) > 1 else len(result.rows)
    line = saving.fontMetrics().height()
    assert image.height() > SCALE * 3 * rows * line  # the charts and, below them, the table
    corners = [image.pixelColor(x, y) for x in (0, image.width() - 1) for y in (0, image.height() - 1)]
    assert len(set(map(str, corners))) == 1  # nothing reaches the edge
    everywhere = (
        image.pixelColor(x, y).name() for x in range(0, image.width(), 8) for y in range(0, image.height(), 8)
    )
    assert {LIGHT.run, LIGHT.surface} <= set(everywhere)


def test_without_an_ending_it_becomes_a_picture(qtbot, tmp_path):
    chooser = Chooser(tmp_path / "mine")
    saving = BenchmarkSaving(Theme(Appearance.DARK), choose=chooser)
    qtbot.addWidget(saving)
    saving.show_result(methods_result())
    with qtbot.waitSignal(saving.saved) as told:
        saving.save.click()
    assert told.args == [tmp_path / "mine.png"]
    assert chooser.begins.endswith("-methods-bert-large.png")
    saving.end_work()


def test_what_cant_be_written_is_said(qtbot, tmp_path):
    saving = BenchmarkSaving(Theme(Appearance.LIGHT), choose=Chooser(tmp_path / "gone" / "a.csv"))
    qtbot.addWidget(saving)
    saving.show_result(methods_result())
    with qtbot.waitSignal(saving.failed) as told:
        saving.save.click()
    assert told.args[0].title == "a.csv can't be written"
    assert "There is no folder" in told.args[0].detail
    saving.end_work()


def test_the_table_goes_to_the_clipboard_as_markdown(qtbot):
    saving = BenchmarkSaving(Theme(Appearance.LIGHT))
    qtbot.addWidget(saving)
    saving.show_result(methods_result())
    with qtbot.waitSignal(saving.copied):
        saving.copy.click()
    text = QGuiApplication.clipboard().text()
    assert text.startswith("### BERT-large")
    assert "| bf16 + sdpa + dynamic padding |" in text


def test_published_figures_are_taken_along_where_they_are_shown(qtbot):
    saving = BenchmarkSaving(Theme(Appearance.LIGHT))
    qtbot.addWidget(saving)
    saving.show_result(devices_result())
    saving.copy.click()
    assert "188.3" not in QGuiApplication.clipboard().text()
    saving.take_published(True)
    saving.copy.click()
    text = QGuiApplication.clipboard().text()
    assert "188.3" in text
    assert "Published by others" in text


def test_there_is_nothing_to_take_before_anything_is_measured(qtbot):
    saving = BenchmarkSaving(Theme(Appearance.LIGHT))
    qtbot.addWidget(saving)
    result = methods_result(done=0)
    bare = msgspec.structs.replace(result, rows=())
    saving.show_result(bare)
    assert not saving.copy.isEnabled()
    assert not saving.save.isEnabled()
