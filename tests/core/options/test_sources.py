import pytest
import torch

from core.engine.models.vision import load_vision_model
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.options.sources import (
    SCRATCH_MODELS,
    TIMED_MODELS,
    VISION_MODELS,
    Scheme,
    parse_synthetic,
    positions_of,
    scheme_of,
    scratch_model,
    short_name,
    synthetic,
    synthetic_lengths,
    unknown_scheme,
)
from core.services.hub import is_complete, question_about


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("synthetic:512x128", (512, 128)),
        ("synthetic:512x64-128", (512, 128)),
        (synthetic(3, 4), (3, 4)),
        (synthetic(3, 4, 2), (3, 4)),
        *((f"synthetic:{name}", None) for name in ("", "5", "0x3", "5x9-8", "5x0-8", "5x8-", "5x-8", "5x1-2-3")),
        ("synthetic:5x²", None),
        ("synthetic:" + "9" * 5000 + "x5", None),
        ("other:5x5", None),
        ("data.csv", None),
    ],
)  # fmt: skip
def test_synthetic_sizes(source, expected):
    assert parse_synthetic(source) == expected


def test_synthetic_texts_may_differ_in_length():
    assert synthetic_lengths("synthetic:512x64-128") == (64, 128)
    assert synthetic_lengths("synthetic:512x128") == (128, 128)
    assert synthetic_lengths("data.csv") is None
    assert synthetic(512, 128, 64) == "synthetic:512x64-128"
    assert synthetic(512, 128, 128) == "synthetic:512x128"


@pytest.mark.parametrize(
    ("source", "scheme", "unknown", "short"),
    [
        ("builtin:digits", Scheme.BUILTIN, "", "digits"),
        ("torchvision:vgg16", Scheme.TORCHVISION, "", "vgg16"),
        ("synthetic:8x8", Scheme.SYNTHETIC, "", "8x8"),
        ("scratch:llama-tiny", Scheme.SCRATCH, "", "llama-tiny"),
        ("tape:bert", None, "tape", "tape:bert"),
        ("C:/data.csv", None, "", "data.csv"),
        ("/data/a:b.csv", None, "", "a:b.csv"),
        ("somebody/bert-base", None, "", "bert-base"),
        ("/runs/sea/model", None, "", "sea"),
        ("owner/model", None, "", "model"),
        ("synthetic", None, "", "synthetic"),
    ],
)
def test_what_stands_before_the_colon(source, scheme, unknown, short):
    assert (scheme_of(source), unknown_scheme(source), short_name(source)) == (scheme, unknown, short)


def test_a_model_from_scratch_is_known_by_its_name_and_always_at_hand():
    assert scratch_model("scratch:llama-small") is SCRATCH_MODELS["llama-small"]
    assert scratch_model("scratch:bert-large") is TIMED_MODELS["bert-large"]
    assert scratch_model("scratch:llama") is scratch_model("llama-small") is None
    assert not set(TIMED_MODELS) & set(SCRATCH_MODELS)
    assert (positions_of(8), positions_of(1024)) == (256, 1024)
    options = RunOptions(task=Task.CAUSAL_LM, model=ModelOptions(source="scratch:llama-tiny"))
    longer = RunOptions(task=options.task, model=options.model, data=DataOptions(max_length=512))
    assert is_complete(options)
    assert None is not question_about(options) != question_about(longer), "positions follow from the data"


@pytest.fixture(params=VISION_MODELS)
def name(request):
    return request.param


@pytest.fixture
def model(name):
    with torch.device("meta"):
        options = ModelOptions(source=Scheme.TORCHVISION.of(name), pretrained=False)
        return load_vision_model(options, classes=3, seed=1).train()


def test_a_vision_model_trains_at_its_limits_and_not_below(model, name):
    limits = VISION_MODELS[name]
    for size, batch in ((limits.smallest, 2), (limits.smallest_alone, 1)):
        assert model(torch.empty(batch, 3, size, size, device="meta"))["logits"].shape == (batch, 3)
        if size > 1:
            with pytest.raises((RuntimeError, ValueError)):
                model(torch.empty(batch, 3, size - 1, size - 1, device="meta"))
    over_the_batch = torch.nn.modules.batchnorm._BatchNorm
    assert limits.normalises_batch is any(isinstance(layer, over_the_batch) for layer in model.modules())
