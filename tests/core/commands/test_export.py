"""`hone export`, with exports that answer as a test wants."""

import json
from pathlib import Path

import msgspec
import pytest

from core.base.jobs import JobProgress
from core.cli import models
from core.cli.main import main
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.sections import ModelOptions
from core.services.export import Agreement, Compared, ExportKind, ExportReport, Wanted

AGREEMENT = Agreement(
    examples=16,
    held_out=4,
    compared=Compared.TOKENS,
    equal=383,
    counted=384,
    largest=0.0123,
    allowed=0.05,
    why="Rounded.",
    holds=True,
)


class Answering:
    """An export that says twice what it does and comes to this report."""

    def __init__(self, report: ExportReport) -> None:
        self.report = report

    def __call__(self, wanted: Wanted) -> "Answering":
        self.wanted = wanted
        return self

    def run(self, tell) -> ExportReport:
        for _ in range(2):
            tell(JobProgress(done=1, total=6, what="Writing the model"))
        return self.report


def report(**more) -> ExportReport:
    return ExportReport(
        **{"kind": ExportKind.FOLDER, "path": "/there", "files": ("a", "b"), "size": 5 << 20, **more}
    )


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs `hone export` with an export that comes to this report."""
    run_file.write(RunOptions(task=Task.CHAT, model=ModelOptions(source="some/model")), tmp_path / "run.toml")

    def export(report: ExportReport, *more: str) -> int:
        monkeypatch.setattr(models, "Export", Answering(report))
        return main(["export", str(tmp_path), "--to", "folder", "--folder", "/there", *more])

    return export


def test_it_tells_what_came_of_it(exported, capsys) -> None:
    assert exported(report(agreement=AGREEMENT, notes=("Next.",))) == 0
    said = capsys.readouterr()
    assert said.err.count("Writing the model") == 1
    assert said.out.splitlines() == [
        "Model folder: 2 files, 5.0 MB, in /there",
        "Checked against the trained model: 383 of 384 next tokens are the same, on 16 examples, 4 of them held out, "
        "the others made up; no logit is off by more than 0.012 (0.05 is allowed).",
        "Rounded.",
        "Next.",
    ]


def test_what_is_missing_ends_with_one(exported, capsys) -> None:
    found = report(
        kind=ExportKind.GGUF, unchecked="Not checked: why.", missing="No converter.", notes=("Then run: it",)
    )
    assert exported(found) == 1
    assert capsys.readouterr().out.splitlines()[1:] == ["Not checked: why.", "No converter.", "Then run: it"]


def test_json(exported, capsys) -> None:
    assert exported(report(agreement=AGREEMENT), "--json") == 0
    said = capsys.readouterr()
    assert not said.err
    assert msgspec.json.decode(said.out, type=ExportReport).agreement == AGREEMENT


def test_without_a_kind_it_lists_them(tmp_path: Path, capsys) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").touch()
    options = RunOptions(task=Task.CHAT, model=ModelOptions(source="some/model"))
    run_file.write(options, tmp_path / "run.toml")
    assert main(["export", str(tmp_path)]) == 0
    lines = capsys.readouterr().out
    assert "gguf     GGUF." in lines
    assert "Not for this run: This run trained no LoRA matrices" in lines
    assert main(["export", str(tmp_path), "--json"]) == 0
    assert {one["kind"] for one in json.loads(capsys.readouterr().out)} == set(ExportKind)
    assert main(["export", str(tmp_path), "--to", "adapter", "--folder", str(tmp_path / "out")]) == 1
    assert "no LoRA matrices" in capsys.readouterr().err
    assert main(["export", str(tmp_path), "--to", "folder", "--folder", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
