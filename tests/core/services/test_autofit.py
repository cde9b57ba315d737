"""What finds a run that fits, with dry runs that answer from a table."""

import threading

from msgspec.structs import replace

from core.base.errors import UserError
from core.base.jobs import JobCancelled
from core.engine.devices.choose import report as devices_of
from core.memory.estimate import forecast
from core.memory.model import FitVerdict, Measurement, ModelReport, Parts, Room
from core.memory.remedies import candidates, request_of
from core.options import RunOptions
from core.options.choices import Method, Precision
from core.services.autofit import MOST_TRIES, Fitting
from tests.fakes.machines import LAPTOP
from tests.fakes.model_shapes import BERT, MODEL, asked

MB = 1 << 20
DEVICE = devices_of(LAPTOP).devices[0]


class DryRuns:
    """Dry runs that hold what `peak` says of their options, and end as soon as they hold more than is free."""

    def __init__(self, peak, seconds=lambda _options: 1.0) -> None:
        self.peak, self.seconds = peak, seconds
        self.asked: list[RunOptions] = []

    def __call__(self, options: RunOptions, room: Room | None) -> "DryRuns":
        self.asked.append(options)
        self.room = room
        return self

    def run(self) -> Measurement:
        options = self.asked[-1]
        held = self.peak(options)
        is_over = self.room is not None and held > self.room.free
        held = self.room.free if is_over else held
        return Measurement(
            device="cuda:0",
            parts=Parts(overhead=held),
            peak=held,
            base=0,
            out_of_memory="It held too much." if is_over else "",
            step_seconds=None if is_over else self.seconds(options),
        )

    def kill(self) -> None: ...


def as_forecast(options: RunOptions) -> int:
    return forecast(options, BERT, DEVICE).parts.total


NEEDED = as_forecast(asked())


def is_half(options: RunOptions) -> bool:
    return options.device.precision is Precision.BF16


def fitting(runs, free: float) -> Fitting:
    return Fitting(asked(), MODEL, DEVICE, Room(free=int(free), ceiling=6 << 30), runs)


def test_what_fits_as_it_is_stays_as_it_is():
    runs, begun = DryRuns(as_forecast), []
    for found in (fitting(runs, 64 << 30), Fitting(asked(), MODEL, DEVICE, None, runs)):  # or no room known
        found.on_begin(begun.append)
        assert [(done.title, done.verdict) for done in found.tries()] == [("As requested", FitVerdict.FITS)]
        assert (found.result, found.changes) == (asked(), {})
    assert [(each.number, each.plan[0]) for each in begun] == [(1, "As requested")] * 2
    assert runs.asked[0].device.name == "cuda:0", "whose memory the guard watches"


def test_what_keeps_the_result_is_tried_first():
    found = fitting(DryRuns(as_forecast), NEEDED * 0.95)
    tries = list(found.tries())
    assert found.changes == {"device.precision": "bf16"}
    assert found.result.device.name == "auto", "only what was changed is changed"
    assert [done.verdict for done in tries] == [FitVerdict.TOO_LARGE, FitVerdict.FITS, FitVerdict.FITS]
    assert "device.precision" not in tries[2].changes, "one more that may be faster"


def test_of_two_that_lose_as_little_the_one_measured_to_be_faster_is_chosen():
    found = fitting(DryRuns(as_forecast, lambda options: 3.0 if is_half(options) else 1.0), NEEDED * 0.95)
    tries = list(found.tries())
    assert "device.precision" in tries[1].changes
    assert found.changes == tries[2].changes
    assert (found.result.device.precision, found.result.model.method) == (Precision.FP32, Method.FULL)


def test_a_rival_that_does_not_fit_leaves_the_first():
    runs = DryRuns(lambda options: as_forecast(options) if is_half(options) else 2 * NEEDED, is_half)
    found = fitting(runs, NEEDED * 0.95)
    assert list(found.tries())[-1].verdict is FitVerdict.TOO_LARGE
    assert found.changes == {"device.precision": "bf16"}


