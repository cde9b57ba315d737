"""A stand-in for Apple's coremltools, whose package holds the traced model and runs it."""

import json
from pathlib import Path
from types import SimpleNamespace

import torch

precision = SimpleNamespace(FLOAT32="fp32")


def TensorType(**fields):  # noqa: N802 - as Apple calls it
    return SimpleNamespace(**fields)


def RangeDim(**fields):  # noqa: N802
    return SimpleNamespace(**fields)


class MLModel:
    def __init__(self, path="", traced=None, inputs=()):
        self.user_defined_metadata = {}
        if path:
            self._traced = torch.jit.load(Path(path) / "traced.pt")
            told = json.loads((Path(path) / "told.json").read_text())
            self._inputs, self.user_defined_metadata = told
        else:
            self._traced, self._inputs = traced, [[each.name, each.dtype.__name__] for each in inputs]

    def save(self, path):
        Path(path).mkdir()
        self._traced.save(Path(path) / "traced.pt")
        (Path(path) / "told.json").write_text(json.dumps([self._inputs, self.user_defined_metadata]))

    def predict(self, given):
        assert {name: str(value.dtype) for name, value in given.items()} == dict(self._inputs)
        assert all(len(value) == 1 for value in given.values())
        made = [torch.from_numpy(given[name]) for name, _kind in self._inputs]
        made = [value.long() if value.dtype == torch.int32 else value for value in made]
        with torch.no_grad():
            return {"logits": self._traced(*made).numpy()}


models = SimpleNamespace(MLModel=MLModel)


def convert(traced, *, convert_to, inputs, outputs, compute_precision):
    assert (convert_to, [each.name for each in outputs], compute_precision) == (
        "mlprogram",
        ["logits"],
        "fp32",
    )
    return MLModel(traced=traced, inputs=inputs)
