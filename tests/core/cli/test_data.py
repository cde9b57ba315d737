"""`hone new`, `options`, `inspect` and `devices`."""

import pytest
from msgspec.structs import replace

from core.base.errors import Fix, Problem
from core.base.jobs import JobProgress
from core.cli.data import data_lines
from core.jobs.inspect import (
    DataColumn,
    DataColumnKind,
    DataFinding,
    DataReport,
    FindingLevel,
    Lengths,
    Seen,
    SeenPart,
)
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.validate import read_options
from tests.fakes.jobs import CHECKED, CPU_ONLY


@pytest.mark.parametrize("task", Task)
def test_a_new_run_file_lacks_only_data(task, tmp_path, hone):
    path = tmp_path / "my.hone"
    hone("new", "--task", task, "--output", path)
    assert hone("new", "--task", task).out == path.read_text()
    lines = hone("train", path, status=2).err.splitlines()
    assert "1 problem in " in lines[0]
    assert "data.train: there is no file or folder at" in lines[1]


def test_a_task_is_also_known_by_the_title_that_the_window_gives_it(tmp_path, hone):
    assert hone("new", "--task", "text-generation").out == hone("new", "--task", "causal-lm").out
    assert "invalid choice: 'text-writing'" in hone("new", "--task", "text-writing", status=2).err


def test_a_new_run_file_with_a_preset(tmp_path, hone):
    file = tmp_path / "my.hone"
    hone("new", "--preset", "published-guide", "-o", file)
    options, problems = read_options(run_file.read_tree(file))
    assert problems == ()
    assert (options.task, options.data.padding) == (Task.TEXT_CLASSIFICATION, "fixed")
    hone("new", "--task", "chat", "--preset", "fits-in-8-gb")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "slowest"], "there is no preset slowest; there are fits-in-8-gb"),
        (["--preset", "published-guide", "--task", "chat"], "is for text-classification, not chat"),
        (["--preset", "fastest"], "with --task: text-classification"),
    ],
)
def test_wrong_requests_for_a_new_run_file(arguments, message, hone):
    assert message in hone("new", *arguments, status=2).err


def test_options_are_explained(hone):
    assert "memory.batch_size (a whole number from 1 to 65,536; default: 16)" in hone("options").out


def report(**fields) -> DataReport:
    return DataReport(**{"source": "data.csv", "format": "CSV", "rows": 1200, **fields})


def finding(level: FindingLevel, message: str, **fields) -> DataFinding:
    return DataFinding(code="code", level=level, message=message, count=3, rows=(4, 9), **fields)


def column(name: str, *examples: str) -> DataColumn:
    return DataColumn(name=name, kind=DataColumnKind.TEXT, distinct=900, empty=2, examples=examples)


PROBLEM = Problem("data.label_column", "has one class", (Fix("Choose another"),))
WRONG = finding(FindingLevel.PROBLEM, "3 rows are wrong.", fixes=(Fix("Cut"),))


def test_a_report_on_data():
    parts = SeenPart("user: " + "x" * 5000), SeenPart("the answer", trained=True)
    found = report(
        columns=(column("text", "a\nb", "c" * 99), column("mood", "good", "bad")),
        text_columns=("text",),
        label_column="mood",
        reading={"encoding": "UTF-8", "delimiter": "delimiter comma"},
        problems=(PROBLEM,),
        findings=(WRONG, finding(FindingLevel.WARNING, "3 rows have no text.")),
        notes=("A note.",),
        labels={"two\nlines": 1, "x" * 500: 2, **{str(number): 1 for number in range(23)}},
        train_rows=900,
        eval_rows=100,
        lengths=Lengths(unit="tokens", edges=(0, 10), counts=(3,), longest=9, median=4, limit=8, cut=1),
        seen=(Seen(row=7, parts=parts, tokens=12, is_cut=True),),
    )
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, data=DataOptions(train="data.csv"))
    lines = "\n".join(data_lines(found, options))
    for expected in (
        "1,200 examples · CSV · UTF-8 · delimiter comma",
        "a b | ccc",
        "\nmood    Label",
        "Problem: data.label_column: has one class\n  Try: Choose another",
        "Problem: 3 rows are wrong. (rows 4, 9 and 1 more)\n  Try: Cut",
        "Warning: 3 rows have no text. (rows 4, 9 and 1 more)\nNote: A note.",
        f"\ntwo lines{' ' * 51}  1\n{'x' * 57}...  2\n",
        "and 5 more labels",
        "Training: 900 examples per epoch. Validation: 100.",
        "the longest has 9. 1 example truncated at 8.",
        "row 7, 12 tokens, truncated:",
        "x ... x",
        "⟦the answer⟧",
    ):
        assert expected in lines
    other = "\n".join(data_lines(report(suits=Task.CHAT), options))
    assert "(--task chat)" in other
    assert "No problems found." in other


