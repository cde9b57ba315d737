"""What is read off a model without numbers is what the live one has."""

from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.environment import prepare_torchvision
from core.engine.memory.model_shape import shape_of
from core.engine.models.check import check_model
from core.engine.models.vision import load_vision_model
from core.memory.model import ModelShape
from core.options import RunOptions
from core.options.choices import Method, Task
from core.options.sections import ModelOptions
from core.options.sources import VISION_MODELS
from tests.fakes.tiny_bert import edit_config, save_tiny_bert

prepare_torchvision()

SMALL: dict[str, dict[str, Any]] = {
    "bert": {
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "max_position_embeddings": 64,
    },
    "distilbert": {"dim": 16, "n_layers": 3, "n_heads": 4, "hidden_dim": 40, "max_position_embeddings": 64},
    "gpt2": {"n_embd": 16, "n_layer": 3, "n_head": 4, "n_inner": 40, "n_positions": 64},
    "llama": {
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 40,
        "max_position_embeddings": 64,
    },
    "modernbert": {
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "max_position_embeddings": 64,
    },
    "mixtral": {
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 40,
        "max_position_embeddings": 64,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    "albert": {
        "embedding_size": 8,
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "max_position_embeddings": 64,
    },
}


def empty(kind: str, **changes: Any) -> Any:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.for_model(kind, vocab_size=50, pad_token_id=0, **{**SMALL[kind], **changes})
    with torch.device("meta"):
        return AutoModelForSequenceClassification.from_config(config)


@pytest.mark.parametrize("kind", SMALL)
def test_every_architecture_says_the_same_by_other_names(kind: str) -> None:
    model = empty(kind)
    shape = shape_of(model)
    assert (shape.layers, shape.hidden, shape.intermediate) == (3, 16, 40)
    assert (shape.heads, shape.head_width) == (4, 4)
    assert shape.key_heads == (2 if kind in ("llama", "mixtral") else 4)
    assert shape.gated is (kind in ("llama", "modernbert", "mixtral"))
    assert shape.vocabulary == 50
    assert shape.positions == 64
    assert (shape.experts, shape.all_experts) == ((2, 8) if kind == "mixtral" else (1, 1))
    assert shape.parameters == sum(weight.numel() for weight in model.parameters())


def test_heads_may_be_wider_than_the_block() -> None:
    shape = shape_of(empty("llama", head_dim=12))
    assert (shape.hidden, shape.heads, shape.head_width) == (16, 4, 12)


T5 = {"d_model": 16, "d_kv": 4, "num_layers": 3, "d_ff": 40, "num_heads": 4, "decoder_start_token_id": 0}
BART = {
    "d_model": 16,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": 2,
    "decoder_start_token_id": 2,
}


def encoder_decoder(kind: str, **sizes: Any) -> ModelShape:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.for_model(kind, vocab_size=50, pad_token_id=0, eos_token_id=1, **sizes)
    with torch.device("meta"):
        return shape_of(AutoModelForSequenceClassification.from_config(config))


def test_a_decoders_blocks_look_at_an_encoder_too() -> None:
    bart, t5 = encoder_decoder("bart", **BART), encoder_decoder("t5", **T5)
    assert (bart.layers, bart.crossing, bart.hidden, bart.intermediate) == (5, 2, 16, 40)
    assert (t5.layers, t5.crossing, t5.hidden, t5.intermediate) == (6, 3, 16, 40)
    assert shape_of(empty("gpt2")).crossing == 0  # a decoder without an encoder


def test_a_table_under_three_names_is_counted_once() -> None:
    relative = 2 * 32 * 4  # each stack's biases by distance: 32 spans, 4 heads
    assert encoder_decoder("t5", **T5).embeddings == 50 * 16 + relative


def test_what_adafactor_remembers_goes_by_the_weights_sides() -> None:
    from transformers.optimization import Adafactor

    with torch.device("meta"):
        model = load_vision_model(ModelOptions(source="torchvision:resnet18", pretrained=False), 10, 0)
    optimizer = Adafactor(model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False)
    for weight in model.parameters():
        weight.grad = torch.empty_like(weight)
    optimizer.step()
    state = [
        held for one in optimizer.state.values() for held in one.values() if isinstance(held, torch.Tensor)
    ]
    assert shape_of(model).factored == sum(tensor.numel() for tensor in state if tensor.dim())


@pytest.mark.parametrize("kind", ["bert", "distilbert", "gpt2", "llama"])
def test_dropout_behind_the_inner_layers_is_not_within(kind: str) -> None:
    assert shape_of(empty(kind)).inner_dropped == 0


def test_dropout_within_the_inner_layers_keeps_more() -> None:
    assert encoder_decoder("t5", **T5).inner_dropped == 2  # its mask, and what it put out beside what came in
    assert (
        encoder_decoder("t5", **T5, feed_forward_proj="gated-gelu").inner_dropped == 1
    )  # a product keeps neither
    assert encoder_decoder("t5", **T5, dropout_rate=0.0).inner_dropped == 0


def test_dropout_is_asked_of_the_config() -> None:
    assert shape_of(empty("bert")).dropout
    assert shape_of(empty("bert")).attention_dropout
    without = shape_of(empty("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    assert not without.dropout
    assert not without.attention_dropout
    assert not shape_of(empty("llama")).dropout


def test_what_is_written_out_keeps_more_than_a_kernel() -> None:
    bert, gpt, llama = (shape_of(empty(kind)) for kind in ("bert", "gpt2", "llama"))
    assert bert.activation_keeps == llama.activation_keeps == 1  # GELU and SiLU by one kernel: what enters
    assert gpt.activation_keeps > 3  # gelu_new, a formula of its own
    assert bert.norm_keeps == pytest.approx(1, abs=0.2)  # with a mean and a spread a token
    assert llama.norm_keeps == pytest.approx(2, abs=0.2)  # RMSNorm by torch's single operators


def test_lora_and_packing_see_their_layers() -> None:
    shape = shape_of(empty("bert"))
    assert shape.linears["query"] == (3 * 16, 3 * 16)
    assert shape.linears["dense"] == (3 * (16 + 16 + 40) + 16, 3 * (16 + 40 + 16) + 16)  # and the pooler's
    assert shape.linear_sides == sum(map(sum, shape.linears.values()))
    assert shape.packable == 3 * (4 * 16 * 16 + 2 * 16 * 40) + 16 * 16
    assert shape.head == 2 * 16 + 2
    assert shape.embeddings == (50 + 64 + 2) * 16
    assert shape.largest == 64 * 16


def test_lora_has_so_many_weights(tmp_path: Path) -> None:
    source = ModelOptions(
        source=str(save_tiny_bert(tmp_path / "bert")), method=Method.LORA, lora_rank=4, lora_dropout=0.0
    )
    report = check_model(RunOptions(task=Task.TEXT_CLASSIFICATION, model=source))
    assert report.shape is not None
    assert report.trainable_parameters == 4 * report.shape.linear_sides + report.shape.head


def kept_of(name: str, size: int) -> float:
    """Bytes that autograd keeps of a pass of two real images, for each pixel, in numbers of fp32."""
    torch.manual_seed(0)
    model = load_vision_model(ModelOptions(source=f"torchvision:{name}", pretrained=False), 10, 0)
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    seen: dict[int, int] = {}
    alive = []

    def save(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            alive.append(tensor)
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        model.train()(torch.zeros(2, 3, size, size), torch.tensor([0, 1]))
    return sum(seen.values()) / 4 / (2 * size * size)


def test_an_images_pixels_keep_what_a_real_pass_keeps() -> None:
    assert image_shape("resnet18").kept_per_pixel == pytest.approx(kept_of("resnet18", 64), rel=0.03)


def image_shape(name: str) -> ModelShape:
    source = ModelOptions(source=f"torchvision:{name}", pretrained=False)
    with torch.device("meta"):
        return shape_of(load_vision_model(source, 10, 0))


@pytest.mark.parametrize("name", VISION_MODELS)
def test_every_vision_model_has_a_shape(name: str) -> None:
    shape = image_shape(name)
    assert shape.kept_per_pixel > shape.widest_per_pixel > 0
    assert 0 < shape.recomputed_per_pixel < shape.kept_per_pixel
    assert shape.inputs_per_pixel > 0
    assert (shape.layers, shape.packable) == (0, 0)


def test_the_report_has_it_whatever_learns(tmp_path: Path) -> None:
    source = save_tiny_bert(tmp_path / "bert", num_hidden_layers=2)
    asked = [
        RunOptions(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source=str(source), method=method))
        for method in (Method.FULL, Method.LORA, Method.HEAD)
    ]
    full, *others = [check_model(options).shape for options in asked]
    assert full is not None
    assert full.layers == 2
    assert others == [full, full]


def test_it_has_it_also_where_the_method_is_refused(tmp_path: Path) -> None:
    source = save_tiny_bert(tmp_path / "bert")
    edit_config(source, hidden_dropout_prob=0.1)
    asked = ModelOptions(source=str(source), method=Method.LORA, lora_targets=("nothing",))
    report = check_model(RunOptions(task=Task.TEXT_CLASSIFICATION, model=asked))
    assert report.problems
    assert report.shape is not None
    assert report.shape.dropout
