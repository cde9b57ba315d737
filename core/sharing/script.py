"""Asks the engine for a run, or a run file, as a Python script with Trainer, TRL, PEFT and `datasets`."""

import contextlib
import re
from collections.abc import Callable
from typing import Any

import msgspec

from core.base import jobs
from core.options import RunOptions, Tree
from core.options.catalogue import options_by_path, value_of, with_changes
from core.options.choices import Attention
from core.options.past_runs import asked_title, title_of, with_run_path
from core.runs.folder import RunFolder
from core.runs.library import read_status

JOB = "script"
Ask = Callable[[str, bytes], bytes]
"""Sends the engine a job's request and returns its answer."""

LEFT_TO_HONE = (
    "device.precision",
    "device.threads",
    "data.group_by_length",
    "data.pad_to_multiple_of",
    "data.pin_memory",
    "data.workers",
)
"""Options that can be automatic."""

_DEVICE = re.compile(r"cpu|mps|cuda(:[0-9]{1,3})?")


def ask_engine(job: str, request: bytes) -> bytes:
    """Run the job in its own process; raises as `EngineJob.ask`."""
    return jobs.EngineJob(job).ask(request)


class ScriptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a script.

    `asked` are options with absolute paths, `device` torch's name of the device it ran on (empty: resolve it here).
    `notes` explain resolved options, `versions` are those of the run.
    """

    asked: Tree
    title: str = ""
    device: str = ""
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = {}


class Script(msgspec.Struct, frozen=True):
    """The answer: the script's text."""

    text: str


def script_of_run(run: RunFolder, ask: Ask = ask_engine) -> str:
    """The script of a run, as it ran.

    Raises:
        OptionsError: `run.toml` is missing or damaged.
        UserError: Its data or model is gone.
        EngineCrashed: The engine ended without an answer.
    """
    options, status = run.options(), read_status(run)
    title, ran = title_of(run.path, options), status.what_ran
    if ran is None:
        return script_of(options, ask, title)
    notes = []
    for path in LEFT_TO_HONE:
        reason = ran.reasons.get(path, "")
        value, colon, _rest = reason.partition(": ")
        left = value_of(options, path) in ("auto", None) and options_by_path()[path].applies_to(options)
        if colon and left:
            with contextlib.suppress(msgspec.ValidationError):
                options = with_changes(options, {path: value})
                notes.append(f"{path} = {reason}")
    if ran.attention == Attention.EAGER and options.model.attention is Attention.SDPA:
        options = with_changes(options, {"model.attention": ran.attention})
    device = ran.device if _DEVICE.fullmatch(ran.device) else "cpu"
    return _asked(options, ask, title=title, device=device, notes=tuple(notes), versions=status.versions)


def script_of(options: RunOptions, ask: Ask = ask_engine, title: str = "") -> str:
    """The script of a run file, as it would run on this computer; raises as `script_of_run`."""
    return _asked(with_run_path(options), ask, title=title or asked_title(options))


def _asked(options: RunOptions, ask: Ask, **more: Any) -> str:
    request = ScriptRequest(asked=msgspec.to_builtins(options), **more)
    return jobs.decoded(JOB, ask(JOB, msgspec.json.encode(request)), Script).text
