"""Everything that reads a run without a window, called one after the other on a folder that may be damaged."""

import contextlib
import functools
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from core.base.errors import UserError
from core.cli import main
from core.options import run_file
from core.runs.event_log import RunFollower
from core.runs.folder import RunFolder
from core.runs.library import list_runs, read_status
from core.runs.models import incomplete, is_complete, newest, newest_first
from core.runs.queue import LiveRuns
from core.runs.summary import state_at_end, summarize

main._parser = functools.lru_cache(main._parser)  # making it takes longer than all the commands

OPENED, REFUSED, FAILED = "opened", "refused", "failed"

Reader = Callable[[], object]
"""Reads a run; returns why it refuses to (a string), or anything else. May raise UserError."""


class Finding(NamedTuple):
    """What a reader did: `opened`, `refused` with a reason, or `failed` with what went wrong."""

    reader: str
    outcome: str
    words: str = ""


def judge(readers: dict[str, Reader]) -> list[Finding]:
    """Call readers one after the other."""
    findings = []
    for name, read in readers.items():
        try:
            refused = read()
        except UserError as error:
            findings.append(Finding(name, REFUSED if str(error).strip() else FAILED, str(error)))
        except BaseException as error:  # noqa: BLE001 - whatever a reader lets through is a failure
            findings.append(Finding(name, FAILED, described(error)))
        else:
            is_refused = bool(refused) and isinstance(refused, str)
            findings.append(Finding(name, REFUSED, refused) if is_refused else Finding(name, OPENED))
    return findings


def described(error: BaseException) -> str:
    """Its type, words, and the place it was raised at."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place else ""
    return f"{type(error).__name__}: {str(error)[:200]}{where}"


def read_run(run: RunFolder) -> list[Finding]:
    """Call everything that reads a run's folder."""
    folder = run.path.parent
    return judge(
        {
            "run_file.read": partial(run_file.read, run.options_file),
            "run_file.read_tree": partial(run_file.read_tree, run.options_file),
            "options": run.options,
            "exit_record": run.exit_record,
            "keeper_record": run.keeper_record,
            "forecast": run.forecast,
            "open_requests": run.open_requests,
            "checkpoints": partial(_read_checkpoints, run),
            "summarize": lambda: summarize(run).problem,
            "state_at_end": lambda: bool(state_at_end(run)),  # a state is a string
            "list_runs": partial(list_runs, folder),
            "read_status": partial(read_status, run),
            "follow": partial(_follow, run),
            "live_runs": lambda: LiveRuns().look(folder),
            **{" ".join(words): partial(_command, *words) for words in commands(run)},
        }
    )


def read_run_file(path: Path) -> list[Finding]:
    """Call everything that reads a run file that is no run yet."""
    readers = {"run_file.read": run_file.read, "renamings": run_file.renamings}
    return judge({name: partial(read, path) for name, read in readers.items()})


def commands(run: RunFolder) -> list[tuple[str, ...]]:
    """The commands that read a run and start nothing."""
    path, home = str(run.path), run.path.parent.parent
    report, support = (home / name for name in ("report.html", "support.zip"))
    for file in (report, support):
        file.unlink(missing_ok=True)
    return [
        ("runs",),
        ("runs", "--json"),
        ("runs", "--compare", path, str(home / "whole" / "sample")),  # the undamaged run
        ("show", path),
        ("show", path, "--json"),
        ("show", path, "--support", "-"),
        ("show", path, "--support", str(support)),
        ("show", path, "--predictions"),
        ("show", path, "--predictions", "--json"),
        ("export", path, "--json"),
        ("export", path, "--report", str(report)),
        *(("export", path, "--metrics", "-", "--rows", what) for what in ("steps", "evaluations", "machine")),
    ]


def _read_checkpoints(run: RunFolder) -> None:
    for checkpoint in newest_first(run.checkpoints):
        is_complete(checkpoint.path)
    incomplete(run.checkpoints)
    newest(run)


def _follow(run: RunFolder) -> str | None:
    """Follow to the end of what is there; a run whose keeper seems to live has no other end."""
    follower = RunFollower(run)
    follower.poll()
    while not follower.is_caught_up:
        follower.poll()
    return follower.status.trouble


def _command(*arguments: str) -> str | None:
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main.main(arguments)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
    words = err.getvalue()
    if "Traceback" in words or "A bug in Hone" in words:
        raise AssertionError(words.strip()[-300:])
    if status and not words.strip():
        raise AssertionError(f"ended with {status} and printed nothing")
    return words if status else None
