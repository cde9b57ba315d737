"""The memory forecast: what each part comes to, which moment is the fullest, and what options change."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.memory import estimate
from core.memory.case import case_of
from core.memory.model import Basis, FitVerdict, Kept, KeptTensor, ModelShape, Parts, Room
from core.options import RunOptions
from core.options.device_support import DeviceReport, Settled
from core.options.validate import read_options
from tests.fakes import model_shapes

CPU = DeviceReport(name="cpu", title="a processor", available=True, memory_bytes=32 << 30)
CUDA = DeviceReport(name="cuda:0", title="a GPU", available=True, memory_bytes=24 << 30)
MPS = DeviceReport(name="mps", title="Apple M3", available=True, memory_bytes=27 << 30)

BERT = replace(
    model_shapes.BERT,
    linears={
        "query": (12 * 768, 12 * 768),
        "key": (12 * 768, 12 * 768),
        "value": (12 * 768, 12 * 768),
        "dense": (12 * 6 * 768, 12 * 6 * 768),
    },
    kept=model_shapes.kept(12, 768, 3072, heads=12, casts=85_646_594),
)
IMAGES = Kept(
    blocks=(KeptTensor(40.0, count=6),),
    outside=(KeptTensor(240.0),),
    entering=60.0,
    largest=0.25,
    into_linears=50.0,
)
RESNET = ModelShape(
    parameters=11_700_000,
    head=5_130,
    linears={"conv1": (5_000, 5_000)},
    largest=2_359_296,
    kept=dict.fromkeys(("full", "frozen"), IMAGES),
)
LEAST_OVERHEAD = {"cpu": estimate.LIBRARIES, "cuda": estimate.CUDA_CONTEXT, "mps": estimate.LIBRARIES}

RECOMPUTED = {"activation_checkpointing": True}


def asked(task: str = "text-classification", **sections: dict[str, Any]) -> RunOptions:
    sections.setdefault("device", {})
    sections["device"] = {"precision": "fp32", **sections["device"]}
    options, problems = read_options({"task": task, **sections})
    assert options is not None, problems
    return options


def parts(where: DeviceReport = CUDA, shape: ModelShape = BERT, **sections: Any) -> Parts:
    return estimate.forecast(asked(**sections), shape, where).parts


def test_the_fullest_moment_of_a_step():
    large, small = parts(memory={"batch_size": 32}), parts(memory={"batch_size": 1})
    assert (large.weights, large.optimizer) == (4 * BERT.parameters, 8 * BERT.parameters)
    assert large.gradients == 0, "the fullest moment is when the backward pass begins"
    assert large.activations > 4 * BERT.parameters
    tensors = large.total - large.overhead
    assert large.overhead == estimate.CUDA_CONTEXT + round(estimate.CUDA_UNUSED * tensors)
    assert (small.gradients, small.activations) == (4 * BERT.parameters, 0), "when the weights move"
    assert small.total - small.overhead == 16 * BERT.parameters
    accumulated = parts(memory={"batch_size": 32, "gradient_accumulation_steps": 2})
    assert (accumulated.gradients, accumulated.activations) == (4 * BERT.parameters, large.activations)


TABLE, REST = BERT.embeddings, BERT.parameters - BERT.embeddings


@pytest.mark.parametrize(
    ("training", "memory", "state"),
    [
        ({"optimizer": "adamw"}, {}, 8 * BERT.parameters),
        ({"optimizer": "adam"}, {}, 8 * BERT.parameters),
        ({"optimizer": "ademamix"}, {}, 12 * BERT.parameters),
        ({"optimizer": "adafactor"}, {}, 0.04 * BERT.parameters),
        ({"optimizer": "sgd"}, {}, 4 * BERT.parameters),
        ({"optimizer": "sgd", "momentum": 0.0}, {}, 0),
        ({"optimizer": "adamw-8bit"}, {}, 2.03 * REST + 8 * TABLE),  # not for tables of tokens
        ({"optimizer": "lion"}, {}, 4 * BERT.parameters),
        ({"optimizer": "lion-8bit"}, {}, 1.02 * REST + 4 * TABLE),
        ({"max_grad_norm": 0.0}, {"offload_optimizer": True}, 0),
        ({}, {"deepspeed": "zero-2", "offload": "cpu"}, 0),
        ({}, {"deepspeed": "zero-2", "offload": "none"}, 12 * BERT.parameters),
    ],
)
def test_state_is_so_many_bytes_a_weight(training, memory, state):
    found = parts(memory={"batch_size": 32, **memory}, training=training)
    assert found.optimizer == pytest.approx(state)


def test_zero_on_a_cpu_offloads_nothing_and_adafactor_goes_by_the_shape():
    zero = {"batch_size": 32, "deepspeed": "zero-2", "offload": "cpu"}
    assert parts(memory=zero).gradients == 0
    assert parts(CPU, memory=zero).optimizer == 12 * BERT.parameters
    factored = replace(BERT, factored=1_000_000)
    adafactor = {"memory": {"batch_size": 32}, "training": {"optimizer": "adafactor"}}
    assert parts(shape=factored, **adafactor).optimizer == 4_000_000


@pytest.mark.parametrize(
    ("where", "optimizer", "copies"),
    [
        (CUDA, "adamw", 0),
        (CUDA, "adafactor", 2),
        (CUDA, "lion", 1),
        *((CUDA, optimizer, 0) for optimizer in ("adamw-8bit", "ademamix")),  # kernels update in place
        (CPU, "adamw-8bit", 3),
        (CPU, "lion-8bit", 3),
        (CPU, "ademamix", 4),
    ],
)
def test_what_an_optimizer_computes_on_the_side(where, optimizer, copies):
    asks: dict[str, Any] = {"memory": {"batch_size": 1}, "training": {"optimizer": optimizer}}
    assert parts(where, **asks).temporary == copies * 4 * BERT.largest  # of the table of tokens
    if where is CPU:
        few_words = replace(BERT, embeddings=100 * BERT.hidden, largest=4 * BERT.hidden**2)
        of_inner = 4 if optimizer == "ademamix" else 5
        assert parts(CPU, few_words, **asks).temporary == of_inner * 4 * 4 * BERT.hidden**2


def test_half_precision_halves_activations_and_copies_weights():
    single = parts(memory={"batch_size": 64})
    half = parts(memory={"batch_size": 64}, device={"precision": "bf16"})
    assert half.weights == single.weights, "they stay fp32"
    assert 0.45 < half.activations / single.activations < 0.75  # what goes from block to block does, too
    copies = half.temporary - single.temporary / 2
    assert copies == pytest.approx(2 * (BERT.parameters - BERT.embeddings), rel=0.01)


def test_frozen_weights_in_16_bits_take_half_and_need_no_copies_in_the_same_format():
    def of(frozen: str, method: str = "lora", precision: str = "bf16") -> Parts:
        shape = replace(BERT, holdable=BERT.packable + BERT.embeddings)
        model = {"method": method, "frozen_precision": frozen}
        return parts(CUDA, shape, model=model, device={"precision": precision}, memory={"batch_size": 1})

    single, half = of("fp32"), of("bf16")
    assert single.weights - half.weights == 2 * (BERT.packable + BERT.embeddings)
    assert single.temporary - half.temporary == BERT.kept["frozen-half"].casts
    assert half.gradients == single.gradients
    assert of("bf16", "head").weights == of("fp32", "head").weights - 2 * (BERT.packable + BERT.embeddings)
    assert of("bf16", "qlora").weights == of("fp32", "qlora").weights - 2 * BERT.embeddings
    assert of("bf16", "full") == of("fp32", "full")
    copied = of("bf16", precision="fp32").temporary - of("fp32", precision="fp32").temporary
    assert copied == 4 * BERT.largest_linear


def test_checkpointing_keeps_what_enters_each_block_and_one_block_whole():
    plain = parts(memory={"batch_size": 64})
    again = parts(memory={"batch_size": 64, "activation_checkpointing": True})
    assert again.gradients, "so little is kept that it is fullest when most gradients are there"
    assert plain.activations / 13 < again.activations < plain.activations / 10
    recomputed = {"activation_checkpointing": True, "gradient_accumulation_steps": 2}
    accumulated = parts(memory={"batch_size": 64, **recomputed})
    entering = 64 * 128 * 4 * BERT.hidden * BERT.layers
    assert entering + plain.activations / 13 < accumulated.activations < plain.activations / 4
    half = parts(memory={"batch_size": 1, **recomputed}, device={"precision": "fp16"})
    assert half.temporary == 2 * (BERT.parameters - BERT.embeddings), "all weights are cast once"


def test_gradients_pass_through_blocks_with_adapters_alone_unless_trainer_recomputes_them():
    shape = replace(BERT, blocks=12)

    def activations(last: int, **memory: Any) -> int:
        model = {"method": "lora", "lora_layers": last}
        return parts(shape=shape, model=model, memory={"batch_size": 32, **memory}).activations

    assert activations(3) == pytest.approx(activations(0) / 4, rel=0.05)
    assert activations(12) == activations(40) == activations(0)
    assert activations(3, **RECOMPUTED) == activations(0, **RECOMPUTED)
    assert parts(shape=shape, model={"lora_layers": 3}) == parts(shape=shape)


def test_what_is_kept_grows_with_the_batch_and_with_the_square_of_the_length():
    kept = KeptTensor(4.0 * BERT.hidden), KeptTensor(0.0, 48.0, count=12)
    shape = replace(BERT, kept={"full": Kept(blocks=kept, largest=1 / 12)})
    for rows, tokens in ((64, 128), (64, 512), (128, 512)):
        case = case_of(asked(data={"max_length": tokens}, memory={"batch_size": rows}), shape, CPU)
        assert estimate.kept_bytes(case) == rows * tokens * (4 * BERT.hidden + 12 * 48 * tokens)


def test_adapters_and_a_last_layer_learn_little():
    lora = {"method": "lora", "lora_rank": 8}
    found = parts(model=lora, memory={"batch_size": 1})
    matrices = 8 * sum(map(sum, BERT.linears.values()))
    assert found.weights == 4 * (BERT.parameters + matrices + BERT.head)
    assert found.optimizer == 8 * (matrices + BERT.head)
    few = parts(model={**lora, "lora_targets": ["query"]}, memory={"batch_size": 1})
    assert few.optimizer == 8 * (8 * 12 * 2 * 768 + BERT.head)
    assert few.activations < found.activations
    rest = BERT.parameters - BERT.packable + 16 * sum(map(sum, BERT.linears.values())) + BERT.head
    for quantization, each in (("nf4", 0.516), ("int8", 1.0), ("affine4", 0.5625), ("affine8", 1.0625)):
        quantized = parts(model={"method": "qlora", "quantization": quantization})
        assert quantized.weights == pytest.approx(each * BERT.packable + 4 * rest, rel=1e-3)
    dora = parts(model={**lora, "lora_dora": True}, memory={"batch_size": 1})
    outputs = sum(sides[1] for sides in BERT.linears.values())
    assert dora.optimizer - found.optimizer == 8 * outputs
    one_long_row = {"memory": {"batch_size": 1}, "data": {"max_length": 512}}
    before, after = (parts(model={**lora, "lora_dora": dora}, **one_long_row) for dora in (False, True))
    assert after.activations - before.activations == 512 * 2 * 4 * outputs
    for dropout, again in ((0.0, 0), (0.1, 4 * BERT.packable)):  # nf4 weights that stay unpacked
        kept = [
            parts(model={"method": "qlora", "lora_dropout": dropout, "lora_dora": dora})
            for dora in (False, True)
        ]
        assert kept[1].temporary - kept[0].temporary == pytest.approx(again, abs=30 << 20)
    half = parts(shape=replace(BERT, blocks=12), model={**lora, "lora_layers": 6}, memory={"batch_size": 1})
    assert half.optimizer == found.optimizer - 4 * matrices
    assert half.activations < 0.6 * found.activations
    head = parts(model={"method": "head"}, memory={"batch_size": 64})
    assert (head.activations, head.optimizer) == (0, 8 * BERT.head)
    half = parts(model={"method": "head"}, memory={"batch_size": 64}, device={"precision": "bf16"})
    assert half.temporary < head.temporary


def test_images_take_by_the_pixel():
    found = {
        (size, again): parts(
            shape=RESNET,
            task="image-classification",
            data={"image_size": size},
            memory={"batch_size": 16, "activation_checkpointing": again},
        ).activations
        for size in (112, 224)
        for again in (False, True)
    }
    ahead = 12  # bytes of the colours of the batch that is read ahead
    assert found[224, False] == 16 * 224 * 224 * (480 + ahead) == 4 * found[112, False]
    assert found[224, True] == 16 * 224 * 224 * (60 + 60 + 240 + ahead)
    sections = {"task": "image-classification", "model": {"source": "torchvision:resnet18"}}
    of_folder = parts(CPU, RESNET, **sections, data={"image_size": 64}).overhead
    random = parts(CPU, RESNET, **sections, data={"train": "synthetic:1000x64"}).overhead
    assert random - of_folder == 1000 * 3 * 64 * 64, "random ones stay in memory"


@pytest.mark.parametrize(
    ("data", "length", "taken", "note"),
    [
        (
            {"train": "synthetic:64x256"},
            None,
            256,
            "All examples are assumed to have the maximum of 256 tokens",
        ),
        ({"train": "synthetic:64x256"}, 100, 100, ""),
        ({"max_length": 256, "padding": "fixed"}, 60, 256, ""),
        ({"max_length": 256}, 60, 60, ""),
        ({"max_length": 256, "pad_to_multiple_of": 64}, 60, 64, ""),
        ({"max_length": 100, "pad_to_multiple_of": 64}, 70, 100, ""),
        ({"train": "synthetic:64x256", "max_length": 128, "pad_to_multiple_of": 64}, 250, 250, ""),
        ({"max_length": 1024}, 60, 60, ""),
        ({"max_length": 4096}, None, 512, "All examples are assumed to have the maximum of 512 tokens"),
    ],
)
def test_the_longest_row(data, length, taken, note):
    found = estimate.forecast(asked(data=data), BERT, CPU, length=length)
    assert found.length == taken
    assert " ".join(found.notes).startswith(note)
    assert bool(found.notes) is bool(note)


def test_a_model_from_scratch_has_as_many_positions_as_the_options_ask_for():
    options = asked("causal-lm", model={"source": "scratch:llama-small"}, data={"max_length": 2048})
    assert case_of(options, replace(BERT, positions=256), CPU).length == 2048


def test_automatic_options_are_resolved_first():
    automatic = replace(CPU, automatic={"device.precision": Settled("bf16", "it can")})
    options = asked(device={"precision": "auto"})
    assert case_of(options, BERT, automatic).is_half
    assert not case_of(options, BERT, CPU).is_half
    rounded = replace(CPU, automatic={"data.pad_to_multiple_of": Settled("64", "shapes")})
    assert case_of(options, BERT, rounded, 10).length == 64
    assert case_of(asked("causal-lm"), BERT, rounded, 10).length == 10


def test_the_heap_keeps_gaps_where_it_is_glibcs(monkeypatch):
    tiny, again = ({"batch_size": 16, "activation_checkpointing": recomputed} for recomputed in (False, True))
    found = {}
    for has_glibc in (True, False):
        monkeypatch.setattr(estimate, "uses_glibc", lambda it=has_glibc: it)
        found[has_glibc] = parts(CPU, memory=tiny), parts(CPU, memory=again), parts(memory=tiny)
    gaps = [one.overhead - other.overhead for one, other in zip(found[True], found[False], strict=True)]
    assert 0.25 < gaps[0] / found[True][0].activations < 0.6
    assert gaps[1] > found[True][1].activations, "few tensors that come and go leave more gaps than they take"
    assert gaps[2] == 0, "CUDA's allocator is torch's own"
    assert found[False][0].overhead == estimate.LIBRARIES + estimate.FIRST_USE + estimate.REAL_TEXTS
    monkeypatch.setattr(estimate, "uses_glibc", lambda: True)
    cases = (case_of(asked(memory={"batch_size": rows}), BERT, CPU) for rows in (16, 64))
    one, four = map(estimate.unused_bytes, cases)
    assert one < four < 3.5 * one, "large tensors leave few gaps"


def test_a_correction_and_the_room_come_with_the_forecast():
    plain = estimate.forecast(asked(), BERT, CPU)
    room = Room(free=4 << 30, ceiling=8 << 30)
    taught = estimate.forecast(asked(), BERT, CPU, room=room, correction=1.2)
    assert (taught.basis, taught.device, taught.correction, taught.room) == (Basis.FORMULA, "cpu", 1.2, room)
    assert taught.parts.total == pytest.approx(1.2 * plain.parts.total, rel=1e-6)
    assert (plain.verdict, taught.verdict) == (FitVerdict.UNKNOWN, FitVerdict.TOO_LARGE)


FOUR: dict[str, Any] = {"device": {"processes": 4}, "memory": {"fsdp": True}}


def test_processes_on_a_cpu_share_its_memory_and_have_all_of_it_each():
    whole, both = (parts(CPU, device={"processes": count}) for count in (1, 2))
    assert both.weights == 2 * whole.weights
    assert both.overhead == 2 * whole.overhead + estimate.AGENT
    options = asked(device={"processes": 2})
    forecast = estimate.forecast(options, BERT, CPU)
    assert any("2 processes share this memory" in note for note in forecast.notes)


def test_on_gpus_nothing_is_divided_and_the_gradients_stay():
    whole, both = (parts(CUDA, device={"processes": count}, memory={"batch_size": 64}) for count in (1, 2))
    assert (whole.gradients, both.gradients) == (0, both.weights)
    assert (both.weights, both.optimizer, both.activations) == (
        whole.weights,
        whole.optimizer,
        whole.activations,
    )


def test_fsdp_divides_what_lasts_and_puts_layers_together():
    whole = parts(CUDA, device={"processes": 4}, memory={"batch_size": 64})
    shard = parts(CUDA, device={"processes": 4}, memory={"batch_size": 64, "fsdp": True})
    assert shard.weights == pytest.approx(whole.weights / 4, abs=4)
    assert shard.optimizer == pytest.approx(whole.optimizer / 4, abs=4)
    assert shard.activations == whole.activations
    block = (BERT.parameters - BERT.embeddings) // BERT.layers
    gathered = 4 * (2 * block + BERT.largest) + 8 * max(block, BERT.largest) + 4 * block
    assert shard.temporary == whole.temporary + gathered
    half = {"device": {"processes": 4, "precision": "bf16"}}
    copies = parts(CUDA, **half, memory={"batch_size": 64}).temporary
    # no copies of autocast's stay, which would not be divided
    assert parts(CUDA, **half, memory={"batch_size": 64, "fsdp": True}).temporary < copies + gathered
    frozen = {"model": {"method": "lora"}, "training": {"learning_rate": 1e-4}}
    adapter = (
        parts(CUDA, **frozen, **FOUR).temporary - parts(CUDA, **frozen, device={"processes": 4}).temporary
    )
    assert adapter == 4 * (2 * block + BERT.largest)


@pytest.mark.parametrize(("stage", "divides_weights"), [("zero-2", False), ("zero-3", True)])
def test_deepspeed_divides_among_processes_too(stage, divides_weights):
    memory = {"deepspeed": stage, "batch_size": 64}
    one, four = (parts(CPU, device={"processes": count}, memory=memory) for count in (1, 4))
    assert four.optimizer == pytest.approx(one.optimizer, abs=16)  # a quarter, four times
    assert (four.weights == pytest.approx(one.weights, abs=16)) is divides_weights


GB = 1 << 30


@pytest.mark.parametrize(
    ("recommended", "limit", "batch", "unused"),
    [
        (27, 1.0, 1, 0.5),  # 1.63 GB of tensors
        (27, 1.0, 32, 0.5),  # 4.45 GB
        (5, 1.0, 32, 0),  # more than 0.82 x 5 GB
        (5, 0.5, 8, 0.03),  # 2.03 GB, and 0.82 x 2.5 GB
        (5, 2.0, 32, 0),
        (None, 1.0, 32, 0.5),
    ],
)
def test_on_a_mac_half_a_heap_is_unused_until_memory_is_short(recommended, limit, batch, unused):
    """Beyond torch's low watermark heaps are only as large as needed."""
    mac = replace(MPS, memory_bytes=recommended and recommended * GB)
    asks = {"memory": {"batch_size": batch}, "device": {"mps_memory_limit": limit}}
    exact, found = (parts(where, **asks) for where in (CPU, mac))
    more = found.total - found.overhead - (exact.total - exact.overhead)
    assert more / GB == pytest.approx(unused, abs=0.005)
    assert found.temporary - exact.temporary == more


def test_small_tensors_take_small_heaps():
    for size, heap in ((32, estimate.SMALL_HEAP), (224, GB)):  # one feature map is larger than 10 MB
        images = {"memory": {"batch_size": 4}, "data": {"image_size": size}}
        exact, found = (parts(one, RESNET, task="image-classification", **images) for one in (CPU, MPS))
        assert found.temporary - exact.temporary == heap // 2
