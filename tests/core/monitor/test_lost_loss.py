import math

import pytest
from msgspec.structs import replace

from core.base.errors import Fix
from core.monitor.recent import END, REVEAL, STOP
from core.options.sections import OutputOptions
from core.runs.events import Level, MessageRaised, Outcome
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
    assert message.fixes == (END, REVEAL, SLOWER, Fix("Compute in fp32", {"device.precision": "fp32"}))


NAMED = "The last good checkpoint is checkpoints/checkpoint-40, of step 40."
THREE_KEPT = replace(OPTIONS, output=OutputOptions(keep_checkpoints=3))


def test_the_last_good_checkpoint_is_named_while_it_is_there() -> None:
    run = losing()
    message = watch(run.events).one
    assert NAMED in message.detail
    assert "copy it first" in message.detail
    run.save()
    run.wait(2.0)
    _, later = watch(run.events).raised
    assert "checkpoint-40" not in later.detail, "the one saved since has taken its place"
    assert "There is no checkpoint of before it any more." in later.detail
    assert later.fixes[:2] == (STOP, SLOWER)


def test_where_several_are_kept_nothing_has_to_be_copied_and_a_stop_takes_nothing() -> None:
    run = losing()
    message = watch(run.events, options=THREE_KEPT).one
    assert "copy it" not in message.detail
    assert message.fixes[:2] == (STOP, REVEAL)
    for _ in range(2):
        run.a_step(0.5, loss=math.nan)
        run.save()
        run.wait(2.0)
    assert "copy it first" in watch(run.events, options=THREE_KEPT).raised[-1].detail, "it is the next to go"
    run.a_step(0.5, loss=math.nan)
    run.save()
    run.wait(2.0)
    assert "checkpoint-40" not in watch(run.events, options=THREE_KEPT).raised[-1].detail


def test_once_it_has_passed_checkpoints_are_good_again() -> None:
    run = losing()
    run.steps(49, 0.5)
    run.save()
    run.steps(5, 0.5)
    run.a_step(0.5, loss=math.nan)
    run.wait(2.0)
    assert "of step 92" not in watch(run.events).raised[-1].detail, "saved too soon after it"
    run = losing()
    run.steps(50, 0.5)
    run.save()
    run.a_step(0.5, loss=math.nan)
    run.wait(2.0)
    later = watch(run.events).raised[-1]
    assert later.title.startswith("The loss of step 94 ")
    assert "The last good checkpoint is checkpoints/checkpoint-93, of step 93." in later.detail


def test_without_a_checkpoint_it_says_so() -> None:
    message = watch(losing(save=False).events).one
    assert "There is no checkpoint yet." in message.detail
    assert message.fixes[0] == STOP


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
