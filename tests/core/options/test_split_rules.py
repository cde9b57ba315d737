"""What a run is evaluated on is said once: a file, a split, or a share; each fix ends the problem it is offered for."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.options import RunOptions
from core.options.catalogue import value_at
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.validate import read_options, splits


def asked(**data: Any) -> RunOptions:
    return RunOptions(task=Task.TEXT_CLASSIFICATION, data=DataOptions(**data))


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        ({"eval": "/b.csv"}, []),
        ({"eval_split": "test"}, []),
        ({"eval_fraction": 0.3}, []),
        ({"eval": "/b.csv", "eval_fraction": 0.0}, []),
        ({"eval": "/b.csv", "eval_split": "test"}, ["data.eval_split"]),
        ({"eval": "/b.csv", "eval_fraction": 0.3}, ["data.eval_fraction"]),
        ({"eval_split": "test", "eval_fraction": 0.3}, ["data.eval_fraction"]),
        ({"eval_split": "train"}, ["data.eval_split"]),
        ({"train_split": "test", "eval_split": "test"}, ["data.eval_split"]),
    ],
)
def test_each_says_alone_what_is_evaluated_on(tmp_path: Path, data: dict[str, Any], paths: list[str]) -> None:
    options = asked(train=str(tmp_path), **data)
    problems = list(splits(options))
    assert [problem.path for problem in problems] == paths
    for fix in (fix for problem in problems for fix in problem.fixes):
        tree = msgspec.to_builtins(options)
        for path, value in fix.changes.items():
            section, _, name = path.partition(".")
            tree[section][name] = value
            assert value_at(tree, path, "") == value
        mended, _ = read_options(tree)
        assert mended is not None
        assert not list(splits(mended))


@pytest.mark.parametrize("source", ["reviews.csv", "builtin:digits", "synthetic:64x32"])
@pytest.mark.parametrize("path", ["train_split", "eval_split"])
def test_a_file_has_no_splits(tmp_path: Path, source: str, path: str) -> None:
    (tmp_path / "reviews.csv").write_text("text,label\n", encoding="utf-8")
    train = source if ":" in source else str(tmp_path / source)
    problems = list(splits(asked(train=train, **{path: "test"})))
    assert [problem.path for problem in problems] == [f"data.{path}"]
    assert "isn't divided" in problems[0].message
    assert problems[0].fixes[0].changes == {f"data.{path}": None}
