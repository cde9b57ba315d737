"""One row of the list of runs, and how little of long files is read for it."""

import os
import time

import psutil
import pytest

from core.options import RunOptions, run_file
from core.options.catalogue import with_changes
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.past_runs import RunNotes
from core.options.sections import ModelOptions
from core.runs import notes
from core.runs import summary as runs_summary
from core.runs.event_log import LARGEST_LINE, RunFollower
from core.runs.events import (
    Evaluated,
    Event,
    MemorySampled,
    Outcome,
    RequestAnswered,
    RunFinished,
    RunStarted,
    Source,
    decode,
    encode,
)
from core.runs.folder import ExitRecord, RunFolder
from core.runs.library import create_all, options_of_runs
from core.runs.status import State
from core.runs.summary import (
    BLOCK_BYTES,
    TAIL_BYTES,
    RunSummary,
    rough_key,
    seconds_spent,
    state_at_end,
    status_at_end,
    summarize,
    timing_key,
    timings,
)
from tests.fakes.runs import (
    PROCESSOR,
    Plot,
    digits_options,
    finish,
    make_folder,
    new_run,
    plan,
    step,
    write_events,
    write_story,
)

PLAN = plan(device="cpu", time=101)


def evaluated(number: int, **metrics: float) -> Evaluated:
    named = {f"eval_{name}": value for name, value in metrics.items()}
    return Evaluated(step=number, epoch=1, metrics=named, seconds=1, time=100.0 + number)


def finished(at: float, **more: float) -> RunFinished:
    return RunFinished(state=Outcome.FINISHED, time=at, **more)


def write(run: RunFolder, *parts: bytes | Event) -> None:
    with run.events_file.open("ab") as file:
        file.write(b"".join(part if isinstance(part, bytes) else encode(part) for part in parts))


def test_a_finished_run_in_one_row(run):
    first, second = evaluated(3, accuracy=0.9, loss=0.4), evaluated(6, accuracy=0.8, loss=0.3)
    write(run, RunStarted(time=100), PLAN, first, second, finished(160, peak_bytes=70))
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
        result=0.8,
        eval_loss=0.3,
        seconds=60,
        peak_bytes=70,
        total_steps=9,
        started=100,
        share=0.0,
    )


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([evaluated(3, loss=0.2), evaluated(6, loss=0.3)], ("eval_loss", 0.2, 0.3)),
        ([evaluated(3, f1=0.5), evaluated(6, f1=0.9), RunStarted(from_step=4)], ("eval_f1", 0.5, 0.5)),
    ],
    ids=["of losses the smallest is best", "a resumed run left one behind"],
)
def test_the_best_and_the_last_value(run, events, expected):
    write(run, RunStarted(time=100), *events)
    summary = summarize(run)
    assert (summary.metric, summary.best, summary.last) == expected


def test_the_best_value_is_that_of_the_metric_which_the_options_name(run):
    write(
        run, RunStarted(time=100), evaluated(3, accuracy=0.9, loss=0.4), evaluated(6, accuracy=0.8, loss=0.3)
    )
    run_file.write(
        run_file.read(run.options_file, ("training.metric_for_best_model=loss",)), run.options_file
    )
    summary = summarize(run)
    assert (summary.metric, summary.best, summary.last) == ("eval_loss", 0.3, 0.3)


@pytest.mark.parametrize(
    ("end", "result"),
    [
        ((), 0.8),
        ((finished(160, metrics={"eval_accuracy": 0.9}, model_step=3, steps=6),), 0.9),
        ((finished(160, steps=6),), 0.8),
    ],
    ids=["while it trains the last", "the best model was kept", "the last model was kept"],
)
def test_the_result_is_that_of_the_model_which_is_kept(run, end, result):
    write(run, RunStarted(time=100), evaluated(3, accuracy=0.9), evaluated(6, accuracy=0.8), *end)
    assert summarize(run).result == result


def test_a_damaged_crashed_run_is_summed_up_as_far_as_it_can_be_read(run):
    write(run, RunStarted(time=100), evaluated(3, accuracy=0.9), b'\x00\x00garbage\n{"type":"torn')
    run.options_file.write_text("= not toml")
    run.machine_file.mkdir()
    run.record_exit(ExitRecord(time=130, code=1))
    summary = summarize(run)
    assert (summary.state, summary.title, summary.model) == (State.CRASHED, run.name, "")
    assert (summary.best, summary.seconds) == (0.9, 30), "until its engine ended"
    assert str(run.options_file) in summary.problem


def test_an_empty_folder_is_summed_up(tmp_path):
    summary = summarize(RunFolder(tmp_path))
    assert (summary.state, summary.title, summary.started) == (State.CRASHED, tmp_path.name, None)
    assert "run.toml" in summary.problem


