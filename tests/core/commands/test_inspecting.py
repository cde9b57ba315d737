"""`hone inspect` says in a terminal what is in data, which rows are wrong, and what the model sees."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import Fix, Problem
from core.base.jobs import JobProgress
from core.cli import data as cli_data
from core.cli.data import data_lines
from core.cli.main import main
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.services.inspect import (
    Column,
    ColumnKind,
    DataReport,
    Finding,
    FindingLevel,
    InspectRequest,
    Lengths,
    Seen,
    SeenPart,
)

TEXT = Column(name="text", kind=ColumnKind.TEXT, distinct=900, empty=2, examples=("a\nb", "c" * 99))
LABEL = Column(name="mood", kind=ColumnKind.TEXT, distinct=2, empty=0, examples=("good", "bad"))
EMPTY = Finding(
    code="empty", level=FindingLevel.WARNING, message="2 rows have no text.", count=2, rows=(4, 9)
)
WRONG = Finding(
    code="wrong",
    level=FindingLevel.PROBLEM,
    message="3 rows are wrong.",
    count=3,
    rows=(5, 6),
    fixes=(Fix("Take them out"),),
)


def lines(task: Task = Task.TEXT_CLASSIFICATION, **fields: Any) -> list[str]:
    report = DataReport(**{"source": "data.csv", "format": "CSV", "rows": 1200, **fields})
    return data_lines(report, RunOptions(task=task, data=DataOptions(train="data.csv")))


def told(task: Task = Task.TEXT_CLASSIFICATION, **fields: Any) -> str:
    return "\n".join(lines(task, **fields))


def test_the_file_its_columns_and_their_use_come_first() -> None:
    text = told(
        columns=(TEXT, LABEL),
        text_columns=("text",),
        label_column="mood",
        reading={"encoding": "UTF-8", "delimiter": "comma"},
    )
    assert "1,200 rows · CSV · UTF-8 · delimiter comma" in text
    assert "a b | ccc" in text
    assert [line.split()[:2] for line in text.splitlines() if line.startswith(("text ", "mood "))] == [
        ["text", "Text"],
        ["mood", "Label"],
    ]


def test_findings_name_their_rows_and_remedies() -> None:
    problem = Problem("data.label_column", "has one class", (Fix("Choose another"),))
    text = told(problems=(problem,), findings=(WRONG, EMPTY), notes=("A note.",))
    assert "Problem: data.label_column: has one class\n  Try: Choose another" in text
    assert "Problem: 3 rows are wrong. (rows 5, 6 and 1 more)\n  Try: Take them out" in text
    assert "Warning: 2 rows have no text. (rows 4, 9)" in text
    assert text.endswith("Note: A note.")
    assert told().endswith("Nothing is wrong with it.")


def test_labels_stay_on_their_line_of_the_table() -> None:
    labels = {"two\nlines": 1, "x" * 500: 2, **{str(number): 1 for number in range(23)}}
    text = told(labels=labels)
    assert f"\ntwo lines{' ' * 51}  1\n{'x' * 57}...  2\n" in text
    assert "and 5 more labels" in text


def test_counts_and_lengths_are_told() -> None:
    lengths = Lengths(unit="tokens", edges=(0, 10), counts=(3,), longest=9, median=4, limit=8, cut=1)
    text = told(train_rows=900, eval_rows=100, lengths=lengths)
    assert "Trained on 900 rows an epoch, evaluated on 100." in text
    assert "Half have 4 tokens or fewer, the longest has 9; 1 row cut off at 8." in text


def test_what_is_learned_is_marked_and_long_samples_lose_their_middle() -> None:
    parts = (SeenPart("user: " + "x" * 5000), SeenPart("the answer", trained=True))
    text = told(Task.CHAT, seen=(Seen(row=7, parts=parts, tokens=12, is_cut=True),))
    assert "row 7, 12 tokens, cut off at its end:" in text
    assert "x ... x" in text
    assert "⟦the answer⟧" in text


def test_another_task_that_fits_better_is_named() -> None:
    assert "--task chat" in told(suits=Task.CHAT)
    assert "looks more like" not in told(suits=Task.TEXT_CLASSIFICATION)


class Engine:
    """Answers in the engine's place, and keeps what it was asked."""

    def __init__(self, report: DataReport) -> None:
        self.report = report
        self.asked: list[InspectRequest] = []

    def __call__(self, _name: str, request: InspectRequest, _answer: type, tell: Any) -> DataReport:
        self.asked.append(request)
        tell(JobProgress(done=1, total=2))
        return self.report


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine(DataReport(source="a.csv", format="CSV", rows=3, suits=Task.CHAT))
    monkeypatch.setattr(cli_data, "run_job", engine)
    return engine


@pytest.fixture
def table(tmp_path: Path) -> str:
    (tmp_path / "a.csv").write_text("question,reply\na,b\n", encoding="utf-8")
    return str(tmp_path / "a.csv")


def test_without_a_task_the_data_decides(
    engine: Engine, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", table]) == 0
    assert engine.asked[0].any_task
    out, err = capsys.readouterr()
    assert "Chat (--task chat)" in out
    assert err == ""  # no progress where there is no terminal


def test_options_of_a_run_change_what_is_seen(engine: Engine, table: str) -> None:
    given = ["--set", "data.columns=prompt=question,answer=reply", "--set", "data.max_length=64"]
    assert main(["inspect", table, "--task", "chat", *given]) == 0
    request = engine.asked[0]
    assert not request.any_task
    assert request.asked["task"] == "chat"
    assert request.asked["data"]["columns"] == {"prompt": "question", "answer": "reply"}
    assert request.asked["data"]["max_length"] == 64
    assert main(["inspect", table, "--text-column", "question", "--label-column", "reply"]) == 0
    data = engine.asked[1].asked["data"]
    assert (data["text_columns"], data["label_column"]) == (("question",), "reply")


@pytest.mark.parametrize(
    "wrong", ["data.max_length=many", "data.eval_split=test", "nothing", "data.nothing=1"]
)
def test_wrong_options_are_refused(engine: Engine, table: str, wrong: str) -> None:
    assert main(["inspect", table, "--set", wrong]) == 2
    assert not engine.asked


@pytest.mark.parametrize(
    "report",
    [
        DataReport(source="a", format="CSV", rows=1, problems=(Problem("data.train", "no"),)),
        DataReport(source="a", format="CSV", rows=1, findings=(WRONG,)),
    ],
)
def test_problems_end_it_with_1_and_json_tells_all(
    engine: Engine, table: str, report: DataReport, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.report = report
    assert main(["inspect", table, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["rows"] == 1
