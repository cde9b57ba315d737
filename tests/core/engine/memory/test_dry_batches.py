"""Which rows a dry run trains on."""

from core.engine.memory.measure import fitted, pick
from core.options import RunOptions
from core.options.choices import Task
from core.options.sections import MemoryOptions, TrainingOptions

LENGTHS = [3, 9, 4, 8, 5, 7, 6, 2, 30, 1, 20, 10]
ORDER = [5, 11, 0, 8, 3, 1, 10, 2, 4, 6, 9, 7]


def options(batch: int, accumulated: int = 1, **training: float) -> RunOptions:
    return RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        memory=MemoryOptions(batch_size=batch, gradient_accumulation_steps=accumulated),
        training=TrainingOptions(**training),
    )


def test_the_longest_rows_come_first_and_twice() -> None:
    found = pick(ORDER, LENGTHS, options(2))
    assert found.longest == [8, 10]
    assert found.order[:4] == [8, 10, 8, 10]


def test_accumulated_batches_of_a_step_are_the_longest_together() -> None:
    assert pick(ORDER, LENGTHS, options(2, 2)).longest == [8, 10, 11, 1]


def test_ordinary_steps_are_drawn_as_the_run_draws_them_short_middling_and_long() -> None:
    found = pick(ORDER, LENGTHS, options(2))
    drawn = [ORDER[start : start + 2] for start in range(0, 12, 2)]
    assert all(step in drawn for step in found.ordinary)
    longest = [max(LENGTHS[row] for row in step) for step in found.ordinary]
    assert longest == sorted(longest)
    assert longest[0] < longest[1] < longest[2]


def test_rows_of_one_length_come_as_they_are_drawn() -> None:
    found = pick(ORDER, None, options(3))
    assert found.longest == ORDER[:3]
    assert found.ordinary[0] == ORDER[:3]


def test_a_run_of_few_steps_is_measured_whole_and_no_longer() -> None:
    assert pick(ORDER, LENGTHS, options(2, max_steps=1)).order == [8, 10]
    assert len(pick(ORDER, LENGTHS, options(2, max_steps=3)).ordinary) == 1


def test_a_step_larger_than_the_data_has_all_of_it() -> None:
    asked = options(8, 4)
    assert fitted(asked, 12) == (8, 2)
    found = pick(ORDER, LENGTHS, asked)
    assert len(found.longest) == 16
    assert set(found.longest) == set(ORDER)
    assert fitted(options(64, 2), 12) == (12, 1)
