"""A report shows what is in the data, which task it is for, and what would stop a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import DataError
from core.engine.data.checks import Prints64, told_of
from core.engine.data.tables import read_files
from core.engine.inspect import report as reports
from core.engine.inspect.report import (
    WHOLE,
    Stages,
    evenly_chosen,
    find_suiting_task,
    histogram,
    inspect,
)
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.services.inspect import ColumnKind, DataReport
from tests.fakes.clock import FakeClock

N = range(60)
TALK = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
SHARED = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]}
CLASSIFY = Task.TEXT_CLASSIFICATION


def asked(source: Path | str, task: Task = CLASSIFY, **data: Any) -> RunOptions:
    return RunOptions(task=task, data=DataOptions(train=str(source), **data))


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def lines(*rows: object) -> str:
    return "\n".join(map(json.dumps, rows))


SUITS = [
    ("a.jsonl", lines(*({"messages": TALK} for _ in N)), Task.CHAT),
    ("a.jsonl", lines(*(SHARED for _ in N)), Task.CHAT),
    ("a.jsonl", lines(*({"instruction": f"Do {n}", "output": f"Done {n}"} for n in N)), Task.CHAT),
    ("a.csv", "\n".join(["question,answer", *(f"What is {n}?,It is {n}." for n in N)]), Task.CHAT),
    ("a.csv", "\n".join(["question,answer", *(f"Is it {n}?,{('yes', 'no')[n % 2]}" for n in N)]), CLASSIFY),
    ("a.jsonl", lines(*({"prompt": f"{n}", "chosen": f"a{n}", "rejected": "b"} for n in N)), Task.PREFERENCE),
    (
        "a.jsonl",
        lines(*({"tokens": ["a", "b"], "ner_tags": ["O", "B-X"]} for _ in N)),
        Task.TOKEN_CLASSIFICATION,
    ),
    ("a.txt", "EU B-ORG\nrejects O\n\n" * 20, Task.TOKEN_CLASSIFICATION),
    ("a.csv", "\n".join(["path,label", *(f"{n}.png,{'ab'[n % 2]}" for n in N)]), Task.IMAGE_CLASSIFICATION),
    ("a.csv", "\n".join(["text,label", *(f"words {n},{'ab'[n % 2]}" for n in N)]), CLASSIFY),
    ("a.csv", "\n".join(["review,stars", *(f"words {n},{n % 5}" for n in N)]), CLASSIFY),
    ("a.csv", "\n".join(["text,score", *(f"words {n},{n / 7:.2f}" for n in N)]), Task.TEXT_REGRESSION),
    (
        "a.tsv",
        "\n".join(["text\tscore", *(f"words {n}\t{'high' if n % 9 == 0 else n / 7}" for n in N)]),
        Task.TEXT_REGRESSION,
    ),
    ("a.csv", "\n".join(["text", *(f"A line about {n}." for n in N)]), Task.CAUSAL_LM),
    ("a.txt", "It was a dark night.\nNobody was there.\n" * 20, Task.CAUSAL_LM),
    ("a.md", "# Notes\n\nSome, and more, of it.\n", Task.CAUSAL_LM),
    ("a.csv", "\n".join(["one,two", *(f"{n},{n + 1}" for n in N)]), None),
    ("t10k-images-idx3-ubyte", "\0\0\x08\x03", Task.IMAGE_CLASSIFICATION),
]


@pytest.mark.parametrize(("name", "content", "task"), SUITS)
def test_a_file_tells_its_task(tmp_path, name, content, task):
    path = write(tmp_path / name, content)
    assert find_suiting_task(DataOptions(train=str(path)))[0] is task


def test_a_folder_tells_its_task(tmp_path):
    data = DataOptions(train=str(tmp_path))
    write(tmp_path / "a.txt", "It was a dark night.")
    assert find_suiting_task(data)[0] is Task.CAUSAL_LM
    for name in ("train.csv", "test.csv"):
        write(tmp_path / name, "text,label", *["good,a", "bad,b"] * 9)
    assert find_suiting_task(data)[0] is CLASSIFY


@pytest.mark.parametrize(
    ("source", "task"), [("builtin:digits", Task.IMAGE_CLASSIFICATION), ("synthetic:8x8", None)]
)
def test_sources_without_a_file(source, task):
    assert find_suiting_task(DataOptions(train=source))[0] is task


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "task", "rows"),
    [
        ("mrpc/msr_paraphrase_train.txt", CLASSIFY, 4076),
        ("instruct/alpaca_en_demo.json", Task.CHAT, 999),
        ("instruct/dpo_en_demo.json", Task.PREFERENCE, 300),
        ("text/tinyshakespeare.txt", Task.CAUSAL_LM, 1),
        ("mnist/t10k-images-idx3-ubyte.gz", Task.IMAGE_CLASSIFICATION, 10_000),
    ],
)
def test_real_data(shared_data, name, task, rows):
    report = inspect(asked(shared_data / name), any_task=True)
    assert (report.suits, report.problems, report.rows) == (task, (), rows)
    assert all(finding.level == "warning" for finding in report.findings)
    assert report.seen
    assert report.train_rows or task is Task.CAUSAL_LM
    if task is CLASSIFY:
        assert (report.text_columns, report.label_column) == (("#1 String", "#2 String"), "Quality")
        assert report.labels == {"1": 2753, "0": 1323}
        assert len(report.preview) == 200
        kinds = {column.name: column.kind for column in report.columns}
        assert (kinds["#1 String"], kinds["#1 ID"]) == (ColumnKind.TEXT, ColumnKind.NUMBER)


def test_the_chosen_task_is_answered_and_the_other_named(tmp_path):
    rows = [{"instruction": f"Do {n}", "output": f"Done {n}"} for n in N]
    options = asked(write(tmp_path / "a.jsonl", lines(*rows)), Task.CAUSAL_LM)
    report = inspect(options)
    assert (report.suits, report.shape, report.text_columns) == (Task.CHAT, "", ("output",))
    report = inspect(options, any_task=True)
    assert (report.suits, report.shape) == (Task.CHAT, "Instructions (Alpaca)")
    scores = write(tmp_path / "scores.csv", "text,score", *(f"a text {n},{n / 7:.2f}" for n in N))
    with pytest.raises(DataError, match="no column of images") as caught:
        inspect(asked(scores, Task.IMAGE_CLASSIFICATION))
    assert caught.value.fixes[0].changes == {"task": "text-regression"}
    for any_task in (False, True):
        with pytest.raises(DataError):
            inspect(asked(tmp_path / "none.csv", Task.CHAT), any_task=any_task)


@pytest.mark.parametrize(("split", "problems"), [("test", []), ("dev", ["data.eval_split"])])
def test_splits(tmp_path, split, problems):
    for name in ("train.csv", "test.csv"):
        write(tmp_path / name, "text,label", *(f"{name} {n},{'ab'[n % 2]}" for n in N))
    report = inspect(asked(tmp_path, eval_split=split))
    assert set(report.splits) == {"train", "test"}
    assert (report.rows, report.train_rows, report.eval_rows) == (60, 60, None if problems else 60)
    assert [problem.path for problem in report.problems] == problems
    assert all(problem.fixes[0].changes == {"data.eval_split": "test"} for problem in report.problems)


def test_columns_are_described(tmp_path):
    path = write(tmp_path / "a.csv", "text,label", "one text,a", "one text,b", ",a")
    report = inspect(asked(path))
    text, label = report.columns
    assert (text.name, text.distinct, text.empty, text.examples) == ("text", 1, 1, ("one text",))
    assert (label.distinct, label.empty) == (2, 0)
    assert (report.preview, report.preview_rows) == (
        (("one text", "a"), ("one text", "b"), ("", "a")),
        (2, 3, 4),
    )


@pytest.mark.parametrize("task", list(Task))
def test_synthetic_data_has_no_problems(task):
    report = inspect(asked("synthetic:64x32", task))
    assert (report.rows, report.problems) == (64, ())


def with_evaluation(folder: Path, content: str) -> DataReport:
    rows = [f"words {n},{('good', 'bad')[n % 2]}" for n in range(9)]
    return inspect(
        asked(write(folder / "a.csv", "text,label", *rows), eval=str(write(folder / "test.csv", content)))
    )


def test_evaluation_data_is_counted(tmp_path):
    report = with_evaluation(tmp_path, "label,text\ngood,some words\nbad,more words\ngood,\n")
    assert (report.rows, report.train_rows, report.eval_rows, report.problems) == (9, 9, 2, ())
    alone = inspect(asked(tmp_path / "a.csv"))
    assert (alone.train_rows, alone.eval_rows) == (8, 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "test.csv is empty"),
        ("words,label\nsome,good\n", "no column “text”"),
        ("text,label\n12,good\n", "holds numbers"),
    ],
)
def test_problems_of_evaluation_data(tmp_path, content, words):
    report = with_evaluation(tmp_path, content)
    assert [problem.path for problem in report.problems] == ["data.eval"]
    assert words in report.problems[0].message
    assert (report.labels, report.eval_rows) == ({"good": 5, "bad": 4}, None)


# --- The parts of a report


def test_progress_goes_on_from_stage_to_stage_a_few_times_a_second():
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


def test_progress_reaches_the_caller(tmp_path):
    path = write(tmp_path / "a.csv", "text,label", *(f"words {n},{n % 3}" for n in range(200)))
    told: list[tuple[int, int]] = []
    inspect(asked(path), lambda done, total: told.append((done, total)))
    assert told
    assert all(0 <= done <= total for done, total in told)


def test_rows_are_chosen_evenly(monkeypatch):
    monkeypatch.setattr(reports, "MOST_SAMPLED", 4)
    assert evenly_chosen(10).tolist() == [0, 2, 5, 7]
    assert evenly_chosen(3).tolist() == [0, 1, 2]


def test_bars_are_round_and_the_limit_is_an_edge():
    lengths = histogram([3, 40, 41, 100], "tokens", 40)
    assert lengths is not None
    assert lengths.edges[:3] == (0, 5, 10)
    assert 41 in lengths.edges
    assert sum(lengths.counts[lengths.edges.index(41) :]) == lengths.cut == 2
    assert (sum(lengths.counts), lengths.longest, lengths.median) == (4, 100, 40)
    assert len(lengths.edges) == len(lengths.counts) + 1
    assert histogram([], "tokens") is None
    whole = histogram([0, 7], "characters")
    assert whole is not None
    assert (whole.limit, whole.cut, sum(whole.counts)) == (None, 0, 2)


def test_repeats_are_told_from_contradictions_whatever_their_order():
    prints = Prints64()
    prints.add(["a", "b", "a"], ["x", "x", "x"])
    prints.add(["b", "a", "c"], ["y", "y", "z"])
    found = prints.repeated()
    assert (found.same.tolist(), found.other.tolist()) == ([2], [3, 4])
    other = Prints64()
    other.add(["c", "d", "a"], ["", "", ""])
    assert other.also_in(prints).tolist() == [0, 2]
    assert Prints64().repeated().same.tolist() == []


def test_many_labels_are_told_by_the_rarest():
    (told,) = told_of({"many": 10_000, **{f"rare {number}": 1 for number in range(8)}})
    assert told.message.endswith("and 3 labels more: too few to learn it from.")
    assert told.count == 8
    assert list(told_of({"one": 1})) == []


def test_a_table_that_is_held_is_not_read_twice(tmp_path):
    path = write(tmp_path / "a.csv", "text,label", "a,b", "")
    table = read_files((path,))
    assert read_files((path,)) is table
    write(path, "text,label", "another,b", "")
    assert read_files((path,)).rows.to_pylist() == [{"text": "another", "label": "b"}]
