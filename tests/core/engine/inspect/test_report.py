"""A report shows what is in the data, which task it suits, every row that is wrong or odd, and what stops a run."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from core.base.errors import DataError
from core.engine.data.checks import RowHashes, check_labels
from core.engine.data.labelled_texts import load_labelled_texts
from core.engine.data.tables import read_files
from core.engine.inspect import report as reports
from core.engine.inspect.report import WHOLE, Stages, evenly_chosen, find_suiting_task, histogram, inspect
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.services.inspect import ColumnKind, DataReport, Finding, FindingLevel
from tests.fakes.machines import FakeClock
from tests.fakes.models import save_tiny_bert

N = range(60)
TALK = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
SHARED = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]}
CLASSIFY, SCORE, WORDS, TEXT = (
    *(Task.TEXT_CLASSIFICATION, Task.TEXT_REGRESSION),
    *(Task.TOKEN_CLASSIFICATION, Task.CAUSAL_LM),
)


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HONE_HOME", str(home))
    return home


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return ModelOptions(source=str(save_tiny_bert(tmp_path_factory.mktemp("model") / "bert")))


def options_of(source: Path | str, task: Task = CLASSIFY, **data: Any) -> RunOptions:
    return RunOptions(task=task, data=DataOptions(train=str(source), **data))


def report_of(source: Path | str, task: Task = CLASSIFY, **data: Any) -> DataReport:
    return inspect(options_of(source, task, **data))


def by_code(report: DataReport) -> dict[str, Finding]:
    return {finding.code: finding for finding in report.findings}


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def table(folder: Path, *rows: str, name: str = "a.csv", header: str = "text,label") -> Path:
    return write(folder / name, header, *rows)


def lines(*rows: object) -> str:
    return "\n".join(map(json.dumps, rows))


def many(count: int = 40) -> list[str]:
    return [f"words {number},{'ab'[number % 2]}" for number in range(count)]


# --- The task that data suits


SUITS = [
    ("a.jsonl", lines(*({"messages": TALK} for _ in N)), Task.CHAT),
    ("a.jsonl", lines(*(SHARED for _ in N)), Task.CHAT),
    ("a.jsonl", lines(*({"instruction": f"Do {n}", "output": f"Done {n}"} for n in N)), Task.CHAT),
    ("a.csv", "\n".join(["question,answer", *(f"What is {n}?,It is {n}." for n in N)]), Task.CHAT),
    ("a.csv", "\n".join(["question,answer", *(f"Is it {n}?,{('yes', 'no')[n % 2]}" for n in N)]), CLASSIFY),
    ("a.jsonl", lines(*({"prompt": f"{n}", "chosen": f"a{n}", "rejected": "b"} for n in N)), Task.PREFERENCE),
    ("a.jsonl", lines(*({"tokens": ["a", "b"], "ner_tags": ["O", "B-X"]} for _ in N)), WORDS),
    ("a.txt", "EU B-ORG\nrejects O\n\n" * 20, WORDS),
    ("a.csv", "\n".join(["path,label", *(f"{n}.png,{'ab'[n % 2]}" for n in N)]), Task.IMAGE_CLASSIFICATION),
    ("a.csv", "\n".join(["text,label", *many()]), CLASSIFY),
    ("a.csv", "\n".join(["review,stars", *(f"words {n},{n % 5}" for n in N)]), CLASSIFY),
    ("a.csv", "\n".join(["text,score", *(f"words {n},{n / 7:.2f}" for n in N)]), SCORE),
    ("a.tsv", "\n".join(["text\tscore", *(f"w {n}\t{'high' if n % 9 == 0 else n / 7}" for n in N)]), SCORE),
    ("a.csv", "\n".join(["text", *(f"A line about {n}." for n in N)]), TEXT),
    ("a.txt", "It was a dark night.\nNobody was there.\n" * 20, TEXT),
    ("a.csv", "\n".join(["one,two", *(f"{n},{n + 1}" for n in N)]), None),
    ("t10k-images-idx3-ubyte", "\0\0\x08\x03", Task.IMAGE_CLASSIFICATION),
]


@pytest.mark.parametrize(("name", "content", "task"), SUITS, ids=range(len(SUITS)))
def test_a_file_suits_a_task(tmp_path, name, content, task):
    assert find_suiting_task(DataOptions(train=str(write(tmp_path / name, content))))[0] is task


def test_a_folder_suits_a_task(tmp_path):
    data = DataOptions(train=str(tmp_path))
    write(tmp_path / "a.txt", "It was a dark night.")
    assert find_suiting_task(data)[0] is TEXT
    for name in ("train.csv", "test.csv"):
        table(tmp_path, *many(), name=name)
    assert find_suiting_task(data)[0] is CLASSIFY
    assert find_suiting_task(DataOptions(train="builtin:digits"))[0] is Task.IMAGE_CLASSIFICATION
    assert find_suiting_task(DataOptions(train="synthetic:8x8"))[0] is None


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "task", "rows"),
    [
        ("mrpc/msr_paraphrase_train.txt", CLASSIFY, 4076),
        ("instruct/alpaca_en_demo.json", Task.CHAT, 999),
        ("instruct/dpo_en_demo.json", Task.PREFERENCE, 300),
        ("text/tinyshakespeare.txt", TEXT, 1),
        ("mnist/t10k-images-idx3-ubyte.gz", Task.IMAGE_CLASSIFICATION, 10_000),
    ],
)
def test_real_data(shared_data, name, task, rows):
    report = inspect(options_of(shared_data / name), any_task=True)
    assert (report.suits, report.problems, report.rows) == (task, (), rows)
    assert all(finding.level is FindingLevel.WARNING for finding in report.findings)
    assert report.seen
    if task is CLASSIFY:
        assert (report.text_columns, report.label_column) == (("#1 String", "#2 String"), "Quality")
        assert report.labels == {"1": 2753, "0": 1323}
        assert len(report.preview) == 200
        kinds = {column.name: column.kind for column in report.columns}
        assert (kinds["#1 String"], kinds["#1 ID"]) == (ColumnKind.TEXT, ColumnKind.NUMBER)


def test_the_report_is_for_the_chosen_task_and_names_the_other(tmp_path):
    rows = [{"instruction": f"Do {n}", "output": f"Done {n}"} for n in N]
    options = options_of(write(tmp_path / "a.jsonl", lines(*rows)), TEXT)
    report = inspect(options)
    assert (report.suits, report.shape, report.text_columns) == (Task.CHAT, "", ("output",))
    report = inspect(options, any_task=True)
    assert (report.suits, report.shape) == (Task.CHAT, "Instructions (Alpaca)")
    scores = table(tmp_path, *(f"a text {n},{n / 7:.2f}" for n in N), header="text,score")
    with pytest.raises(DataError) as caught:
        report_of(scores, Task.IMAGE_CLASSIFICATION)
    assert caught.value.fixes[0].changes == {"task": "text-regression"}


# --- The fields of a report


def test_clean_data_has_no_findings(tmp_path):
    report = report_of(table(tmp_path, *many()))
    assert (report.findings, report.problems, report.notes) == ((), (), ())
    assert report.reading == {
        **{"encoding": "UTF-8", "delimiter": "comma"},
        **{"quoting": "none", "header": "in the first row"},
    }


def test_columns_are_described(tmp_path):
    report = report_of(table(tmp_path, "one text,a", "one text,b", ",a"))
    text, label = report.columns
    assert (text.name, text.distinct, text.empty, text.examples) == ("text", 1, 1, ("one text",))
    assert (label.distinct, label.empty) == (2, 0)
    assert report.preview == (("one text", "a"), ("one text", "b"), ("", "a"))
    assert report.preview_rows == (2, 3, 4)


@pytest.mark.parametrize(("split", "problems"), [("test", []), ("dev", ["data.eval_split"])])
def test_splits(tmp_path, split, problems):
    for name in ("train.csv", "test.csv"):
        table(tmp_path, *(f"{name} {n},{'ab'[n % 2]}" for n in N), name=name)
    report = report_of(tmp_path, eval_split=split)
    assert set(report.splits) == {"train", "test"}
    assert (report.rows, report.train_rows, report.eval_rows) == (60, 60, None if problems else 60)
    assert [problem.path for problem in report.problems] == problems
    assert all(problem.fixes[0].changes == {"data.eval_split": "test"} for problem in report.problems)


def test_a_split_that_goes_unused_is_reported(tmp_path):
    for name in ("train.csv", "test.csv"):
        table(tmp_path, *many(), name=name)
    found = by_code(report_of(tmp_path))["unused-split"]
    assert (found.level, found.fixes[0].changes) == (FindingLevel.WARNING, {"data.eval_split": "test"})
    for changes in ({"eval_split": "test"}, {"eval": str(tmp_path / "test.csv")}, {"train_split": "test"}):
        assert "unused-split" not in by_code(report_of(tmp_path, **changes))


@pytest.mark.parametrize("task", list(Task))
def test_synthetic_data_has_no_problems(task):
    report = report_of("synthetic:64x32", task)
    assert (report.rows, report.problems) == (64, ())


EVALUATION = {
    "rows": ("label,text\ngood,some words\nbad,more words\ngood,\n", 2),
    "empty": ("", None),
    "other columns": ("words,label\nsome,good\n", None),
    "numbers": ("text,label\n12,good\n", None),
}


@pytest.mark.parametrize(("content", "rows"), EVALUATION.values(), ids=EVALUATION)
def test_evaluation_data_of_its_own(tmp_path, content, rows):
    train = table(tmp_path, *(f"words {n},{('good', 'bad')[n % 2]}" for n in range(9)))
    report = report_of(train, eval=str(write(tmp_path / "test.csv", content)))
    assert (report.train_rows, report.eval_rows) == (9, rows)
    assert [problem.path for problem in report.problems] == ([] if rows else ["data.eval"])
    assert report.labels == {"good": 5, "bad": 4}
    alone = report_of(train)
    assert (alone.train_rows, alone.eval_rows) == (8, 1)


# --- Findings about rows


def stops_with_the_same(options: RunOptions, finding: Finding) -> None:
    """Check that a run stops with the message of a finding."""
    assert finding.level is FindingLevel.PROBLEM
    with pytest.raises(DataError) as caught:
        load_labelled_texts(options)
    assert finding.message.removeprefix("Evaluation data: ") in caught.value.detail
    assert finding.where in caught.value.detail
    assert all(fix in caught.value.fixes for fix in finding.fixes)


SPELLINGS = ("Yes", "yes", "YES", "no", "not  sure", "Not sure")
COUNTS = {"many": 400, "some": 25, "hardly": 9, "one": 1}
WARNINGS: dict[str, tuple[str, list[str], tuple[int, ...], int]] = {
    "repeated": ("duplicates", [*many(), "words 3,b", "words 4,b", "words 3,b"], (42, 44), 2),
    "contradicting": ("contradictions", [*many(), "words 3,b", "words 4,b", "words 3,b"], (43,), 1),
    "without a text": ("empty", [*many(), ",a", "some words,a", ",b"], (42, 44), 2),
    "without a label": ("empty", [*many(), "some words,"], (42,), 1),
    "spelling": ("similar-labels", [f"w {n},{SPELLINGS[n % 6]}" for n in range(60)], (), 2),
    "rare": (
        "rare-label",
        [f"{label} {n},{label}" for label, count in COUNTS.items() for n in range(count)],
        (),
        1,
    ),
    "uneven": (
        "uneven-labels",
        [f"{label} {n},{label}" for label, count in COUNTS.items() for n in range(count)],
        (),
        2,
    ),
    "few": ("few-rows", ["a,x", "b,y", "c,x"], (), 3),
}


@pytest.mark.parametrize(("code", "rows", "numbers", "count"), WARNINGS.values(), ids=WARNINGS)
def test_odd_rows_are_warnings_with_their_numbers(tmp_path, code, rows, numbers, count):
    finding = by_code(report_of(table(tmp_path, *rows)))[code]
    assert (finding.level, finding.rows, finding.count) == (FindingLevel.WARNING, numbers, count)


@pytest.mark.parametrize(("content", "is_little"), [("Hi", True), ("It was a dark night. " * 60, False)])
def test_a_text_that_is_hardly_one_is_reported(tmp_path, content, is_little):
    assert ("little-text" in by_code(report_of(write(tmp_path / "a.txt", content), TEXT))) == is_little


@pytest.mark.parametrize("content", ["naïve,a\n" * 9, "café,b\nnaïve,a\n" * 6])
def test_another_encoding_is_a_warning(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_bytes(f"text,label\nplain,b\n{content}".encode("cp1252"))
    report = report_of(path)
    assert "other-encoding" in by_code(report)
    assert (report.reading["encoding"], report.notes) == ("Windows-1252", ())


def test_all_numbers_that_are_none_are_named_at_once(tmp_path):
    rows = [f"words {number},{number}.5" for number in range(20)]
    path = table(tmp_path, *rows, "no,high", 'no,"1,5"', "no,", "no,nan", header="text,score")
    found = by_code(report_of(path, SCORE))
    assert (found["not-a-number"].rows, found["not-a-number"].count) == ((22, 23, 25), 3)
    assert found["empty"].rows == (24,)
    stops_with_the_same(options_of(path, SCORE), found["not-a-number"])


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
    path = write(tmp_path / "a.jsonl", lines(GOOD, wrong, GOOD, GOOD, wrong))
    report = report_of(path, WORDS)
    found = by_code(report)[code]
    assert (found.rows, found.count, found.row_word, report.train_rows) == ((2, 5), 2, "line", None)
    stops_with_the_same(options_of(path, WORDS), found)


def test_labels_never_trained_on_are_all_named(tmp_path):
    other = table(tmp_path, "x 1,a", "x 2,awful", "x 3,b", "x 4,odd", "x 5,awful", name="test.csv")
    options = options_of(table(tmp_path, *many()), eval=str(other))
    report = inspect(options)
    unseen = [finding for finding in report.findings if finding.code == "unseen-label"]
    assert [(found.rows, found.count, found.in_eval) for found in unseen] == [
        ((3, 6), 2, True),
        ((5,), 1, True),
    ]
    assert (report.train_rows, report.eval_rows) == (40, None)
    assert unseen[0].fixes[-1].changes == {"data.eval": None}
    stops_with_the_same(options, unseen[0])


@pytest.mark.parametrize("task", [CLASSIFY, SCORE])
def test_rows_in_both_are_named_by_their_place_in_the_evaluation_data(tmp_path, task):
    rows = [f"words {number},{number % 2}" for number in range(20)]
    other = table(tmp_path, "new,1", "words 3,0", "words 4,0", name="test.csv")
    found = by_code(report_of(table(tmp_path, *rows), task, eval=str(other), label_column="label"))
    assert (found["in-both"].rows, found["in-both"].count) == ((3, 4), 2)


def test_values_of_mixed_kinds(tmp_path):
    rows = [{"text": f"words {n}", "label": "1" if n % 3 else 1} for n in range(12)]
    path = write(tmp_path / "a.jsonl", lines(*rows, {"text": "x", "label": 0}))
    assert report_of(path).labels == {"1": 12, "0": 1}
    write(path, lines(*rows, {"text": {"a": 1}, "label": "1"}, {"text": ["x"], "label": "2"}))
    found = by_code(report_of(path))["mixed-kinds"]
    assert (found.rows, found.count) == ((13, 14), 2)
    stops_with_the_same(options_of(path), found)


def test_columns_are_all_checked_before_rows(tmp_path):
    report = report_of(table(tmp_path, *many()), text_columns=("txt",), label_column="lable")
    assert [(problem.path, problem.fixes[0].changes) for problem in report.problems] == [
        ("data.text_columns", {"data.text_columns": ["text"]}),
        ("data.label_column", {"data.label_column": "label"}),
    ]
    assert (report.preview_rows[:2], report.seen, report.train_rows) == ((2, 3), (), None)


# --- Data that can't be used, each with its place


Lay = Callable[[Path], Path]


def file(name: str, content: str | bytes) -> Lay:
    def lay(folder: Path) -> Path:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return folder / name

    return lay


def false_image(folder: Path) -> Path:
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        Image.new("RGB", (8, 8)).save(folder / name / "a.png")
    (folder / "cat" / "notes.png").write_text("This is a text.", encoding="utf-8")
    return folder


def odd_name(folder: Path) -> Path:
    if sys.platform == "darwin":
        pytest.skip("such a name can't be made there")
    for name in (b"cat", b"\xff\xfe dog"):
        inside = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
        inside.mkdir()
        Image.new("RGB", (8, 8)).save(inside / "a.png")
    return folder


BAD: dict[str, tuple[Lay, Task | None, str]] = {
    "a name that is not UTF-8": (odd_name, Task.IMAGE_CLASSIFICATION, "not UTF-8"),
    "an object": (file("a.json", '{"version": 2}'), None, ""),
    "a text called .png": (false_image, None, "notes.png"),
    "a message without a role": (
        file("a.jsonl", lines({"messages": [{"content": "Hi"}, *TALK]})),
        None,
        "line 1",
    ),
    "a damaged IDX file": (
        file("train-images-idx3-ubyte", struct.pack(">IIII", 2051, 9, 28, 28)),
        *(None, "train-images-idx3-ubyte"),
    ),
    "a text of a few letters": (file("a.txt", "\ufeff"), None, "is empty"),
}


@pytest.mark.parametrize(("lay", "task", "words"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_named(lay, task, words, tmp_path, home):
    try:
        report = inspect(options_of(lay(tmp_path), task or CLASSIFY), any_task=task is None)
        parts = [*map(str, report.problems), *report.notes]
        parts += [f"{finding.message} {finding.where}" for finding in report.findings]
    except DataError as error:
        parts = [str(error)]
    assert words in " ".join(parts)
    assert not list(home.rglob("*.unfinished")), "nothing unfinished is left behind"


STRANGE = "text,label\n" + "".join(
    f"{text} {n},{label}\n"
    for n in range(6)
    for text, label in (("مرحبا بالعالم", "جيد جدا"), ("fine 👍🏽", "😀 so-so"), ("שלום", "it's “ok”"))
)


def test_right_to_left_and_emoji_are_read(tmp_path):
    report = inspect(options_of(write(tmp_path / "a.csv", STRANGE)), any_task=True)
    assert (report.suits, report.rows, report.problems, report.train_rows) == (CLASSIFY, 18, (), 16)


def test_texts_are_inspected_without_torch():
    """It would take longer to load than most files to read."""
    modules = ", ".join(f"core.engine.inspect.{name}" for name in ("report", "texts", "conversations"))
    check = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


# --- What the model sees


def test_texts_that_are_cut_off_are_counted_and_named(tmp_path, bert):
    rows = [f"{'good ' * (5 + 10 * (number % 3))}{number},{'ab'[number % 2]}" for number in range(12)]
    data = DataOptions(train=str(table(tmp_path, *rows)), max_length=20)
    report = inspect(RunOptions(task=CLASSIFY, model=bert, data=data))
    found = by_code(report)["texts-cut"]
    assert (found.rows, found.count) == ((4, 7, 10, 13), 4)
    assert report.lengths is not None
    assert (report.lengths.longest, report.lengths.cut, report.lengths.limit) == (28, 4, 20)
    assert [seen.is_cut for seen in report.seen[:3]] == [False, False, True]
    assert report.seen[2].parts[0].text.startswith("[CLS] good good")


def test_of_many_rows_some_are_measured(tmp_path, bert, monkeypatch):
    monkeypatch.setattr("core.engine.inspect.report.MOST_SAMPLED", 10)
    data = DataOptions(train=str(table(tmp_path, *many(95))), max_length=8)
    report = inspect(RunOptions(task=CLASSIFY, model=bert, data=data))
    assert report.lengths is not None
    assert sum(report.lengths.counts) == 10
    assert (report.rows, report.train_rows, len(report.seen), len(report.notes)) == (95, 85, 20, 1)


def test_words_are_shown_with_their_labels(tmp_path, bert):
    row = {"tokens": ["the", "good", "story"], "tags": ["O", "B-X", "I-X"]}
    path = write(tmp_path / "a.jsonl", lines(*[row] * 12))
    report = inspect(RunOptions(task=WORDS, model=bert, data=DataOptions(train=str(path))))
    assert report.seen[0].label == "good B-X, story I-X"
    assert [part.text.split() for part in report.seen[0].parts if part.trained] == [["the", "good", "story"]]
    assert report.labels == {"O": 12, "B-X": 12, "I-X": 12}


# --- The parts of a report


def test_progress_goes_on_from_stage_to_stage_a_few_times_a_second(tmp_path):
    reported: list[tuple[int, int]] = []
    clock = FakeClock()
    stages = Stages(lambda done, total: reported.append((done, total)), clock.monotonic)
    for share in (0.4, 0.6):
        tell = stages.next(share)
        for done in range(101):
            clock.now += 0.025
            tell(done, 100)
    shares = [done / total for done, total in reported]
    assert shares == sorted(shares)
    assert 30 <= len(reported) <= 55
    assert all(total == WHOLE for _, total in reported)
    assert shares[-1] > 0.95
    reported.clear()
    inspect(options_of(table(tmp_path, *many())), lambda done, total: reported.append((done, total)))
    assert reported
    assert all(0 <= done <= total for done, total in reported)


def test_rows_are_chosen_evenly(monkeypatch):
    monkeypatch.setattr(reports, "MOST_SAMPLED", 4)
    assert evenly_chosen(10).tolist() == [0, 2, 5, 7]
    assert evenly_chosen(3).tolist() == [0, 1, 2]


def test_bars_are_round_and_the_limit_is_an_edge():
    lengths = histogram([3, 40, 41, 100], "tokens", 40)
    assert lengths is not None
    assert lengths.edges[:3] == (0, 5, 10)
    assert sum(lengths.counts[lengths.edges.index(41) :]) == lengths.cut == 2
    assert (sum(lengths.counts), lengths.longest, lengths.median) == (4, 100, 40)
    assert len(lengths.edges) == len(lengths.counts) + 1
    assert histogram([], "tokens") is None
    whole = histogram([0, 7], "characters")
    assert whole is not None
    assert (whole.limit, whole.cut, sum(whole.counts)) == (None, 0, 2)


def test_repeats_and_contradictions_in_any_order():
    hashes = RowHashes()
    hashes.add(["a", "b", "a"], ["x", "x", "x"])
    hashes.add(["b", "a", "c"], ["y", "y", "z"])
    repeated = hashes.repeated()
    assert (repeated.same.tolist(), repeated.other.tolist()) == ([2], [3, 4])
    other = RowHashes()
    other.add(["c", "d", "a"], ["", "", ""])
    assert other.also_in(hashes).tolist() == [0, 2]
    assert RowHashes().repeated().same.tolist() == []


def test_many_rare_labels_are_one_finding():
    (finding,) = check_labels({"many": 10_000, **{f"rare {number}": 1 for number in range(8)}})
    assert (finding.code, finding.count) == ("rare-label", 8)
    assert list(check_labels({"one": 1})) == []


def test_a_table_in_use_is_not_read_twice(tmp_path):
    path = table(tmp_path, "a,b", "")
    opened = read_files((path,))
    assert read_files((path,)) is opened
    table(tmp_path, "another,b", "")
    assert read_files((path,)).rows.to_pylist() == [{"text": "another", "label": "b"}]
