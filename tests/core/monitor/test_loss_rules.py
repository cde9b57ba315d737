"""Warnings about the loss, over made-up runs that a watchdog sees second by second."""

import math
import random
from itertools import pairwise

import pytest
from msgspec.structs import replace

from core.base.errors import Fix
from core.monitor.recent import END, MOST_BLOCKS, REVEAL, STOP, LossCurve, Low
from core.options import RunOptions
from core.options.choices import Task
from core.options.sections import OutputOptions, TrainingOptions
from core.runs.events import Level, MessageRaised, Outcome
from tests.fakes.watched_runs import OPTIONS, MadeUpRun, watch

SLOWER = Fix("Lower the learning rate to 0.0002", {"training.learning_rate": 2e-4})
KEEPS_THREE = replace(OPTIONS, output=OutputOptions(keep_checkpoints=3))


def trained_with(**training: float) -> RunOptions:
    return replace(OPTIONS, training=TrainingOptions(**{"learning_rate": 1e-3, **training}))


def run_of(*parts, steps: int = 1000, from_step: int = 0) -> MadeUpRun:
    return extended(MadeUpRun(steps=steps, from_step=from_step), *parts)


def extended(run: MadeUpRun, *parts) -> MadeUpRun:
    """The run with more of it: a list of losses, (steps, loss, noise), an evaluation's loss, or SAVE."""
    for part in parts:
        match part:
            case "save":
                run.save()
            case float():
                run.evaluate(part)
            case list():
                for loss in part:
                    run.a_step(0.3, loss=loss)
            case (steps, loss, noise):
                for _ in range(steps):
                    run.a_step(0.3, loss=loss + noise * run.chance.gauss(0, 1))
    run.wait(2.0)
    return run


def falling(begin: float, end: float, steps: int) -> list[float]:
    return [begin + (end - begin) * step / steps for step in range(steps)]


SAVE = "save"
NAN = [math.nan]


# --- Not a number


BEFORE = [(40, 2.0, 0.1), SAVE, (2, 2.0, 0.1)]
LOST = [*BEFORE, NAN]


@pytest.mark.parametrize(
    ("loss", "words"), [(math.nan, "not a number (NaN)"), (math.inf, "infinite"), (-math.inf, "infinite")]
)
def test_a_loss_that_is_not_finite(loss, words):
    message = watch(run_of(*BEFORE, [loss])).one
    assert (message.id, message.level) == ("lost-loss", Level.WARNING)
    assert message.title == f"The loss of step 43 is {words}"
    assert message.fixes == (END, REVEAL, SLOWER, Fix("Compute in fp32", {"device.precision": "fp32"}))


@pytest.mark.parametrize(
    ("options", "parts", "words", "fixes"),
    [
        (OPTIONS, [(40, 2.0, 0.1), NAN], "There is no checkpoint yet.", [STOP]),
        (
            OPTIONS,
            LOST,
            "(step 40). The next one replaces it, also the one that a stop saves: copy",
            [END, REVEAL],
        ),
        (OPTIONS, [*LOST, SAVE], "No checkpoint from before it is left.", [STOP, SLOWER]),
        (KEEPS_THREE, LOST, "checkpoints/checkpoint-40 (step 40).", [STOP, REVEAL]),
        (KEEPS_THREE, [*LOST, *[SAVE, NAN] * 2], "(step 40). The next one", [END, REVEAL]),
        (KEEPS_THREE, [*LOST, *[SAVE, NAN] * 3], "No checkpoint from before", [STOP, SLOWER]),
    ],
)
def test_the_last_good_checkpoint_is_named_and_how_to_keep_it(options, parts, words, fixes):
    message = watch(run_of(*parts), options=options).raised[-1]
    assert words in message.detail
    assert list(message.fixes[: len(fixes)]) == fixes


def test_after_50_finite_losses_it_is_over_and_checkpoints_are_good_again():
    run = run_of(*LOST, (20, 2.0, 0.1), NAN, (49, 2.0, 0.1), SAVE)
    assert watch(run).withdrawn == []
    extended(run, (1, 2.0, 0.1), SAVE)
    assert watch(run).withdrawn == ["lost-loss"]
    extended(run, NAN)
    again = watch(run).raised[-1]
    assert "step 115 " in again.title
    assert "(step 114)." in again.detail


@pytest.mark.parametrize("is_raised", [True, False])
def test_the_engines_own_message_takes_its_place(is_raised):
    run = run_of(*LOST) if is_raised else MadeUpRun(steps=600)
    if not is_raised:
        run.a_step(0.05, loss=math.nan)
    run.add(MessageRaised(id="failed", level=Level.ERROR, title="The loss is no longer a number"))
    run.finish(Outcome.FAILED)
    assert len(watch(run).raised) == len(watch(run).withdrawn) == is_raised


# --- Flat loss

FALLEN = [falling(2.3, 1.0, 100)]


def flat(steps: int, noise: float = 0.05) -> MadeUpRun:
    return run_of((steps, 2.303, noise))


def test_a_loss_that_never_fell_is_a_warning_with_both_remedies():
    run = flat(500)
    message = watch(run).one
    assert (message.id, message.level) == ("standing-loss", Level.WARNING)
    assert "2.3 after 201 steps" in message.detail
    assert [fix.changes["training.learning_rate"] for fix in message.fixes] == [2e-4, 3e-3]
    low_rate = watch(run, options=trained_with(learning_rate=5e-5)).one
    assert [fix.changes["training.learning_rate"] for fix in low_rate.fixes] == [1e-3, 5e-6]
    extended(run, falling(2.3, 0.8, 500))
    assert watch(run).withdrawn == ["standing-loss"]


