"""What finds a run that fits, and what measures each remedy, with dry runs that answer from a table."""

import threading
from collections.abc import Callable

from msgspec.structs import replace

from core.base.errors import UserError
from core.base.jobs import JobCancelled
from core.engine.devices.choose import report as devices_of
from core.memory.estimate import forecast
from core.memory.model import Measurement, ModelReport, Parts, Room, Verdict
from core.memory.remedies import candidates, ladder, request_of
from core.options import RunOptions
from core.options.choices import Method, Precision
from core.services.autofit import Fitting, MeasuringEach, Try
from tests.fakes.machines import LAPTOP
from tests.fakes.model_shapes import BERT, MODEL, asked

MB = 1 << 20
DEVICE = devices_of(LAPTOP).devices[0]


class FakeDryRuns:
    """Makes dry runs that hold what `peak` says, and end as soon as they hold more than there is free."""

    def __init__(self, peak: Callable[[RunOptions], int]) -> None:
        self._peak = peak
        self.asked: list[RunOptions] = []

    def __call__(self, options: RunOptions, room: Room | None) -> "FakeDryRun":
        self.asked.append(options)
        return FakeDryRun(self._peak(options), room)


class FakeDryRun:
    def __init__(self, peak: int, room: Room | None) -> None:
        self._peak = peak
        self._room = room
        self.step_seconds = 1.0

    def run(self) -> Measurement:
        over = self._room is not None and self._peak > self._room.free
        held = self._room.free if over and self._room else self._peak
        return Measurement(
            device="cuda:0",
            parts=Parts(overhead=held),
            peak=held,
            base=0,
            out_of_memory="It held too much." if over else "",
            step_seconds=None if over else self.step_seconds,
        )

    def kill(self) -> None:
        raise AssertionError("nothing to end")


def as_forecast(options: RunOptions) -> int:
    return forecast(options, BERT, DEVICE).parts.total


def fitting(runs: FakeDryRuns, free: int, options: RunOptions | None = None) -> Fitting:
    return Fitting(options or asked(), MODEL, DEVICE, Room(free=free, ceiling=6 << 30), runs)


def test_what_fits_as_it_is_stays_as_it_is():
    runs = FakeDryRuns(as_forecast)
    begun: list[str] = []
    for found in (fitting(runs, 64 << 30), Fitting(asked(), MODEL, DEVICE, None, runs)):  # or no room known
        found.heed(begun.append)
        assert [(done.title, done.verdict) for done in found.tries()] == [("As requested", Verdict.FITS)]
        assert (found.result, found.changes) == (asked(), {})
    assert begun == ["As requested"] * 2
    assert runs.asked[0].device.name == "cuda:0", "whose memory the guard watches"


def test_what_keeps_the_result_is_tried_first_and_the_fastest_wins():
    needed = as_forecast(asked())
    found = fitting(FakeDryRuns(as_forecast), int(needed * 0.95))
    tries = list(found.tries())
    assert found.changes == {"device.precision": "bf16"}
    assert found.result is not None
    assert found.result.device.precision is Precision.BF16
    assert found.result.device.name == "auto", "only what was changed is changed"
    assert [done.verdict for done in tries[1:3]] == [Verdict.FITS, Verdict.FITS]
    assert "device.precision" not in tries[2].changes, "one more that may be faster"
    assert len(tries) == 3


class Slow(FakeDryRuns):
    """Takes its time with bf16, as a processor does that computes it through fp32."""

    def __call__(self, options: RunOptions, room: Room | None) -> "FakeDryRun":
        made = super().__call__(options, room)
        made.step_seconds = 3.0 if options.device.precision is Precision.BF16 else 1.0
        return made


def test_of_two_that_lose_as_little_the_one_measured_to_be_faster_wins():
    needed = as_forecast(asked())
    found = fitting(Slow(as_forecast), int(needed * 0.95))
    tries = list(found.tries())
    assert "device.precision" in tries[1].changes
    assert found.changes == tries[2].changes
    assert found.result is not None
    assert found.result.device.precision is Precision.FP32
    assert found.result.model.method is Method.FULL


def test_a_rival_that_does_not_fit_leaves_what_was_found():
    needed = as_forecast(asked())

    def only_half_fits(options: RunOptions) -> int:
        return as_forecast(options) if options.device.precision is Precision.BF16 else 2 * needed

    found = fitting(Slow(only_half_fits), int(needed * 0.95))
    tries = list(found.tries())
    assert tries[-1].verdict is Verdict.TOO_LARGE
    assert found.changes == {"device.precision": "bf16"}


def test_offloading_comes_behind_qlora_where_a_gpu_and_its_packages_are_there():
    offloads = replace(DEVICE, refusals={**DEVICE.refusals, "memory.offload_optimizer": {}})
    everything = request_of(asked(), MODEL, offloads, None)
    assert everything is not None
    found = candidates(everything)
    kinds = ["offload" if "memory.offload_optimizer" in one.changes else "none" for one in found]
    first = kinds.index("offload")
    assert set(kinds[first:]) == {"offload"}
    assert found[first - 1].changes["model.method"] == "qlora"