class TestInspect:
    @pytest.fixture
    def engine(self, monkeypatch):
        """Requests that the engine gets; it answers with `report`."""

        def answer(_name, request, _answer, on_progress):
            answer.requests.append(request)
            on_progress(JobProgress(done=1, total=2))
            return answer.report

        answer.requests = []
        answer.report = report(suits=Task.CHAT)
        monkeypatch.setattr("core.cli.data.run_job", answer)
        return answer

    @pytest.fixture
    def table(self, tmp_path):
        (tmp_path / "a.csv").write_text("question,reply\na,b\n", encoding="utf-8")
        return str(tmp_path / "a.csv")

    def test_without_a_task_the_data_decides(self, engine, table, hone):
        assert "Chat (--task chat)" in hone("inspect", table).out
        assert engine.requests[0].any_task

    def test_options_of_a_run_are_passed_on(self, engine, table, hone):
        options = ["--set", "data.columns=prompt=question,answer=reply", "--set", "data.max_length=64"]
        hone("inspect", table, "--task", "chat", *options)
        hone("inspect", table, "--text-column", "question", "--label-column", "reply")
        chat, labelled = engine.requests
        assert (chat.any_task, chat.asked["task"], chat.asked["data"]["max_length"]) == (False, "chat", 64)
        assert chat.asked["data"]["columns"] == {"prompt": "question", "answer": "reply"}
        data = labelled.asked["data"]
        assert (data["text_columns"], data["label_column"]) == (("question",), "reply")

    @pytest.mark.parametrize(
        "wrong", ["data.max_length=many", "data.eval_split=test", "nothing", "data.nothing=1"]
    )
    def test_wrong_options_are_refused(self, wrong, engine, table, hone):
        hone("inspect", table, "--set", wrong, status=2)
        assert not engine.requests

    @pytest.mark.parametrize(
        ("source", "status"),
        [("~unknown-user.csv", 1), ("x" * 5000, 1), ("none.csv", 1), ("", 2)],
        ids=range(4),
    )
    def test_missing_data_is_refused(self, source, status, engine, hone):
        hone("inspect", source, status=status)
        assert not engine.requests

    @pytest.mark.parametrize("fields", [{"problems": (PROBLEM,)}, {"findings": (WRONG,)}], ids=str)
    def test_problems_end_it_with_1(self, engine, table, fields, hone):
        engine.report = report(**fields)
        assert hone("inspect", table, "--json", status=1).json["rows"] == 1200


def test_devices(monkeypatch, hone):
    monkeypatch.setattr("core.cli.data.run_job", lambda *_: CPU_ONLY)
    lines = {" ".join(line.split()) for line in hone("devices").out.splitlines()}
    assert {
        "cuda:0 NVIDIA GPU: not available: No NVIDIA driver was found.",
        "cpu Old processor, 16.0 GB",
        "device.precision fp32 this CPU has no bf16 hardware",
        "device.precision=fp16 not available: needs a GPU",
        "device.processes not available: Hone trains in one process.",
        "device.precision=bf16 note: This CPU has no bf16 units: it works, slower than fp32.",
        "python 3.11, torch 2.13.0",
    } <= lines


AGREES, DIFFERS, NOT_RUN = CHECKED.comparisons


@pytest.mark.parametrize(
    ("comparisons", "status"),
    [([AGREES], 0), ([AGREES, NOT_RUN], 0), ([AGREES, DIFFERS], 1), ([NOT_RUN], 1), ([], 1)],
    ids=range(5),
)
def test_a_device_check_ends_with_1_unless_all_that_ran_agrees(comparisons, status, monkeypatch, hone):
    def answer(_name, request, *_, **__):
        assert (request.device, request.short) == ("cuda:1", True)
        return replace(CHECKED, comparisons=tuple(comparisons))

    monkeypatch.setattr("core.cli.data.run_job", answer)
    command = ["devices", "--check", "--short", "--device", "cuda:1"]
    assert len(hone(*command, "--json", status=status).json["comparisons"]) == len(comparisons)
    lines = {" ".join(line.split()) for line in hone(*command, status=status).out.splitlines()}
    assert ("agrees Loss 1.2e-07 0e+00 – 0.0 s" in lines) == (AGREES in comparisons)
    assert ("differs Gradients 5.0e-01 0e+00 – 0.0 s" in lines) == (DIFFERS in comparisons)
