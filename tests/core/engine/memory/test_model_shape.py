"""What is counted of a model on the meta device is what the live one has and saves: compared with real passes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers

from core.engine.environment import prepare_torchvision
from core.engine.memory.model_check import check_model
from core.engine.memory.model_shape import shape_of
from core.engine.models.method import apply_method
from core.engine.models.vision import find_image_model, load_image_model, load_vision_model
from core.memory import estimate
from core.memory.case import case_of
from core.memory.model import Kept, ModelShape
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Method, Precision, Task
from core.options.data import DataOptions
from core.options.device_support import DeviceReport
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions
from core.options.sources import VISION_MODELS
from tests.fakes.models import SIZE, save_tiny_bert, save_tiny_vision

prepare_torchvision()

WIDTHS = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40}
SIZES = {**WIDTHS, "max_position_embeddings": 64}
SMALL: dict[str, dict[str, Any]] = {
    "bert": SIZES,
    "distilbert": {"dim": 16, "n_layers": 3, "n_heads": 4, "hidden_dim": 40, "max_position_embeddings": 64},
    "gpt2": {"n_embd": 16, "n_layer": 3, "n_head": 4, "n_inner": 40, "n_positions": 64},
    "llama": {**SIZES, "num_key_value_heads": 2},
    "modernbert": SIZES,
    "mixtral": {**SIZES, "num_key_value_heads": 2, "num_local_experts": 8, "num_experts_per_tok": 2},
    "albert": {**SIZES, "embedding_size": 8},
}


def empty(kind: str, **changes: Any) -> Any:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.for_model(kind, vocab_size=50, pad_token_id=0, **{**SMALL.get(kind, {}), **changes})
    with torch.device("meta"):
        return AutoModelForSequenceClassification.from_config(config)


@pytest.mark.parametrize("kind", SMALL)
def test_every_architecture_is_counted(kind):
    model = empty(kind)
    shape = shape_of(model)
    assert (shape.layers, shape.hidden, shape.positions) == (3, 16, 64)
    assert shape.parameters == sum(weight.numel() for weight in model.parameters())
    assert set(shape.kept) == {"full", "full-half", "frozen", "frozen-half"}
    assert all(kept.blocks for kept in shape.kept.values())


@pytest.mark.parametrize(
    ("kind", "dropping", "not_dropping"), [("cpu", True, False), ("cuda", False, False), ("mps", True, True)]
)
def test_attention_keeps_its_scores_where_there_is_no_kernel(kind, dropping, not_dropping):
    for share, keeps_scores in ((0.1, dropping), (0.0, not_dropping)):
        kept = shape_of(empty("bert", attention_probs_dropout_prob=share), kind).kept["full"]
        assert (sum(one.count * one.square for one in kept.blocks) >= 3 * 4 * 4) is keeps_scores


def test_cuda_keeps_masks_of_dropout_in_bytes():
    on_cpu, on_cuda = (shape_of(empty("bert"), kind).kept["full"].blocks for kind in ("cpu", "cuda"))
    assert not [one for one in on_cpu if one.each == 16]
    assert sum(one.count for one in on_cuda if one.each == 16 and not one.square) >= 2 * 3


def test_blocks_left_out_of_the_pass_are_counted_all_the_same():
    three, nine = (shape_of(empty("bert", num_hidden_layers=layers)).kept["full"] for layers in (3, 9))
    assert nine.entering == 3 * three.entering
    assert sum(kept.count for kept in nine.blocks) == 3 * sum(kept.count for kept in three.blocks)
    assert (three.outside, three.largest) == (nine.outside, pytest.approx(1 / 3))


T5 = {
    **{"eos_token_id": 1, "decoder_start_token_id": 0},
    **{"d_model": 16, "d_kv": 4, "num_layers": 3, "d_ff": 40, "num_heads": 4},
}


def test_of_a_model_that_also_sees_the_part_for_texts_is_passed():
    text = {**SIZES, "head_dim": 4, "num_key_value_heads": 2, "vocab_size": 50}
    vision = {**WIDTHS, "num_hidden_layers": 1, "image_size": 28}
    seeing = transformers.Gemma3Config(text_config=text, vision_config=vision)
    with torch.device("meta"):
        whole = transformers.AutoModelForCausalLM.from_config(seeing)
        part = transformers.AutoModelForCausalLM.from_config(transformers.Gemma3TextConfig(**text))
    found, expected = shape_of(whole), shape_of(part)
    assert (found.kept, found.linears) == (expected.kept, expected.linears)
    assert (found.layers, found.blocks, found.positions) == (3, 3, 64)
    assert found.parameters > expected.parameters


def test_a_table_under_three_names_is_counted_once():
    relative = 2 * 32 * 4  # each stack's biases by distance: 32 spans, 4 heads
    assert shape_of(empty("t5", **T5)).embeddings == 50 * 16 + relative


def test_the_state_of_adafactor_goes_by_the_sides_of_the_weights():
    from transformers.optimization import Adafactor

    with torch.device("meta"):
        model = load_vision_model(ModelOptions(source="torchvision:resnet18", pretrained=False), 10, 0)
    optimizer = Adafactor(model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False)
    for weight in model.parameters():
        weight.grad = torch.empty_like(weight)
    optimizer.step()
    tensors = [value for state in optimizer.state.values() for value in state.values()]
    factors = [tensor.numel() for tensor in tensors if isinstance(tensor, torch.Tensor) and tensor.dim()]
    assert shape_of(model).factored == sum(factors)


def test_layers_for_lora_and_quantization_are_counted():
    shape = shape_of(empty("bert"), "cuda")
    assert shape.linears["query"] == (3 * 16, 3 * 16)
    assert shape.linears["dense"] == (3 * (16 + 16 + 40) + 16, 3 * (16 + 40 + 16) + 16)  # and the pooler's
    assert shape.packable == 3 * (4 * 16 * 16 + 2 * 16 * 40) + 16 * 16
    assert shape_of(empty("bert"), "cpu").packable == 0, "their widths are no multiples of 64"
    assert (shape.head, shape.embeddings, shape.largest) == (2 * 16 + 2, (50 + 64 + 2) * 16, 64 * 16)


def image_shape(name: str) -> ModelShape:
    source = ModelOptions(source=f"torchvision:{name}", pretrained=False)
    with torch.device("meta"):
        return shape_of(load_vision_model(source, 10, 0))


@contextmanager
def counting(model: torch.nn.Module, saved: dict[int, torch.UntypedStorage]) -> Iterator[None]:
    """Have `saved` hold what autograd saves of a real pass, each storage once, weights left out."""
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield


def size_of(saved: dict[int, torch.UntypedStorage]) -> int:
    return sum(storage.nbytes() for storage in saved.values())


@pytest.mark.parametrize("name", VISION_MODELS)
def test_every_vision_model_of_torchvision_has_a_shape(name):
    shape = image_shape(name)
    kept, half = shape.kept["full"], shape.kept["full-half"]
    inside, in_half = (sum(tensor.each for tensor in each.blocks) for each in (kept, half))
    assert 0 < kept.largest <= 1
    assert 0 < kept.entering < inside
    assert in_half == inside / 2
    assert kept.into_linears > 0
    assert (shape.layers, shape.packable) == (0, 0)


def vision_options(folder) -> RunOptions:
    return RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source=str(folder)),
        data=DataOptions(train=f"synthetic:16x{SIZE}"),
        device=DeviceOptions(name="cpu", precision=Precision.FP32),
    )


def resnet(_folder) -> tuple[Any, Kept, int]:
    options = ModelOptions(source="torchvision:resnet18", pretrained=False)
    return load_vision_model(options, 10, 0), image_shape("resnet18").kept["full"], 64


def vit(folder) -> tuple[Any, Kept, int]:
    options = vision_options(save_tiny_vision(folder, num_hidden_layers=3))
    model = load_image_model(options, find_image_model(options), ("a", "b")).model
    return model, check_model(options).shape.kept["full"], SIZE


@pytest.mark.parametrize("build", [resnet, vit])
def test_an_images_pixels_keep_what_a_real_pass_keeps(build, tmp_path):
    model, kept, side = build(tmp_path / "vit")
    saved: dict[int, torch.UntypedStorage] = {}
    with counting(model, saved):
        model.train()(pixel_values=torch.zeros(2, 3, side, side), labels=torch.tensor([0, 1]))
    counted = 2 * sum(tensor.count * tensor.size(side * side) for tensor in (*kept.blocks, *kept.outside))
    assert counted == pytest.approx(size_of(saved), rel=0.05)


def test_the_report_has_the_shape_whatever_is_trained_or_refused(tmp_path):
    source = str(save_tiny_bert(tmp_path / "bert", num_hidden_layers=2))
    models = [
        ModelOptions(source=source, method=method) for method in (Method.FULL, Method.LORA, Method.HEAD)
    ]
    models.append(ModelOptions(source=source, method=Method.LORA, lora_targets=("nothing",)))
    reports = [check_model(RunOptions(task=Task.TEXT_CLASSIFICATION, model=model)) for model in models]
    full = reports[0].shape
    assert (full.layers, [report.shape for report in reports]) == (2, [full] * 4)
    assert [bool(report.problems) for report in reports] == [False, False, False, True]
    lora = models[1].lora_rank * sum(map(sum, full.linears.values())) + full.head
    assert reports[1].trainable_parameters == lora


# --- Real passes of text models

CPU = DeviceReport(name="cpu", title="a processor", available=True)
ROWS, TOKENS = 4, 96
BERT = {**WIDTHS, "hidden_size": 64, "intermediate_size": 256, "max_position_embeddings": 128}
NO_DROPOUT = {**BERT, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
LLAMA = {**BERT, "num_key_value_heads": 2, "intermediate_size": 160}
GPT2 = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128}
MIXTRAL = {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}
DISTILBERT = {"dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 256, "max_position_embeddings": 128}
LARGER_T5 = {**T5, "d_model": 64, "d_kv": 16, "d_ff": 256}
BART = {
    **{"d_model": 64, "encoder_layers": 3, "decoder_layers": 3, "max_position_embeddings": 128},
    **{"encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "decoder_start_token_id": 0, "bos_token_id": 2},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4},
}
HALF, LORA = {"device.precision": "bf16"}, {"model.method": "lora"}
EAGER = {"model.attention": "eager"}
RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "BERT": ("bert", BERT, {}),
    "BERT, bf16": ("bert", BERT, HALF),
    "BERT, eager": ("bert", BERT, EAGER),
    "BERT without dropout": ("bert", NO_DROPOUT, {}),
    "BERT, LoRA": ("bert", BERT, LORA),
    "BERT, LoRA, bf16": ("bert", BERT, {**LORA, **HALF}),
    "BERT, last layer": ("bert", BERT, {"model.method": "head"}),
    "GPT-2": ("gpt2", GPT2, {}),
    "Llama": ("llama", LLAMA, {}),
    "Llama, bf16": ("llama", LLAMA, HALF),
    "Mixtral": ("mixtral", MIXTRAL, {}),
    "DistilBERT": ("distilbert", DISTILBERT, {}),
    "T5": ("t5", LARGER_T5, {}),
    "BART": ("bart", BART, {}),
}
ENDS = 1
"""The token at the end of a text, by which an encoder-decoder finds where to look."""


@pytest.mark.parametrize("name", RUNS)
def test_a_real_pass_keeps_what_the_formula_says(name):
    kind, sizes, changes = RUNS[name]
    options = asked(changes)
    real = kept_by_torch(build(kind, sizes, options), options)
    with torch.device("meta"):
        shape = shape_of(build(kind, sizes, options))
    case = case_of(options, shape, CPU, TOKENS)
    told = estimate.kept_bytes(case) + estimate.cast_bytes(case)
    assert told == pytest.approx(real, rel=0.05, abs=100_000)


def asked(changes: dict[str, Any]) -> RunOptions:
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        memory=MemoryOptions(batch_size=ROWS),
        device=DeviceOptions(name="cpu", precision=Precision.FP32),
    )
    return with_changes(options, changes)


def build(kind: str, sizes: dict[str, Any], options: RunOptions) -> Any:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    sizes = {"eos_token_id": ENDS, **sizes}
    config = AutoConfig.for_model(kind, vocab_size=100, pad_token_id=0, **sizes)
    config.use_cache = False  # as Trainer does
    attention = options.model.attention.value
    return AutoModelForSequenceClassification.from_config(config, attn_implementation=attention)


def kept_by_torch(model: Any, options: RunOptions) -> int:
    """Bytes that autograd saves of one forward pass with real numbers."""
    model = apply_method(model, options).train()
    ids, mask = torch.randint(2, 100, (ROWS, TOKENS)), torch.ones(ROWS, TOKENS, dtype=torch.long)
    ids[0, 80:] = mask[0, 80:] = 0
    ids[:, 79] = ENDS
    saved: dict[int, torch.UntypedStorage] = {}
    half = options.device.precision == "bf16"
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half), counting(model, saved):
        model(input_ids=ids, attention_mask=mask, labels=torch.zeros(ROWS, dtype=torch.long))
    return size_of(saved)
