"""The engine process: `python -P -m core.engine JOB ...`.

Jobs: `train RUN_DIR` reports into the run's folder; `try` answers line by line (`core.services.chat`); the others
read a question as JSON from standard input and answer with JSON on standard output. The real standard output is kept
for that answer alone: what libraries print goes to standard error.

torch and huggingface_hub read the environment while they load: they are imported in each job, once it is prepared.
"""

import atexit
import contextlib
import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO, TypeVar

import msgspec
import psutil

from core.base.ceiling import say
from core.base.errors import OptionsError, UserError
from core.base.files import ENGINE_LOCK, locked
from core.base.jobs import FailureReport, JobFailure, JobProgress
from core.base.language import _
from core.base.processes import ASKER, end_group
from core.engine.environment import (
    prepare,
    prepare_device_check,
    prepare_download,
    prepare_torchvision,
    stay_offline,
)
from core.engine.reporter import Reporter
from core.engine.training.checkpoints import find_checkpoint
from core.memory.model import OptionsRequest
from core.monitor.nvidia import number_by_slot
from core.options import RunOptions, Tree
from core.options.sections import DeviceOptions
from core.options.validate import read_options
from core.runs.folder import RunFolder
from core.services import hub
from core.services.hub import is_complete

Request = TypeVar("Request", bound=msgspec.Struct)

POLL_SECONDS = 1.0
LOCK_SECONDS = 2.0
"""How long to wait for another engine of the same run: one that ends is gone by then."""


def main(arguments: list[str]) -> int:
    """Run one job. One that answers ends the process with its status.

    Returns:
        0 when it is done, 1 when it failed and said why, 2 when there is no such job.
    """
    faulthandler.enable()
    hub.forbid()  # before huggingface_hub is imported
    descriptor = os.dup(1)  # the real standard output
    os.dup2(2, 1)
    match arguments:
        case ["train", run_dir]:
            os.chdir(run_dir)  # as the keeper: a folder that is renamed still is this one
            return _train(RunFolder(Path()))
        case ["try"]:
            end_with_asker()
            from core.engine.generate.chat_job import run_try

            return run_try(descriptor)
        case [name] if name in JOBS:
            end_with_asker()
            _leave(_answer(JOBS[name], descriptor))
    print(_("no such engine job: {arguments}").format(arguments=" ".join(arguments)), file=sys.stderr)
    return 2