def test_offloading_comes_after_qlora_where_a_gpu_and_its_packages_are_there():
    offloads = replace(DEVICE, refusals={**DEVICE.refusals, "memory.offload_optimizer": {}})
    found = candidates(request_of(asked(), MODEL, offloads, None))
    kinds = ["memory.offload_optimizer" in candidate.changes for candidate in found]
    first = kinds.index(True)
    assert all(kinds[first:])
    assert found[first - 1].changes["model.method"] == "qlora"


def test_lora_comes_only_where_nothing_that_keeps_the_result_fits():
    smallest_full = as_forecast(
        asked(
            device={"precision": "bf16"},
            memory={"batch_size": 1, "gradient_accumulation_steps": 16, "activation_checkpointing": True},
            training={"optimizer": "adafactor"},
        )
    )
    found = fitting(DryRuns(as_forecast), smallest_full - 100 * MB)
    tries = list(found.tries())
    assert found.result.model.method in (Method.LORA, Method.QLORA)
    assert len(tries) < 6, "what is forecast to be no smaller than what failed is not tried"


def test_each_try_that_fails_is_followed_by_a_smaller_one():
    found = fitting(DryRuns(lambda options: 2 * as_forecast(options)), 4 << 30)
    failed = [done for done in found.tries() if done.measurement.out_of_memory]
    totals = [done.forecast.parts.total for done in failed]
    assert totals == sorted(set(totals), reverse=True)
    assert len(totals) > 1


def test_a_forecast_that_was_too_low_corrects_the_others():
    found = fitting(DryRuns(lambda options: as_forecast(options) + (1 << 30)), 5 << 30)
    tries = list(found.tries())
    assert found.result is not None
    assert tries[-1].measurement.peak <= 0.9 * (5 << 30)
    assert len(tries) <= 6


def test_each_try_is_the_next_of_a_plan_that_ends_with_the_smallest():
    for too_low in (1.0, 1.3, 2.0):
        runs, begun = DryRuns(lambda options, times=too_low: times * as_forecast(options)), []
        found = fitting(runs, 0.95 * NEEDED)
        found.on_begin(begun.append)
        tries = list(found.tries())
        assert [each.plan[0] for each in begun] == [done.title for done in tries]
        assert {each.most <= MOST_TRIES for each in begun} == {True}
        assert "QLoRA" in begun[0].plan[-1]


def test_where_nothing_fits_only_the_smallest_is_tried():
    found = fitting(DryRuns(lambda _: 10 << 30), 500 * MB)
    [tried] = found.tries()
    assert (found.result, found.changes, found.is_too_large) == (None, None, True)
    assert "choose a smaller" in found.reason
    assert tried.changes["memory.batch_size"] == 1
    assert tried.changes["model.method"] == "qlora"


def test_a_run_that_fails_for_another_reason_is_given_up():
    def fail(_options):
        raise UserError("The file is gone")

    found = fitting(DryRuns(fail), 64 << 30)
    tries = list(found.tries())
    assert [done.verdict for done in tries] == [FitVerdict.UNKNOWN] * 3
    assert "The file is gone" in tries[0].problem
    assert "The file is gone" in found.reason
    assert (found.result, found.is_too_large) == (None, False)


def test_of_an_unknown_model_nothing_is_tried():
    found = Fitting(asked(), ModelReport(), DEVICE, None, DryRuns(as_forecast))
    assert list(found.tries()) == []
    assert "can't be inspected" in found.reason


class Waiting:
    """A dry run that continues until it is ended."""

    def __init__(self) -> None:
        self.begun, self.killed = threading.Event(), threading.Event()
        self.kill = self.killed.set

    def run(self) -> Measurement:
        self.begun.set()
        assert self.killed.wait(10), "it was not ended"
        raise JobCancelled("measure")


def test_stopping_ends_the_try_under_way():
    waiting = Waiting()
    found, tries = Fitting(asked(), MODEL, DEVICE, None, lambda *_: waiting), []
    thread = threading.Thread(target=lambda: tries.extend(found.tries()))
    thread.start()
    assert waiting.begun.wait(10)
    found.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert (tries, found.result, found.reason) == ([], None, "It was stopped.")
    assert list(found.tries()) == [], "once stopped it tries nothing"
