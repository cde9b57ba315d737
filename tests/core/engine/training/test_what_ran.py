"""What ran is read from torch and the live objects; where it differs from what was chosen, that is reported."""

import warnings

import msgspec
import pytest
import torch

from core.engine.environment import torch_settings
from core.engine.reporter import Reporter
from core.engine.training.differences import OPTIMIZERS, differences
from core.engine.training.what_ran import report_mps_fallbacks
from core.options.choices import DeepSpeed, Method, Optimizer, Padding, Precision, Toggle
from core.runs.events import Event, MessageRaised
from tests.fakes.models import save_tiny_bert
from tests.fakes.runs import what_ran
from tests.fakes.training import TinyRun, options_of, train

RAN = what_ran(
    optimizer="AdamW, fused",
    optimizer_state_bytes=800,
    optimizer_state={"float32": 800},
    trainable_parameters=100,
    total_parameters=100,
    effective_batch=16,
    decayed_parameters=0,
)
LION = OPTIMIZERS[Optimizer.LION_8BIT]
LORA = {"adapter": "LoRA, rank 16 on 12 layers", "trainable_parameters": 10}
ZERO_2 = {"deepspeed": DeepSpeed.ZERO_2}
ZERO_IN_BF16 = {**ZERO_2, "precision": Precision.BF16}
OFFLOADED = {"deepspeed": "ZeRO-2, optimizer in main memory"}
MULTIPLE = {"padded_to": "each batch's longest, to multiples of 64"}
LONGEST, FIXED = {"padded_to": "each batch's longest"}, {"padded_to": "128 tokens"}
GROUPED, RANDOM = {"sampling": "grouped by length"}, {"sampling": "random"}


@pytest.mark.parametrize(
    ("path", "chosen", "as_chosen", "otherwise"),
    [
        ("device.name", {"name": "cuda"}, {"device": "cuda:0"}, {}),
        ("device.precision", {"precision": Precision.FP32}, {"matmul": "fp32"}, {"matmul": "tf32"}),
        ("device.precision", {"precision": Precision.FP32}, {}, {"autocast_dtype": "bfloat16"}),
        ("device.precision", {"precision": Precision.TF32}, {"matmul": "tf32"}, {"matmul": "fp32"}),
        (
            "device.precision",
            {"precision": Precision.BF16},
            {"autocast_dtype": "bfloat16", "matmul": "fp32"},
            {},
        ),
        (
            "device.precision",
            {"precision": Precision.FP16},
            {"autocast_dtype": "float16", "loss_scale": 65536.0},
            {"autocast_dtype": "float16"},
        ),
        ("device.precision", ZERO_IN_BF16, {**OFFLOADED, "parameter_dtype": "bfloat16"}, OFFLOADED),
        ("device.precision", ZERO_IN_BF16, {**OFFLOADED, "autocast_dtype": "bfloat16"}, OFFLOADED),
        ("device.threads", {"threads": 4}, {"threads": 4}, {"threads": 8}),
        ("device.compile", {"compile": True}, {"compiled": "inductor, default"}, {"compiled": "cudagraphs"}),
        ("device.compile", {}, {}, {"compiled": "cudagraphs"}),
        ("model.attention", {}, {"attention": "sdpa"}, {"attention": "sdpa + eager"}),
        ("model.method", {"method": Method.FULL}, {}, LORA),
        ("model.method", {"method": Method.LORA}, LORA, {}),
        ("model.method", {"method": Method.HEAD}, {"trainable_parameters": 2}, {}),
        ("model.quantization", {"method": Method.QLORA}, {**LORA, "packed_parameters": 80}, LORA),
        ("data.workers", {"workers": 2}, {"workers": (7, 8)}, {"workers": (7,)}),
        ("data.pin_memory", {"pin_memory": Toggle.ON}, {"pinned": True}, {}),
        ("data.pin_memory", {"pin_memory": Toggle.OFF}, {}, {"pinned": True}),
        ("data.padding", {"padding": Padding.FIXED}, FIXED, LONGEST),
        ("data.padding", {}, LONGEST, FIXED),
        ("data.pad_to_multiple_of", {"pad_to_multiple_of": 64}, MULTIPLE, LONGEST),
        ("data.pad_to_multiple_of", {"pad_to_multiple_of": 1}, LONGEST, MULTIPLE),
        ("data.padding", {"padding": Padding.FIXED}, FIXED, MULTIPLE),
        ("data.group_by_length", {"group_by_length": Toggle.ON}, GROUPED, RANDOM),
        ("data.group_by_length", {"group_by_length": Toggle.OFF}, RANDOM, GROUPED),
        ("memory.batch_size", {}, {}, {"effective_batch": 32}),
        ("memory.activation_checkpointing", {"activation_checkpointing": True}, {"recomputed": 12}, {}),
        ("memory.empty_cache_steps", {"empty_cache_steps": 50}, {"empty_cache_steps": 50}, {}),
        ("memory.deepspeed", ZERO_2, OFFLOADED, {}),
        ("memory.deepspeed", {}, {}, {"deepspeed": "ZeRO-2"}),
        ("memory.fsdp", {"fsdp": True}, {"shards": 2}, {}),
        ("memory.fsdp", {}, {}, {"shards": 2}),
        ("memory.offload", ZERO_2, OFFLOADED, {"deepspeed": "ZeRO-2"}),
        ("memory.offload", ZERO_2, OFFLOADED, {"deepspeed": "ZeRO-2, optimizer in NVMe"}),
        (
            "training.optimizer",
            {"optimizer": Optimizer.LION_8BIT},
            {"optimizer": LION, "optimizer_state": {"uint8": 2}},
            {"optimizer": LION},
        ),
        (
            "training.optimizer",
            {"offload_optimizer": True},
            {"optimizer": "CPUOffloadOptimizer (torchao)"},
            {},
        ),
        (
            "training.optimizer",
            {"optimizer": Optimizer.ADAM},
            {"optimizer": "Adam, fused"},
            {"optimizer": "Adam"},
        ),
        ("training.weight_decay", {"weight_decay": 0.1}, {"decayed_parameters": 90}, {}),
        (
            "training.beta2",
            {"beta2": 0.98},
            {"optimizer_numbers": {"beta2": 0.98, "momentum": 0.0}},
            {"optimizer_numbers": {"beta2": 0.999}},
        ),
        ("training.deterministic", {"deterministic": True}, {"deterministic": True}, {}),
    ],
)
def test_only_what_ran_otherwise_is_reported_at_its_option(path, chosen, as_chosen, otherwise):
    found = [
        [
            difference.path
            for difference in differences(options_of(**chosen), msgspec.structs.replace(RAN, **ran))
        ]
        for ran in (as_chosen, otherwise)
    ]
    assert found == [[], [path]]