def end_with_asker() -> None:
    """Exit, with all children, when the process that asked is gone; watched in a thread.

    Started by hand, without its number in the environment, a job is left alone.
    """

    def watch(pid: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            asker = psutil.Process(pid)
            while asker.is_running() and asker.status() != psutil.STATUS_ZOMBIE:
                time.sleep(POLL_SECONDS)
        end_group(os.getpid())  # a worker leads a group of its own, in which its children are
        os._exit(1)

    asker = os.environ.get(ASKER, "")
    if asker.isdecimal():
        threading.Thread(target=watch, args=(int(asker),), name="asker", daemon=True).start()


# --- Training


class LenientStream:
    """A text stream that ignores failures to write, as on a full disk; all else is the stream's own.

    Libraries print where they like. And Python itself would end with a status of its own, 120, where it can't flush
    what is left over, which would hide how the run ended.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Returns the characters taken."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, if that can be done."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _train(run: RunFolder) -> int:
    sys.stderr = LenientStream(sys.stderr)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(run.path, LOCK_SECONDS, ENGINE_LOCK))
        except TimeoutError:
            print(_("Another training process works on this run already."), file=sys.stderr)
            return 1
        except OSError:  # a full disk, or none: what is written next tells
            pass
        from core.engine.devices.capabilities import versions

        start = find_checkpoint(run)
        reporter = Reporter(run)
        reporter.start(versions(), start.step)
        start.warn(reporter)
        try:
            options = run.options()
        except UserError as error:
            reporter.fail(error)
            return 1
        prepare(options, offline=False)
        if hub.may_be_there(options) and not is_complete(options):
            from core.engine.hub.account import lend_token

            lend_token()  # the run fetches its model
        from core.engine.training.train import train_run

        return train_run(run, options, reporter, start.checkpoint)


# --- Jobs that answer


STEPS = 5
"""About so many things an export does one after the other."""
ALIVE_SECONDS = 20.0
"""So often an export says that it is alive: a job that is silent for minutes is ended."""


class Channel:
    """A job's question on standard input, and its standard output for progress."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._lock = threading.Lock()

    def read(self, kind: type[Request]) -> Request:
        """The question."""
        return msgspec.json.decode(sys.stdin.buffer.read(), type=kind)

    def tell(self, done: int, total: int, what: str = "") -> None:
        """Write a line of progress; any thread may."""
        line = msgspec.json.encode(JobProgress(done=done, total=total, what=what)) + b"\n"
        with self._lock:
            os.write(self.descriptor, line)

    @contextlib.contextmanager
    def steps(self) -> Iterator[Callable[[str], None]]:
        """A function that tells the next step, which is told again while it takes long."""
        current, ended = (0, ""), threading.Event()

        def begin(what: str) -> None:
            nonlocal current
            current = min(current[0] + 1, STEPS), what
            self.tell(current[0], STEPS + 1, what)

        def stay_alive() -> None:
            while not ended.wait(ALIVE_SECONDS):
                self.tell(current[0], STEPS + 1, current[1])

        thread = threading.Thread(target=stay_alive, name="alive", daemon=True)
        thread.start()
        try:
            yield begin
        finally:
            ended.set()
            thread.join()


def _devices(channel: Channel) -> msgspec.Struct:
    number_by_slot()
    from core.engine.devices.capabilities import gather
    from core.engine.devices.choose import report

    return report(gather(with_compilers=True))


def _check_device(channel: Channel) -> msgspec.Struct:
    from core.services.devices import DeviceCheckRequest

    request = channel.read(DeviceCheckRequest)
    prepare_device_check()
    from core.engine.devices.check import check_device

    return check_device(request)


def _inspect(channel: Channel) -> msgspec.Struct:
    from core.services.inspect import InspectRequest

    request = channel.read(InspectRequest)
    options = _options(request.asked)
    if options.model.source or options.task.reads_images:
        options = _prepared_for(request.asked)
    else:
        stay_offline()
        prepare_torchvision()
    from core.engine.inspect.report import inspect

    say(options.data.train)
    return inspect(options, channel.tell, any_task=request.any_task)


def _model_question(channel: Channel) -> tuple[OptionsRequest, RunOptions]:
    """The request of a job about a model, and its options; this process is ready to build the model then."""
    request = channel.read(OptionsRequest)
    return request, _prepared_for(request.asked)


def _check_model(channel: Channel) -> msgspec.Struct:
    request, options = _model_question(channel)
    from core.engine.models.check import check_model

    return check_model(options, request.labels)


def _forecast(channel: Channel) -> msgspec.Struct:
    request, options = _model_question(channel)
    from core.engine.memory.forecast import forecast

    return forecast(options, request.labels)


def _measure(channel: Channel) -> msgspec.Struct:
    _rest, options = _model_question(channel)
    from core.engine.memory.measure import measure

    return measure(options)


def _sample(channel: Channel) -> msgspec.Struct:
    from core.benchmark.result import SampleRequest

    request = channel.read(SampleRequest)
    options = _prepared_for(request.asked)
    from core.engine.memory.sample import sample

    total = max(1, request.warm_up) + request.steps
    return sample(
        options,
        steps=request.steps,
        warm_up=request.warm_up,
        tell=lambda done: channel.tell(done, total),
    )


def _script(channel: Channel) -> msgspec.Struct:
    from core.sharing.script import ScriptRequest

    request = channel.read(ScriptRequest)
    options = _prepared_for(request.asked)
    from core.engine.script import write_script

    return write_script(request, options)


def _export(channel: Channel) -> msgspec.Struct:
    """Export a run's model, without a network and away from the GPU."""
    from core.services.export import ExportRequest, find_source

    request = channel.read(ExportRequest)
    options = find_source(RunFolder(Path(request.run)), request.checkpoint).options
    prepare(msgspec.structs.replace(options, device=DeviceOptions(name="cpu")))
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from core.engine.export.job import export

    with channel.steps() as tell:
        return export(request, tell)


def _push(channel: Channel) -> msgspec.Struct:
    from core.services.export import PushRequest

    request = channel.read(PushRequest)
    prepare_download()
    from core.engine.hub.push import push

    with channel.steps() as tell:
        return push(request, tell)


def _fetch_uv(channel: Channel) -> msgspec.Struct:
    from core.engine.hub.web import fetch_uv
    from core.services.gpu_install import UvProgram

    return UvProgram(path=str(fetch_uv(Path(channel.read(UvProgram).path))))


def _fetch_config(channel: Channel) -> msgspec.Struct:
    request = channel.read(hub.ConfigRequest)
    prepare_download()
    from core.engine.hub.account import lend_token

    lend_token()
    from core.engine.hub.download import fetch_config

    return fetch_config(request.source)


def _release(channel: Channel) -> msgspec.Struct:
    from core.engine.hub.web import newest_release

    return newest_release(channel.read(hub.ReleaseRequest))


def _hub_account(channel: Channel) -> msgspec.Struct:
    request = channel.read(hub.AccountRequest)
    prepare_download()
    from core.engine.hub.account import account

    return account(request)


def _hub_cached(channel: Channel) -> msgspec.Struct:
    prepare_download()
    from core.engine.hub.download import cached

    return cached()


def _hub_download(channel: Channel) -> msgspec.Struct:
    request = channel.read(hub.DownloadRequest)
    prepare_download()
    from core.engine.hub.download import download

    return download(request, channel.tell)


def _hub_remove(channel: Channel) -> msgspec.Struct:
    request = channel.read(hub.RemoveRequest)
    prepare_download()
    from core.engine.hub.download import remove_cached

    return remove_cached(request)


def _hub_search(channel: Channel) -> msgspec.Struct:
    request = channel.read(hub.SearchRequest)
    prepare_download()
    from core.engine.hub.search import search

    return search(request)


JOBS: dict[str, Callable[[Channel], msgspec.Struct]] = {
    "check-device": _check_device,
    "check-model": _check_model,
    "devices": _devices,
    "export": _export,
    "export-push": _push,
    "fetch-config": _fetch_config,
    "fetch-uv": _fetch_uv,
    "forecast": _forecast,
    "hub-account": _hub_account,
    "hub-cached": _hub_cached,
    "hub-download": _hub_download,
    "hub-remove": _hub_remove,
    "hub-search": _hub_search,
    "inspect": _inspect,
    "measure": _measure,
    "release": _release,
    "sample": _sample,
    "script": _script,
}


def _options(asked: Tree) -> RunOptions:
    options, problems = read_options(asked)
    if options is None:
        raise OptionsError(problems)
    return options


def _prepared_for(asked: Tree) -> RunOptions:
    """Get this process ready to build the model that is asked about, without a network.

    Raises:
        OptionsError: An option is wrong.
    """
    options = _options(asked)
    say(_("The model {source}").format(source=options.model.source) if options.model.source else "")
    prepare(options)
    return options


def _answer(job: Callable[[Channel], msgspec.Struct], descriptor: int) -> int:
    """Write what a job returns as JSON, or why it can't."""
    status = 1
    try:
        answer, status = job(Channel(descriptor)), 0
    except UserError as error:
        report = FailureReport(title=error.title, detail=error.detail, fixes=error.fixes)
        answer = JobFailure(error=report)
    except MemoryError as error:
        report = FailureReport(title=_("There is too little memory for this"), detail=str(error))
        answer = JobFailure(error=report)
    except Exception:  # noqa: BLE001 - the outer edge of this process: logged whole
        traceback.print_exc(file=sys.stderr)
        return 1
    with os.fdopen(descriptor, "wb") as out:
        out.write(msgspec.json.encode(answer))
    return status


def _leave(status: int) -> NoReturn:
    """End the process at once. Finalising the interpreter takes a second, and threads of Arrow's that read ahead were
    seen to abort in it, after the answer: that looked like a crash.
    """
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):  # its reader is gone
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
