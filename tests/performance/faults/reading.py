"""Everything that reads a run without a screen, called one after the other on a folder that may be damaged."""

import contextlib
import functools
import io
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import UserError
from core.cli import main
from core.options import run_file
from core.runs.event_log import RunFollower
from core.runs.folder import RunFolder
from core.runs.library import list_runs, read_status
from core.runs.models import incomplete, is_complete, newest, newest_first
from core.runs.queue import LiveRuns
from core.runs.summary import state_at_end, summarize

LIMIT_SECONDS = 20.0
"""Wall time that one reader may take; on a busy machine nearly all of it is waiting for a core."""

main._parser = functools.lru_cache(main._parser)  # making it takes longer than all the commands

OPENED, REFUSED, FAILED = "opened", "refused", "failed"


class TookTooLong(Exception):  # noqa: N818 - what happened to it
    """Raised in the middle of a reader that doesn't come to an end."""


@dataclass(frozen=True)
class Finding:
    """What came of one reader: `opened`, `refused` with a reason, or `failed` with what went wrong."""

    reader: str
    outcome: str
    words: str = ""


@contextlib.contextmanager
def time_limit(seconds: float = LIMIT_SECONDS) -> Iterator[None]:
    """Interrupt what takes longer; a pipe that is waited for is interrupted, too."""

    def interrupt(*_: object) -> None:
        raise TookTooLong(f"still at it after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def judge(reader: str, read: Callable[[], str | None]) -> Finding:
    """Call a reader and say what came of it; it returns why it refuses, or nothing."""
    try:
        with time_limit():
            refused = read()
    except UserError as error:
        return Finding(reader, REFUSED, str(error)) if str(error).strip() else _failed(reader, error)
    except BaseException as error:  # noqa: BLE001 - whatever a reader lets through is what is looked for
        return _failed(reader, error)
    return Finding(reader, REFUSED, refused) if refused else Finding(reader, OPENED)


def _failed(reader: str, error: BaseException) -> Finding:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place else ""
    return Finding(reader, FAILED, f"{type(error).__name__}: {str(error)[:200]}{where}")


def read_run(run: RunFolder) -> list[Finding]:
    """All that reads a run's folder."""
    readers: dict[str, Callable[[], str | None]] = {
        "run_file.read": lambda: _nothing(run_file.read(run.options_file)),
        "run_file.read_tree": lambda: _nothing(run_file.read_tree(run.options_file)),
        "options": lambda: _nothing(run.options()),
        "records": lambda: _nothing(
            run.exit_record(), run.keeper_record(), run.forecast(), run.open_requests()
        ),
        "checkpoints": lambda: _checkpoints(run),
        "summarize": lambda: summarize(run).problem or None,
        "state_at_end": lambda: _nothing(state_at_end(run)),
        "list_runs": lambda: _nothing(list_runs(run.path.parent)),
        "read_status": lambda: _nothing(read_status(run)),
        "follow": lambda: _follow(run),
        "live_runs": lambda: _nothing(LiveRuns().look(run.path.parent)),
        **{" ".join(words): _command(*words) for words in commands(run)},
    }
    return [judge(name, read) for name, read in readers.items()]


def read_run_file(path: Path) -> list[Finding]:
    """All that reads a run file that is no run yet."""
    readers: dict[str, Callable[[], str | None]] = {
        "run_file.read": lambda: _nothing(run_file.read(path)),
        "renamings": lambda: _nothing(run_file.renamings(path)),
    }
    return [judge(name, read) for name, read in readers.items()]


def commands(run: RunFolder) -> list[tuple[str, ...]]:
    """The commands that read a run and start nothing."""
    path = str(run.path)
    return [
        ("runs",),
        ("runs", "--json"),
        ("show", path),
        ("show", path, "--json"),
        ("runs", "--compare", path, str(whole_run(run))),
        ("export", path, "--json"),
        ("show", path, "--support", "-"),
        ("export", path, "--report", _new(run, "report.html")),
        ("show", path, "--support", _new(run, "support.zip")),
        ("show", path, "--predictions"),
        ("show", path, "--predictions", "--json"),
        *(("export", path, "--metrics", "-", "--rows", what) for what in ("steps", "evaluations", "machine")),
    ]


def whole_run(run: RunFolder) -> Path:
    """Where the run lies that the damaged one is a copy of."""
    return run.path.parent.parent / "whole" / "sample"


def _new(run: RunFolder, name: str) -> str:
    """The path of a file that isn't there, beside all runs."""
    path = run.path.parent.parent / name
    path.unlink(missing_ok=True)
    return str(path)


def _nothing(*_: object) -> None:
    """The readers' results are of no interest, only that they come."""


def _checkpoints(run: RunFolder) -> None:
    for found in newest_first(run.checkpoints):
        is_complete(found.path)
    incomplete(run.checkpoints)
    newest(run)


def _follow(run: RunFolder) -> str | None:
    """Follow to the end of what is there; a run whose keeper seems to live goes on for ever."""
    follower = RunFollower(run)
    follower.poll()
    while not follower.is_caught_up:
        follower.poll()
    return follower.status.trouble or None


def _command(*arguments: str) -> Callable[[], str | None]:
    def run() -> str | None:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        err = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main.main(arguments)
            except SystemExit as ended:
                status = ended.code if isinstance(ended.code, int) else 1
        said = err.getvalue()
        if "Traceback" in said or "A bug in Hone" in said:
            raise AssertionError(said.strip()[-300:])
        if status and not said.strip():
            raise AssertionError(f"ended with {status} and said nothing")
        return said if status else None

    return run
