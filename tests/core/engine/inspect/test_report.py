"""A report shows what is in the data, which task it suits, every row that is wrong or odd, and what stops a run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from core.base.errors import DataError
from core.engine.data.checks import check_labels
from core.engine.data.conversations import find_shape
from core.engine.data.labelled_texts import load_labelled_texts
from core.engine.data.tables import read_files, read_table
from core.engine.inspect.draft import WHOLE, Stages, histogram
from core.engine.inspect.report import find_suiting_task, inspect
from core.jobs.inspect import DataFinding, DataReport, FindingLevel
from core.options import RunOptions
from core.options.choices import PreferenceLoss, Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, TrainingOptions
from tests.fakes.data_sets import DIGITS, INSTRUCTIONS, PAIRS, PREFERENCES
from tests.fakes.machines import FakeClock
from tests.fakes.models import save_tiny_bert

N = range(60)
TALK = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
SHARED = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]}
CLASSIFY, SCORE, WORDS = Task.TEXT_CLASSIFICATION, Task.TEXT_REGRESSION, Task.TOKEN_CLASSIFICATION
IMAGES, TEXT, CHAT = Task.IMAGE_CLASSIFICATION, Task.CAUSAL_LM, Task.CHAT


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return ModelOptions(source=str(save_tiny_bert(tmp_path_factory.mktemp("model") / "bert")))


def options_of(source: Path | str, task: Task = CLASSIFY, model: Any = None, **data: Any) -> RunOptions:
    return RunOptions(task=task, model=model or ModelOptions(), data=DataOptions(train=str(source), **data))


def report_of(source: Path | str, task: Task = CLASSIFY, **data: Any) -> DataReport:
    return inspect(options_of(source, task, **data))


def by_code(report: DataReport) -> dict[str, DataFinding]:
    return {finding.code: finding for finding in report.findings}


def csv(header: str, pattern: str, count: int = 60) -> str:
    """Rows; `ab` and `yes` are one of two words."""
    words = (("a", "yes"), ("b", "no"))
    rows = (
        pattern.format(n=n, ab=words[n % 2][0], yes=words[n % 2][1], r=n % 5, f=n / 7) for n in range(count)
    )
    return "\n".join([header, *rows])


def lines(*rows: object) -> str:
    return "\n".join(map(json.dumps, rows))


def write(folder: Path, content: str, name: str = "a.csv") -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


MANY = csv("text,label", "words {n},{ab}", 40)
NOT_ALL_NUMBERS = "\n".join(["text\tscore", *(f"w {n}\t{'high' if n % 9 == 0 else n / 7}" for n in N)])
SUITS = [
    ("a.jsonl", lines(*({"messages": TALK} for _ in N)), CHAT),
    ("a.jsonl", lines(*(SHARED for _ in N)), CHAT),
    ("a.jsonl", lines(*({"instruction": f"Do {n}", "output": f"Done {n}"} for n in N)), CHAT),
    ("a.csv", csv("question,answer", "What is {n}?,It is {n}."), CHAT),
    ("a.csv", csv("question,answer", "Is it {n}?,{yes}"), CLASSIFY),
    ("a.jsonl", lines(*({"prompt": f"{n}", "chosen": f"a{n}", "rejected": "b"} for n in N)), Task.PREFERENCE),
    (
        "a.jsonl",
        lines(*({"prompt": f"{n}", "completion": f"a{n}", "label": n % 2} for n in N)),
        Task.PREFERENCE,
    ),
    ("a.jsonl", lines(*({"messages": TALK, "rating": n > 5} for n in N)), Task.PREFERENCE),
    ("a.jsonl", lines(*({"question": f"{n}?", "answer": f"a{n}", "label": n % 2} for n in N)), CHAT),
    ("a.jsonl", lines(*({"tokens": ["a", "b"], "ner_tags": ["O", "B-X"]} for _ in N)), WORDS),
    ("a.txt", "EU B-ORG\nrejects O\n\n" * 20, WORDS),
    ("a.csv", csv("path,label", "{n}.png,{ab}"), IMAGES),
    ("a.csv", MANY, CLASSIFY),
    ("a.csv", csv("review,stars", "words {n},{r}"), CLASSIFY),
    ("a.csv", csv("text,score", "words {n},{f:.2f}"), SCORE),
    ("a.csv", csv("text,label,similarity", "words {n},{ab},{f:.2f}"), CLASSIFY),
    ("a.tsv", NOT_ALL_NUMBERS, SCORE),
    ("a.csv", csv("text", "A line about {n}."), TEXT),
    ("a.txt", "It was a dark night.\nNobody was there.\n" * 20, TEXT),
    ("a.csv", csv("one,two", "{n},1{n}"), None),
    ("t10k-images-idx3-ubyte", "\0\0\x08\x03", IMAGES),
]


@pytest.mark.parametrize(("name", "content", "task"), SUITS, ids=range(len(SUITS)))
def test_a_file_suits_a_task(tmp_path, name, content, task):
    assert find_suiting_task(DataOptions(train=str(write(tmp_path, content, name))))[0] is task


def test_rated_answers_are_counted_and_previewed(tmp_path):
    def report_of(*rows: dict[str, Any], loss: PreferenceLoss = PreferenceLoss.KTO) -> DataReport:
        path = write(tmp_path, lines(*rows), "a.jsonl")
        training = TrainingOptions(preference_loss=loss)
        data = DataOptions(train=str(path), eval_fraction=0.25)
        return inspect(RunOptions(task=Task.PREFERENCE, data=data, training=training))

    rows = [{"prompt": f"Say {n}", "completion": f"{n}", "label": n % 4 == 0} for n in range(20)]
    report = report_of(*rows)
    assert (report.labels, report.train_rows, report.eval_rows) == ({"liked": 5, "not liked": 15}, 15, 5)
    assert [seen.liked for seen in report.seen[:5]] == [True, False, False, False, True]
    assert (report.shape, report.problems, report.findings) == ("Answers that were liked or not", (), ())
    one_kind = report_of(*(row | {"label": True} for row in rows))
    assert [finding.code for finding in one_kind.findings] == ["one-rating"]
    paired = report_of(*({"prompt": f"{n}", "chosen": f"a{n}", "rejected": "b"} for n in N))
    assert (paired.labels, paired.train_rows, paired.eval_rows) == ({}, 2 * 45, 2 * 15)
    assert any("two examples" in note for note in paired.notes)
    [problem] = report_of(*rows, loss=PreferenceLoss.DPO).problems
    assert problem.fixes[0].changes == {"training.preference_loss": "kto"}


def test_pairs_asked_as_chat_are_reported_with_the_task_they_suit(tmp_path):
    def advice(row: dict[str, str]) -> tuple[Task | None, list[dict[str, Any]]]:
        report = report_of(write(tmp_path, lines(row, row), "a.jsonl"), CHAT)
        return report.suits, [fix.changes for problem in report.problems for fix in problem.fixes]

    pair = {"prompt": "Hi", "chosen": "Hello", "rejected": "What"}
    assert advice(pair) == (Task.PREFERENCE, [{"task": "preference"}, {}])
    assert {"task": "preference"} not in advice({"mood": "good", "weather": "bad"})[1]
    with pytest.raises(DataError) as refused:
        find_shape(read_table(tmp_path / "a.jsonl"))
    assert [fix.changes for fix in refused.value.fixes] == [{}]
    with pytest.raises(DataError) as refused:
        find_shape(read_table(write(tmp_path, lines(pair), "pairs.jsonl")))
    assert refused.value.fixes[0].changes == {"task": "preference"}


def test_a_folder_or_a_source_suits_a_task(tmp_path):
    data = DataOptions(train=str(tmp_path))
    write(tmp_path, "It was a dark night.", "a.txt")
    assert find_suiting_task(data)[0] is TEXT
    for name in ("train.csv", "test.csv"):
        write(tmp_path, MANY, name)
    assert find_suiting_task(data)[0] is CLASSIFY
    assert find_suiting_task(DataOptions(train="builtin:digits"))[0] is IMAGES
    assert find_suiting_task(DataOptions(train="synthetic:8x8"))[0] is None


@pytest.mark.parametrize(
    ("name", "task", "rows"),
    [
        ("pairs-train.txt", CLASSIFY, PAIRS),
        ("alpaca.json", CHAT, INSTRUCTIONS),
        ("preferences.json", Task.PREFERENCE, PREFERENCES),
        ("play.txt", TEXT, 1),
        ("t10k-images-idx3-ubyte.gz", IMAGES, DIGITS),
    ],
)
def test_data_in_the_forms_of_published_sets_has_no_problems(data_sets, name, task, rows):
    report = inspect(options_of(data_sets / name), any_task=True)
    assert (report.suits, report.problems, report.rows) == (task, (), rows)
    assert all(finding.level is FindingLevel.WARNING for finding in report.findings)
    assert report.seen
    if task is CLASSIFY:
        assert (report.text_columns, report.label_column) == (("#1 String", "#2 String"), "Quality")
        assert (report.labels, len(report.preview)) == ({"1": 160, "0": 80}, 200)


@pytest.mark.parametrize("task", list(Task))
def test_synthetic_data_has_no_problems(task):
    report = report_of("synthetic:64x32", task)
    assert (report.rows, report.problems) == (64, ())


@pytest.mark.parametrize("task", [CHAT, TEXT])
def test_a_column_of_labels_that_is_not_learned_is_named(tmp_path, task):
    def notes_of(content: str, **data: Any) -> list[str]:
        notes = report_of(write(tmp_path, content), task, **data).notes
        return [note for note in notes if "is not read" in note]

    note = f"The column “kind” is not read: “{task.label}” learns from the texts alone."
    assert notes_of(csv("text,kind", "Words {n},{ab}")) == [note]
    assert notes_of(csv("text,kind", "Words {n},{f:.2f}")) == [note]
    assert notes_of(csv("text", "Words {n}")) == []
    assert notes_of(csv("instruction,output", "Do {n},Done {n}")) == []
    assert notes_of(csv("text,kind", "Words {n},{ab}"), columns={"prompt": "text", "answer": "kind"}) == []


def test_the_report_is_for_the_chosen_task_and_names_the_other(tmp_path):
    rows = ({"instruction": f"Do {n}", "output": f"Done {n}"} for n in N)
    options = options_of(write(tmp_path, lines(*rows), "a.jsonl"), TEXT)
    report = inspect(options)
    assert (report.suits, report.text_columns) == (CHAT, ())
    assert report.columns_by_role == {"prompt": "instruction", "answer": "output"}
    assert "Do 0<|im_end|>\n<|im_start|>assistant\nDone 0<|im_end|>" in report.seen[0].parts[0].text
    assert inspect(options, any_task=True).shape == "Instructions (Alpaca)"
    with pytest.raises(DataError) as caught:
        report_of(write(tmp_path, csv("text,score", "a text {n},{f:.2f}")), IMAGES)
    assert caught.value.fixes[0].changes == {"task": "text-regression"}


def test_clean_data_is_described_without_findings(tmp_path):
    report = report_of(write(tmp_path, MANY))
    assert (report.findings, report.problems, report.notes) == ((), (), ())
    assert (report.train_rows, report.eval_rows) == (36, 4)
    table = {"delimiter": "delimiter comma", "quoting": "no quoting", "header": "header in the first row"}
    assert report.reading == {"encoding": "UTF-8", **table}
    report = report_of(write(tmp_path, "text,label\none text,a\none text,b\n,a"))
    text, label = report.columns
    assert (text.name, text.distinct, text.empty, text.examples) == ("text", 1, 1, ("one text",))
    assert (label.distinct, label.empty) == (2, 0)
    assert report.preview == (("one text", "a"), ("one text", "b"), ("", "a"))
    assert report.preview_rows == (2, 3, 4)


@pytest.mark.parametrize(
    ("names", "offered"),
    [
        (("train.csv", "test.csv", "dev.csv"), "dev.csv"),
        (("pairs_train.csv", "pairs_test.csv"), "pairs_test.csv"),
        (("train.csv", "other_test.csv", "test.txt"), None),
        (("rows.csv", "test.csv"), None),
    ],
)
def test_validation_data_beside_the_training_file_is_offered(tmp_path, names, offered):
    for name in names:
        write(tmp_path, csv("text,label", f"{name} {{n}},{{ab}}"), name)
    found = by_code(report_of(tmp_path / names[0])).get("unused-file")
    assert (found and found.fixes[0].changes) == (offered and {"data.eval": str(tmp_path / offered)})
    assert "unused-file" not in by_code(report_of(tmp_path / names[0], eval=str(tmp_path / names[1])))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes in folders")
def test_pipes_beside_tables_are_named_and_never_opened(tmp_path):
    write(tmp_path, csv("text,label", "{n} text,{ab}"), "train.csv")
    (tmp_path / "notes.txt").write_text("no table")
    assert not any("pipe" in note.lower() for note in report_of(tmp_path).notes)
    os.mkfifo(tmp_path / "test.csv")
    assert any("“test.csv”" in note for note in report_of(tmp_path).notes)


def test_splits_can_be_chosen_and_one_that_goes_unused_is_reported(tmp_path):
    for name in ("train.csv", "test.csv"):
        write(tmp_path, csv("text,label", f"{name} {{n}},{{ab}}"), name)
    found = by_code(report_of(tmp_path))["unused-split"]
    assert (found.level, found.fixes[0].changes) == (FindingLevel.WARNING, {"data.eval_split": "test"})
    for changes in ({"eval_split": "test"}, {"eval": str(tmp_path / "test.csv")}, {"train_split": "test"}):
        assert "unused-split" not in by_code(report_of(tmp_path, **changes))
    report = report_of(tmp_path, eval_split="test")
    assert set(report.splits) == {"train", "test"}
    assert (report.rows, report.train_rows, report.eval_rows, report.problems) == (60, 60, 60, ())
    (problem,) = report_of(tmp_path, eval_split="dev").problems
    assert (problem.path, problem.fixes[0].changes) == ("data.eval_split", {"data.eval_split": "test"})


def test_evaluation_data_of_its_own_is_counted_and_its_problems_named(tmp_path):
    train, other = write(tmp_path, MANY), tmp_path / "test.csv"
    other.write_text("label,text\na,some words\nb,more words\n,\n", encoding="utf-8")
    report = report_of(train, eval=str(other))
    assert (report.train_rows, report.eval_rows, report.labels) == (40, 2, {"a": 20, "b": 20})
    other.write_text("text,label\n12,a\n", encoding="utf-8")
    report = report_of(train, eval=str(other))
    assert [problem.path for problem in report.problems] == ["data.eval"]
    assert (report.train_rows, report.eval_rows) == (40, None)


# --- Findings about rows


SPELLINGS = ("Yes", "yes", "YES", "no", "not  sure", "Not sure")
SPELT = "\n".join(["text,label", *(f"w {n},{SPELLINGS[n % 6]}" for n in N)])
COUNTS = {"many": 400, "some": 25, "hardly": 9, "one": 1}
UNEVEN = "\n".join(["text,label", *(f"{name} {n},{name}" for name in COUNTS for n in range(COUNTS[name]))])
REPEATED = f"{MANY}\nwords 3,b\nwords 4,b\nwords 3,b"
WARNINGS = {
    "repeated": ("duplicates", REPEATED, (42, 44), 2),
    "contradicting": ("contradictions", REPEATED, (43,), 1),
    "spelling": ("similar-labels", SPELT, (), 2),
    "rare": ("rare-label", UNEVEN, (), 1),
    "uneven": ("uneven-labels", UNEVEN, (), 2),
    "few": ("few-rows", "text,label\na,x\nb,y\nc,x", (), 3),
}


@pytest.mark.parametrize(("code", "content", "numbers", "count"), WARNINGS.values(), ids=WARNINGS)
def test_odd_rows_are_warnings_with_their_numbers(tmp_path, code, content, numbers, count):
    finding = by_code(report_of(write(tmp_path, content)))[code]
    assert (finding.level, finding.rows, finding.count) == (FindingLevel.WARNING, numbers, count)


def test_many_rare_labels_are_one_finding():
    (finding,) = check_labels({"many": 10_000, **{f"rare {number}": 1 for number in range(8)}})
    assert (finding.code, finding.count) == ("rare-label", 8)


@pytest.mark.parametrize(("content", "is_little"), [("Hi", True), ("It was a dark night. " * 60, False)])
def test_a_text_of_a_few_words_is_reported(tmp_path, content, is_little):
    assert ("little-text" in by_code(report_of(write(tmp_path, content, "a.txt"), TEXT))) == is_little


@pytest.mark.parametrize(
    ("content", "code", "encoding"),
    [
        ("text,label\nplain,b\n" + "café,b\nnaïve,a\n" * 6, "other-encoding", "Windows-1252"),
        (
            "text,label\n" + '"hello, i",a\n' * 20 + '"never closed,a' + "\nwords,b" * 1000 + '\nof 5",b',
            "lines-left-out",
            "UTF-8",
        ),
    ],
)
def test_what_reading_had_to_guess_is_a_warning(tmp_path, content, code, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode("cp1252"))
    report = report_of(path)
    assert by_code(report)[code].level is FindingLevel.WARNING
    assert (report.reading["encoding"], report.notes) == (encoding, ())


GOOD = {"tokens": ["Paris", "sleeps"], "tags": ["B-LOC", "O"]}
NUMBERS = csv("text,score", "words {n},{n}.5", 20) + '\nno,high\nno,"1,5"\nno,\nno,nan'
MIXED = [{"text": f"words {n}", "label": "1" if n % 3 else 1} for n in range(12)]
STOPS = {
    "empty": (CLASSIFY, f"{MANY}\n,a\nsome words,a\n,b", (42, 44)),
    "not-a-number": (SCORE, NUMBERS, (22, 23, 25)),
    "tag-count": (WORDS, lines(GOOD, {"tokens": ["a", "b"], "tags": ["O"]}, GOOD), (2,)),
    "missing-value": (WORDS, lines(GOOD, {"tokens": ["a"], "tags": [None]}, GOOD), (2,)),
    "broken-list": (WORDS, lines(GOOD, {"tokens": '["a", "b]', "tags": '["O", "B-X"]'}, GOOD), (2,)),
    "mixed-kinds": (
        *(CLASSIFY, lines(*MIXED, {"text": {"a": 1}, "label": "1"}, {"text": ["x"], "label": "2"})),
        (13, 14),
    ),
}


@pytest.mark.parametrize("code", STOPS)
def test_a_run_stops_with_the_message_of_the_problem(tmp_path, code):
    task, content, rows = STOPS[code]
    options = options_of(write(tmp_path, content, "a.jsonl" if content[0] == "{" else "a.csv"), task)
    report = inspect(options)
    finding = by_code(report)[code]
    assert (finding.level, finding.rows, finding.count) == (FindingLevel.PROBLEM, rows, len(rows))
    assert report.train_rows is None
    with pytest.raises(DataError) as caught:
        load_labelled_texts(options)
    assert finding.message in caught.value.detail
    assert finding.where in caught.value.detail
    assert all(fix in caught.value.fixes for fix in finding.fixes)


def test_rows_of_the_evaluation_data_are_compared_with_the_training_data(tmp_path):
    train = write(tmp_path, csv("text,label", "words {n},{ab}", 20))
    other = write(tmp_path, "text,label\nwords 3,a\nx 2,awful\nwords 4,b\nx 4,odd\nx 5,awful", "test.csv")
    report = report_of(train, eval=str(other))
    unseen = [finding for finding in report.findings if finding.code == "unseen-label"]
    assert [(finding.rows, finding.count, finding.in_eval) for finding in unseen] == [
        ((3, 6), 2, True),
        ((5,), 1, True),
    ]
    assert unseen[0].fixes[-1].changes == {"data.eval": None}
    assert (report.train_rows, report.eval_rows) == (20, None)
    assert by_code(report)["in-both"].rows == (2, 4)


def test_columns_are_all_checked_before_rows(tmp_path):
    report = report_of(write(tmp_path, MANY), text_columns=("txt",), label_column="lable")
    assert [(problem.path, problem.fixes[0].changes) for problem in report.problems] == [
        ("data.text_columns", {"data.text_columns": ["text"]}),
        ("data.label_column", {"data.label_column": "label"}),
    ]
    assert (report.preview_rows[:2], report.seen, report.train_rows) == ((2, 3), (), None)


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="such a name can't be made there")
def test_a_name_that_is_not_utf_8_is_named(tmp_path):
    for name in (b"cat", b"\xff\xfe dog"):
        inside = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        inside.mkdir()
        Image.new("RGB", (8, 8)).save(inside / "a.png")
    try:
        report = report_of(tmp_path, IMAGES)
        words = " ".join(
            [*map(str, report.problems), *report.notes, *(one.message for one in report.findings)]
        )
    except DataError as error:
        words = str(error)
    assert "not UTF-8" in words


def test_texts_are_inspected_without_torch():
    """It would take longer to load than most files to read."""
    modules = ", ".join(f"core.engine.inspect.{name}" for name in ("report", "texts", "conversations"))
    check = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


# --- What the model sees


def test_texts_that_are_cut_off_are_counted_and_named(tmp_path, bert):
    rows = [f"{'good ' * (5 + 10 * (number % 3))}{number},{'ab'[number % 2]}" for number in range(12)]
    path = write(tmp_path, "\n".join(["text,label", *rows]))
    report = inspect(options_of(path, model=bert, max_length=20))
    found = by_code(report)["texts-cut"]
    assert (found.rows, found.count) == ((4, 7, 10, 13), 4)
    assert [fix.changes for fix in found.fixes] == [{"data.max_length": 64}]
    assert report.lengths is not None
    assert (report.lengths.longest, report.lengths.cut, report.lengths.limit) == (28, 4, 20)
    assert [seen.is_cut for seen in report.seen[:3]] == [False, False, True]
    assert report.seen[2].parts[0].text.startswith("[CLS] good good")


def test_conversations_are_previewed_as_such(tmp_path):
    talk = {"messages": [{"role": "user", "content": "Hi"}, {"role": "Anna Lee", "content": "Hello"}]}
    report = inspect(options_of(write(tmp_path, json.dumps(talk), name="talks.jsonl"), task=CHAT))
    assert report.preview == (("User: Hi / Anna Lee: Hello",),)


def test_of_many_rows_some_are_measured(tmp_path, bert, monkeypatch):
    monkeypatch.setattr("core.engine.inspect.draft.MOST_SAMPLED", 10)
    path = write(tmp_path, csv("text,label", "words {n},{ab}", 95))
    report = inspect(options_of(path, model=bert, max_length=8))
    assert report.lengths is not None
    assert sum(report.lengths.counts) == 10
    assert (report.rows, report.train_rows, len(report.seen), len(report.notes)) == (95, 85, 20, 1)


def test_words_are_shown_with_their_labels(tmp_path, bert):
    row = {"tokens": ["the", "good", "story"], "tags": ["O", "B-X", "I-X"]}
    report = inspect(options_of(write(tmp_path, lines(*[row] * 12), "a.jsonl"), WORDS, bert))
    assert report.seen[0].label == "good B-X, story I-X"
    assert [part.text.split() for part in report.seen[0].parts if part.trained] == [["the", "good", "story"]]
    assert report.labels == {"O": 12, "B-X": 12, "I-X": 12}


def test_progress_goes_on_from_stage_to_stage_a_few_times_a_second():
    reported: list[tuple[int, int]] = []
    clock = FakeClock()
    stages = Stages(lambda done, total: reported.append((done, total)), clock.monotonic)
    for share in (0.4, 0.6):
        report = stages.next(share)
        for done in range(101):
            clock.now += 0.025
            report(done, 100)
    shares = [done / WHOLE for done, _total in reported]
    assert shares == sorted(shares)
    assert 30 <= len(reported) <= 55
    assert 0.95 < shares[-1] <= 1


def test_bars_are_round_and_the_limit_is_an_edge():
    lengths = histogram([3, 40, 41, 100], "tokens", 40)
    assert lengths is not None
    assert lengths.edges[:3] == (0, 5, 10)
    assert sum(lengths.counts[lengths.edges.index(41) :]) == lengths.cut == 2
    assert (sum(lengths.counts), lengths.longest, lengths.median) == (4, 100, 40)
    assert histogram([], "tokens") is None


def test_a_table_in_use_is_not_read_twice(tmp_path):
    path = write(tmp_path, "text,label\na,b\n")
    opened = read_files((path,))
    assert read_files((path,)) is opened
    write(tmp_path, "text,label\nanother,b\n")
    assert read_files((path,)).rows.to_pylist() == [{"text": "another", "label": "b"}]
