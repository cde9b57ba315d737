import os
import time

import psutil
import pytest

from core.runs import summary as runs_summary
from core.runs.event_log import LARGEST_LINE, RunFollower
from core.runs.events import (
    Evaluated,
    Event,
    MemorySampled,
    Outcome,
    RequestAnswered,
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    decode,
    encode,
)
from core.runs.folder import ExitRecord, RunFolder
from core.runs.status import State
from core.runs.summary import BLOCK_BYTES, TAIL_BYTES, RunSummary, seconds_spent, state_at_end, summarize
from tests.fakes.runs import new_run, write_events


def evaluated(step: int, **metrics: float) -> Evaluated:
    named = {f"eval_{name}": value for name, value in metrics.items()}
    return Evaluated(step=step, epoch=1, metrics=named, seconds=1, time=100.0 + step)


def write(run: RunFolder, *events: Event) -> None:
    write_events(run.events_file, *events)


def plan() -> RunPlanned:
    return RunPlanned(
        total_steps=9, epochs=1, train_samples=9, eval_samples=1, effective_batch=1, device="cpu", time=101
    )


def step_at(time: float) -> StepFinished:
    return StepFinished(step=5, epoch=1, seconds=0.1, learning_rate=1, samples=8, loss=0.5, time=time)


@pytest.mark.parametrize("hours", [-2, 72])
def test_setting_the_clock_lengthens_and_shortens_no_run(tmp_path, hours, monkeypatch):
    run, moved = new_run(tmp_path), 3600.0 * hours
    began = time.time()
    run.record_keeper(os.getpid())
    write(run, RunStarted(time=began, pid=os.getpid()), plan(), step_at(began + 30))
    booted, boot = psutil.boot_time(), psutil.Process.create_time
    with monkeypatch.context() as patch:
        patch.setattr(psutil, "boot_time", lambda: booted + moved)
        patch.setattr(psutil.Process, "create_time", lambda self: boot(self) + moved)
        patch.setattr(time, "time", lambda: began + moved + 60)
        assert (found := summarize(run)).state is State.TRAINING
        assert found.seconds == pytest.approx(60.0, abs=1.0)
        follower = RunFollower(run)
        follower.poll()
        live = seconds_spent(follower.status, follower.state, None, time.time())
        assert live == pytest.approx(60.0, abs=1.0)
    write(run, RunFinished(state=Outcome.FINISHED, time=began + moved + 90, worked=90.0))
    assert summarize(run).seconds == 90.0


def test_a_finished_run_in_one_row(tmp_path):
    run = new_run(tmp_path)
    write(
        run,
        RunStarted(time=100),
        plan(),
        evaluated(3, accuracy=0.9, loss=0.4),
        evaluated(6, accuracy=0.8, loss=0.3),
        RunFinished(state=Outcome.FINISHED, time=160, peak_bytes=70),
    )
    write_events(run.machine_file, MemorySampled(source=Source.PROCESS, bytes=50))
    assert summarize(run) == RunSummary(
        run=run,
        state=State.FINISHED,
        title="Digits",
        task="image-classification",
        model="resnet18",
        data="digits",
        device="cpu",
        metric="eval_accuracy",
        best=0.9,
        last=0.8,
        seconds=60,
        peak_bytes=70,
        started=100,
    )


def test_of_losses_the_smallest_is_best(tmp_path):
    run = new_run(tmp_path)
    write(run, RunStarted(time=100), evaluated(3, loss=0.2), evaluated(6, loss=0.3))
    summary = summarize(run)
    assert (summary.metric, summary.best, summary.last) == ("eval_loss", 0.2, 0.3)


def test_evaluations_that_a_resumed_run_left_behind_do_not_count(tmp_path):
    run = new_run(tmp_path)
    write(run, RunStarted(), evaluated(3, f1=0.5), evaluated(6, f1=0.9), RunStarted(from_step=4))
    assert summarize(run).best == 0.5


def test_a_crashed_run_lasted_until_its_engine_ended(tmp_path):
    run = new_run(tmp_path)
    write(run, RunStarted(time=100), plan())
    run.record_exit(ExitRecord(time=130, code=-9, signal="SIGKILL"))
    summary = summarize(run)
    assert (summary.state, summary.seconds) == (State.CRASHED, 30)


