"""What a report says of rows, and shows of them, is what the run itself trains on."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.base.errors import DataError
from core.engine.inspect import texts
from core.engine.inspect.report import inspect
from core.engine.reporter import Reporter
from core.engine.training.build import prepare
from core.jobs.inspect import DataReport, FindingLevel
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from tests.fakes.models import instructions, save_tiny_bert, save_tiny_talker, write_json, write_text
from tests.fakes.training import write_data

TEXT_TASKS = [task for task in Task if task.reads_text]
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


def talk(question: str, answer: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def rows_of(folder: Path, task: Task) -> str:
    """Twenty good rows of uneven lengths, one that would stop a run, and five of the good ones again."""

    def row(n: int) -> dict[str, Any]:
        text = " ".join([f"good story {n}"] * (1 + n % 9))
        match task:
            case Task.TOKEN_CLASSIFICATION:
                return {"tokens": text.split(), "tags": ["O", "B-X", "O"] * (1 + n % 9)}
            case Task.CHAT:
                return talk(f"{n}?", text)
            case Task.PREFERENCE:
                return {"prompt": f"{n}?", "chosen": text, "rejected": "No."}
            case Task.TEXT_REGRESSION:
                return {"text": text, "score": n / 2}
            case _:
                return {"text": text, "label": "abc"[n % 3]}

    bad = {
        Task.TOKEN_CLASSIFICATION: {"tokens": ["good", "bad"], "tags": ["O"]},
        Task.CHAT: talk("Why?", ""),
        Task.PREFERENCE: {"prompt": "Why?", "chosen": "So.", "rejected": "So."},
        Task.TEXT_REGRESSION: {"text": "film", "score": "3,5"},
    }.get(task, {"text": ["good", "film"], "label": "a"})
    rows = [*map(row, range(20)), bad, *map(row, range(5))]
    path = folder / "rows.jsonl"
    lines = [*map(json.dumps, rows), '{"text": "cut off']
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def options_of(folder: Path, models: Path, task: Task, **data: Any) -> RunOptions:
    model = ModelOptions(source=str(models / ("talker" if task.writes_text else "bert")))
    usual = {"train": rows_of(folder, task), "eval_fraction": 0.25, "skip_bad_rows": True}
    usual["max_length"] = LENGTHS.get(task, 24)
    return RunOptions(task=task, model=model, data=DataOptions(**(usual | data)))


def counted(options: RunOptions) -> tuple[DataReport, Any]:
    """The report and what the run prepares, whose rows are as many."""
    report, prepared = inspect(options), prepare(options, Reporter(None))
    assert report.problems == ()
    assert report.train_rows == len(prepared.train)
    assert report.eval_rows == (0 if prepared.eval is None else len(prepared.eval))
    return report, prepared


@pytest.mark.parametrize("task", TEXT_TASKS)
def test_rows_are_counted_as_the_run_counts_them(task, models, tmp_path):
    counted(options_of(tmp_path, models, task))
    counted(options_of(tmp_path, models, task, max_train_samples=30, max_eval_samples=2))
    report, _ = counted(options_of(tmp_path, models, task, eval=rows_of(tmp_path, task)))
    assert any("left out" in finding.message for finding in report.findings)
    assert task is Task.CAUSAL_LM or "in-both" in [finding.code for finding in report.findings]


@pytest.mark.parametrize("task", TEXT_TASKS)
def test_what_is_shown_is_what_is_trained_on(task, models, tmp_path, monkeypatch):
    monkeypatch.setattr("core.engine.inspect.draft.SHOWN", 1000)
    report, prepared = counted(options_of(tmp_path, models, task, eval_fraction=0.0))
    assert report.seen
    for seen, row in zip(report.seen, prepared.train, strict=False):
        ids = row["input_ids"] if "input_ids" in row else [*row["prompt_ids"], *row["chosen_ids"]]
        text = prepared.processing_class.decode(ids, clean_up_tokenization_spaces=False)
        assert seen.tokens == len(ids) or (task is Task.PREFERENCE and seen.tokens >= len(ids))
        assert "".join(part.text for part in seen.parts).replace(" ", "") == text.replace(" ", "")
    assert report.lengths is not None
    if task is not Task.CAUSAL_LM:
        assert (report.lengths.unit, report.lengths.limit) == ("tokens", LENGTHS.get(task, 24))
        assert report.lengths.cut == sum(seen.is_cut for seen in report.seen)


@pytest.mark.parametrize("task", TEXT_TASKS)
def test_bad_rows_stop_a_run_and_can_be_left_out_as_repeats_can(task, models, tmp_path):
    skip = {"data.skip_bad_rows": True}
    options = options_of(tmp_path, models, task, skip_bad_rows=False)
    stops = [finding for finding in inspect(options).findings if finding.level is FindingLevel.PROBLEM]
    assert stops
    assert all(skip in [fix.changes for fix in finding.fixes] for finding in stops)
    assert "not-json" in [finding.code for finding in stops]
    with pytest.raises(DataError) as stopped:
        prepare(options, Reporter(None))
    assert "(line 27)" in stopped.value.detail
    assert skip in [fix.changes for fix in stopped.value.fixes]
    (repeats,) = (found for found in inspect(options).findings if found.code == "duplicates")
    assert repeats.count == 5
    assert {"data.drop_duplicates": True} in [fix.changes for fix in repeats.fixes]
    report, _ = counted(options_of(tmp_path, models, task, drop_duplicates=True))
    assert task is Task.CAUSAL_LM or (report.train_rows or 0) + (report.eval_rows or 0) == 20


@pytest.mark.parametrize("task", [Task.CHAT, Task.PREFERENCE])
def test_a_length_that_keeps_rows_is_proposed_where_nothing_fits(task, models, tmp_path):
    options = options_of(tmp_path, models, task, max_length=8)
    problem = inspect(options).problems[0]
    with pytest.raises(DataError) as stopped:
        prepare(options, Reporter(None))
    assert problem.fixes == stopped.value.fixes
    enough = problem.fixes[0].changes["data.max_length"]
    assert enough % 64 == 0
    longer = msgspec.structs.replace(options.data, max_length=enough)
    assert (inspect(msgspec.structs.replace(options, data=longer)).train_rows or 0) > 10


def test_packed_conversations_are_counted_in_rows(models, tmp_path):
    report, _ = counted(options_of(tmp_path, models, Task.CHAT, packing=True, max_length=256))
    assert (report.train_rows or 99) < 24


@pytest.mark.parametrize("task", [Task.CAUSAL_LM, Task.CHAT, Task.TOKEN_CLASSIFICATION])
def test_a_model_from_scratch_shows_what_it_sees(task, tmp_path):
    name = "scratch:llama-tiny" if task.writes_text else "scratch:bert-tiny"
    is_text = task is Task.CAUSAL_LM
    train = str(write_text(tmp_path / "a.txt")) if is_text else write_data(tmp_path, task)
    data = DataOptions(train=train, max_length=16, eval_fraction=0.25)
    report, prepared = counted(RunOptions(task=task, model=ModelOptions(source=name), data=data))
    assert any("own tokenizer" in note for note in report.notes)
    if is_text:
        first = prepared.processing_class.decode(prepared.train[0]["input_ids"])
        assert "".join(part.text for part in report.seen[0].parts) == first
    else:
        assert report.lengths is not None
        assert (report.lengths.unit, report.lengths.limit) == ("tokens", 16)


@pytest.mark.parametrize("source", ["scratch:llama-tiny", "talker"])
def test_rows_of_a_long_text_are_estimated(source, models, tmp_path, monkeypatch):
    lines = (f"In the year {n} a story of {n * n} people who went {n % 7} miles." for n in range(3000))
    if source == "talker":
        path, source = tmp_path / "a.jsonl", str(models / source)
        lines = (json.dumps({"text": line}) for line in lines)
    else:
        path = tmp_path / "a.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    data = DataOptions(train=str(path), max_length=32, eval_fraction=0.25)
    options = RunOptions(task=Task.CAUSAL_LM, model=ModelOptions(source=source), data=data)
    exact = inspect(options)
    monkeypatch.setattr(texts, "COUNTED_CHARACTERS", 1000)
    about = inspect(options)
    assert about.train_rows == pytest.approx(exact.train_rows, rel=0.1)
    assert about.eval_rows == pytest.approx(exact.eval_rows, rel=0.1)
    assert len(about.notes) > len(exact.notes)


@pytest.mark.parametrize("source", ["", "owner/not-here"])
def test_without_a_tokenizer_lengths_are_characters(source, tmp_path):
    path = write_json(tmp_path / "a.json", instructions(12))
    options = RunOptions(task=Task.CHAT, model=ModelOptions(source=source), data=DataOptions(train=str(path)))
    report = inspect(options)
    assert report.lengths is not None
    assert (report.lengths.unit, report.lengths.limit) == ("characters", None)
    assert report.seen[0].tokens is None
    assert any(part.trained for part in report.seen[0].parts)
    assert (report.train_rows, report.eval_rows) == (11, 1)
