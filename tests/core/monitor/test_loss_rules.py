"""Warnings about the loss, over made-up runs that a watchdog sees second by second."""

import math
import random
from itertools import pairwise

import pytest
from msgspec.structs import replace

from core.base.errors import Fix
from core.monitor.recent import END, MOST_BLOCKS, REVEAL, STOP, Block, LossCurve, Low, trend
from core.options import RunOptions
from core.options.choices import Task
from core.options.sections import OutputOptions, TrainingOptions
from core.runs.events import Level, MessageRaised, Outcome
from tests.fakes.watched_runs import OPTIONS, ToldRun, watch

SLOWER = Fix("Lower the learning rate to 0.0001", {"training.learning_rate": 1e-4})
KEEPS_THREE = replace(OPTIONS, output=OutputOptions(keep_checkpoints=3))


def trained_with(**training: float) -> RunOptions:
    return replace(OPTIONS, training=TrainingOptions(**{"learning_rate": 1e-3, **training}))


def go_on(run: ToldRun, steps: int, loss: float, noise: float = 0.0) -> None:
    for _ in range(steps):
        run.a_step(0.3, loss=loss + noise * run.chance.gauss(0, 1))


# --- Not a number


def losing(loss: float = math.nan, *, save: bool = True) -> ToldRun:
    run = ToldRun(steps=600)
    run.steps(40, 0.5)
    if save:
        run.save()
    run.steps(2, 0.5)
    lose(run, loss)
    return run


def lose(run: ToldRun, loss: float = math.nan, *, save: bool = False) -> None:
    run.a_step(0.5, loss=loss)
    if save:
        run.save()
    run.wait(2.0)


@pytest.mark.parametrize(
    ("loss", "words"), [(math.nan, "not a number (NaN)"), (math.inf, "infinite"), (-math.inf, "infinite")]
)
def test_the_first_loss_that_is_not_finite(loss, words):
    message = watch(losing(loss).events).one
    assert (message.id, message.level) == ("lost-loss", Level.WARNING)
    assert message.title == f"The loss of step 43 is {words}"
    assert message.fixes == (END, REVEAL, SLOWER, Fix("Compute in fp32", {"device.precision": "fp32"}))


def test_the_last_good_checkpoint_is_named_while_it_is_there():
    run = losing()
    message = watch(run.events).one
    assert "checkpoints/checkpoint-40 (step 40)" in message.detail
    assert "copy it first" in message.detail
    run.save()
    run.wait(2.0)
    _, later = watch(run.events).raised
    assert "checkpoint-40" not in later.detail, "the one saved since has taken its place"
    assert later.fixes[:2] == (STOP, SLOWER)
    assert watch(losing(save=False).events).one.fixes[0] == STOP


def test_where_several_are_kept_a_good_checkpoint_stays_until_it_is_the_oldest():
    run = losing()
    message = watch(run.events, options=KEEPS_THREE).one
    assert "copy it" not in message.detail
    assert message.fixes[:2] == (STOP, REVEAL)
    lose(run, save=True)
    lose(run, save=True)
    assert "copy it first" in watch(run.events, options=KEEPS_THREE).raised[-1].detail
    lose(run, save=True)
    assert "checkpoint-40" not in watch(run.events, options=KEEPS_THREE).raised[-1].detail


@pytest.mark.parametrize(("finite", "good"), [(49, False), (50, True)])
def test_after_many_finite_losses_checkpoints_are_good_again(finite, good):
    run = losing()
    run.steps(finite, 0.5)
    run.save()
    lose(run)
    step = 43 + finite
    assert (f"(step {step})." in watch(run.events).raised[-1].detail) == good


def test_after_many_finite_losses_it_is_past_and_the_next_is_a_new_one():
    run = losing()
    run.steps(20, 0.5)
    run.a_step(0.5, loss=math.nan)
    run.steps(45, 0.5)
    assert (len(watch(run.events).raised), watch(run.events).withdrawn) == (1, [])
    run.steps(10, 0.5)
    assert watch(run.events).withdrawn == ["lost-loss"]
    lose(run)
    assert [message.title[17:20] for message in watch(run.events).raised] == ["43 ", "120"]


@pytest.mark.parametrize("seen", [True, False])
def test_the_engines_own_message_takes_its_place(seen):
    run = losing() if seen else ToldRun(steps=600)
    if not seen:
        run.a_step(0.05, loss=math.nan)
    run.tell(MessageRaised(id="failed", level=Level.ERROR, title="The loss is no longer a number"))
    run.finish(Outcome.FAILED)
    watched = watch(run.events)
    assert len(watched.raised) == len(watched.withdrawn) == seen


# --- Flat loss


def flat(noise: float = 0.05, steps: int = 500) -> ToldRun:
    run = ToldRun(steps=1000)
    go_on(run, steps, 2.303, noise)
    return run


