"""What a look at the data says of rows, and shows of them, is what the run itself trains on."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.base.errors import DataError
from core.engine.environment import prepare_torchvision
from core.engine.inspect.report import inspect
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.services.inspect import DataReport, FindingLevel
from tests.fakes.models import instructions, save_tiny_bert, save_tiny_talker, write_json, write_text
from tests.fakes.training import write_data

prepare_torchvision()

LENGTHS = {Task.CHAT: 96, Task.PREFERENCE: 104}
"""Tokens at which some rows are cut off."""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save_tiny_bert(folder / "bert")
    save_tiny_talker(folder / "talker")
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def pairs(rows: int) -> list[dict[str, str]]:
    return [
        {
            "prompt": f"Question {n}?",
            "chosen": f"Answer {n}, and more of it.",
            "rejected": "No." * (1 + n % 3),
        }
        for n in range(rows)
    ]


def source(folder: Path, task: Task) -> str:
    """Forty rows, two of them of no use."""
    match task:
        case Task.TEXT_CLASSIFICATION:
            words = ("good story", "bad film", "very fine the story", "a poor film not good")
            rows = [f"{words[n % 4]} {n},{('pos', 'neg', 'so')[n % 3]}" for n in range(38)]
            path = folder / "a.csv"
            path.write_text("\n".join(["text,label", *rows, ",pos", "good,"]), encoding="utf-8")
            return str(path)
        case Task.CHAT:
            rows = [*instructions(38), *({"instruction": "", "output": ""},) * 2]
            return str(write_json(folder / "a.json", rows))
        case Task.PREFERENCE:
            return str(write_json(folder / "a.json", pairs(40)))
        case Task.CAUSAL_LM:
            return str(write_text(folder / "a.txt", 40))
        case _:
            return write_data(folder, task, 40)


def options_of(folder: Path, models: Path, task: Task, **data: Any) -> RunOptions:
    model = ModelOptions(source=str(models / ("talker" if task.writes_text else "bert")))
    usual = {"train": source(folder, task), "max_length": LENGTHS.get(task, 24), "eval_fraction": 0.25}
    return RunOptions(task=task, model=model, data=DataOptions(**(usual | data)))


def counts(options: RunOptions) -> tuple[DataReport, Any]:
    """What a look says, and what the run has prepared."""
    from core.engine.reporter import Reporter
    from core.engine.training.train import prepare

    report = inspect(options)
    assert report.problems == ()
    prepared = prepare(options, Reporter(None))
    assert (report.train_rows, report.eval_rows) == (
        len(prepared.train),
        0 if prepared.eval is None else len(prepared.eval),
    )
    return report, prepared


TEXT_TASKS = [task for task in Task if task.reads_text]
CHANGES = [
    {},
    {"max_train_samples": 30, "max_eval_samples": 2},
    {"eval_fraction": 0.0},
    {"eval": "of its own"},
]


@pytest.mark.parametrize("task", TEXT_TASKS)
@pytest.mark.parametrize("data", CHANGES, ids=str)
def test_rows_are_counted_as_the_run_counts_them(task, data, models, tmp_path):
    if data.get("eval"):
        (tmp_path / "other").mkdir()
        data = {"eval": source(tmp_path / "other", task)}
    report, _ = counts(options_of(tmp_path, models, task, **data))
    if data.get("eval") and task is not Task.CAUSAL_LM:
        assert "in-both" in [finding.code for finding in report.findings]


@pytest.mark.parametrize("task", TEXT_TASKS)
def test_what_is_shown_is_what_is_trained_on(task, models, tmp_path):
    options = options_of(tmp_path, models, task, eval_fraction=0.0)
    report, prepared = counts(options)
    rows = list(prepared.train)
    learned = []
    for row in rows:
        ids = row["input_ids"] if "input_ids" in row else [*row["prompt_ids"], *row["chosen_ids"]]
        learned.append((len(ids), prepared.processing_class.decode(ids, clean_up_tokenization_spaces=False)))
    assert report.seen
    for seen, (count, text) in zip(report.seen, learned, strict=False):
        shown = "".join(part.text for part in seen.parts)
        assert seen.tokens == count or (task is Task.PREFERENCE and seen.tokens >= count)
        assert shown.replace(" ", "") == text.replace(" ", "")
    assert report.lengths is not None or task is Task.CAUSAL_LM
    if report.lengths is not None:
        assert report.lengths.unit == "tokens"
        assert report.lengths.limit == LENGTHS.get(task, 24)
        assert report.lengths.cut == sum(seen.is_cut for seen in inspect_all(options).seen)


def spoilt(folder: Path, task: Task) -> Path:
    """Good rows, five of them twice, and rows that would stop a run."""
    good: list[dict[str, Any]]
    match task:
        case Task.TOKEN_CLASSIFICATION:
            good = [{"tokens": ["good", f"w{n}"], "tags": ["B-X", "O"]} for n in range(20)]
            bad = [
                {"tokens": ["good", "bad"], "tags": ["O"]},
                {"tokens": ["good"], "tags": [None]},
                {"tokens": ["good"], "tags": []},
            ]
        case Task.CHAT:
            good = [{"messages": said(f"{n}?", f"It is {n}.")} for n in range(20)]
            bad = [{"messages": said("Why?", "")}, {"messages": [{"role": "boss", "content": "Go."}]}]
        case Task.PREFERENCE:
            good = list(pairs(20))
            bad = [{"prompt": "Why?", "chosen": "So.", "rejected": "So."}]
        case Task.TEXT_REGRESSION:
            good = [{"text": f"good story {n}", "score": n / 2} for n in range(20)]
            bad = [{"text": f"bad film {n}", "score": score} for n, score in enumerate(("3,5", "high"))]
        case _:
            good = [{"text": f"good story {n}", "label": ("pos", "neg")[n % 2]} for n in range(20)]
            bad = [{"text": ["good", "film"], "label": "pos"}]
    path = folder / "spoilt.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [*good, *bad, *good[:5]]), encoding="utf-8")
    return path


def said(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


@pytest.mark.parametrize("task", TEXT_TASKS)
def test_bad_rows_stop_a_run_and_can_be_left_out(task, models, tmp_path):
    from core.engine.reporter import Reporter
    from core.engine.training.train import prepare

    path = str(spoilt(tmp_path, task))
    options = options_of(tmp_path, models, task, train=path, eval_fraction=0.0)
    stops = [found for found in inspect(options).findings if found.level is FindingLevel.PROBLEM]
    assert stops
    for found in stops:
        assert {"data.skip_bad_rows": True} in [fix.changes for fix in found.fixes]
    with pytest.raises(DataError) as stopped:
        prepare(options, Reporter(None))
    assert {"data.skip_bad_rows": True} in [fix.changes for fix in stopped.value.fixes]
    for evaluation in (None, path):
        changes = {"train": path, "eval": evaluation, "skip_bad_rows": True, "max_length": 64}
        report, _ = counts(options_of(tmp_path, models, task, **changes))
        assert [found for found in report.findings if "left out" in found.message]
        assert all(found.level is FindingLevel.WARNING for found in report.findings)


@pytest.mark.parametrize("task", TEXT_TASKS)
@pytest.mark.parametrize("fraction", [0.0, 0.25])
def test_repeats_can_be_left_out(task, fraction, models, tmp_path):
    path = str(spoilt(tmp_path, task))
    changes = {"train": path, "eval_fraction": fraction, "skip_bad_rows": True, "max_length": 64}
    with_all, _ = counts(options_of(tmp_path, models, task, **changes))
    duplicates = next(found for found in with_all.findings if found.code == "duplicates")
    assert duplicates.count == 5
    assert {"data.drop_duplicates": True} in [fix.changes for fix in duplicates.fixes]
    without, _ = counts(options_of(tmp_path, models, task, **changes, drop_duplicates=True))
    assert not next(found for found in without.findings if found.code == "duplicates").fixes
    if task is not Task.CAUSAL_LM:
        assert (without.train_rows or 0) + (without.eval_rows or 0) == 20


def inspect_all(options: RunOptions) -> DataReport:
    """A report that shows every row."""
    from core.engine.inspect import conversations, texts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "SHOWN", 1000)
        patch.setattr(conversations, "SHOWN", 1000)
        return inspect(options)


@pytest.mark.parametrize("task", [Task.CHAT, Task.PREFERENCE])
def test_a_length_that_keeps_rows_is_proposed_where_nothing_fits(task, models, tmp_path):
    from core.engine.reporter import Reporter
    from core.engine.training.train import prepare

    options = options_of(
        tmp_path, models, task, train=str(spoilt(tmp_path, task)), skip_bad_rows=True, max_length=8
    )
    problem = inspect(options).problems[0]
    with pytest.raises(DataError) as stopped:
        prepare(options, Reporter(None))
    assert problem.fixes == stopped.value.fixes
    changes = problem.fixes[0].changes
    assert changes["data.max_length"] % 64 == 0
    data = msgspec.structs.replace(options.data, max_length=changes["data.max_length"])
    report = inspect(msgspec.structs.replace(options, data=data))
    assert report.train_rows
    assert report.train_rows > 10


def test_packed_conversations_are_counted_in_rows(models, tmp_path):
    for held_out in (0.0, 0.25):
        options = options_of(
            tmp_path, models, Task.CHAT, packing=True, max_length=256, eval_fraction=held_out
        )
        report, prepared = counts(options)
        assert report.train_rows is not None
        assert report.train_rows < 24
        assert len(prepared.train) == report.train_rows


@pytest.mark.parametrize("task", [Task.CAUSAL_LM, Task.TEXT_CLASSIFICATION, Task.TOKEN_CLASSIFICATION])
def test_a_model_from_scratch_shows_what_it_sees(task, tmp_path):
    name = "scratch:llama-tiny" if task.writes_text else "scratch:bert-tiny"
    data = DataOptions(train=source(tmp_path, task), max_length=16, eval_fraction=0.25)
    report, prepared = counts(RunOptions(task=task, model=ModelOptions(source=name), data=data))
    assert report.train_rows
    assert report.seen[0].tokens is not None
    assert any("tokenizer of its own" in note for note in report.notes)
    if task.writes_text:
        first = prepared.processing_class.decode(prepared.train[0]["input_ids"])
        assert "".join(part.text for part in report.seen[0].parts) == first
    else:
        assert report.lengths is not None
        assert (report.lengths.unit, report.lengths.limit) == ("tokens", 16)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
@pytest.mark.parametrize("of", ["scratch:llama-tiny", "talker"])
def test_rows_of_a_long_text_are_estimated(name, of, models, tmp_path):
    from core.engine.inspect import texts

    lines = [
        f"In the year {n} there was a story of {n * n} people who went {n % 7} miles." for n in range(3000)
    ]
    is_text = name.endswith(".txt")
    written = lines if is_text else [json.dumps({"text": line}) for line in lines]
    (tmp_path / name).write_text("\n".join(written), encoding="utf-8")
    data = DataOptions(train=str(tmp_path / name), max_length=32, eval_fraction=0.25)
    model = ModelOptions(source=of if of.startswith("scratch") else str(models / of))
    options = RunOptions(task=Task.CAUSAL_LM, model=model, data=data)
    exact = inspect(options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "COUNTED_CHARACTERS", 1000)
        about = inspect(options)
    assert about.train_rows == pytest.approx(exact.train_rows, rel=0.1)
    assert about.eval_rows == pytest.approx(exact.eval_rows, rel=0.1)
    assert len(about.notes) > len(exact.notes)


@pytest.mark.parametrize("source", ["scratch:llama-tiny", "", "owner/not-here"])
def test_without_a_tokenizer_lengths_are_characters(source, tmp_path):
    path = write_json(tmp_path / "a.json", instructions(12))
    options = RunOptions(task=Task.CHAT, model=ModelOptions(source=source), data=DataOptions(train=str(path)))
    report = inspect(options)
    assert report.lengths is not None
    assert (report.lengths.unit, report.lengths.limit) == ("characters", None)
    assert report.seen[0].tokens is None
    assert any(part.trained for part in report.seen[0].parts)
    assert (report.train_rows, report.eval_rows) == (11, 1)
