"""The parts of a look: progress over stages, rows evenly chosen, histograms, repeats, a table read once."""

from pathlib import Path

import pytest

from core.engine.data.checks import Prints64, told_of
from core.engine.data.tables import read_files
from core.engine.inspect import report
from core.engine.inspect.report import WHOLE, Stages, evenly_chosen, histogram, inspect
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from tests.fakes.clock import FakeClock


def test_progress_goes_on_from_stage_to_stage_a_few_times_a_second() -> None:
    told: list[tuple[int, int]] = []
    clock = FakeClock()
    stages = Stages(lambda done, total: told.append((done, total)), clock.monotonic)
    for share in (0.4, 0.6):
        tell = stages.next(share)
        for done in range(101):
            clock.now += 0.025
            tell(done, 100)
    shares = [done / total for done, total in told]
    assert shares == sorted(shares)
    assert 30 <= len(told) <= 55
    assert all(total == WHOLE for _, total in told)
    assert shares[-1] > 0.95


def test_rows_are_chosen_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_SAMPLED", 4)
    assert evenly_chosen(10).tolist() == [0, 2, 5, 7]
    assert evenly_chosen(3).tolist() == [0, 1, 2]


def test_bars_are_round_and_the_limit_is_an_edge() -> None:
    lengths = histogram([3, 40, 41, 100], "tokens", 40)
    assert lengths is not None
    assert lengths.edges[:3] == (0, 5, 10)
    assert 41 in lengths.edges
    beyond = lengths.edges.index(41)
    assert sum(lengths.counts[beyond:]) == lengths.cut == 2
    assert (sum(lengths.counts), lengths.longest, lengths.median) == (4, 100, 40)
    assert len(lengths.edges) == len(lengths.counts) + 1
    assert histogram([], "tokens") is None
    whole = histogram([0, 7], "characters")
    assert whole is not None
    assert (whole.limit, whole.cut, sum(whole.counts)) == (None, 0, 2)


def test_repeats_are_told_from_contradictions_whatever_their_order() -> None:
    prints = Prints64()
    prints.add(["a", "b", "a"], ["x", "x", "x"])
    prints.add(["b", "a", "c"], ["y", "y", "z"])
    found = prints.repeated()
    assert (found.same.tolist(), found.other.tolist()) == ([2], [3, 4])
    other = Prints64()
    other.add(["c", "d", "a"], ["", "", ""])
    assert other.also_in(prints).tolist() == [0, 2]
    assert Prints64().repeated().same.tolist() == []


def test_many_labels_are_told_by_the_rarest() -> None:
    labels = {"many": 10_000, **{f"rare {number}": 1 for number in range(8)}}
    (told,) = told_of(labels)
    assert told.message.endswith("and 3 labels more: too few to learn it from.")
    assert told.count == 8
    assert list(told_of({"one": 1})) == []


def test_a_table_that_is_held_is_not_read_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,b\n", encoding="utf-8")
    table = read_files((path,))
    assert read_files((path,)) is table
    path.write_text("text,label\nanother,b\n", encoding="utf-8")
    assert read_files((path,)).rows.to_pylist() == [{"text": "another", "label": "b"}]


def test_progress_reaches_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"words {n},{n % 3}\n" for n in range(200)), encoding="utf-8")
    told: list[tuple[int, int]] = []
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, data=DataOptions(train=str(path)))
    inspect(options, lambda done, total: told.append((done, total)))
    assert told
    assert all(0 <= done <= total for done, total in told)
