"""The memory forecast: what each part comes to, which moment is the fullest, and what options change."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.memory import estimate
from core.memory.estimate import case_of
from core.memory.explain import explain_parts
from core.memory.model import Basis, Forecast, Kept, KeptTensor, ModelShape, Parts, Room, Verdict
from core.options import RunOptions
from core.options.device_support import DeviceReport, Settled
from core.options.validate import read_options
from tests.fakes import asked_of_bert

CPU = DeviceReport(name="cpu", title="a processor", available=True, memory_bytes=32 << 30)
CUDA = DeviceReport(name="cuda:0", title="a GPU", available=True, memory_bytes=24 << 30)
MPS = DeviceReport(name="mps", title="Apple M3", available=True, memory_bytes=27 << 30)

BERT = replace(
    asked_of_bert.BERT,
    linears={
        "query": (12 * 768, 12 * 768),
        "key": (12 * 768, 12 * 768),
        "value": (12 * 768, 12 * 768),
        "dense": (12 * 6 * 768, 12 * 6 * 768),
    },
    kept=asked_of_bert.kept(12, 768, 3072, heads=12, casts=85_646_594),
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
PAGES = {"cpu": estimate.LIBRARIES, "cuda": estimate.CUDA_CONTEXT, "mps": estimate.MPS_DRIVER}


def asked(task: str = "text-classification", **sections: dict[str, Any]) -> RunOptions:
    sections.setdefault("device", {})
    sections["device"] = {"precision": "fp32", **sections["device"]}
    options, problems = read_options({"task": task, **sections})
    assert options is not None, problems
    return options


def parts(where: DeviceReport = CUDA, shape: ModelShape = BERT, **sections: Any) -> Parts:
    return estimate.forecast(asked(**sections), shape, where).parts


def test_a_plain_run_keeps_weights_state_and_activations_until_gradients_come() -> None:
    found = parts(memory={"batch_size": 32})
    assert found.weights == 4 * BERT.parameters
    assert found.optimizer == 8 * BERT.parameters
    assert found.gradients == 0  # the fullest moment is when the backward pass begins
    assert found.activations > 4 * BERT.parameters
    tensors = found.total - found.overhead
    assert found.overhead == estimate.CUDA_CONTEXT + round(estimate.CUDA_UNUSED * tensors)


def test_a_small_batch_is_fullest_when_the_weights_move() -> None:
    found = parts(memory={"batch_size": 1})
    assert found.gradients == 4 * BERT.parameters
    assert found.activations == 0
    assert found.total - found.overhead == 16 * BERT.parameters


def test_accumulated_gradients_are_there_beside_the_activations() -> None:
    plain = parts(memory={"batch_size": 32})
    accumulated = parts(memory={"batch_size": 32, "gradient_accumulation_steps": 2})
    assert accumulated.gradients == 4 * BERT.parameters
    assert accumulated.activations == plain.activations


@pytest.mark.parametrize(
    ("optimizer", "each"),
    [("adamw", 8), ("adam", 8), ("ademamix", 12), ("adafactor", 0.04), ("sgd", 4)],
)
def test_state_is_so_many_bytes_a_weight(optimizer: str, each: float) -> None:
    found = parts(memory={"batch_size": 32}, training={"optimizer": optimizer})
    assert found.optimizer == pytest.approx(each * BERT.parameters)


@pytest.mark.parametrize(("optimizer", "each", "table"), [("adamw-8bit", 2.03, 8), ("lion-8bit", 1.02, 4)])
def test_8_bits_are_not_for_tables_of_tokens(optimizer: str, each: float, table: int) -> None:
    found = parts(memory={"batch_size": 32}, training={"optimizer": optimizer})
    rest = BERT.parameters - BERT.embeddings
    assert found.optimizer == pytest.approx(each * rest + table * BERT.embeddings)


def test_sgd_without_momentum_remembers_nothing() -> None:
    assert parts(training={"optimizer": "sgd", "momentum": 0.0}).optimizer == 0


def test_adafactor_computes_its_update_on_the_side() -> None:
    adamw = parts(memory={"batch_size": 1})
    adafactor = parts(memory={"batch_size": 1}, training={"optimizer": "adafactor"})
    assert adamw.temporary == 0
    assert adafactor.temporary == 2 * 4 * BERT.largest


@pytest.mark.parametrize(
    ("optimizer", "of_table", "of_inner"), [("adamw-8bit", 3, 5), ("lion-8bit", 3, 5), ("ademamix", 4, 4)]
)
def test_bitsandbytes_makes_copies_on_a_cpu(optimizer: str, of_table: int, of_inner: int) -> None:
    asks: dict[str, Any] = {"memory": {"batch_size": 1}, "training": {"optimizer": optimizer}}
    assert parts(CPU, **asks).temporary == of_table * 4 * BERT.largest  # the table of tokens
    few_words = replace(BERT, embeddings=100 * BERT.hidden, largest=4 * BERT.hidden**2)
    assert parts(CPU, few_words, **asks).temporary == of_inner * 4 * 4 * BERT.hidden**2
    assert parts(CUDA, **asks).temporary == 0  # kernels update in place


def test_half_precision_halves_activations_and_copies_weights() -> None:
    single = parts(memory={"batch_size": 64})
    half = parts(memory={"batch_size": 64}, device={"precision": "bf16"})
    assert half.weights == single.weights  # they stay fp32
    assert 0.45 < half.activations / single.activations < 0.75  # what goes from block to block does, too
    assert half.temporary - single.temporary / 2 == pytest.approx(
        2 * (BERT.parameters - BERT.embeddings), rel=0.01
    )


def test_computing_again_keeps_what_enters_each_block_and_one_block_whole() -> None:
    plain = parts(memory={"batch_size": 64})
    again = parts(memory={"batch_size": 64, "activation_checkpointing": True})
    tokens = 64 * 128
    assert (
        again.gradients
    )  # what is left to keep is so little that it is fullest when most gradients are there
    assert plain.activations / 13 < again.activations < plain.activations / 10
    accumulated = parts(
        memory={"batch_size": 64, "activation_checkpointing": True, "gradient_accumulation_steps": 2}
    )
    assert accumulated.activations > tokens * 4 * BERT.hidden * BERT.layers + plain.activations / 13
    assert accumulated.activations < plain.activations / 4


def test_computing_again_in_half_precision_still_casts_all_weights_once() -> None:
    asked_for = {"batch_size": 1, "gradient_accumulation_steps": 4, "activation_checkpointing": True}
    found = parts(memory=asked_for, device={"precision": "fp16"})
    assert found.temporary == 2 * (BERT.parameters - BERT.embeddings)


def test_what_is_kept_grows_with_the_batch_and_with_the_square_of_the_length() -> None:
    kept = KeptTensor(4.0 * BERT.hidden), KeptTensor(0.0, 48.0, count=12)
    shape = replace(BERT, kept={"full": Kept(blocks=kept, largest=1 / 12)})
    for rows, tokens in ((64, 128), (64, 512), (128, 512)):
        case = case_of(asked(data={"max_length": tokens}, memory={"batch_size": rows}), shape, CPU)
        assert estimate.kept_bytes(case) == rows * tokens * (4 * BERT.hidden + 12 * 48 * tokens)


def test_lora_learns_little_and_keeps_what_its_matrices_need() -> None:
    found = parts(model={"method": "lora", "lora_rank": 8}, memory={"batch_size": 1})
    matrices = 8 * BERT.linear_sides
    assert found.weights == 4 * (BERT.parameters + matrices + BERT.head)
    assert found.optimizer == 8 * (matrices + BERT.head)
    few = parts(model={"method": "lora", "lora_rank": 8, "lora_targets": ["query"]}, memory={"batch_size": 1})
    assert few.optimizer == 8 * (8 * 12 * 2 * 768 + BERT.head)
    assert few.activations < found.activations


def test_packed_weights_take_half_a_byte() -> None:
    rest = BERT.parameters - BERT.packable + 16 * BERT.linear_sides + BERT.head
    for quantization, each in (("nf4", 0.516), ("int8", 1.0)):
        found = parts(model={"method": "qlora", "quantization": quantization})
        assert found.weights == pytest.approx(each * BERT.packable + 4 * rest, rel=1e-3)


def test_adafactor_remembers_what_the_shape_says() -> None:
    asks: dict[str, Any] = {"memory": {"batch_size": 32}, "training": {"optimizer": "adafactor"}}
    assert parts(shape=replace(BERT, factored=1_000_000), **asks).optimizer == 4_000_000
    assert parts(**asks).optimizer == pytest.approx(0.04 * BERT.parameters)


def test_a_last_layer_alone_keeps_nothing_below() -> None:
    found = parts(model={"method": "head"}, memory={"batch_size": 64})
    assert found.activations == 0
    assert found.optimizer == 8 * BERT.head
    assert parts(
        model={"method": "head"}, memory={"batch_size": 64}, device={"precision": "bf16"}
    ).temporary < (found.temporary)


def test_images_take_by_the_pixel() -> None:
    found = {
        (size, again): parts(
            shape=RESNET,
            task="image-classification",
            data={"image_size": size},
            memory={"batch_size": 16, "activation_checkpointing": again},
        )
        for size in (112, 224)
        for again in (False, True)
    }
    ahead = 12  # bytes of the colours of the batch that is read ahead
    assert found[224, False].activations == 16 * 224 * 224 * (480 + ahead)
    assert found[224, False].activations == 4 * found[112, False].activations
    assert found[224, True].activations == 16 * 224 * 224 * (60 + 60 + 240 + ahead)


def test_random_data_says_how_long_its_rows_are() -> None:
    options = asked(data={"train": "synthetic:64x256"}, memory={"batch_size": 32})
    assert estimate.forecast(options, BERT, CPU).length == 256
    assert estimate.forecast(options, BERT, CPU, length=100).length == 100


def test_rows_of_fixed_length_are_as_long_as_is_allowed_whatever_is_in_them() -> None:
    fixed = asked(data={"padding": "fixed", "max_length": 256})
    assert estimate.forecast(fixed, BERT, CUDA, length=60).length == 256
    assert estimate.forecast(asked(data={"max_length": 256}), BERT, CUDA, length=60).length == 60


def test_no_row_is_longer_than_the_model_sees() -> None:
    assert estimate.forecast(asked(data={"max_length": 4096}), BERT, CPU).length == 512


def test_what_is_left_to_hone_is_settled_first() -> None:
    automatic = DeviceReport(
        name="cpu",
        title="a processor",
        available=True,
        automatic={"device.precision": Settled("bf16", "it can")},
    )
    options = asked(device={"precision": "auto"})
    assert case_of(options, BERT, automatic).is_half
    assert not case_of(options, BERT, CPU).is_half


def test_state_that_lies_elsewhere_is_not_counted_here() -> None:
    here = parts(memory={"batch_size": 32})
    there = parts(memory={"batch_size": 32, "offload_optimizer": True}, training={"max_grad_norm": 0.0})
    assert here.optimizer > 0
    assert there.optimizer == 0
    zero = {"batch_size": 32, "deepspeed": "zero-2", "offload": "cpu"}
    assert parts(memory=zero).optimizer == parts(memory=zero).gradients == 0
    assert parts(memory={**zero, "offload": "none"}).optimizer == 12 * BERT.parameters
    assert parts(CPU, memory=zero).optimizer == 12 * BERT.parameters  # on a CPU main memory is where it is


def test_the_heap_keeps_gaps_where_it_is_glibcs(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny, again = ({"batch_size": 16, "activation_checkpointing": recomputed} for recomputed in (False, True))
    found = {}
    for has_glibc in (True, False):
        monkeypatch.setattr(estimate, "uses_glibc", lambda it=has_glibc: it)
        found[has_glibc] = parts(CPU, memory=tiny), parts(CPU, memory=again), parts(memory=tiny)
    gaps = [one.overhead - other.overhead for one, other in zip(found[True], found[False], strict=True)]
    assert 0.25 < gaps[0] / found[True][0].activations < 0.6
    assert gaps[1] > found[True][1].activations  # few tensors that come and go leave more gaps than they take
    assert gaps[2] == 0  # CUDA's allocator is torch's own
    assert found[False][0].overhead == estimate.LIBRARIES + estimate.FIRST_USE


def test_large_tensors_leave_few_gaps() -> None:
    one, four = (
        estimate.unused_bytes(case_of(asked(memory={"batch_size": rows}), BERT, CPU)) for rows in (16, 64)
    )
    assert one < four < 3.5 * one


def test_random_images_stay_in_memory() -> None:
    sections = {"task": "image-classification", "model": {"source": "torchvision:resnet18"}}
    of_folder = parts(CPU, RESNET, **sections, data={"image_size": 64}).overhead
    random = parts(CPU, RESNET, **sections, data={"train": "synthetic:1000x64"}).overhead
    assert random - of_folder == 1000 * 3 * 64 * 64


def test_every_device_has_something_beside_the_tensors() -> None:
    for device in (CPU, CUDA, MPS):
        assert parts(device).overhead >= PAGES[device.name.partition(":")[0]] > 0


def test_a_lesson_of_past_runs_and_the_room_are_told_with_it() -> None:
    plain = estimate.forecast(asked(), BERT, CPU)
    room = Room(free=4 << 30, ceiling=8 << 30)
    taught = estimate.forecast(asked(), BERT, CPU, room=room, correction=1.2)
    assert (taught.basis, taught.device, taught.correction, taught.room) == (Basis.FORMULA, "cpu", 1.2, room)
    assert taught.parts.total == pytest.approx(1.2 * plain.parts.total, rel=1e-6)
    assert (plain.verdict, taught.verdict) == (Verdict.UNKNOWN, Verdict.TOO_LARGE)


def test_a_limit_beyond_what_the_model_sees_is_named() -> None:
    (note,) = estimate.forecast(asked(data={"max_length": 1024}), BERT, CUDA, length=60).notes
    assert note.startswith("data.max_length is 1,024, and the model sees 512 tokens at most")


def test_what_was_taken_for_granted_is_said() -> None:
    (note,) = estimate.forecast(asked(), BERT, CPU).notes
    assert "128 tokens" in note
    assert estimate.forecast(asked(), BERT, CPU, length=80).notes == ()
    zero = estimate.forecast(asked(memory={"deepspeed": "zero-2"}), BERT, CUDA, length=80).notes
    assert ["DeepSpeed" in note for note in zero] == [True, False]


EVERY_RUN = {
    "plain": {},
    "packed": {"model": {"method": "qlora"}},
    "LoRA": {"model": {"method": "lora"}},
    "last layer": {"model": {"method": "head"}},
    "recomputed": {"memory": {"activation_checkpointing": True}},
    "half": {"device": {"precision": "bf16"}, "memory": {"batch_size": 64}},
    "8-bit": {"training": {"optimizer": "adamw-8bit"}},
    "Adafactor": {"training": {"optimizer": "adafactor"}, "memory": {"batch_size": 1}},
    "DeepSpeed": {"memory": {"deepspeed": "zero-3"}},
}


@pytest.mark.parametrize("name", EVERY_RUN)
@pytest.mark.parametrize("device", [CPU, CUDA, MPS], ids=lambda device: device.name)
def test_every_part_is_explained(name: str, device: DeviceReport) -> None:
    options = asked(**EVERY_RUN[name])
    found = estimate.forecast(options, BERT, device)
    told = explain_parts(options, BERT, device, found)
    assert [part.name for part in told] == list(Parts.__struct_fields__)
    assert sum(part.bytes for part in told) == found.parts.total
    for part in told:
        assert part.sentence.endswith(".")
        assert part.formula
        assert part.source


def test_a_formula_has_the_numbers_of_the_run() -> None:
    options = asked(memory={"batch_size": 32})
    by_name = {
        part.name: part for part in explain_parts(options, BERT, CUDA, estimate.forecast(options, BERT, CUDA))
    }
    assert by_name["weights"].formula == "109 million weights × 4 bytes"
    assert by_name["optimizer"].formula == "109 million weights that learn × 8 bytes"
    assert by_name["activations"].formula.startswith("32 rows × 128 tokens × 12 blocks × ")
    assert by_name["gradients"].formula.startswith("at another moment")


def test_a_measured_figure_is_explained_by_the_formula_too() -> None:
    measured = Forecast(basis=Basis.MEASURED, device="cpu", parts=Parts(weights=5, activations=7), length=80)
    told = {part.name: part for part in explain_parts(asked(), BERT, CPU, measured)}
    assert told["weights"].bytes == 5
    assert "80 tokens" in told["activations"].formula
