"""Every row that is wrong or odd is found at once, by its number; a run stops on the same, with the same words."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import DataError
from core.engine.data.labelled_texts import load_labelled_texts
from core.engine.inspect.report import inspect
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.services.inspect import DataReport, Finding, FindingLevel
from tests.fakes.tiny_bert import save_tiny_bert

CLASSIFY, SCORE, WORDS, TEXT = (
    Task.TEXT_CLASSIFICATION,
    Task.TEXT_REGRESSION,
    Task.TOKEN_CLASSIFICATION,
    Task.CAUSAL_LM,
)


def asked(task: Task, path: Path, **data: Any) -> RunOptions:
    return RunOptions(task=task, data=DataOptions(train=str(path), **data))


def look(task: Task, path: Path, **data: Any) -> DataReport:
    return inspect(asked(task, path, **data))


def by_code(report: DataReport) -> dict[str, Finding]:
    return {finding.code: finding for finding in report.findings}


def table(folder: Path, *rows: str, name: str = "a.csv", header: str = "text,label") -> Path:
    (folder / name).write_text("\n".join((header, *rows)), encoding="utf-8")
    return folder / name


def objects(folder: Path, *rows: dict[str, Any], name: str = "a.jsonl") -> Path:
    (folder / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder / name


def many(count: int = 40) -> list[str]:
    return [f"words {number},{'ab'[number % 2]}" for number in range(count)]


def stops_with_the_same(options: RunOptions, finding: Finding) -> None:
    """The run stops on it, and says no other words."""
    assert finding.level is FindingLevel.PROBLEM
    with pytest.raises(DataError) as caught:
        load_labelled_texts(options)
    assert finding.message.removeprefix("Evaluation data: ") in caught.value.detail
    assert finding.where in caught.value.detail
    assert all(fix in caught.value.fixes for fix in finding.fixes)


def test_clean_data_has_no_findings(tmp_path):
    report = look(CLASSIFY, table(tmp_path, *many()))
    assert (report.findings, report.problems, report.notes) == ((), (), ())
    assert report.reading == {
        "encoding": "UTF-8",
        "delimiter": "comma",
        "quoting": "none",
        "header": "in the first row",
    }


def test_labels_that_differ_in_capitals_or_spaces_are_told(tmp_path):
    rows = [f"words {n},{('Yes', 'yes', 'YES', 'no', 'not  sure', 'Not sure')[n % 6]}" for n in range(60)]
    found = by_code(look(CLASSIFY, table(tmp_path, *rows)))["similar-labels"]
    assert found.level is FindingLevel.WARNING
    assert all(f"“{name}”" in found.message for name in ("Yes", "yes", "YES", "not  sure", "Not sure"))
    assert "“no”" not in found.message


def test_a_split_that_goes_unused_is_told(tmp_path):
    table(tmp_path, *many(), name="train.csv")
    table(tmp_path, *many(), name="test.csv")
    found = by_code(look(CLASSIFY, tmp_path))["unused-split"]
    assert (found.level, found.fixes[0].changes) == (FindingLevel.WARNING, {"data.eval_split": "test"})
    assert "held out instead" in found.message
    for changes in ({"eval_split": "test"}, {"eval": str(tmp_path / "test.csv")}, {"train_split": "test"}):
        assert "unused-split" not in by_code(look(CLASSIFY, tmp_path, **changes))


@pytest.mark.parametrize(("content", "is_little"), [("Hi", True), ("It was a dark night. " * 60, False)])
def test_a_text_that_is_hardly_one_is_told(tmp_path, content, is_little):
    path = tmp_path / "a.txt"
    path.write_text(content, encoding="utf-8")
    assert ("little-text" in by_code(look(TEXT, path))) == is_little


def test_repeated_rows_are_told_apart_from_contradicting_ones(tmp_path):
    found = by_code(look(CLASSIFY, table(tmp_path, *many(), "words 3,b", "words 4,b", "words 3,b")))
    assert (found["duplicates"].rows, found["duplicates"].count) == ((42, 44), 2)
    assert (found["contradictions"].rows, found["contradictions"].count) == ((43,), 1)
    assert found["contradictions"].level is FindingLevel.WARNING


def test_rows_without_a_text_or_a_label_are_named_and_left_out(tmp_path):
    report = look(CLASSIFY, table(tmp_path, *many(), ",a", "some words,", ",b"))
    empty = [finding for finding in report.findings if finding.code == "empty"]
    assert [(finding.message, finding.rows) for finding in empty] == [
        ("2 rows have no “text” and are left out.", (42, 44)),
        ("1 row has no “label” and is left out.", (43,)),
    ]
    assert (report.train_rows, report.eval_rows) == (36, 4)


def test_rare_and_uneven_labels_are_named(tmp_path):
    counts = {"many": 400, "some": 25, "hardly": 9, "one": 1}
    rows = [f"{name} {number},{name}" for name, count in counts.items() for number in range(count)]
    found = by_code(look(CLASSIFY, table(tmp_path, *rows)))
    assert found["rare-label"].message == "“one” has 1 row: too few to learn it from."
    assert "“many” has 400 rows, “hardly” has 9 rows" in found["uneven-labels"].message
    assert "some" not in found["uneven-labels"].message


def test_few_rows_are_told(tmp_path):
    assert "only 3 rows" in by_code(look(CLASSIFY, table(tmp_path, "a,x", "b,y", "c,x")))["few-rows"].message


@pytest.mark.parametrize("content", ["naïve,a\n" * 9, "café,b\nnaïve,a\n" * 6])
def test_another_encoding_is_a_warning(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_bytes(f"text,label\nplain,b\n{content}".encode("cp1252"))
    report = look(CLASSIFY, path)
    assert "Windows-1252" in by_code(report)["other-encoding"].message
    assert report.reading["encoding"] == "Windows-1252"
    assert not any("1252" in note for note in report.notes)


def test_all_numbers_that_are_none_are_named_at_once(tmp_path):
    rows = [f"words {number},{number}.5" for number in range(20)]
    path = table(tmp_path, *rows, "no,high", 'no,"1,5"', "no,", "no,nan", header="text,score")
    found = by_code(look(SCORE, path))
    assert (found["not-a-number"].rows, found["not-a-number"].count) == ((22, 23, 25), 3)
    assert found["empty"].rows == (24,)
    stops_with_the_same(asked(SCORE, path), found["not-a-number"])


GOOD = {"tokens": ["Paris", "sleeps"], "tags": ["B-LOC", "O"]}


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("tag-count", {"tokens": ["a", "b", "c"], "tags": ["O", "O"]}),
        ("missing-value", {"tokens": ["a", "b"], "tags": ["O", None]}),
        ("broken-list", {"tokens": '["a", "b]', "tags": '["O", "B-X"]'}),
    ],
)
def test_all_rows_whose_words_and_labels_do_not_match_are_named(tmp_path, code, wrong):
    path = objects(tmp_path, GOOD, wrong, GOOD, GOOD, wrong)
    report = look(WORDS, path)
    found = by_code(report)[code]
    assert (found.rows, found.count, found.row_word) == ((2, 5), 2, "line")
    assert report.train_rows is None
    stops_with_the_same(asked(WORDS, path), found)


def test_labels_never_trained_on_are_all_named(tmp_path):
    other = table(tmp_path, "x 1,a", "x 2,awful", "x 3,b", "x 4,odd", "x 5,awful", name="test.csv")
    options = asked(CLASSIFY, table(tmp_path, *many()), eval=str(other))
    report = inspect(options)
    unseen = [finding for finding in report.findings if finding.code == "unseen-label"]
    assert [(found.rows, found.count) for found in unseen] == [((3, 6), 2), ((5,), 1)]
    found = unseen[0]
    assert found.message.startswith("Evaluation data: ")
    assert "“awful”" in found.message
    assert (report.train_rows, report.eval_rows) == (40, None)
    assert found.fixes[-1].changes == {"data.eval": None}
    stops_with_the_same(options, found)


@pytest.mark.parametrize("task", [CLASSIFY, SCORE])
def test_rows_in_both_are_named_by_their_place_in_the_evaluation_data(tmp_path, task):
    rows = [f"words {number},{number % 2}" for number in range(20)]
    other = table(tmp_path, "new,1", "words 3,0", "words 4,0", name="test.csv")
    found = by_code(look(task, table(tmp_path, *rows), eval=str(other), label_column="label"))
    assert (found["in-both"].rows, found["in-both"].count) == ((3, 4), 2)


def test_lists_and_objects_among_texts_stop_a_run(tmp_path):
    rows = [{"text": f"words {n}", "label": "ab"[n % 2]} for n in range(12)]
    path = objects(tmp_path, *rows, {"text": {"a": 1}, "label": "a"}, {"text": ["x"], "label": "b"})
    found = by_code(look(CLASSIFY, path))
    assert (found["mixed-kinds"].rows, found["mixed-kinds"].count) == ((13, 14), 2)
    stops_with_the_same(asked(CLASSIFY, path), found["mixed-kinds"])


def test_labels_of_mixed_kinds_are_one_label_each(tmp_path):
    rows = [{"text": f"words {n}", "label": "1" if n % 3 else 1} for n in range(12)]
    report = look(CLASSIFY, objects(tmp_path, *rows, {"text": "x", "label": 0}))
    assert report.labels == {"1": 12, "0": 1}
    assert any("“label”" in note for note in report.notes)


def test_columns_are_all_checked_before_rows(tmp_path):
    report = look(CLASSIFY, table(tmp_path, *many()), text_columns=("txt",), label_column="lable")
    assert [problem.path for problem in report.problems] == ["data.text_columns", "data.label_column"]
    assert [problem.fixes[0].changes for problem in report.problems] == [
        {"data.text_columns": ["text"]},
        {"data.label_column": "label"},
    ]
    assert (report.preview_rows[:2], report.seen, report.train_rows) == ((2, 3), (), None)


def test_one_number_everywhere_is_nothing_to_learn(tmp_path):
    path = table(tmp_path, *(f"words {n},3.5" for n in range(20)), header="text,score")
    problems = look(SCORE, path).problems
    assert [problem.path for problem in problems] == ["data.label_column"]
    assert "the same number in every row" in problems[0].message


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return ModelOptions(source=str(save_tiny_bert(tmp_path_factory.mktemp("model") / "bert")))


def test_texts_that_are_cut_off_are_counted_and_named(tmp_path, bert):
    rows = [f"{'good ' * (5 + 10 * (number % 3))}{number},{'ab'[number % 2]}" for number in range(12)]
    data = DataOptions(train=str(table(tmp_path, *rows)), max_length=20)
    report = inspect(RunOptions(task=CLASSIFY, model=bert, data=data))
    found = by_code(report)["texts-cut"]
    assert (found.rows, found.message) == ((4, 7, 10, 13), "4 rows are cut off at 20 tokens.")
    assert report.lengths is not None
    assert (report.lengths.longest, report.lengths.cut, report.lengths.limit) == (28, 4, 20)
    assert 21 in report.lengths.edges
    assert [seen.is_cut for seen in report.seen[:3]] == [False, False, True]
    assert report.seen[2].parts[0].text.startswith("[CLS] good good")


def test_of_many_rows_some_are_measured_and_that_is_said(tmp_path, bert, monkeypatch):
    monkeypatch.setattr("core.engine.inspect.report.MOST_SAMPLED", 10)
    data = DataOptions(train=str(table(tmp_path, *many(95))), max_length=8)
    report = inspect(RunOptions(task=CLASSIFY, model=bert, data=data))
    assert report.lengths is not None
    assert sum(report.lengths.counts) == 10
    assert "Lengths are those of 10 rows, evenly chosen out of 95." in report.notes
    assert (report.rows, report.train_rows, len(report.seen)) == (95, 85, 20)


def test_words_are_shown_with_their_labels(tmp_path, bert):
    row = {"tokens": ["the", "good", "story"], "tags": ["O", "B-X", "I-X"]}
    path = objects(tmp_path, *[row] * 12)
    report = inspect(RunOptions(task=WORDS, model=bert, data=DataOptions(train=str(path))))
    assert report.seen[0].label == "good B-X, story I-X"
    assert [part.text.split() for part in report.seen[0].parts if part.trained] == [["the", "good", "story"]]
    assert report.labels == {"O": 12, "B-X": 12, "I-X": 12}
