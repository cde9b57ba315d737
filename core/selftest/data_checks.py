"""Reading data in every form, through the engine's job that looks into files."""

from pathlib import Path

from core.data_report import DataReport, inspect_request
from core.findings import FindingLevel
from core.selftest.asking import ask
from core.selftest.checking import Failed
from core.selftest.samples import Sample
from core.selftest.training import options_for


def data_folder(folder: Path) -> Path:
    """Where the data of a self-test goes; it is made where it isn't there."""
    made = folder / "data"
    made.mkdir(exist_ok=True)
    return made


def read(sample: Sample, folder: Path) -> str:
    """Write the sample and let the engine read it.

    Raises:
        Failed: It found other than what was written, or something wrong with it.
    """
    path = sample.write(data_folder(folder))
    options = options_for(sample.task, {"data.train": str(path)})
    report = ask("inspect", inspect_request(options), DataReport)
    said = [str(problem) for problem in report.problems if problem.path != "model.source"]
    said += [finding.message for finding in report.findings if finding.level is FindingLevel.PROBLEM]
    if said:
        raise Failed("; ".join(said))
    if sample.rows and report.rows != sample.rows:
        raise Failed(f"{report.rows} samples were found, not {sample.rows}")
    return f"{report.rows} samples read as {report.format}"
