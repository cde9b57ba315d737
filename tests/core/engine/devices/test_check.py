"""The device check: one CPU thread against several for real, and devices that are made to compute wrongly."""

import math
import sys
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import pytest
import torch

from core.base.errors import DeviceError
from core.engine.devices import check as device_check
from core.engine.devices import probes
from core.engine.devices.check import CHECKS, FP32, Check, check_device, conclusion, run_checks, sides
from core.engine.devices.probes import Difference, Side, Tensors, difference, relative_error
from core.options.device_support import DeviceReport, MachineReport
from core.services.devices import Agreement, Comparison, DeviceCheckReport, DeviceCheckRequest
from tests.fakes.asking import CPU_ONLY

REFERENCE = Side("cpu", "Old processor, 2 threads", 2, is_reference=True)
CANDIDATE = Side("cpu", "Old processor, 1 thread", 1)
MAC = MachineReport(
    devices=(
        DeviceReport(name="mps", title="Apple M2", available=True),
        DeviceReport(name="cpu", title="Apple M2", available=True),
    ),
    automatic="mps",
)


def check(name: str) -> Check:
    return next(found for found in CHECKS if found.name == name)


def compare(*checks: Check, seconds: float = 60.0) -> tuple[Comparison, ...]:
    return run_checks(checks, REFERENCE, CANDIDATE, seconds)


def changed(found: Check, change: Callable[[Tensors], None]) -> Check:
    """A check whose candidate computes what `change` makes of it."""

    def probe(side: Side) -> Tensors:
        tensors = found.probe(side)
        if not side.is_reference:
            change(tensors)
        return tensors

    return with_probe(found, probe)


def with_probe(found: Check, probe: Callable[[Side], Tensors]) -> Check:
    return Check(found.name, found.explanation, probe, found.tolerance, found.remedy, found.is_short)


class TestForReal:
    def test_one_thread_computes_what_several_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device_check, "SHORT_SECONDS", math.inf)  # on a busy machine, too
        threads, numbers = torch.get_num_threads(), torch.get_rng_state()
        report = check_device(DeviceCheckRequest(device="cpu", short=True))
        assert [comparison.name for comparison in report.comparisons] == [
            "Loss",
            "Gradients",
            "More than 32,768 tokens",
            "Large vocabulary",
            "Optimizer step",
        ]
        assert all(comparison.agrees for comparison in report.comparisons), report
        assert report.agrees
        assert report.short
        assert report.title.endswith(", 1 thread")
        assert report.reference.endswith(" threads")
        assert report.software.startswith("PyTorch 2.")
        assert report.conclusion.endswith("agree in all 5 comparisons.")
        assert torch.get_num_threads() == threads
        assert torch.equal(torch.get_rng_state(), numbers)

    @pytest.mark.parametrize("name", [found.name for found in CHECKS if not found.is_short])
    def test_the_other_comparisons_agree_too(self, name: str) -> None:
        (comparison,) = compare(check(name))
        assert comparison.agrees, comparison

    def test_every_trained_weight_is_compared(self) -> None:
        found = CANDIDATE.compute(probes.all_gradients)
        assert {name.partition(": ")[0] for name in found} == {"encoder", "decoder"}
        assert "decoder: gradient of layers.layers.1.self_attn.in_proj_weight" in found
        assert all(value.dtype == torch.float32 for value in found.values())
        assert all(value.abs().max() > 0 for value in found.values())

    def test_the_limit_is_crossed_twice_after_smaller_batches(self) -> None:
        found = CANDIDATE.compute(probes.across_the_limit)
        shapes = {name.partition(" tokens")[0] for name in found}
        assert shapes == {"8194 x 4", "259 x 127"}
        assert all(math.prod(map(int, shape.split(" x "))) > probes.LIMIT for shape in shapes)