@pytest.mark.parametrize("hours", [-2, 72])
def test_setting_the_clock_lengthens_and_shortens_no_run(run, hours, monkeypatch):
    moved, began = 3600.0 * hours, time.time()
    run.record_keeper(os.getpid())
    write(run, RunStarted(time=began, pid=os.getpid()), PLAN, step(5, time=began + 30))
    booted, boot = psutil.boot_time(), psutil.Process.create_time
    with monkeypatch.context() as patch:
        patch.setattr(psutil, "boot_time", lambda: booted + moved)
        patch.setattr(psutil.Process, "create_time", lambda self: boot(self) + moved)
        patch.setattr(time, "time", lambda: began + moved + 60)
        found, follower = summarize(run), RunFollower(run)
        follower.poll()
        live = seconds_spent(follower.status, follower.state, None, time.time())
    assert found.state is State.TRAINING
    assert (found.seconds, live) == (pytest.approx(60.0, abs=1.0), pytest.approx(60.0, abs=1.0))
    write(run, finished(began + moved + 90, worked=90.0))
    assert summarize(run).seconds == 90.0


def test_little_of_a_long_run_is_read_and_none_of_its_evaluations_is_missed(run, monkeypatch):
    line = encode(step(5, loss=0.5))
    block = line * (100 * BLOCK_BYTES // len(line))
    write(run, RunStarted(time=100), PLAN, block, evaluated(5, accuracy=0.99), block)
    write(run, evaluated(6, accuracy=0.5), finished(190, steps=6))
    read: list[bytes] = []
    monkeypatch.setattr(runs_summary, "decode", lambda line: decode(read.append(line) or line))
    summary = summarize(run)
    assert (summary.best, summary.last, summary.state) == (0.99, 0.5, State.FINISHED)
    assert (summary.started, summary.seconds, summary.device) == (100, 90, "cpu")
    assert sum(map(len, read)) < TAIL_BYTES + 3 * BLOCK_BYTES
    ends = status_at_end(run, and_beginning=True, and_between=False)
    assert (ends.started, [evaluation.step for evaluation in ends.evaluations]) == (100, [6])


@pytest.mark.parametrize(
    ("last", "state"),
    [
        (finished(190), State.FINISHED),
        (RequestAnswered(request="1", action="kill", accepted=True, time=190), State.STOPPED),
        (step(5, time=190), State.CRASHED),
    ],
)
def test_the_end_of_a_long_run_tells_how_it_ended(run, last, state):
    write(run, RunStarted(time=100), encode(step(5, time=150)) * 5000, last)
    write_events(run.machine_file, MemorySampled(source=Source.PROCESS, bytes=50, time=189))
    run.record_exit(ExitRecord(time=200, code=0))
    assert state_at_end(run) is state


def test_a_line_without_end_is_searched_once(run):
    """Ten megabytes of one line took minutes as long as each hit looked for the line's start."""
    nonsense = b'{"type":"evaluated" ' * 550_000 + b"\n" + b"0" * (LARGEST_LINE + BLOCK_BYTES) + b"\n"
    write(run, RunStarted(time=100), evaluated(3, accuracy=0.9), nonsense)
    write(run, evaluated(6, accuracy=0.95), finished(160))
    assert (summarize(run).best, summarize(run).seconds) == (0.95, 60)


@pytest.mark.parametrize("filling", range(BLOCK_BYTES - 400, BLOCK_BYTES + 400, 97))
def test_the_end_and_the_beginning_of_attempts_are_found_wherever_a_block_ends(tmp_path, filling):
    run = new_run(tmp_path)
    write(run, RunStarted(time=100), b"0" * (BLOCK_BYTES - 1) + b"\n" + b"0" * filling + b"\n")
    write(run, RunFinished(state=Outcome.STOPPED, time=160), RunStarted(time=200))
    write(run, (b"0" * 1000 + b"\n") * (2 * TAIL_BYTES // 1001), finished(210))
    assert summarize(run).seconds == 70


def timed(folder, options, **plot):
    """A run on 1,437 examples in batches of 32 that has ended."""
    run, told = make_folder(folder, options), Plot(**{"steps": 90, "reached": 90, "epochs": 2, **plot})
    finish(run, told, write_story(run, told))
    return run


class TestTiming:
    digits = with_changes(digits_options(), {"memory.batch_size": 32, "training.epochs": 2.0})

    def of(self, runs, **changes):
        options = with_changes(
            self.digits, {path.replace("__", "."): value for path, value in changes.items()}
        )
        found = timings(runs).get((timing_key(options), PROCESSOR))
        return found and found.seconds_of(options)

    def test_a_longer_run_takes_longer_by_its_steps_and_evaluations(self, tmp_path):
        run = timed(tmp_path / "digits", self.digits)
        seconds = summarize(run).seconds
        assert self.of([run]) == pytest.approx(seconds, abs=0.01)
        trained = seconds - 3 - 0.5  # without what comes before the first step and after the last one
        assert self.of([run], training__epochs=20.0) == pytest.approx(seconds + 9 * trained, rel=0.03)
        often = self.of([run], training__eval_steps=1.0)
        assert often - seconds == pytest.approx(88 * evaluation_seconds(run))

    def test_it_is_known_for_the_same_work_only(self, tmp_path):
        run = timed(tmp_path / "digits", self.digits)
        assert self.of([run], training__learning_rate=1e-5, output__name="Other") is not None
        for changes in ({"memory__batch_size": 16}, {"model__method": "head"}, {"data__image_size": 64}):
            assert self.of([run], **changes) is None
        assert timings([run]).get((timing_key(self.digits), "Another processor")) is None
        write(run, RunStarted(attempt=2, time=2_000_000_000.0, from_step=90))
        write(run, finished(2_000_000_100.0, attempt=2, steps=90))
        assert self.of([run]) is None, "a resumed run loads its model twice"

    def test_at_another_batch_size_it_is_known_roughly_by_the_time_per_example(self, tmp_path):
        run = timed(tmp_path / "digits", self.digits)
        seconds = summarize(run).seconds

        def roughly(examples, device=PROCESSOR, **changes):
            options = with_changes(
                self.digits, {path.replace("__", "."): value for path, value in changes.items()}
            )
            timing = timings([run]).get((rough_key(options), device))
            return timing and timing.roughly(options, examples)

        for batch in (8, 16, 128):
            assert roughly(1437, memory__batch_size=batch) == pytest.approx(seconds, rel=0.1)
        tenth = roughly(144, data__max_train_samples=160)
        assert seconds / 10 < tenth < seconds / 10 + 4, "it also begins and ends"
        assert roughly(1437, training__epochs=4.0, memory__batch_size=64) == pytest.approx(
            2 * seconds, rel=0.1
        )
        assert roughly(1437, memory__batch_size=4) is None, "too far off"
        assert roughly(1437, memory__batch_size=256) is None
        for changes in ({"device__precision": "bf16"}, {"model__method": "head"}, {"data__image_size": 64}):
            assert roughly(1437, memory__batch_size=16, **changes) is None
        assert roughly(1437, "Another processor") is None
        assert roughly(1437, "") is None

    def test_a_run_is_read_again_only_when_it_has_changed(self, tmp_path, monkeypatch):
        run = timed(tmp_path / "digits", self.digits)
        before = self.of([run])
        with monkeypatch.context() as patch:
            patch.setattr("core.runs.summary.status_at_end", None)
            assert self.of([run]) == before
        notes.write(run.path, RunNotes(title="Renamed"))
        assert timings([run])[timing_key(self.digits), PROCESSOR].title == "Renamed"

    def test_without_a_device_it_is_that_of_the_newest_run(self, tmp_path, monkeypatch):
        newest, oldest = (timed(tmp_path / name, self.digits) for name in ("newest", "oldest"))
        what_ran = oldest.events_file.read_text().replace(PROCESSOR, "Another processor")
        oldest.events_file.write_text(what_ran)
        found = timings([newest, oldest])
        assert len(found) == 5, "two keys for each device, and one for any"
        assert found[timing_key(self.digits), ""] is found[timing_key(self.digits), PROCESSOR]

    def test_the_model_of_a_past_run_counts_as_what_that_one_started_from(self, tmp_path):
        first = timed(tmp_path / "first", self.digits)
        source = f"run:{first.path}"
        assert self.of([first], model__source=source) == self.of([first])
        circle = with_changes(self.digits, {"model.source": f"run:{tmp_path / 'circle'}"})
        assert timing_key(
            with_changes(circle, {"model.source": f"run:{make_folder(tmp_path / 'circle', circle).path}"})
        )

    def test_both_runs_of_a_pair_are_found_by_the_form_that_made_them(self, tmp_path):
        data = tmp_path / "talks.json"
        data.write_text("[]")
        pair = RunOptions(
            task=Task.CHAT, model=ModelOptions(source="scratch:llama-tiny"), data=DataOptions(train=str(data))
        )
        runs = create_all(pair, tmp_path / "runs")
        for run in runs:
            told = Plot(steps=45, reached=45, epochs=1)
            finish(run, told, write_story(run, told))
        found = timings(runs)
        assert [found[timing_key(options), PROCESSOR].title for options in options_of_runs(pair)] == [
            "llama-tiny on talks, pretraining",
            "llama-tiny on talks",
        ]


def evaluation_seconds(run: RunFolder) -> float:
    return status_at_end(run, and_beginning=True).evaluation_seconds
