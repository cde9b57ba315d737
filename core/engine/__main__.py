"""The engine process: `python -P -m core.engine JOB ...`.

Jobs: `train RUN_DIR` reports into the run's folder; `try` answers line by line (`core.trying`); the others read a
question as JSON from standard input and answer with JSON on standard output. The real standard output is kept for that
answer alone: what libraries print goes to standard error.
"""

import atexit
import contextlib
import faulthandler
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from core import hub
from core.ceiling import say
from core.checkpoint_files import Checkpoint
from core.checks import read_options
from core.engine.asker import end_with_asker
from core.engine.exporting import jobs as exporting_jobs
from core.engine.hub import jobs as hub_jobs
from core.engine.lenient_log import print_leniently
from core.engine.reporter import Reporter
from core.engine.resuming import find_start
from core.errors import OptionsError, UserError
from core.jobs import FailureReport, JobFailure, JobProgress
from core.locks import ENGINE_LOCK, locked
from core.machine.visible_gpus import number_by_slot
from core.model_lookup import is_complete
from core.options import RunOptions, Tree
from core.run_folder import RunFolder

LOCK_SECONDS = 2.0
"""How long another engine of the same run is waited for: one that ends is gone by then."""


def main(arguments: list[str]) -> int:
    """Run one job. One that answers ends the process with its status.

    Returns:
        0 when it is done, 1 when it failed and said why, 2 when there is no such job.
    """
    faulthandler.enable()
    hub.forbid()  # before huggingface_hub is imported
    answer_to = _keep_stdout_clean()
    match arguments:
        case ["train", run_dir]:
            os.chdir(run_dir)  # as the keeper: a folder that is renamed still is this one
            return _train(Path())
        case ["try"]:
            end_with_asker()
            return _try(answer_to)
        case [name] if name in _LONG_JOBS:
            end_with_asker()
            _leave(_answer(answer_to, lambda: _LONG_JOBS[name](answer_to)))
        case [name] if name in _QUESTIONS:
            end_with_asker()
            _leave(_answer(answer_to, _QUESTIONS[name]))
    print(f"no such engine job: {' '.join(arguments)}", file=sys.stderr)
    return 2


