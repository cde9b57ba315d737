"""How long a run is, before it starts."""

from typing import Any

import pytest

from core.options import RunOptions, run_file
from core.options.catalogue import options_by_path, put
from core.options.choices import BestMetric, Task
from core.options.data import DataOptions
from core.options.method_rules import Extent, batch_hint, extent, steps_hint, useful_steps, warmup_problem
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from core.options.validate import check_tree, problems_of


def options(**sections: Any) -> RunOptions:
    defaults = {
        "task": Task.IMAGE_CLASSIFICATION,
        "model": ModelOptions(source="torchvision:resnet18", pretrained=False),
        "data": DataOptions(train="builtin:digits", eval_fraction=0.2),
        "memory": MemoryOptions(batch_size=32),
        "training": TrainingOptions(epochs=5.0),
    }
    return RunOptions(**{**defaults, **sections})


def test_the_limit_of_examples_counts_those_held_out_and_is_not_called_one_of_training():
    known = extent(
        options(data=DataOptions(train="rows.csv", max_train_samples=4000, eval_fraction=0.2)), 9000
    )
    assert (known.trained, known.evaluated) == (3200, 800)
    assert options_by_path()["data.max_train_samples"].title == "Maximum examples"


def test_steps_are_counted_as_trainer_counts_them():
    assert extent(options(), 1797) == Extent(trained=1438, evaluated=359, steps=225, steps_per_epoch=45)


@pytest.mark.parametrize(
    ("sections", "steps"),
    [
        ({"memory": MemoryOptions(batch_size=32, gradient_accumulation_steps=4)}, 60),  # 45 batches an epoch
        (
            {"device": DeviceOptions(processes=2)},
            115,
        ),  # 23 an epoch: the last step of each has a smaller batch
        ({"training": TrainingOptions(max_steps=7)}, 7),
        ({"training": TrainingOptions(epochs=0.5)}, 23),
        ({"data": DataOptions(train="x", eval_fraction=0.0, max_train_samples=64)}, 10),
        ({"data": DataOptions(train="x", eval="y")}, 285),  # all 1,797 rows are trained on
    ],
)
def test_what_changes_the_number_of_steps(sections, steps):
    assert extent(options(**sections), 1797).steps == steps


def test_a_batch_larger_than_the_data():
    found = batch_hint(options(), 31)
    assert found is not None
    assert (found.path, found.fixes[0].changes) == ("memory.batch_size", {"memory.batch_size": 31})
    assert batch_hint(options(), 32) is None
    larger = batch_hint(options(memory=MemoryOptions(batch_size=20_000)), 13_812)
    assert larger is not None
    assert larger.fixes[0].changes == {"memory.batch_size": 32}, (
        "with all of the data an epoch is one step, too"
    )


@pytest.mark.parametrize(
    ("pretrained", "epochs", "most"), [(True, 3.0, 20), (True, 50.0, 50), (False, 3.0, 90)]
)
def test_more_steps_than_are_worth_their_time(pretrained, epochs, most):
    model = ModelOptions(source="torchvision:resnet18", pretrained=pretrained)

    def asked(steps: int | None) -> RunOptions:
        return options(model=model, training=TrainingOptions(epochs=epochs, max_steps=steps))

    assert useful_steps(asked(None), 1438) == most * 45
    assert steps_hint(asked(None), 1438) is steps_hint(asked(most * 45), 1438) is None
    found = steps_hint(asked(108_000), 1438)
    assert found is not None
    assert (found.path, found.fixes[0].changes) == ("training.max_steps", {"training.max_steps": most * 45})


@pytest.mark.parametrize(
    ("training", "steps", "is_problem"),
    [
        ({"warmup": 225}, 225, True),
        ({"warmup": 224}, 225, False),
        ({"warmup": 0.9}, 225, False),  # a share
        ({"warmup": 1}, 1, False),
        ({"warmup": 500, "max_steps": 100}, 100, False),  # the rules know that without the data
    ],
)
def test_a_warm_up_must_end_before_the_run(training, steps, is_problem):
    found = warmup_problem(options(training=TrainingOptions(**training)), steps)
    assert (found is not None) is is_problem
    if found:
        assert (found.path, found.fixes[0].changes) == ("training.warmup", {"training.warmup": 0.1})


@pytest.mark.parametrize(
    ("training", "data", "path", "fix"),
    [
        ({"eval_steps": 1.5}, {}, "training.eval_steps", {"training.eval_steps": 2}),
        (
            {"early_stopping_patience": 3},
            {"eval_fraction": 0.0},
            "training.early_stopping_patience",
            {"data.eval_fraction": 0.1},
        ),
        (
            {"early_stopping_threshold": 0.1},
            {},
            "training.early_stopping_threshold",
            {"training.early_stopping_patience": 3},
        ),
        (
            {"metric_for_best_model": BestMetric.PEARSON},
            {},
            "training.metric_for_best_model",
            {"training.metric_for_best_model": "f1"},
        ),
    ],
)
def test_evaluations_that_make_no_sense_are_refused(training, data, path, fix):
    asked = options(training=TrainingOptions(**training), data=DataOptions(train="builtin:digits", **data))
    found = next(problem for problem in problems_of(asked) if problem.path == path)
    assert found.fixes[0].changes == fix
    tree = run_file.to_tree(asked)
    put(tree, found.fixes[0].changes)
    assert path not in {problem.path for problem in check_tree(tree)[1]}
