"""Asks the engine for a run, or a run file, as a folder with a Python script and its examples."""

import contextlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from core.base import jobs
from core.base.errors import TargetError
from core.base.files import is_there, writing
from core.base.language import _
from core.jobs.script import JOB, Script, ScriptRequest
from core.options import RunOptions
from core.options.catalogue import options_by_path, value_of, with_changes
from core.options.choices import Attention, Backend
from core.options.past_runs import with_run_path
from core.runs.folder import RunFolder
from core.runs.library import read_status
from core.runs.notes import asked_title, title_of

Ask = Callable[[str, bytes], bytes]
"""Sends the engine a job's request and returns its answer."""

LEFT_TO_HONE = (
    "device.backend",
    "model.quantization",
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
    """Runs the job in its own process; raises as `EngineJob.ask`."""
    return jobs.EngineJob(job).ask(request)


def save_script_of_run(run: RunFolder, folder: Path, ask: Ask = ask_engine) -> str:
    """Writes the script of a run, as it ran, and its examples into a new folder; returns its text.

    Raises:
        OptionsError: `run.toml` is missing or damaged.
        TargetError: The folder exists already, or can't be made.
        UserError: Its data or model is gone, or the folder can't be written.
        EngineCrashed: The engine ended without an answer.
    """
    options, status = run.options(), read_status(run)
    title, ran = title_of(run.path, options), status.what_ran
    if ran is None:
        return save_script(options, folder, ask, title)
    notes = []
    for path in LEFT_TO_HONE:
        reason = ran.reasons.get(path, "")
        value, colon, _rest = reason.partition(": ")
        left = value_of(options, path) in ("auto", None) and options_by_path()[path].applies_to(options)
        if colon and left:
            with contextlib.suppress(msgspec.ValidationError):
                options = with_changes(options, {path: value})
                notes += [f"{path} = {reason}"] if value != Backend.TORCH else []
    if ran.attention == Attention.EAGER and options.model.attention is Attention.SDPA:
        options = with_changes(options, {"model.attention": ran.attention})
    device = ran.device if _DEVICE.fullmatch(ran.device) else "cpu"
    more = {"device": device, "notes": tuple(notes), "versions": status.versions}
    return _asked(options, folder, ask, title=title, **more)


def save_script(options: RunOptions, folder: Path, ask: Ask = ask_engine, title: str = "") -> str:
    """Writes the script of a run file, as it would run on this computer; raises as `save_script_of_run`."""
    return _asked(with_run_path(options), folder, ask, title=title or asked_title(options))


def _asked(options: RunOptions, folder: Path, ask: Ask, **more: Any) -> str:
    if is_there(folder):
        raise TargetError(_("{path} is there already; choose another name").format(path=folder))
    with writing(folder):
        folder.mkdir()
    request = ScriptRequest(asked=msgspec.to_builtins(options), folder=str(folder.absolute()), **more)
    try:
        return jobs.decoded(JOB, ask(JOB, msgspec.json.encode(request)), Script).text
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