def test_lora_comes_only_where_nothing_that_keeps_the_result_fits():
    smallest_full = as_forecast(
        asked(
            device={"precision": "bf16"},
            memory={"batch_size": 1, "gradient_accumulation_steps": 16, "activation_checkpointing": True},
            training={"optimizer": "adafactor"},
        )
    )
    found = fitting(FakeDryRuns(as_forecast), smallest_full - 100 * MB)
    tries = list(found.tries())
    assert found.result is not None
    assert found.result.model.method in (Method.LORA, Method.QLORA)
    assert len(tries) < 6, "what is forecast to be no smaller than what failed is not tried"


def test_each_try_that_fails_is_followed_by_a_smaller_one():
    found = fitting(FakeDryRuns(lambda options: 2 * as_forecast(options)), 4 << 30)
    failed = [done for done in found.tries() if done.measurement and done.measurement.out_of_memory]
    totals = [done.forecast.parts.total for done in failed]
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) == len(totals) > 1


def test_a_forecast_that_was_too_low_is_learned_from():
    runs = FakeDryRuns(lambda options: as_forecast(options) + (1 << 30))
    found = fitting(runs, 5 << 30)
    tries = list(found.tries())
    assert found.result is not None
    assert tries[-1].measurement is not None
    assert tries[-1].measurement.peak <= 0.9 * (5 << 30)
    assert len(tries) <= 6


def test_where_nothing_fits_the_smallest_was_tried_and_the_reason_is_said():
    found = fitting(FakeDryRuns(lambda _: 10 << 30), 500 * MB)
    tries = list(found.tries())
    assert (found.result, found.changes) == (None, None)
    assert "choose a smaller" in found.reason
    assert len(tries) == 1, "all that is hopeless and larger needs no try"
    assert tries[0].forecast.parts.total == min(
        as_forecast(with_tried) for with_tried in [*_all_small(), asked()]
    )


def _all_small() -> list[RunOptions]:
    return [
        asked(
            model={"source": "/bert", "method": "qlora"},
            device={"precision": "bf16"},
            memory={"batch_size": 1, "gradient_accumulation_steps": 16, "activation_checkpointing": again},
            training={"optimizer": optimizer},
        )
        for again in (False, True)
        for optimizer in ("adamw", "adamw-8bit", "adafactor")
    ]


def test_a_run_that_fails_for_another_reason_is_given_up():
    class Failing(FakeDryRun):
        def run(self) -> Measurement:
            raise UserError("The file is gone")

    found = Fitting(
        asked(), MODEL, DEVICE, Room(free=64 << 30, ceiling=64 << 30), lambda *_: Failing(0, None)
    )
    tries = list(found.tries())
    assert len(tries) == 3
    assert {done.verdict for done in tries} == {Verdict.UNKNOWN}
    assert "The file is gone" in tries[0].problem
    assert "The file is gone" in found.reason
    assert found.result is None


def test_of_an_unknown_model_nothing_is_tried():
    runs = FakeDryRuns(as_forecast)
    found = Fitting(asked(), ModelReport(), DEVICE, None, runs)
    assert list(found.tries()) == []
    assert runs.asked == []
    assert "can't be inspected" in found.reason


class Waiting(FakeDryRun):
    """Runs until it is ended."""

    def __init__(self) -> None:
        super().__init__(0, None)
        self.begun, self.killed = threading.Event(), threading.Event()

    def run(self) -> Measurement:
        self.begun.set()
        assert self.killed.wait(10), "nobody ended it"
        raise JobCancelled("measure")

    def kill(self) -> None:
        self.killed.set()


def test_stopping_ends_the_try_that_runs():
    waiting = Waiting()
    found = Fitting(asked(), MODEL, DEVICE, None, lambda *_: waiting)
    told: list[Try] = []
    thread = threading.Thread(target=lambda: told.extend(found.tries()))
    thread.start()
    assert waiting.begun.wait(10)
    found.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert (told, found.result, found.reason) == ([], None, "It was stopped.")
    assert list(found.tries()) == [], "once stopped it tries nothing"


def test_measure_all_runs_each_remedy_alone():
    room = Room(free=3 << 30, ceiling=6 << 30)
    remedies = ladder(asked(), MODEL, DEVICE, room)
    runs = FakeDryRuns(as_forecast)
    now = forecast(asked(), BERT, DEVICE)
    tries = list(MeasuringEach(asked(), remedies, DEVICE, room, runs, as_asked=now).tries())
    assert [done.title for done in tries[1:]] == [remedy.title for remedy in remedies if remedy.changes]
    assert (tries[0].title, tries[0].changes) == ("As requested", {}), "what all of them are held against"
    assert len(runs.asked) == len(tries)
    assert {done.verdict for done in tries} >= {Verdict.TOO_LARGE}