def fallen(steps: int = 2000, **begin: int) -> ToldRun:
    run = ToldRun(steps=steps, **begin)
    for step in range(100):
        run.a_step(0.3, loss=2.3 - 0.013 * step)
    return run


def stalled(*evaluations: float) -> ToldRun:
    """Fallen to 1.0 in its first steps, and there it stays."""
    run = fallen()
    run.evaluate(0.9)
    for loss in evaluations:
        go_on(run, 250, 1.0, 0.05)
        run.evaluate(loss)
    return run


def test_a_loss_that_never_fell_is_a_warning_with_both_remedies():
    run = flat()
    message = watch(run.events).one
    assert (message.id, message.level) == ("standing-loss", Level.WARNING)
    assert "2.3 after 201 steps" in message.detail
    rates = [fix.changes["training.learning_rate"] for fix in message.fixes]
    assert rates == [1e-4, 3e-3]
    small = watch(run.events, options=trained_with(learning_rate=5e-5)).one
    assert [fix.changes["training.learning_rate"] for fix in small.fixes] == [1.5e-4, 5e-6]
    for step in range(500):
        run.a_step(0.3, loss=2.3 - 0.003 * step)
    assert watch(run.events).withdrawn == ["standing-loss"]


@pytest.mark.parametrize("warmup", [400.0, 0.4])
def test_steps_of_the_warm_up_do_not_count(warmup):
    options = trained_with(warmup=warmup)
    assert watch(flat().events, options=options).messages == []
    assert watch(flat(steps=700).events, options=options).one.id == "standing-loss"


def test_a_loss_that_has_stopped_falling_with_no_better_evaluations_is_a_note():
    message = watch(stalled(0.9, 0.9, 0.9, 0.9).events).one
    assert (message.level, message.title) == (Level.INFO, "The loss has stopped falling")
    assert "since step 100" in message.detail
    assert message.fixes == (STOP,)


def without_evaluations() -> ToldRun:
    run = fallen()
    go_on(run, 1000, 1.0, 0.05)
    return run


def small() -> ToldRun:
    run = ToldRun(steps=2000)
    run.steps(5, 0.3, loss=2.3)
    for _ in range(6):
        go_on(run, 200, 0.4, 0.02)
        run.evaluate(0.4)
    return run


def near_its_end() -> ToldRun:
    run = fallen(1200)
    for loss in (0.9, 0.8, 0.7):
        run.evaluate(loss)
        for step in range(300):
            run.a_step(0.3, loss=loss + 0.1 - step / 3000)
    run.evaluate(0.7)
    go_on(run, 190, 0.7, 0.01)
    run.evaluate(0.7)
    return run


def resumed() -> ToldRun:
    run = ToldRun(steps=2000, from_step=900)
    go_on(run, 500, 1.0, 0.05)
    return run


@pytest.mark.parametrize(
    "made",
    [
        lambda: flat(steps=150),
        lambda: flat(noise=1.2),
        lambda: stalled(0.85, 0.8, 0.75, 0.7),
        without_evaluations,
        small,
        near_its_end,
        resumed,
    ],
    ids=["short", "noisy", "better evaluations", "no evaluations", "small", "near its end", "resumed"],
)
def test_other_losses_may_be_flat(made):
    assert watch(made().events).messages == []


# --- Exploding loss

AT_ONCE = [0.694, 22.7, 93.9, 64.8, 20.5, 29.2, 108.8, 77.7, 63.0, 9.38, 34.1, 22.9, 9.07, 23.5, 23.1, 42.0]
"""The first losses of a small Bert with two labels, by AdamW at a rate of 10."""


def learned(steps: int = 200) -> ToldRun:
    """Fallen from 2.3 to about 0.5."""
    run = ToldRun(steps=1000)
    for step in range(steps):
        run.a_step(0.3, loss=2.3 - 1.8 * step / steps + 0.05 * run.chance.gauss(0, 1))
    return run


def test_a_loss_back_where_it_began_names_the_low_and_the_last_checkpoint_before():
    run = learned()
    run.save()
    go_on(run, 40, loss=2.4, noise=0.1)
    message = watch(run.events).one
    assert (message.id, message.level) == ("exploding-loss", Level.WARNING)
    assert "It was down to 0.5" in message.detail
    assert "each of the last 20 steps was above 2." in message.detail
    assert "checkpoints/checkpoint-200, of step 200." in message.detail
    assert message.fixes[0] == STOP
    assert [fix.changes for fix in message.fixes[1:]] == [
        {"training.learning_rate": 0.00033},
        {"training.warmup": 0.1},
    ]
    unclipped = watch(run.events, options=trained_with(max_grad_norm=0.0)).one
    assert unclipped.fixes[-1].changes == {"training.max_grad_norm": 1.0}
    go_on(run, 60, loss=0.6)
    assert watch(run.events).withdrawn == ["exploding-loss"]


