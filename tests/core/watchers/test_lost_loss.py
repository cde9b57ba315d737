import math

import pytest
from msgspec.structs import replace

from core.errors import Fix
from core.events import Level, MessageRaised, Outcome
from core.options import OutputOptions
from tests.fakes.told_run import OPTIONS, ToldRun, watch

SLOWER = Fix("Lower the learning rate to 0.0001", {"training.learning_rate": 1e-4})


def losing(loss: float = math.nan, *, save: bool = True) -> ToldRun:
    run = ToldRun(steps=600)
    run.steps(40, 0.5)
    if save:
        run.save()
    run.steps(2, 0.5)
    run.a_step(4.0, loss=loss)
    run.wait(2.0)
    return run


@pytest.mark.parametrize(
    ("loss", "words"), [(math.nan, "not a number (NaN)"), (math.inf, "infinite"), (-math.inf, "infinite")]
)
def test_the_first_loss_that_is_no_number_is_told_of(loss: float, words: str) -> None:
    message = watch(losing(loss).events).one
    assert (message.id, message.level) == ("lost-loss", Level.WARNING)
    assert message.title == f"The loss of step 43 is {words}"
    assert message.fixes == (SLOWER, Fix("Compute in fp32", {"device.precision": "fp32"}))


def test_the_last_good_checkpoint_is_named_and_not_one_saved_since() -> None:
    run = losing()
    run.save()
    message = watch(run.events).one
    assert "The last good checkpoint is checkpoints/checkpoint-40, of step 40." in message.detail
    assert "copy it first" in message.detail


def test_where_several_are_kept_nothing_has_to_be_copied() -> None:
    options = replace(OPTIONS, output=OutputOptions(keep_checkpoints=3))
    assert "copy it" not in watch(losing().events, options=options).one.detail


def test_without_a_checkpoint_it_says_so() -> None:
    assert "no checkpoint from before" in watch(losing(save=False).events).one.detail


def test_after_many_finite_ones_it_is_past_and_the_next_is_a_new_one() -> None:
    run = losing()
    run.steps(20, 0.5)
    run.a_step(0.5, loss=math.nan)
    run.steps(45, 0.5)
    assert watch(run.events).withdrawn == []
    assert len(watch(run.events).raised) == 1
    run.steps(10, 0.5)
    assert watch(run.events).withdrawn == ["lost-loss"]
    run.a_step(0.5, loss=math.nan)
    run.wait(2.0)
    assert [message.title[17:20] for message in watch(run.events).raised] == ["43 ", "120"]


def test_what_the_engine_says_takes_its_place() -> None:
    run = losing()
    run.tell(MessageRaised(id="failed", level=Level.ERROR, title="The loss is no longer a number"))
    run.finish(Outcome.FAILED)
    watched = watch(run.events)
    assert (len(watched.raised), watched.withdrawn) == (1, ["lost-loss"])


def test_the_two_in_one_breath_are_told_by_the_engine_alone() -> None:
    run = ToldRun(steps=600)
    run.steps(40, 0.5)
    for _ in range(3):
        run.a_step(0.05, loss=math.nan)
    run.tell(MessageRaised(id="failed", level=Level.ERROR, title="The loss is no longer a number"))
    run.finish(Outcome.FAILED)
    watched = watch(run.events)
    assert len(watched.raised) == len(watched.withdrawn)