def test_a_damaged_folder_is_summed_up_as_far_as_it_can_be_read(tmp_path):
    run = new_run(tmp_path)
    write(run, RunStarted(time=100), evaluated(3, accuracy=0.9))
    with run.events_file.open("ab") as file:
        file.write(b'\x00\x00garbage\n{"type":"torn')
    run.options_file.write_text("= not toml")
    run.machine_file.mkdir()
    run.record_exit(ExitRecord(time=130, code=1))
    summary = summarize(run)
    assert (summary.title, summary.model) == (run.name, "")
    assert "is not a run file, or is damaged" in summary.problem
    assert summary.best == 0.9


def test_an_empty_folder_is_summed_up(tmp_path):
    summary = summarize(RunFolder(tmp_path))
    assert (summary.state, summary.title, summary.started) == (State.CRASHED, tmp_path.name, None)
    assert "run.toml" in summary.problem


def test_little_of_a_long_run_is_read_and_none_of_its_evaluations_is_missed(tmp_path, monkeypatch):
    run = new_run(tmp_path)
    line = encode(StepFinished(step=5, epoch=1, seconds=0.1, learning_rate=1, samples=8, loss=0.5))
    block = line * (100 * BLOCK_BYTES // len(line))
    run.events_file.write_bytes(
        encode(RunStarted(time=100))
        + encode(plan())
        + block
        + encode(evaluated(5, accuracy=0.99))
        + block
        + encode(evaluated(6, accuracy=0.5))
        + encode(RunFinished(state=Outcome.FINISHED, time=190, steps=6))
    )
    read: list[bytes] = []
    monkeypatch.setattr(runs_summary, "decode", lambda line: decode(read.append(line) or line))
    summary = summarize(run)
    assert (summary.best, summary.last, summary.state) == (0.99, 0.5, State.FINISHED)
    assert (summary.started, summary.seconds, summary.device) == (100, 90, "cpu")
    assert sum(map(len, read)) < TAIL_BYTES + 3 * BLOCK_BYTES


@pytest.mark.parametrize(
    ("last", "state"),
    [
        (RunFinished(state=Outcome.FINISHED, time=190), State.FINISHED),
        (RequestAnswered(request="1", action="kill", accepted=True, time=190), State.STOPPED),
        (step_at(190), State.CRASHED),
    ],
)
def test_the_end_of_a_long_run_tells_how_it_ended(tmp_path, last, state):
    run = new_run(tmp_path)
    run.events_file.write_bytes(encode(RunStarted(time=100)) + encode(step_at(150)) * 5000 + encode(last))
    write_events(run.machine_file, MemorySampled(source=Source.PROCESS, bytes=50, time=189))
    run.record_exit(ExitRecord(time=200, code=0))
    assert state_at_end(run) is state


def test_a_line_without_end_is_searched_once(tmp_path):
    """Ten megabytes of one line took minutes as long as each hit looked for the line's start."""
    run = new_run(tmp_path)
    write(run, RunStarted(time=100), evaluated(3, accuracy=0.9))
    with run.events_file.open("ab") as file:
        file.write(b'"type":"evaluated" ' * 550_000 + b"\n")
        file.write(b"0" * (LARGEST_LINE + BLOCK_BYTES) + b"\n")
    write(run, evaluated(6, accuracy=0.95), RunFinished(state=Outcome.FINISHED, time=160))
    assert (summarize(run).best, summarize(run).seconds) == (0.95, 60)


def test_between_two_blocks_nothing_of_an_attempt_is_lost(tmp_path):
    """Each attempt's beginning, and the line before it that tells how the one before ended, wherever a block ends."""
    for filling in range(BLOCK_BYTES - 400, BLOCK_BYTES + 400, 97):
        run = new_run(tmp_path)
        write(run, RunStarted(time=100))
        with run.events_file.open("ab") as file:
            file.write(b"0" * (BLOCK_BYTES - 1) + b"\n" + b"0" * filling + b"\n")
        write(run, RunFinished(state=Outcome.STOPPED, time=160))
        write(run, RunStarted(time=200))
        with run.events_file.open("ab") as file:
            file.write((b"0" * 1000 + b"\n") * (2 * TAIL_BYTES // 1001))
        write(run, RunFinished(state=Outcome.FINISHED, time=210))
        assert summarize(run).seconds == 70