@pytest.mark.parametrize("warmup", [400.0, 0.4])
def test_steps_of_the_warm_up_do_not_count(warmup):
    options = trained_with(warmup=warmup)
    assert watch(flat(500), options=options).messages == []
    assert watch(flat(700), options=options).one.id == "standing-loss"


def flat_after(*evaluations: float) -> list:
    """Fallen, then flat, with these evaluations."""
    return [*FALLEN, 0.9, *[part for loss in evaluations for part in ((250, 1.0, 0.05), loss)]]


def test_a_loss_that_has_stopped_falling_with_no_better_evaluations_is_a_note():
    message = watch(run_of(*flat_after(0.9, 0.9, 0.9, 0.9), steps=2000)).one
    assert (message.level, message.fixes) == (Level.INFO, (STOP,))
    assert "since step 100" in message.detail


@pytest.mark.parametrize(
    ("parts", "planned"),
    [
        pytest.param([(150, 2.3, 0.05)], {}, id="few steps"),
        pytest.param([(500, 2.3, 1.2)], {}, id="noise"),
        pytest.param(flat_after(0.85, 0.8, 0.75, 0.7), {"steps": 2000}, id="better evaluations"),
        pytest.param([*FALLEN, (1000, 1.0, 0.05)], {"steps": 2000}, id="no evaluations"),
        pytest.param([(5, 2.3, 0.0), *[(200, 0.4, 0.02), 0.4] * 6], {"steps": 2000}, id="small"),
        pytest.param([*FALLEN, *[(250, 1.0, 0.02), 0.9] * 3], {"steps": 1000}, id="near its end"),
        pytest.param([(500, 1.0, 0.05)], {"steps": 2000, "from_step": 900}, id="resumed"),
    ],
)
def test_other_losses_may_be_flat(parts, planned):
    assert watch(run_of(*parts, **planned)).messages == []


# --- Exploding loss

AT_ONCE = [0.694, 22.7, 93.9, 64.8, 20.5, 29.2, 108.8, 77.7, 63.0, 9.38, 34.1, 22.9, 9.07, 23.5, 23.1, 42.0]
"""The first losses of a small Bert with two labels, by AdamW at a rate of 10."""

LEARNED = falling(2.3, 0.5, 200)


def test_a_loss_back_where_it_began_names_the_low_and_the_last_checkpoint_before():
    run = run_of(LEARNED, SAVE, (40, 2.4, 0.1))
    message = watch(run).one
    assert (message.id, message.level) == ("exploding-loss", Level.WARNING)
    for words in ("down to 0.5", "each of the last 20 steps was above 2.", "checkpoint-200, of step 200."):
        assert words in message.detail
    slower = {"training.learning_rate": 0.00033}
    assert [fix.changes for fix in message.fixes] == [{}, slower, {"training.warmup": 0.1}]
    unclipped = watch(run, options=trained_with(max_grad_norm=0.0)).one
    assert unclipped.fixes[-1].changes == {"training.max_grad_norm": 1.0}
    assert watch(extended(run, (60, 0.6, 0.0))).withdrawn == ["exploding-loss"]


@pytest.mark.parametrize(
    ("risen", "words"),
    [
        ([(19, 4.0, 0.0), (50, 0.5, 0.05)], None),
        ([(4, 80.0, 0.0)], None),
        ([(5, 80.0, 0.0)], "each of the last 5 steps was above 80"),
        ([(15, 3.0, 0.0), SAVE, (10, 3.0, 0.0)], "No checkpoint is from before it."),
        (
            [SAVE, *[(19, 9.0, 0.0), [0.6]] * 3, (10, 9.0, 0.0), SAVE, (12, 9.0, 0.0)],
            "checkpoints/checkpoint-200, of",  # not the one saved while it was up
        ),
    ],
)
def test_how_long_it_has_to_be_up_and_which_checkpoint_is_from_before(risen, words):
    raised = watch(run_of(LEARNED, *risen), options=KEEPS_THREE).raised
    assert [words in message.detail for message in raised] == ([True] if words else [])


@pytest.mark.parametrize("losses", [AT_ONCE, [0.7, 155.0, *falling(155.0, 925.0, 39)]])
def test_a_loss_that_explodes_before_it_was_low_for_ten_steps(losses):
    run = run_of(losses)
    message = watch(run).one
    assert message.id == "exploding-loss"
    assert f"{losses[0]:.3g} at step 1," in message.detail
    assert watch(extended(run, (30, 0.6, 0.0))).withdrawn == ["exploding-loss"]


def test_ordinary_noise_is_no_explosion():
    chance = random.Random(5)
    noisy = [max(0.05, chance.gauss(1.5, 0.8)) for _ in range(3000)]
    for run in (run_of(noisy, steps=5000), run_of((100, 0.01, 0.0), (60, 0.3, 0.0))):
        assert "exploding-loss" not in {message.id for message in watch(run).raised}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("batch", [1, 8])
def test_squared_errors_of_few_samples_are_no_explosion(batch, seed):
    chance = random.Random(seed)
    losses = [sum(chance.gauss(0, 100) ** 2 for _ in range(batch)) / batch for _ in range(60)]
    options = replace(OPTIONS, task=Task.TEXT_REGRESSION, memory=replace(OPTIONS.memory, batch_size=batch))
    assert watch(run_of([1.0 if batch == 1 else losses[0], *losses[1:]]), options=options).messages == []


def test_a_loss_that_is_not_finite_is_reported_instead():
    watched = watch(run_of(LEARNED, (25, 3.0, 0.0), NAN))
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
    assert curve.lowest(10) == Low(256.5, 512)
