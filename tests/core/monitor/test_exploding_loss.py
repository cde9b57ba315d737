import random

import pytest
from msgspec.structs import replace

from core.monitor.recent import STOP, LossCurve, Low
from core.options.choices import Task
from core.options.sections import TrainingOptions
from core.runs.events import Level
from tests.fakes.told_run import OPTIONS, ToldRun, watch

KEEPS_TWO = replace(OPTIONS, output=replace(OPTIONS.output, keep_checkpoints=2))


def learned(steps: int = 200) -> ToldRun:
    """Fallen from 2.3 to about 0.5."""
    run = ToldRun(steps=1000)
    for step in range(steps):
        run.a_step(0.3, loss=2.3 - 1.8 * step / steps + 0.05 * run.chance.gauss(0, 1))
    return run


def go_on(run: ToldRun, steps: int, loss: float, noise: float = 0.0) -> None:
    for _ in range(steps):
        run.a_step(0.3, loss=loss + noise * run.chance.gauss(0, 1))


def test_a_loss_back_where_it_began_is_a_warning_that_names_the_low_and_what_is_kept() -> None:
    run = learned()
    run.save()
    go_on(run, 40, loss=2.4, noise=0.1)
    message = watch(run.events).one
    assert (message.id, message.level, message.title) == (
        "exploding-loss",
        Level.WARNING,
        "The loss has shot up",
    )
    assert "It was down to 0.5" in message.detail
    assert "each of the last 20 steps was above 2." in message.detail
    assert "The last checkpoint of before it is checkpoints/checkpoint-200, of step 200." in message.detail
    assert message.fixes[0] == STOP
    assert [fix.changes for fix in message.fixes[1:]] == [
        {"training.learning_rate": 0.00033},
        {"training.warmup": 0.1},
    ]


def test_far_enough_up_five_steps_will_do() -> None:
    run = learned()
    go_on(run, 4, loss=80.0)
    assert watch(run.events).messages == []
    go_on(run, 1, loss=80.0)
    run.wait(2.0)
    assert "each of the last 5 steps was above 80" in watch(run.events).one.detail


AT_ONCE = [0.694, 22.7, 93.9, 64.8, 20.5, 29.2, 108.8, 77.7, 63.0, 9.38, 34.1, 22.9, 9.07, 23.5, 23.1, 42.0]
"""The first losses of a small Bert with two labels, by AdamW at a rate of 10."""


@pytest.mark.parametrize("losses", [AT_ONCE, [0.7, 155.0, *[155.0 + 20 * step for step in range(39)]]])
def test_a_loss_that_explodes_before_it_was_low_for_ten_steps_is_told(losses: list[float]) -> None:
    run = ToldRun(steps=400)
    for loss in losses:
        run.a_step(0.3, loss=loss)
    run.wait(2.0)
    message = watch(run.events).one
    assert message.id == "exploding-loss"
    assert f"{losses[0]:.3g} at step 1," in message.detail
    go_on(run, 30, loss=0.6)
    assert watch(run.events).withdrawn == ["exploding-loss"]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("batch", [1, 8])
def test_squared_errors_of_few_samples_differ_as_much_from_the_first(batch: int, seed: int) -> None:
    chance = random.Random(seed)
    run = ToldRun(steps=400)
    for step in range(60):
        squares = [chance.gauss(0, 100) ** 2 for _ in range(batch)]
        run.a_step(0.3, loss=1.0 if step == 0 and batch == 1 else sum(squares) / batch)
    options = replace(OPTIONS, task=Task.TEXT_REGRESSION, memory=replace(OPTIONS.memory, batch_size=batch))
    assert watch(run.events, options=options).messages == []


def test_a_checkpoint_saved_while_it_was_up_is_none_of_before() -> None:
    run = learned()
    go_on(run, 15, loss=3.0)
    run.save()
    go_on(run, 10, loss=3.0)
    assert "There is no checkpoint of before it." in watch(run.events).one.detail


def test_a_checkpoint_of_before_is_one_whose_loss_was_low_however_long_ago_it_rose() -> None:
    run = learned()
    run.save()
    for _ in range(3):  # up, and never twenty steps in a row
        go_on(run, 19, loss=9.0)
        go_on(run, 1, loss=0.6)
    go_on(run, 10, loss=9.0)
    run.save()
    go_on(run, 12, loss=9.0)
    [message] = watch(run.events, options=KEEPS_TWO).raised
    assert "The last checkpoint of before it is checkpoints/checkpoint-200, of step 200." in message.detail


def test_without_clipping_that_is_the_remedy() -> None:
    run = learned()
    go_on(run, 25, loss=3.0)
    options = replace(OPTIONS, training=TrainingOptions(learning_rate=1e-3, max_grad_norm=0.0))
    assert watch(run.events, options=options).one.fixes[-1].changes == {"training.max_grad_norm": 1.0}


@pytest.mark.parametrize("hard", [1, 10, 19])
def test_some_hard_batches_are_no_explosion(hard: int) -> None:
    run = learned()
    go_on(run, hard, loss=4.0)
    go_on(run, 50, loss=0.5, noise=0.05)
    assert watch(run.events).messages == []


def test_batches_that_differ_widely_are_none_either() -> None:
    run = ToldRun(steps=5000)
    for _ in range(3000):
        run.a_step(0.05, loss=max(0.05, 1.5 + 0.8 * run.chance.gauss(0, 1)))
    assert [message for message in watch(run.events).raised if message.id == "exploding-loss"] == []


def test_a_tiny_loss_has_to_rise_by_more_than_three_times() -> None:
    run = ToldRun(steps=1000)
    go_on(run, 100, loss=0.01)
    go_on(run, 60, loss=0.3)
    assert watch(run.events).messages == []


def test_it_is_withdrawn_when_the_loss_comes_down_again() -> None:
    run = learned()
    go_on(run, 30, loss=3.0)
    go_on(run, 60, loss=0.6)
    seen = watch(run.events)
    assert (seen.one.id, seen.withdrawn) == ("exploding-loss", ["exploding-loss"])


def test_a_loss_that_is_no_number_is_told_instead() -> None:
    run = learned()
    go_on(run, 25, loss=3.0)
    run.a_step(0.3, loss=float("nan"))
    run.wait(2.0)
    seen = watch(run.events)
    assert [message.id for message in seen.raised] == ["exploding-loss", "lost-loss"]
    assert seen.withdrawn == ["exploding-loss"]


def test_the_lowest_average_is_that_of_enough_steps_however_many_were_joined() -> None:
    curve = LossCurve()
    assert curve.lowest(10) is None
    for step in range(1, 1001):
        curve.add(step, 0.2 if 493 <= step <= 512 else 0.0 if step == 700 else 1.0)
    found = curve.lowest(10)
    assert found is not None
    assert found == Low(pytest.approx(0.2), found.step)
    assert 493 <= found.step <= 512