class TestWrongDevices:
    def test_a_wrong_gradient_is_named(self) -> None:
        name = "encoder: gradient of layers.layers.1.linear1.weight"
        (comparison,) = compare(changed(check("Gradients"), lambda found: found[name].mul_(1.01)))
        assert comparison.agreement is Agreement.DIFFERS
        assert comparison.worst_tensor == name
        assert comparison.worst_error == pytest.approx(0.01, rel=1e-3)
        assert comparison.detail == "Train on the CPU, or with another version of PyTorch."

    def test_a_broken_operator_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        attention = torch.nn.functional.scaled_dot_product_attention

        def leaking(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **_: object) -> torch.Tensor:
            """As in pytorch issue 195910: one mask for four queries, in half precision and without gradients."""
            is_right = query.dtype == torch.float32 or torch.is_grad_enabled()
            place = torch.arange(query.shape[-2])
            seen = place if is_right else place // 4 * 4 + 3
            return attention(query, key, value, attn_mask=place <= seen.unsqueeze(1))

        monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", leaking)
        for comparison in compare(check("Causal mask in bf16"), check("Causal mask in fp16")):
            assert comparison.differs
            assert comparison.worst_tensor == "output in evaluation"
            assert comparison.worst_error is not None
            assert comparison.worst_error > 0.3

    def test_one_token_lost_from_a_sum_over_many_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entropy = torch.nn.functional.cross_entropy

        def losing(logits: torch.Tensor, labels: torch.Tensor, **options: object) -> torch.Tensor:
            if len(labels) > 20_000 and torch.get_num_threads() == CANDIDATE.threads:
                kept = entropy(logits[:-1], labels[:-1], reduction="sum", **options)
                return kept / len(labels)
            return entropy(logits, labels, **options)

        monkeypatch.setattr("torch.nn.functional.cross_entropy", losing)
        (comparison,) = compare(check("More than 32,768 tokens"))
        assert comparison.differs
        assert "tokens: gradient of" in comparison.worst_tensor

    def test_what_is_no_number_differs_and_can_be_written_down(self) -> None:
        (comparison,) = compare(changed(check("Loss"), lambda found: found["decoder"].fill_(math.nan)))
        assert comparison.differs
        assert comparison.worst_error is None
        assert comparison.worst_tensor == "decoder"
        assert comparison.detail.startswith("It holds values that are infinite or no numbers. ")
        assert msgspec.json.decode(msgspec.json.encode(comparison), type=Comparison) == comparison

    def test_a_device_that_never_gives_the_same_twice_is_found(self) -> None:
        calls: Iterator[int] = iter(range(10))
        noisy = Check("Repeated", "", lambda _: {"loss": torch.ones(2) * next(calls)}, 1e-4, repeats=True)
        (comparison,) = compare(noisy)
        assert comparison.differs
        assert comparison.detail.startswith("Not bit for bit the same.")

    def test_nearly_the_same_twice_will_do(self) -> None:
        values = iter((1.0, 1.000001))
        nearly = Check("Repeated", "", lambda _: {"loss": torch.tensor([next(values)])}, 1e-4, repeats=True)
        (comparison,) = compare(nearly)
        assert comparison.agrees
        assert comparison.detail == "Not bit for bit the same."

    def test_what_cannot_be_computed_is_not_run_and_the_rest_is(self) -> None:
        def raising(_: Side) -> Tensors:
            raise NotImplementedError("The operator 'aten::x' is not implemented.\nraised at Fallback.mm:25")

        first, second = compare(with_probe(check("Gradients"), raising), check("Layer norm on frozen layers"))
        assert first.agreement is Agreement.NOT_RUN
        assert first.detail == "NotImplementedError: The operator 'aten::x' is not implemented."
        assert first.worst_error is None
        assert second.agrees


