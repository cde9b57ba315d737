"""Exports within this process, and what the tests of them are asked about."""

from pathlib import Path

from core.engine.export.job import export
from core.jobs.export import ExportKind, ExportReport, ExportRequest, NumberFormat
from core.runs.folder import RunFolder

LABELS = ("bad", "good", "so-so")
PROMPTS = ("<user>Say hello.</s>\n<assistant>", "<user>How are you?</s>\n<assistant>")
TEXTS = ("a good story", "the film", "very bad film the story", "not a poor story")


def exported(
    run: RunFolder, kind: ExportKind, into: Path, numbers: NumberFormat = NumberFormat.AUTO
) -> ExportReport:
    into.mkdir()
    told: list[str] = []
    request = ExportRequest(
        run=str(run.path), kind=kind, staging=str(into), target=f"{into}-there", numbers=numbers
    )
    report = export(request, told.append)
    assert told[-1] == "Running the exported model"
    assert report.agreement is not None
    assert report.agreement.holds
    assert report.agreement.examples == 16
    assert set(report.files) == {
        path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file()
    }
    return report
