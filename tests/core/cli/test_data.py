"""`hone new`, `options`, `inspect` and `devices`."""

import json
from typing import Any

import msgspec
import pytest

from core.base.errors import Fix, Problem
from core.base.jobs import JobProgress
from core.cli.data import data_lines, device_lines
from core.cli.main import main
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.device_support import DeviceReport, MachineReport, Settled
from core.options.validate import read_options
from core.services.devices import Agreement, Comparison, DeviceCheckReport, DeviceCheckRequest
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


class TestNew:
    @pytest.mark.parametrize("task", Task)
    def test_it_is_refused_only_for_its_missing_data(self, task, hone, tmp_path, capfd):
        assert main(["new", "--task", task]) == 0
        path = tmp_path / "my.hone"
        path.write_text(capfd.readouterr().out)
        assert hone("train", str(path)) == 2
        lines = capfd.readouterr().err.splitlines()
        assert lines[0].endswith("has 1 problem")
        assert "data.train: there is no file or folder at" in lines[1]

    def test_never_over_another_file(self, tmp_path, capsys):
        path = tmp_path / "my.hone"
        assert main(["new", "--task", "text-classification", "--output", str(path)]) == 0
        assert path.read_text().startswith("schema = 1")
        path.write_text("precious")
        assert main(["new", "--task", "text-classification", "-o", str(path)]) == 2
        assert "is there already" in capsys.readouterr().err
        assert path.read_text() == "precious"

    @pytest.mark.parametrize(
        ("asked", "task", "changed"),
        [
            (["--preset", "published-guide"], Task.TEXT_CLASSIFICATION, {"data.padding": "fixed"}),
            (
                ["--task", "token-classification", "--preset", "fits-in-8-gb"],
                Task.TOKEN_CLASSIFICATION,
                {"memory.batch_size": 2},
            ),
        ],
    )
    def test_a_preset(self, asked, task, changed, tmp_path):
        path = tmp_path / "my.hone"
        assert main(["new", *asked, "-o", str(path)]) == 0
        options, problems = read_options(run_file.read_tree(path))
        assert options is not None, problems
        assert options.task is task
        for name, value in changed.items():
            section, _, option = name.partition(".")
            assert getattr(getattr(options, section), option) == value

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            (["--preset", "slowest"], "there is no slowest; there are fits-in-8-gb"),
            (
                ["--preset", "published-guide", "--task", "chat"],
                "published-guide is for text-classification, got chat",
            ),
            (["--preset", "fastest"], "say which one with --task"),
            ([], "say which one with --task"),
        ],
    )
    def test_wrong_ones(self, asked, said, capsys):
        assert main(["new", *asked]) == 2
        assert said in capsys.readouterr().err

    def test_options_are_explained(self, capsys):
        assert main(["options"]) == 0
        words = "memory.batch_size (a whole number from 1 to 65,536; default: 16)"
        assert words in capsys.readouterr().out


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
LENGTHS = Lengths(unit="tokens", edges=(0, 10), counts=(3,), longest=9, median=4, limit=8, cut=1)
PARTS = SeenPart("user: " + "x" * 5000), SeenPart("the answer", trained=True)


