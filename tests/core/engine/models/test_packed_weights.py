"""A model whose weights were packed holds nothing of the file they were read from."""

import sys
from pathlib import Path

import pytest
import torch

from core.engine.environment import prepare_torchvision
from core.engine.models import text
from core.engine.models.parts import apply_method, is_quantized
from core.options import RunOptions
from core.options.choices import Method, Task
from core.options.sections import DeviceOptions, ModelOptions
from tests.fakes.models import save_tiny_bert

prepare_torchvision()


@pytest.mark.skipif(sys.platform != "linux", reason="what is mapped is told by /proc")
def test_no_weight_is_a_view_of_the_file(tmp_path):
    bert = save_tiny_bert(tmp_path / "bert", hidden_size=32, intermediate_size=64, num_hidden_layers=2)
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=str(bert), method=Method.QLORA),
        device=DeviceOptions(name="cpu"),
    )
    config, tokenizer = text.load_config(options), text.load_tokenizer(str(bert))
    loaded = text.load_model(options, config, ("0", "1"), tokenizer)
    assert views_of(bert, loaded.model)  # as transformers loads it
    model = apply_method(loaded.model, options, loaded.fresh)
    assert any(is_quantized(weight) for weight in model.parameters())
    assert not views_of(bert, model)


def views_of(folder: Path, model: torch.nn.Module) -> list[str]:
    """Names of the weights that lie in memory where a file of this folder is mapped."""
    lines = (line.split() for line in Path("/proc/self/maps").read_text().splitlines())
    mapped = [line[0].split("-") for line in lines if line[-1].startswith(str(folder))]
    ranges = [(int(begin, 16), int(end, 16)) for begin, end in mapped]
    return [
        name
        for name, weight in model.named_parameters()
        if any(begin <= weight.data_ptr() < end for begin, end in ranges)
    ]
