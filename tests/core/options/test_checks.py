from pathlib import Path

import pytest

from core.options import RunOptions
from core.options.catalogue import all_options
from core.options.choices import Precision, Task
from core.options.sources import VISION_MODELS
from core.options.validate import RULES, check_tree, read_options

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
        "device.precision": 'must be one of auto, fp32, tf32, bf16, fp16, got "bf61"',
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


@pytest.mark.parametrize("task", [None, "image-clasification", 5])
def test_without_a_task_all_that_holds_for_every_task_is_told(task: object) -> None:
    _, problems = check_tree({"task": task, "device": {"name": "tpu"}})
    assert {problem.path for problem in problems} == {"task", "model.source", "data.train", "device.name"}


def test_rules_for_every_task_do_not_look_at_it() -> None:
    tree = {"model": {"source": "x:y"}, "data": {"train": "builtin:x", "text_columns": ["a", "a"]}}
    found = []
    for task in Task:
        options, _ = read_options({**tree, "task": task.value})
        found.append([problem for rule in RULES for problem in rule(options)])
    assert found[0]
    assert all(problems == found[0] for problems in found)


def test_reading_options_looks_at_no_file() -> None:
    options, problems = read_options({**TREE, "data": {"train": "/nowhere/at-all"}})
    assert problems == ()
    assert options is not None


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 16**6000, 2**64], ids=["long", "negative", "longest", "64 bits"]
)
@pytest.mark.parametrize(
    "path", ["training.epochs", "training.max_steps", "training.warmup", "data.max_length"]
)
def test_a_number_beyond_all_bounds_is_a_problem(path: str, value: int) -> None:
    section, _, name = path.partition(".")
    _, problems = check_tree({**TREE, section: {**TREE.get(section, {}), name: value}})
    (message,) = (problem.message for problem in problems if problem.path == path)
    assert "is far too large a number" in message
    assert len(message) < 200


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


def test_files_that_are_missing_are_told_beside_values_that_cannot_be_read() -> None:
    tree = {
        "task": "image-classification",
        "memory": {"batch_size": 0},
        "model": {"source": "torchvision:resnet"},
    }
    options, problems = check_tree(tree)
    assert options is None
    assert {problem.path for problem in problems} == {"memory.batch_size", "model.source", "data.train"}


TEXTS = {"task": "text-classification", "model": {"source": "bert-base-cased"}}


@pytest.mark.parametrize(
    ("train", "evaluation"),
    [
        ("synthetic:8x8", "synthetic:8x8"),
        ("synthetic:8x8", "builtin:digits"),
        ("synthetic:8x8", __file__),
        (__file__, "synthetic:8x8"),
        (__file__, "builtin:digits"),
    ],
)
def test_texts_are_not_evaluated_on_random_ones_or_images(train: str, evaluation: str) -> None:
    _, problems = check_tree({**TEXTS, "data": {"train": train, "eval": evaluation}})
    assert {problem.path for problem in problems} == {"data.eval"}


def test_random_images_may_be_evaluated() -> None:
    assert messages(data={"train": "synthetic:8x64", "eval": "synthetic:4x64"}) == {}


@pytest.mark.parametrize("source", ["tape:bert", "hf:bert-base-cased"])
def test_a_source_of_an_unknown_kind_is_told(source: str) -> None:
    found = messages(model={"source": source})
    assert found["model.source"].startswith(f"there is no source called {source.partition(':')[0]}:")


@pytest.mark.parametrize(
    ("task", "is_right"),
    [("text-classification", True), ("causal-lm", False), ("image-classification", False)],
)
def test_random_samples_of_different_lengths_are_texts_that_are_padded(task: str, is_right: bool) -> None:
    model = {"source": "torchvision:resnet18" if task.startswith("image") else "scratch:llama-small"}
    _, problems = check_tree({"task": task, "model": model, "data": {"train": "synthetic:8x64-96"}})
    fixes = [fix.changes for problem in problems for fix in problem.fixes]
    assert fixes == ([] if is_right else [{"data.train": "synthetic:8x96"}])


def test_data_in_place_of_a_model_and_a_model_in_place_of_data_are_told() -> None:
    found = messages(
        **TEXTS | {"model": {"source": "builtin:digits"}, "data": {"train": "torchvision:vgg16"}}
    )
    assert found == {
        "model.source": "builtin:digits is data; choose a model",
        "data.train": "torchvision:vgg16 is a model; choose data",
    }


