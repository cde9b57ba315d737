import pytest
from msgspec.structs import replace

from core.monitor.recent import STOP
from core.options.sections import TrainingOptions
from core.runs.events import Level
from tests.fakes.told_run import OPTIONS, ToldRun, watch


def flat(run: ToldRun, steps: int, loss: float, noise: float) -> None:
    for _ in range(steps):
        run.a_step(0.3, loss=loss + noise * run.chance.gauss(0, 1))


def unlearning(noise: float = 0.05, steps: int = 500) -> ToldRun:
    run = ToldRun(steps=1000)
    flat(run, steps, 2.303, noise)
    return run


def stalled(evaluations: tuple[float, ...] = (0.9, 0.9, 0.9, 0.9)) -> ToldRun:
    """Fallen to 1.0 in its first steps, and there it stays."""
    run = ToldRun(steps=2000)
    for step in range(100):
        run.a_step(0.3, loss=2.3 - 0.013 * step)
    run.evaluate(0.9)
    for loss in evaluations:
        flat(run, 250, 1.0, 0.05)
        run.evaluate(loss)
    return run


def test_a_loss_that_never_fell_is_a_warning_with_both_ways_out() -> None:
    message = watch(unlearning().events).one
    assert (message.id, message.level) == ("standing-loss", Level.WARNING)
    assert "and is at 2.3 after 201 steps" in message.detail
    assert [fix.changes for fix in message.fixes] == [
        {"training.learning_rate": 1e-4},
        {"training.learning_rate": 3e-3},
    ]


def test_a_small_learning_rate_is_first_to_be_raised() -> None:
    options = replace(OPTIONS, training=TrainingOptions(learning_rate=5e-5))
    labels = [fix.label for fix in watch(unlearning().events, options=options).one.fixes]
    assert labels == ["Raise the learning rate to 0.00015", "Lower the learning rate to 5e-06"]


@pytest.mark.parametrize("warmup", [400.0, 0.4])
def test_steps_of_the_warm_up_do_not_count(warmup: float) -> None:
    options = replace(OPTIONS, training=TrainingOptions(learning_rate=1e-3, warmup=warmup))
    assert watch(unlearning().events, options=options).messages == []
    assert watch(unlearning(steps=700).events, options=options).one.id == "standing-loss"


def test_a_short_run_hears_nothing() -> None:
    assert watch(unlearning(steps=150).events).messages == []


def test_noise_that_may_hide_a_fall_is_no_standstill() -> None:
    assert watch(unlearning(noise=1.2).events).messages == []


def test_it_is_withdrawn_when_the_loss_begins_to_fall() -> None:
    run = unlearning()
    for step in range(500):
        run.a_step(0.3, loss=2.3 - 0.003 * step)
    assert watch(run.events).withdrawn == ["standing-loss"]


def test_a_loss_that_has_stopped_falling_with_no_better_evaluations_is_a_note() -> None:
    message = watch(stalled().events).one
    assert (message.level, message.title) == (Level.INFO, "The loss has stopped falling")
    assert "evaluations have been no better since step 100" in message.detail
    assert message.fixes == (STOP,)


def test_while_evaluations_get_better_nothing_is_said() -> None:
    assert watch(stalled((0.85, 0.8, 0.75, 0.7)).events).messages == []


def test_without_evaluations_a_loss_that_once_fell_may_stand() -> None:
    run = ToldRun(steps=2000)
    for step in range(100):
        run.a_step(0.3, loss=2.3 - 0.013 * step)
    flat(run, 1000, 1.0, 0.05)
    assert watch(run.events).messages == []


def test_a_small_loss_may_stand() -> None:
    run = ToldRun(steps=2000)
    run.steps(5, 0.3, loss=2.3)
    for _ in range(6):
        flat(run, 200, 0.4, 0.02)
        run.evaluate(0.4)
    assert watch(run.events).messages == []


def test_near_its_end_a_run_may_stand() -> None:
    run = ToldRun(steps=1200)
    for step in range(100):
        run.a_step(0.3, loss=2.3 - 0.013 * step)
    for loss in (0.9, 0.8, 0.7):
        run.evaluate(loss)
        for step in range(300):
            run.a_step(0.3, loss=loss + 0.1 - step / 3000)
    run.evaluate(0.7)
    flat(run, 190, 0.7, 0.01)
    run.evaluate(0.7)
    assert watch(run.events).messages == []


def test_a_resumed_run_has_fallen_before() -> None:
    run = ToldRun(steps=2000, from_step=900)
    flat(run, 500, 1.0, 0.05)
    assert watch(run.events).messages == []
