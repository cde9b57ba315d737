"""The task that data is for is judged by what its columns hold."""

import json
from pathlib import Path

import pytest

from core.base.errors import DataError
from core.engine.inspect.report import find_suiting_task, inspect
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions

N = range(60)
TALK = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
SHARED = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]}


def suits(path: Path | str) -> Task | None:
    return find_suiting_task(DataOptions(train=str(path)))[0]


def csv(header: str, *rows: str) -> str:
    return "\n".join((header, *rows))


def lines(*rows: object) -> str:
    return "\n".join(map(json.dumps, rows))


@pytest.mark.parametrize(
    ("name", "content", "task"),
    [
        ("a.jsonl", lines(*({"messages": TALK} for _ in N)), Task.CHAT),
        ("a.jsonl", lines(*(SHARED for _ in N)), Task.CHAT),
        ("a.jsonl", lines(*({"instruction": f"Do {n}", "output": f"Done {n}"} for n in N)), Task.CHAT),
        ("a.csv", csv("question,answer", *(f"What is {n}?,It is {n}." for n in N)), Task.CHAT),
        (
            "a.csv",
            csv("question,answer", *(f"Is it {n}?,{('yes', 'no')[n % 2]}" for n in N)),
            Task.TEXT_CLASSIFICATION,
        ),
        (
            "a.jsonl",
            lines(*({"prompt": f"{n}", "chosen": f"a{n}", "rejected": f"b{n}"} for n in N)),
            Task.PREFERENCE,
        ),
        (
            "a.jsonl",
            lines(*({"tokens": ["a", "b"], "ner_tags": ["O", "B-X"]} for _ in N)),
            Task.TOKEN_CLASSIFICATION,
        ),
        ("a.txt", "EU B-ORG\nrejects O\n\n" * 20, Task.TOKEN_CLASSIFICATION),
        ("a.csv", csv("path,label", *(f"{n}.png,{'ab'[n % 2]}" for n in N)), Task.IMAGE_CLASSIFICATION),
        ("a.csv", csv("text,label", *(f"words {n},{'ab'[n % 2]}" for n in N)), Task.TEXT_CLASSIFICATION),
        ("a.csv", csv("review,stars", *(f"words {n},{n % 5}" for n in N)), Task.TEXT_CLASSIFICATION),
        ("a.csv", csv("text,score", *(f"words {n},{n / 7:.2f}" for n in N)), Task.TEXT_REGRESSION),
        (
            "a.tsv",
            csv("text\tscore", *(f"words {n}\t{'high' if n % 9 == 0 else n / 7}" for n in N)),
            Task.TEXT_REGRESSION,
        ),
        ("a.csv", csv("text", *(f"A line about {n}." for n in N)), Task.CAUSAL_LM),
        ("a.txt", "It was a dark night.\nNobody was there.\n" * 20, Task.CAUSAL_LM),
        ("a.md", "# Notes\n\nSome, and more, of it.\n", Task.CAUSAL_LM),
        ("a.csv", csv("one,two", *(f"{n},{n + 1}" for n in N)), None),
        ("t10k-images-idx3-ubyte", "\0\0\x08\x03", Task.IMAGE_CLASSIFICATION),
    ],
)
def test_a_file_tells_its_task(tmp_path: Path, name: str, content: str, task: Task | None) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert suits(tmp_path / name) is task


def test_a_folder_tells_its_task(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("It was a dark night.", encoding="utf-8")
    assert suits(tmp_path) is Task.CAUSAL_LM
    (tmp_path / "train.csv").write_text("text,label\n" + "good,a\nbad,b\n" * 9, encoding="utf-8")
    (tmp_path / "test.csv").write_text("text,label\n" + "good,a\nbad,b\n" * 9, encoding="utf-8")
    assert suits(tmp_path) is Task.TEXT_CLASSIFICATION


@pytest.mark.parametrize(
    ("source", "task"), [("builtin:digits", Task.IMAGE_CLASSIFICATION), ("synthetic:8x8", None)]
)
def test_sources_without_a_file(source: str, task: Task | None) -> None:
    assert suits(source) is task


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("mrpc/msr_paraphrase_train.txt", Task.TEXT_CLASSIFICATION),
        ("instruct/alpaca_en_demo.json", Task.CHAT),
        ("instruct/dpo_en_demo.json", Task.PREFERENCE),
        ("text/tinyshakespeare.txt", Task.CAUSAL_LM),
        ("text", Task.CAUSAL_LM),
        ("mnist", Task.IMAGE_CLASSIFICATION),
        ("mnist/t10k-images-idx3-ubyte.gz", Task.IMAGE_CLASSIFICATION),
    ],
)
def test_real_data_tells_its_task_and_has_no_problems(shared_data: Path, name: str, task: Task) -> None:
    asked = RunOptions(task=Task.TEXT_CLASSIFICATION, data=DataOptions(train=str(shared_data / name)))
    report = inspect(asked, any_task=True)
    assert report.suits is task
    assert report.problems == ()
    assert all(finding.level == "warning" for finding in report.findings)
    assert report.seen
    assert report.train_rows or task is Task.CAUSAL_LM


def test_the_task_asked_for_is_answered_and_the_other_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(*({"instruction": f"Do {n}", "output": f"Done {n}"} for n in N)), encoding="utf-8")
    options = RunOptions(task=Task.CAUSAL_LM, data=DataOptions(train=str(path)))
    report = inspect(options)
    assert (report.suits, report.shape, report.text_columns) == (Task.CHAT, "", ("output",))
    report = inspect(options, any_task=True)
    assert (report.suits, report.shape) == (Task.CHAT, "Instructions (Alpaca)")
    with pytest.raises(DataError):
        inspect(RunOptions(task=Task.CHAT, data=DataOptions(train=str(tmp_path / "none.csv"))), any_task=True)


def test_splits_are_told(tmp_path: Path) -> None:
    for name in ("train.csv", "test.csv"):
        rows = (f"{name} {n},{'ab'[n % 2]}" for n in N)
        (tmp_path / name).write_text(csv("text,label", *rows), encoding="utf-8")
    data = DataOptions(train=str(tmp_path), eval_split="test")
    report = inspect(RunOptions(task=Task.TEXT_CLASSIFICATION, data=data))
    assert set(report.splits) == {"train", "test"}
    assert (report.rows, report.train_rows, report.eval_rows) == (60, 60, 60)
    data = DataOptions(train=str(tmp_path), eval_split="dev")
    report = inspect(RunOptions(task=Task.TEXT_CLASSIFICATION, data=data))
    assert [problem.path for problem in report.problems] == ["data.eval_split"]
    assert report.problems[0].fixes[0].changes == {"data.eval_split": "test"}


def test_an_error_says_for_which_task_the_data_is(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text(csv("text,score", *(f"a text {n},{n / 7:.2f}" for n in N)))
    options = RunOptions(task=Task.IMAGE_CLASSIFICATION, data=DataOptions(train=str(path)))
    with pytest.raises(DataError, match="no column of images") as caught:
        inspect(options)
    assert caught.value.fixes[0].changes == {"task": "text-regression"}
