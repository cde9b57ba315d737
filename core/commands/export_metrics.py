"""`hone export-metrics`: a run's figures for other programs, as CSV or Parquet."""

import sys
from pathlib import Path

from core import figures
from core.commands.runs import find_run
from core.errors import OptionsError, Problem
from core.metrics_table import MetricsTable, What, save_csv, write_csv

NOUNS = {What.STEPS: "step", What.EVALUATIONS: "evaluation", What.MACHINE: "sample"}
STDOUT = "-"


def export_metrics(name: str, what: What, *, csv: str | None, parquet: str | None) -> int:
    """Write one table of a run to a new file, and say on standard error how long it is.

    Args:
        name: The run's folder, or its name among all runs.
        what: Which table.
        csv: The file to write as CSV, or `-` for standard output.
        parquet: The file to write as Parquet, where `csv` is None.

    Raises:
        OptionsError: There is no such run, or something is at the file's place.
        OSError: The run can't be read, or the file not written.
    """
    run = find_run(name)
    table = MetricsTable(run, what)
    if csv == STDOUT:
        count = write_csv(table, sys.stdout)
    elif csv is not None:
        count = save_csv(table, _new(csv))
    else:
        from core.metrics_parquet import save_parquet

        count = save_parquet(table, _new(parquet or ""))
    to = "" if csv == STDOUT else f" to {csv or parquet}"
    print(f"{figures.counted(count, NOUNS[what])} written{to}", file=sys.stderr)
    if table.skipped:
        print(f"Note: {figures.counted(table.skipped, 'line')} can't be read and left out.", file=sys.stderr)
    return 0


def _new(file: str) -> Path:
    """The path of a file that isn't there yet.

    Raises:
        OptionsError: It is, or it is no file that Parquet can be written to.
    """
    if file == STDOUT:
        raise OptionsError((Problem("", "Parquet needs a file; only CSV can be printed"),))
    path = Path(file)
    if path.exists():
        raise OptionsError((Problem("", f"{path} is there already; choose another name"),))
    return path
