"""The script of a run, or of a run file: asks the engine what it takes. For the command, and threads of the window."""

from collections.abc import Callable
from dataclasses import replace

import msgspec

from core import jobs
from core.options import RunOptions
from core.reports import MachineReport
from core.run_folder import RunFolder
from core.run_models import with_run_path
from core.run_notes import title_of
from core.runs import read_story
from core.script.facts import ScriptFacts, ScriptRequest
from core.script.resolved import Resolved, as_it_ran, as_it_would_run
from core.script.writing import write_script

JOB = "script-facts"

Ask = Callable[[str, bytes], bytes]
"""Asks the engine a question, as `core.jobs.ask_engine` does."""


def script_of_run(run: RunFolder, ask: Ask = jobs.ask_engine) -> str:
    """The script that does what a run did.

    Raises:
        OptionsError: `run.toml` is missing or damaged.
        UserError: Its data or model is gone, or of a kind that no script is written for.
        EngineCrashed: The engine ended without an answer.
    """
    options, story = run.options(), read_story(run)
    if story.what_ran is None:
        return script_of(options, ask)
    ran = as_it_ran(options, story.what_ran, story.versions)
    return _written(replace(ran, title=title_of(run.path, options)), ask)


def script_of(options: RunOptions, ask: Ask = jobs.ask_engine) -> str:
    """The script that does what a run file asks for, as it would run on this computer; raises as `script_of_run`."""
    machine = jobs.decoded("devices", ask("devices", b""), MachineReport)
    return _written(as_it_would_run(with_run_path(options), machine), ask)


def _written(run: Resolved, ask: Ask) -> str:
    request = ScriptRequest(asked=msgspec.to_builtins(run.options))
    answer = ask(JOB, msgspec.json.encode(request))
    return write_script(run, jobs.decoded(JOB, answer, ScriptFacts))