class TestDataLines:
    @pytest.mark.parametrize(
        ("task", "fields", "said"),
        [
            (
                Task.TEXT_CLASSIFICATION,
                {
                    "columns": (TEXT, LABEL),
                    "text_columns": ("text",),
                    "label_column": "mood",
                    "reading": {"encoding": "UTF-8", "delimiter": "comma"},
                },
                [
                    "1,200 rows · CSV · UTF-8 · delimiter comma",
                    "a b | ccc",
                    "\ntext    Text",
                    "\nmood    Label",
                ],
            ),
            (
                Task.TEXT_CLASSIFICATION,
                {
                    "problems": (Problem("data.label_column", "has one class", (Fix("Choose another"),)),),
                    "findings": (WRONG, EMPTY),
                    "notes": ("A note.",),
                },
                [
                    "Problem: data.label_column: has one class\n  Try: Choose another",
                    "Problem: 3 rows are wrong. (rows 5, 6 and 1 more)\n  Try: Take them out",
                    "Warning: 2 rows have no text. (rows 4, 9)\nNote: A note.",
                ],
            ),
            (
                Task.TEXT_CLASSIFICATION,
                {"labels": {"two\nlines": 1, "x" * 500: 2, **{str(number): 1 for number in range(23)}}},
                [f"\ntwo lines{' ' * 51}  1\n{'x' * 57}...  2\n", "and 5 more labels"],
            ),
            (
                Task.TEXT_CLASSIFICATION,
                {"train_rows": 900, "eval_rows": 100, "lengths": LENGTHS},
                [
                    "Trained on 900 rows an epoch, evaluated on 100.",
                    "Half have 4 tokens or fewer, the longest has 9; 1 row cut off at 8.",
                ],
            ),
            (
                Task.CHAT,
                {"seen": (Seen(row=7, parts=PARTS, tokens=12, is_cut=True),)},
                ["row 7, 12 tokens, cut off at its end:", "x ... x", "⟦the answer⟧"],
            ),
            (Task.TEXT_CLASSIFICATION, {"suits": Task.CHAT}, ["--task chat", "Nothing is wrong with it."]),
        ],
    )
    def test_what_is_said(self, task, fields, said):
        report = DataReport(**{"source": "data.csv", "format": "CSV", "rows": 1200, **fields})
        text = "\n".join(data_lines(report, RunOptions(task=task, data=DataOptions(train="data.csv"))))
        assert all(words in text for words in said), text


class Engine:
    """Answers in the engine's place, and keeps what it was asked."""

    def __init__(self, report: DataReport) -> None:
        self.report = report
        self.asked: list[InspectRequest] = []

    def __call__(self, _name: str, request: InspectRequest, _answer: type, tell: Any) -> DataReport:
        self.asked.append(request)
        tell(JobProgress(done=1, total=2))
        return self.report