@pytest.mark.parametrize(
    ("chosen", "ran"),
    [
        ({}, {"attention": "eager"}),  # the model has no sdpa
        ({"compile": True}, {}),  # that it failed was reported at once
        (
            {"optimizer": Optimizer.LION_8BIT},  # it has an epsilon and reads none
            {"optimizer": LION, "optimizer_state": {"uint8": 2}, "optimizer_numbers": {"epsilon": 0.0}},
        ),
    ],
)
def test_a_difference_that_nobody_chose_is_not_reported(chosen, ran):
    assert differences(options_of(**chosen), msgspec.structs.replace(RAN, **ran)) == ()


# --- Threads, determinism, number formats and operators


@pytest.fixture(autouse=True)
def torch_as_before():
    threads, fp32 = torch.get_num_threads(), torch.backends.fp32_precision
    always = torch.is_warn_always_enabled()
    yield
    torch.set_num_threads(threads)
    torch.backends.fp32_precision = fp32
    torch.use_deterministic_algorithms(False)
    torch.set_warn_always(always)


def test_full_determinism_repeats_losses_and_weights_to_the_bit_on_so_many_threads(tmp_path):
    bert = save_tiny_bert(tmp_path / "bert", hidden_dropout_prob=0.1)

    def run(name: str, seed: int) -> TinyRun:
        return train(tmp_path / name, source=bert, seed=seed, deterministic=True, threads=3)

    first, second, other = run("first", 7), run("second", 7), run("other", 8)
    assert (first.what_ran.deterministic, first.what_ran.threads, first.messages) == (True, 3, {})
    losses = [[step.loss for step in tiny.steps] for tiny in (first, second, other)]
    assert losses[0] == losses[1] != losses[2]
    weights, repeated = (tiny.trainer.model.state_dict() for tiny in (first, second))
    assert all(torch.equal(weights[name], repeated[name]) for name in weights)


@pytest.mark.parametrize(("precision", "matmul"), [("tf32", "tf32"), ("ieee", "fp32"), ("none", "fp32")])
def test_how_cuda_multiplies_is_read_from_torch(precision, matmul):
    """The setting is there without a GPU; Trainer sets it through the same attribute."""
    torch.backends.fp32_precision = precision
    assert (torch_settings("cuda")["matmul"], torch_settings("cpu")["matmul"]) == (matmul, "")


def test_each_operator_that_mps_lacks_is_named_once_and_other_warnings_go_on(monkeypatch):
    passed_on: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: passed_on.append(str(message)))
    reporter, events = Reporter(None), list[Event]()
    reporter.listeners.append(events.append)
    fell_back = report_mps_fallbacks(reporter)
    fallback = "The operator '{}' is not currently supported on the MPS backend and will fall back to run on the CPU."
    for words in (*map(fallback.format, ("aten::unique", "aten::unique", "aten::histc")), "something else"):
        warnings.showwarning(UserWarning(words), UserWarning, "here.py", 1)
    raised = [event.id for event in events if isinstance(event, MessageRaised)]
    assert raised == ["fallback-aten::unique", "fallback-aten::histc"]
    assert fell_back == ["aten::unique", "aten::histc"]
    assert passed_on == ["something else"]