def test_what_would_begin_after_the_time_is_not_run() -> None:
    times = iter((0.0, 0.0, 3.0, 3.0, 6.0, 6.0))
    quick = Check("Quick", "", lambda _: {"loss": torch.ones(1)}, FP32)
    comparisons = run_checks([quick] * 3, REFERENCE, CANDIDATE, 5.0, clock=partial(next, times))
    assert [comparison.agreement for comparison in comparisons] == [
        Agreement.AGREES,
        Agreement.AGREES,
        Agreement.NOT_RUN,
    ]
    assert [comparison.seconds for comparison in comparisons] == [3.0, 3.0, 0.0]
    assert comparisons[2].detail == "No comparison is begun after 5 s."
    assert conclusion(comparisons, REFERENCE, CANDIDATE) == (
        "Old processor, 1 thread and Old processor, 2 threads agree in 2 comparisons. 1 comparison was not run."
    )


class TestRelativeError:
    def test_is_a_share_of_the_largest_value(self) -> None:
        assert relative_error(torch.tensor([4.0, 0.0]), torch.tensor([4.0, 0.02])) == pytest.approx(0.005)

    def test_of_zeros_is_the_difference_itself(self) -> None:
        assert relative_error(torch.zeros(2), torch.zeros(2)) == 0
        assert relative_error(torch.zeros(2), torch.tensor([0.0, 0.5])) == 0.5

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_of_what_is_no_number_is_infinite(self, value: float) -> None:
        assert relative_error(torch.ones(2), torch.tensor([1.0, value])) == math.inf
        assert relative_error(torch.tensor([1.0, value]), torch.ones(2)) == math.inf

    def test_the_worst_tensor_is_named(self) -> None:
        found = difference(
            {"a": torch.ones(1), "b": torch.ones(1)}, {"a": torch.ones(1), "b": torch.ones(1) * 2}
        )
        assert found == Difference(1.0, "b")

    def test_different_tensors_are_not_compared(self) -> None:
        with pytest.raises(ValueError, match="can't be compared"):
            difference({"a": torch.ones(1)}, {"b": torch.ones(1)})


class TestSides:
    def test_an_accelerator_is_held_against_all_threads(self) -> None:
        reference, candidate = sides(MAC, "auto", threads=8)
        assert (candidate.device, candidate.title, candidate.kind) == ("mps", "Apple M2", "mps")
        assert (reference.device, reference.title, reference.threads) == ("cpu", "Apple M2, 8 threads", 8)
        assert reference.is_reference
        assert not candidate.is_reference

    @pytest.mark.parametrize("threads", [1, 2])
    def test_without_one_the_cpu_is_held_against_itself(self, threads: int) -> None:
        reference, candidate = sides(CPU_ONLY, "auto", threads)
        assert (reference.threads, candidate.threads) == (2, 1)

    def test_a_device_that_is_not_here_says_why(self) -> None:
        with pytest.raises(DeviceError, match="mps is not available here") as caught:
            sides(CPU_ONLY, "mps", threads=2)
        assert caught.value.detail == "MPS is the GPU of Apple computers."
        with pytest.raises(DeviceError, match="cuda:7 is not available here"):
            sides(CPU_ONLY, "cuda:7", threads=2)


def test_the_conclusion_names_what_differs() -> None:
    comparisons = compare(changed(check("Loss"), lambda found: found["encoder"].add_(1)))
    assert conclusion(comparisons, REFERENCE, CANDIDATE) == (
        "Old processor, 1 thread and Old processor, 2 threads differ in: Loss. "
        "Runs that need this may learn something wrong."
    )
    assert conclusion((), REFERENCE, CANDIDATE).startswith("Nothing could be compared")


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac may have the device")
def test_what_is_not_here_is_refused() -> None:
    with pytest.raises(DeviceError, match="mps is not available here"):
        check_device(DeviceCheckRequest(device="mps", short=True))


@pytest.mark.long
def test_the_job_answers() -> None:
    report = device_check.ask_device_check(DeviceCheckRequest(device="cpu", short=True))
    assert isinstance(report, DeviceCheckReport)
    assert report.agrees, report
