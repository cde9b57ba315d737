"""`hone export-metrics`: a run's figures for other programs, as CSV or Parquet."""

import sys
from pathlib import Path

from core import figures
from core.commands.output import say
from core.commands.runs import find_run
from core.errors import OptionsError, Problem
from core.metrics_table import MetricsTable, What, save_csv, write_csv
from core.targets import new_file

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
        OptionsError: There is no such run, or it is no file that Parquet can be written to.
        TargetError: Something is at the file's place, or it can't be written there.
        RunFolderError: The run can't be read.
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
    say(f"{figures.counted(count, NOUNS[what])} written{to}", sys.stderr)
    if table.skipped:
        say(f"Note: {figures.counted(table.skipped, 'line')} can't be read and left out.", sys.stderr)
    return 0


def _new(file: str) -> Path:
    """The path of a file that isn't there yet.

    Raises:
        OptionsError: It is no file that Parquet can be written to.
        TargetError: It is there, or its folder isn't.
    """
    if file == STDOUT:
        raise OptionsError((Problem("", "Parquet needs a file; only CSV can be printed"),))
    return new_file(Path(file))
