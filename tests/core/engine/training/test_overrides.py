"""What Hone overrides of transformers, TRL and accelerate is there, with the parameters that are expected of it.

Nobody calls a method whose original was renamed, and nothing else would fail.
"""

import inspect
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from accelerate.data_loader import BatchSamplerShard
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import core.engine.memory.measure
from core.engine import tasks, training

LIBRARIES = ("accelerate", "transformers", "trl")


def classes() -> Iterator[type]:
    """Hone's classes that derive from one of the libraries'."""
    modules = [core.engine.memory.measure]
    for package in (tasks, training):
        names = (file.stem for file in Path(str(package.__file__)).parent.glob("*.py"))
        modules += [import_module(f"{package.__name__}.{name}") for name in names if name != "__init__"]
    for module in modules:
        for found in vars(module).values():
            if inspect.isclass(found) and found.__module__ == module.__name__ and bases_of(found):
                yield found


def bases_of(found: type) -> list[type]:
    return [base for base in found.__mro__ if base.__module__.partition(".")[0] in LIBRARIES]


def function_of(member: Any) -> Any:
    return getattr(member, "fget", None) or (member.func if isinstance(member, cached_property) else member)


def overrides() -> dict[tuple[str, str], tuple[Any, Any]]:
    """What is marked as an override, and what it overrides, by class and name; None where there is nothing."""
    found: dict[tuple[str, str], tuple[Any, Any]] = {}
    for leaf in classes():
        for place, own in enumerate(leaf.__mro__):
            if own.__module__.partition(".")[0] != "core":
                continue
            for name, member in vars(own).items():
                later = (vars(base).get(name) for base in leaf.__mro__[place + 1 :])
                original = next(filter(None, later), None)
                is_marked = getattr(function_of(member), "__override__", False)
                if is_marked and (original or (own.__name__, name) not in found):
                    found[own.__name__, name] = function_of(member), function_of(original)
    return found


def test_every_override_has_an_original_with_its_parameters():
    found = overrides()
    assert {"_save_checkpoint", "_run_epoch", "_prepare_dataset", "on_step_end"} <= {
        name for _, name in found
    }
    for where, (own, original) in found.items():
        assert original is not None, f"{where} overrides nothing"
        given, expected = (list(inspect.signature(one).parameters.values()) for one in (own, original))
        passes_on = any(one.kind is one.VAR_POSITIONAL for one in given)
        named = [one.name for one in given if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        names = [one.name for one in expected if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        assert named == (names[: len(named)] if passes_on else names), f"{where} has other parameters"


def test_what_has_an_original_in_a_library_is_marked():
    unmarked = {
        f"{found.__name__}.{name}"
        for found in classes()
        for name, member in vars(found).items()
        if inspect.isfunction(member) and name != "__init__"
        if any(name in vars(base) for base in bases_of(found)) and not hasattr(member, "__override__")
    }
    assert not unmarked


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (PreTrainedModel._get_dtype_plan, ["self", "dtype"]),
        (PreTrainedTokenizerFast._encode_plus, ["self", "text", "text_pair"]),
        (BatchSamplerShard._iter_with_no_split, ["self"]),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_method_that_is_replaced_is_there_and_called_with_what_is_expected(method, parameters):
    assert list(inspect.signature(method).parameters)[: len(parameters)] == parameters


def test_torch_keeps_the_workers_of_a_loader_where_they_are_looked_for():
    assert DataLoader([0])._iterator is None
