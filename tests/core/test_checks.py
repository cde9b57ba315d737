from pathlib import Path

import pytest

from core.catalogue import all_options
from core.checks import check_tree, parse_synthetic
from core.options import Precision, RunOptions, Task

TREE = {
    "schema": 1,
    "task": "image-classification",
    "model": {"source": "torchvision:resnet18"},
    "data": {"train": "builtin:digits"},
}


def messages(**sections: object) -> dict[str, str]:
    _, problems = check_tree({**TREE, **sections})
    return {problem.path: problem.message for problem in problems}


def test_a_good_tree_gives_options_with_every_value_in_its_type() -> None:
    options, problems = check_tree({**TREE, "device": {"precision": "bf16"}, "training": {"epochs": 2}})
    assert problems == ()
    assert isinstance(options, RunOptions)
    assert options.task is Task.IMAGE_CLASSIFICATION
    assert options.device.precision is Precision.BF16
    assert options.training.epochs == 2.0


def test_every_problem_is_told_at_once_each_with_its_path() -> None:
    found = messages(
        memory={"batch_size": 0, "gradient_acumulation_steps": 2},
        training={"learning_rate": "fast", "epochs": -1},
        device={"precision": "bf61"},
        trainig={},
    )
    assert found == {
        "trainig": "no such option; did you mean training?",
        "memory.gradient_acumulation_steps": "no such option; did you mean gradient_accumulation_steps?",
        "memory.batch_size": "must be 1 or more, got 0",
        "training.learning_rate": 'must be a number above 0 and at most 10, got "fast"',
        "training.epochs": "must be above 0, got -1",
        "device.precision": 'must be one of auto, fp32, bf16, fp16, got "bf61"',
    }


def test_an_option_in_the_wrong_section_is_shown_its_home() -> None:
    assert messages(data={"train": "builtin:digits", "batch_size": 3}) == {
        "data.batch_size": "no such option here; did you mean memory.batch_size?"
    }


def test_a_misspelt_choice_comes_with_its_fix() -> None:
    _, problems = check_tree({**TREE, "training": {"schedule": "cosin"}})
    assert [fix.changes for fix in problems[0].fixes] == [{"training.schedule": "cosine"}]


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("training", {"learning_rate": float("nan")}, "must be a finite number, got nan"),
        ("memory", {"batch_size": True}, "must be a whole number from 1 to 65,536, got True"),
        ("memory", {"batch_size": 2.5}, "must be a whole number from 1 to 65,536, got 2.5"),
        ("training", {"max_steps": 0}, "must be 1 or more, got 0"),
        ("training", {"seed": 2**32}, "must be 4,294,967,295 or less, got 4294967296"),
        ("data", {"train": 5}, "must be a text, got 5"),
        ("device", {"name": "tpu"}, 'must be auto, cuda, cuda:NUMBER, mps or cpu, got "tpu"'),
    ],
)
def test_a_wrong_value_says_what_it_must_be(section: str, values: dict[str, object], message: str) -> None:
    if section == "device":
        assert messages(device=values) == {"device.name": message}
    else:
        assert messages(**{section: values})[f"{section}.{next(iter(values))}"] == message


def test_a_missing_task_and_a_newer_schema_are_told() -> None:
    _, problems = check_tree({key: value for key, value in TREE.items() if key != "task"} | {"schema": 2})
    assert {problem.path for problem in problems} == {"task", "schema"}


def test_a_section_that_is_no_section_is_told() -> None:
    assert messages(memory=3) == {"memory": "must be a section ([memory] and its options below), got 3"}


@pytest.mark.parametrize("option", [found for found in all_options() if found.optional], ids=lambda o: o.path)
def test_options_that_may_be_empty_take_none(option: object) -> None:
    path = option.path
    options, problems = check_tree(
        {**TREE, option.section: {**TREE.get(option.section, {}), option.name: None}}
    )
    assert options is not None, path
    assert problems == ()


def test_optional_numbers_are_read(tmp_path: Path) -> None:
    options, problems = check_tree({**TREE, "training": {"max_steps": 5}})
    assert problems == ()
    assert options is not None
    assert options.training.max_steps == 5


class TestTogether:
    def test_an_image_model_for_texts_is_refused(self, tmp_path: Path) -> None:
        data = tmp_path / "data.csv"
        data.touch()
        found = messages(task="text-classification", data={"train": str(data)})
        assert found == {
            "model.source": "torchvision:resnet18 sees images; text-classification needs a text model"
        }

    def test_an_unknown_vision_model_comes_with_the_nearest(self) -> None:
        _, problems = check_tree({**TREE, "model": {"source": "torchvision:resnet81"}})
        assert problems[0].fixes[0].changes == {"model.source": "torchvision:resnet18"}

    def test_files_that_are_not_there_are_named(self, tmp_path: Path) -> None:
        missing = tmp_path / "none.csv"
        found = messages(data={"train": str(missing), "eval": str(missing)})
        assert set(found) == {"data.train", "data.eval"}
        assert str(missing) in found["data.train"]

    def test_two_equal_columns_and_a_label_among_the_texts_are_told(self) -> None:
        _, problems = check_tree(
            {
                "task": "text-classification",
                "model": {"source": "bert-base-cased"},
                "data": {"train": "synthetic:8x8", "text_columns": ["a", "a"], "label_column": "a"},
            }
        )
        assert [problem.path for problem in problems] == ["data.text_columns", "data.label_column"]

    def test_fp16_on_the_cpu_is_refused_with_two_ways_out(self) -> None:
        _, problems = check_tree({**TREE, "device": {"name": "cpu", "precision": "fp16"}})
        assert [fix.changes for fix in problems[0].fixes] == [
            {"device.precision": "bf16"},
            {"device.precision": "fp32"},
        ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [("synthetic:512x128", (512, 128)), ("synthetic:0x3", None), ("synthetic:5", None), ("other:5x5", None)],
)
def test_synthetic_sizes(source: str, expected: tuple[int, int] | None) -> None:
    assert parse_synthetic(source) == expected


def test_files_that_are_missing_are_told_beside_values_that_cannot_be_read() -> None:
    tree = {
        "task": "image-classification",
        "memory": {"batch_size": 0},
        "model": {"source": "torchvision:resnet"},
    }
    options, problems = check_tree(tree)
    assert options is None
    assert {problem.path for problem in problems} == {"memory.batch_size", "model.source", "data.train"}