def _keep_stdout_clean() -> int:
    """Point file descriptor 1 at standard error; returns a descriptor of the real standard output."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def _train(path: Path) -> int:
    run = RunFolder(path)
    print_leniently()
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(path, LOCK_SECONDS, ENGINE_LOCK))
        except TimeoutError:
            print("Another training process works on this run already.", file=sys.stderr)
            return 1
        except OSError:  # a full disk, or none: what is written next tells
            pass
        return _train_alone(run)


def _train_alone(run: RunFolder) -> int:
    from core.engine.machine_facts import versions

    start = find_start(run)  # before it says from where it goes on: a damaged checkpoint is passed over
    reporter = Reporter(run)
    reporter.start(versions(), start.step)
    start.warn(reporter)
    try:
        options = run.options()
    except UserError as error:
        reporter.fail(error)
        return 1
    return _train_with_torch(run, options, reporter, start.checkpoint)


def _train_with_torch(
    run: RunFolder, options: RunOptions, reporter: Reporter, checkpoint: Checkpoint | None
) -> int:
    from core.engine.environment import prepare_environment
    from core.engine.libraries import leave_aside

    prepare_environment(options)  # before torch is imported
    leave_aside(options)
    if hub.may_be_there(options) and not is_complete(options):
        from core.engine.hub.account import lend_token

        lend_token()  # the run fetches its model
    from core.engine.torchvision_ops import prepare_torchvision

    prepare_torchvision()  # before transformers is imported
    from core.engine.train import train_run

    return train_run(run, options, reporter, checkpoint)


def _try(descriptor: int) -> int:
    from core.engine.trying.job import run_try

    return run_try(descriptor)


def _devices() -> msgspec.Struct:
    number_by_slot()  # before torch is imported
    from core.engine.devices import report
    from core.engine.machine_facts import gather

    return report(gather(with_compilers=True))


def _check_device() -> msgspec.Struct:
    from core.device_check_report import DeviceCheckRequest
    from core.engine.environment import prepare_device_check

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=DeviceCheckRequest)
    prepare_device_check()  # before torch is imported
    from core.engine.device_check.run import check_device

    return check_device(request)


def _inspect(descriptor: int) -> msgspec.Struct:
    from core.data_report import InspectRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=InspectRequest)
    options = _options(request.asked)
    if options.model.source or options.task.reads_images:
        options = _prepared_for(request.asked)
    else:
        from core.engine.environment import stay_offline

        stay_offline()
    from core.engine.inspecting.looking import inspect

    say(options.data.train)

    def tell(done: int, total: int) -> None:
        os.write(descriptor, msgspec.json.encode(JobProgress(done=done, total=total)) + b"\n")

    return inspect(options, tell, any_task=request.any_task)


def _check_model() -> msgspec.Struct:
    from core.model_report import ModelRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ModelRequest)
    options = _prepared_for(request.asked)
    from core.engine.check_model import check_model

    return check_model(options, request.labels)


def _fetch_uv() -> msgspec.Struct:
    from core.engine.fetch_uv import fetch_uv
    from core.gpu_pack.uv import UvRequest

    return fetch_uv(msgspec.json.decode(sys.stdin.buffer.read(), type=UvRequest))


def _fetch_config() -> msgspec.Struct:
    from core.engine.environment import prepare_fetching
    from core.hub import ConfigRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ConfigRequest)
    prepare_fetching()  # before huggingface_hub is imported
    from core.engine.hub.account import lend_token

    lend_token()
    from core.engine.fetch_config import fetch_config

    return fetch_config(request.source)


def _forecast() -> msgspec.Struct:
    from core.memory.forecast import ForecastRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ForecastRequest)
    options = _prepared_for(request.asked)
    from core.engine.memory.trace import forecast

    return forecast(options, request.labels)


def _measure() -> msgspec.Struct:
    from core.memory.forecast import MeasureRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=MeasureRequest)
    options = _prepared_for(request.asked)
    from core.engine.memory.measure import measure

    return measure(options)


def _sample(descriptor: int) -> msgspec.Struct:
    from core.bench.sample import SampleRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=SampleRequest)
    options = _prepared_for(request.asked)
    from core.engine.sampling.sample import sample

    total = max(1, request.warm_up) + request.steps

    def tell(done: int) -> None:
        os.write(descriptor, msgspec.json.encode(JobProgress(done=done, total=total)) + b"\n")

    return sample(options, steps=request.steps, warm_up=request.warm_up, tell=tell)


def _script() -> msgspec.Struct:
    from core.script import ScriptRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ScriptRequest)
    options = _prepared_for(request.asked)
    from core.engine.script import write_script

    return write_script(request, options)


def _release() -> msgspec.Struct:
    from core.engine.releases import newest_release
    from core.releases import ReleaseRequest

    return newest_release(msgspec.json.decode(sys.stdin.buffer.read(), type=ReleaseRequest))


def _prepared_for(asked: Tree) -> RunOptions:
    """Get this process ready to build the model that is asked about, without a network.

    Raises:
        OptionsError: What is asked is wrong.
    """
    from core.engine.environment import prepare_environment, stay_offline
    from core.engine.libraries import leave_aside

    options = _options(asked)
    say(f"The model {options.model.source}" if options.model.source else "")
    prepare_environment(options)  # before torch is imported
    stay_offline()
    leave_aside(options)
    from core.engine.torchvision_ops import prepare_torchvision

    prepare_torchvision()  # before transformers is imported
    return options


def _options(asked: Tree) -> RunOptions:
    """The options that were sent.

    Raises:
        OptionsError: What is asked is wrong.
    """
    options, problems = read_options(asked)
    if options is None:
        raise OptionsError(problems)
    return options


_LONG_JOBS: dict[str, Callable[[int], msgspec.Struct]] = {
    "hub-download": hub_jobs.download,
    "inspect": _inspect,
    "export": exporting_jobs.export,
    "export-push": exporting_jobs.push,
    "sample": _sample,
}
"""They tell on the way how far they are, through the descriptor they are given."""

_QUESTIONS: dict[str, Callable[[], msgspec.Struct]] = {
    "devices": _devices,
    "check-device": _check_device,
    "check-model": _check_model,
    "fetch-config": _fetch_config,
    "fetch-uv": _fetch_uv,
    "forecast": _forecast,
    "measure": _measure,
    "release": _release,
    "script": _script,
    **hub_jobs.QUESTIONS,
}


def _answer(descriptor: int, job: Callable[[], msgspec.Struct]) -> int:
    """Write what `job` returns as JSON, or why it can't."""
    try:
        answer, status = job(), 0
    except UserError as error:
        answer, status = (
            JobFailure(error=FailureReport(title=error.title, detail=error.detail, fixes=error.fixes)),
            1,
        )
    except MemoryError as error:
        told = FailureReport(title="There is too little memory for this", detail=str(error))
        answer, status = JobFailure(error=told), 1
    except Exception:  # noqa: BLE001 - the outer edge of this process: logged whole
        traceback.print_exc(file=sys.stderr)
        return 1
    with os.fdopen(descriptor, "wb") as out:
        out.write(msgspec.json.encode(answer))
    return status


def _leave(status: int) -> NoReturn:
    """End the process at once. Taking the interpreter apart takes a second, and threads of Arrow's that read ahead were
    seen to abort in it, after the answer: that looked like a crash.
    """
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