class TestInspect:
    @pytest.fixture
    def engine(self, monkeypatch):
        engine = Engine(DataReport(source="a.csv", format="CSV", rows=3, suits=Task.CHAT))
        monkeypatch.setattr("core.cli.data.run_job", engine)
        return engine

    @pytest.fixture
    def table(self, tmp_path):
        (tmp_path / "a.csv").write_text("question,reply\na,b\n", encoding="utf-8")
        return str(tmp_path / "a.csv")

    def test_without_a_task_the_data_decides(self, engine, table, capsys):
        assert main(["inspect", table]) == 0
        assert engine.asked[0].any_task
        out, err = capsys.readouterr()
        assert "Chat (--task chat)" in out
        assert err == ""  # no progress where there is no terminal

    def test_options_of_a_run_change_what_is_seen(self, engine, table):
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
    def test_wrong_options_are_refused(self, engine, table, wrong):
        assert main(["inspect", table, "--set", wrong]) == 2
        assert not engine.asked

    @pytest.mark.parametrize(
        ("source", "status", "said"),
        [
            ("~nobody-is-called-so.csv", 1, "There is nothing to look into"),
            ("x" * 5000, 1, "There is nothing to look into"),
            ("none.csv", 1, "There is nothing to look into"),
            ("", 2, "name a file or folder to look into"),
        ],
    )
    def test_missing_data_is_said_without_an_engine(self, source, status, said, engine, capsys):
        assert main(["inspect", source]) == status
        assert said in capsys.readouterr().err
        assert not engine.asked

    @pytest.mark.parametrize("found", [{"problems": (Problem("data.train", "no"),)}, {"findings": (WRONG,)}])
    def test_problems_end_it_with_1_and_json_tells_all(self, engine, table, found, capsys):
        engine.report = DataReport(source="a", format="CSV", rows=1, **found)
        assert main(["inspect", table, "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["rows"] == 1


SOUND = Comparison(
    name="Loss",
    explanation="The losses of two models.",
    agreement=Agreement.AGREES,
    worst_error=2.5e-7,
    worst_tensor="decoder",
    tolerance=1e-4,
    seconds=0.5,
)
SAME = msgspec.structs.replace(SOUND, worst_error=0.0, worst_tensor="")
WRONG_GRADIENTS = Comparison(
    name="Gradients",
    explanation="The gradient of every weight.",
    agreement=Agreement.DIFFERS,
    worst_error=12.8,
    worst_tensor="gradient of head.weight",
    tolerance=1e-3,
    detail="Train on the CPU.",
)
NO_NUMBER = msgspec.structs.replace(WRONG_GRADIENTS, worst_error=None)
NOT_RUN = Comparison(
    name="Repeated",
    explanation="Computed twice.",
    agreement=Agreement.NOT_RUN,
    tolerance=1e-4,
    detail="No comparison is begun after 25 s.",
)


class TestDevices:
    def test_they_say_what_works_and_why_not(self):
        gpu = DeviceReport(name="mps", title="Apple GPU", available=False, reason="needs a Mac")
        cpu = DeviceReport(
            name="cpu",
            title="CPU",
            available=True,
            memory_bytes=16 << 30,
            refusals={"device.precision": {"fp16": "no training"}},
            automatic={"device.precision": Settled("fp32", "no bf16 units")},
        )
        report = MachineReport(devices=(gpu, cpu), automatic="cpu", notes=("This Python is x86.",))
        text = "\n".join(" ".join(line.split()) for line in device_lines(report))
        for words in (
            "not available: needs a Mac",
            "CPU, 16 GB\n",
            "device.precision fp32 no bf16 units",
            "device.precision=fp16 not available: no training",
            "This Python is x86.",
        ):
            assert words in text

    @pytest.fixture
    def check(self, monkeypatch):
        """`hone devices --check` where the engine answers these comparisons to this request."""

        def run(comparisons: tuple[Comparison, ...], *more: str, **asked: Any) -> int:
            def answer(
                _name: str, request: DeviceCheckRequest, *_: object, **__: object
            ) -> DeviceCheckReport:
                assert request == DeviceCheckRequest(**asked)
                return DeviceCheckReport(
                    device="mps",
                    title="Apple M2",
                    reference="Apple M2, 8 threads",
                    software="PyTorch 2.13.0, macOS 15.5",
                    conclusion="They were compared.",
                    comparisons=comparisons,
                    seconds=7.25,
                    short=request.short,
                )

            monkeypatch.setattr("core.cli.data.run_job", answer)
            return main(["devices", "--check", *more])

        return run

    @pytest.mark.parametrize(
        ("comparisons", "status"),
        [
            ((SOUND, SAME), 0),
            ((SOUND, NOT_RUN), 0),
            ((SOUND, WRONG_GRADIENTS), 1),
            ((SOUND, NO_NUMBER, NOT_RUN), 1),
            ((NOT_RUN,), 1),
            ((), 1),
        ],
    )
    def test_a_check_fails_where_something_differs_or_nothing_was_compared(self, comparisons, status, check):
        assert check(comparisons) == status

    def test_each_comparison_is_shown(self, check, capsys):
        check((SOUND, SAME, WRONG_GRADIENTS, NO_NUMBER, NOT_RUN))
        lines = capsys.readouterr().out.splitlines()
        cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
        assert lines[:2] == ["Apple M2", "compared with Apple M2, 8 threads"]
        assert cells[4] == ["agrees", "Loss", "2.5e-07", "1e-04", "decoder", "0.5 s"]
        assert cells[5] == ["agrees", "Loss", "0", "1e-04", "-", "0.5 s"]
        assert cells[6] == ["differs", "Gradients", "1.3e+01", "1e-03", "gradient of head.weight", "0.0 s"]
        assert cells[7][2] == "no number"
        assert cells[8] == ["not run", "Repeated", "-", "1e-04", "-", "0.0 s"]
        assert "Gradients: The gradient of every weight. Train on the CPU." in lines
        assert lines[-2:] == ["They were compared.", "7.2 s with PyTorch 2.13.0, macOS 15.5."]

    def test_json(self, check, capsys):
        more = ("--short", "--device", "cuda:1", "--json")
        assert check((WRONG_GRADIENTS,), *more, device="cuda:1", short=True) == 1
        captured = capsys.readouterr()
        told = msgspec.json.decode(captured.out)
        assert (told["comparisons"][0]["agreement"], told["short"]) == ("differs", True)
        assert captured.err == ""