@pytest.mark.parametrize(
    ("files", "pretrained", "message", "fixes"),
    [
        ((), True, "there is no config.json in", []),
        (("model.safetensors",), False, "there is no config.json in", []),
        (("config.json",), True, "there is no model.safetensors in", [{"model.pretrained": False}]),
        (("config.json", "pytorch_model.bin"), True, "can run code", [{"model.pretrained": False}]),
    ],
)
def test_a_folder_no_model_can_be_loaded_from_is_told_before_the_start(
    files: tuple[str, ...], pretrained: bool, message: str, fixes: list[object], tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).write_text('{"model_type": "bert"}' if name == "config.json" else "")
    tree = {
        **TEXTS,
        "model": {"source": str(tmp_path), "pretrained": pretrained},
        "data": {"train": __file__},
    }
    _, (problem,) = check_tree(tree)
    assert problem.path == "model.source"
    assert message in problem.message
    assert [fix.changes for fix in problem.fixes] == fixes


def test_a_model_folder_with_all_it_needs_is_no_problem(tmp_path: Path) -> None:
    for name in ("config.json", "model-00001-of-00001.safetensors"):
        (tmp_path / name).touch()
    index = '{"weight_map": {"weight": "model-00001-of-00001.safetensors"}}'
    (tmp_path / "model.safetensors.index.json").write_text(index)
    tree = {**TEXTS, "model": {"source": str(tmp_path)}, "data": {"train": __file__}}
    assert check_tree(tree)[1] == ()


def test_a_model_folder_that_cannot_be_looked_into_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    found = messages(**TEXTS | {"model": {"source": str(tmp_path)}, "data": {"train": __file__}})
    assert found == {"model.source": f"{tmp_path} can't be looked into: Permission denied"}


def test_a_file_in_place_of_a_model_folder_is_told() -> None:
    found = messages(**TEXTS | {"model": {"source": __file__}, "data": {"train": __file__}})
    assert found == {"model.source": f"{__file__} is a file; choose the folder with the model in it"}


class TestOptionsOfAnotherTask:
    def test_that_somebody_set_are_told_with_a_way_out(self) -> None:
        data = {"train": "builtin:digits", "text_columns": ["a"], "group_by_length": True, "max_length": 128}
        _, problems = check_tree({**TREE, "data": data})
        assert [problem.path for problem in problems] == ["data.text_columns", "data.group_by_length"]
        assert [fix.changes for problem in problems for fix in problem.fixes] == [
            {"data.text_columns": ()},
            {"data.group_by_length": "auto"},
        ]

    def test_that_say_nothing_new_are_let_be(self) -> None:
        data = {option.name: option.default for option in all_options() if option.section == "data"}
        assert messages(data={**data, "train": "builtin:digits"}) == {}


class TestImageSize:
    @pytest.mark.parametrize("name", VISION_MODELS)
    def test_too_small_for_the_model_comes_with_a_size_that_will_do(self, name: str) -> None:
        needed = VISION_MODELS[name].smallest
        tree = {**TREE, "model": {"source": f"torchvision:{name}"}, "data": {"train": "builtin:digits"}}
        tree["data"]["image_size"] = 32
        _, problems = check_tree(tree)
        if needed <= 32:
            assert problems == ()
            return
        (problem,) = problems
        assert problem.path == "data.image_size"
        (fix,) = problem.fixes
        tree["data"]["image_size"] = fix.changes["data.image_size"]
        assert check_tree(tree)[1] == ()

    def test_random_images_have_a_size_of_their_own(self) -> None:
        tree = {**TREE, "model": {"source": "torchvision:vgg16"}, "data": {"train": "synthetic:8x31"}}
        _, problems = check_tree(tree)
        assert [fix.changes for fix in problems[0].fixes] == [{"data.train": "synthetic:8x32"}]

    def test_a_batch_of_one_small_image_has_two_ways_out(self) -> None:
        data = {"train": "builtin:digits", "image_size": 32}
        _, problems = check_tree({**TREE, "data": data, "memory": {"batch_size": 1}})
        assert [fix.changes for problem in problems for fix in problem.fixes] == [
            {"memory.batch_size": 2},
            {"data.image_size": 64},
        ]


def test_an_empty_prompt_is_refused_with_a_way_out() -> None:
    tree = {
        "task": "causal-lm",
        "model": {"source": "scratch:llama-tiny"},
        "data": {"train": "synthetic:8x8"},
        "output": {"prompts": ["A cat", " ", ""]},
    }
    [found] = check_tree(tree)[1]
    assert str(found) == "output.prompts: prompt 2 is empty; write something or leave it out"
    assert found.fixes[0].changes == {"output.prompts": ["A cat"]}
    assert not check_tree({**tree, "output": {"prompts": found.fixes[0].changes["output.prompts"]}})[1]