def test_far_enough_up_five_steps_will_do():
    run = learned()
    go_on(run, 4, loss=80.0)
    assert watch(run.events).messages == []
    go_on(run, 1, loss=80.0)
    run.wait(2.0)
    assert "each of the last 5 steps was above 80" in watch(run.events).one.detail


@pytest.mark.parametrize("losses", [AT_ONCE, [0.7, 155.0, *[155.0 + 20 * step for step in range(39)]]])
def test_a_loss_that_explodes_before_it_was_low_for_ten_steps(losses):
    run = ToldRun(steps=400)
    for loss in losses:
        run.a_step(0.3, loss=loss)
    run.wait(2.0)
    message = watch(run.events).one
    assert message.id == "exploding-loss"
    assert f"{losses[0]:.3g} at step 1," in message.detail
    go_on(run, 30, loss=0.6)
    assert watch(run.events).withdrawn == ["exploding-loss"]


def test_checkpoints_saved_while_it_was_up_are_not_offered():
    run = learned()
    go_on(run, 15, loss=3.0)
    run.save()
    go_on(run, 10, loss=3.0)
    assert "No checkpoint is from before it." in watch(run.events).one.detail
    run = learned()
    run.save()
    for _ in range(3):  # up, and never twenty steps in a row
        go_on(run, 19, loss=9.0)
        go_on(run, 1, loss=0.6)
    go_on(run, 10, loss=9.0)
    run.save()
    go_on(run, 12, loss=9.0)
    assert "checkpoints/checkpoint-200, of" in watch(run.events, options=KEEPS_THREE).one.detail


def hard_batches(count: int) -> ToldRun:
    run = learned()
    go_on(run, count, loss=4.0)
    go_on(run, 50, loss=0.5, noise=0.05)
    return run


def batches_that_differ() -> ToldRun:
    run = ToldRun(steps=5000)
    for _ in range(3000):
        run.a_step(0.05, loss=max(0.05, 1.5 + 0.8 * run.chance.gauss(0, 1)))
    return run


def tiny() -> ToldRun:
    run = ToldRun(steps=1000)
    go_on(run, 100, loss=0.01)
    go_on(run, 60, loss=0.3)
    return run


@pytest.mark.parametrize(
    "made", [lambda: hard_batches(1), lambda: hard_batches(19), batches_that_differ, tiny]
)
def test_ordinary_noise_is_no_explosion(made):
    assert "exploding-loss" not in {message.id for message in watch(made().events).raised}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("batch", [1, 8])
def test_squared_errors_of_few_samples_differ_as_much_from_the_first(batch, seed):
    chance = random.Random(seed)
    run = ToldRun(steps=400)
    for step in range(60):
        squares = [chance.gauss(0, 100) ** 2 for _ in range(batch)]
        run.a_step(0.3, loss=1.0 if step == 0 and batch == 1 else sum(squares) / batch)
    options = replace(OPTIONS, task=Task.TEXT_REGRESSION, memory=replace(OPTIONS.memory, batch_size=batch))
    assert watch(run.events, options=options).messages == []


def test_a_loss_that_is_not_finite_is_reported_instead():
    run = learned()
    go_on(run, 25, loss=3.0)
    lose(run)
    watched = watch(run.events)
    assert [message.id for message in watched.raised] == ["exploding-loss", "lost-loss"]
    assert watched.withdrawn == ["exploding-loss"]


# --- Loss curve


def test_many_losses_take_little_memory_and_none_is_lost():
    curve = LossCurve()
    for step in range(1, 100_001):
        curve.add(step, float(step))
    blocks = curve.since(0)
    assert len(blocks) <= MOST_BLOCKS
    assert (curve.last, blocks[0].first, curve.start) == (100_000, 1, 3.0)
    assert all(one.last + 1 == other.first for one, other in pairwise(blocks))
    assert all(block.mean == (block.first + block.last) / 2 for block in blocks)
    assert {block.count for block in blocks} == {512}
    assert curve.since(1000)[0].first == 1025


def test_the_lowest_average_is_that_of_enough_steps():
    curve = LossCurve()
    assert curve.lowest(10) is None
    for step in range(1, 1001):
        curve.add(step, 0.2 if 493 <= step <= 512 else 0.0 if step == 700 else 1.0)
    found = curve.lowest(10)
    assert found == Low(pytest.approx(0.2), found.step)
    assert 493 <= found.step <= 512


@pytest.mark.parametrize(
    ("change", "noise", "least", "most"),
    [(-0.5, 0.0, 0.5 / 1.75, 0.5 / 1.75), (-0.05, 0.3, 0.0, pytest.approx(0.09, abs=0.05))],
)
def test_noise_makes_a_trend_uncertain(change, noise, least, most):
    chance = random.Random(3)
    losses = (2.0 + change * step / 100 + noise * chance.gauss(0, 1) for step in range(101))
    found = trend([Block(step, step, 1, loss) for step, loss in enumerate(losses)])
    assert (found.least, found.most) == (pytest.approx(least), most if noise else pytest.approx(most))
