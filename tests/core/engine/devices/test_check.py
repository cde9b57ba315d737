"""The device check: one CPU thread against several, devices that compute wrongly, and the first run on a Mac."""

import math
import sys
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
import torch

from core.base.errors import DeviceError, UserError
from core.base.jobs import EngineCrashed
from core.engine import train as training
from core.engine.devices import check as device_check
from core.engine.devices.check import (
    CHECKS,
    LIMIT,
    DeviceProbe,
    Side,
    Tensors,
    all_gradients,
    bf16_speedup,
    check_device,
    conclusion,
    relative_error,
    run_checks,
    sides,
    warn_of_wrong_numbers,
    worst_difference,
)
from core.engine.devices.stored_checks import software, stored_checks
from core.engine.reporter import Reporter
from core.jobs.devices import Agreement, DeviceCheckReport, DeviceCheckRequest, DeviceComparison
from core.options.choices import Backend
from core.options.device_support import DeviceReport, MachineReport
from core.runs.event_log import EventReader
from core.runs.events import Level, MessageRaised
from core.runs.folder import RunFolder
from core.runs.status import RunStatus
from tests.fakes.devices import leaky_attention
from tests.fakes.jobs import CPU_ONLY
from tests.fakes.training import run_options

REFERENCE = Side("cpu", "Old processor, 2 threads", 2, is_reference=True)
CANDIDATE = Side("cpu", "Old processor, 1 thread", 1)
DEVICES = [DeviceReport(name=name, title="Apple M2", available=True) for name in ("mps", "cpu")]
MAC = MachineReport(devices=tuple(DEVICES), automatic="mps")


def check(name: str) -> DeviceProbe:
    return next(known for known in CHECKS if known.name == name)


def compare(*checks: DeviceProbe) -> tuple[DeviceComparison, ...]:
    return run_checks(checks, REFERENCE, CANDIDATE, 60.0)


def changed(name: str, change: Callable[[Tensors], object]) -> DeviceProbe:
    """A check whose candidate's tensors are changed."""
    probe_of = check(name).probe

    def probe(side: Side) -> Tensors:
        tensors = probe_of(side)
        if not side.is_reference:
            change(tensors)
        return tensors

    return replace(check(name), probe=probe)


# --- On this computer


def test_one_thread_computes_what_several_do(monkeypatch):
    monkeypatch.setattr(device_check, "SHORT_SECONDS", math.inf)  # on a busy machine, too
    threads, random_state = torch.get_num_threads(), torch.get_rng_state()
    report = check_device(DeviceCheckRequest(device="cpu", short=True))
    short = [known.name for known in CHECKS if known.short]
    assert [(comparison.name, comparison.agrees) for comparison in report.comparisons] == [
        (name, True) for name in short
    ]
    assert "agree in 9 comparisons" in report.conclusion
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize("name", [known.name for known in CHECKS if not known.short])
def test_the_other_comparisons_agree_too(name):
    (comparison,) = compare(check(name))
    assert comparison.agrees, comparison


def test_every_trained_weight_and_both_sides_of_the_limit_are_compared():
    gradients = CANDIDATE.compute(all_gradients)
    assert {name.partition(": ")[0] for name in gradients} == {"encoder", "decoder"}
    assert "decoder: gradient of layers.layers.1.self_attn.in_proj_weight" in gradients
    assert all(value.abs().max() > 0 for value in gradients.values())
    many = CANDIDATE.compute(check("More than 32,768 tokens").probe)
    shapes = {name.partition(" tokens")[0] for name in many}
    assert shapes == {"8194 x 4", "259 x 127"}
    assert all(math.prod(map(int, shape.split(" x "))) > LIMIT for shape in shapes)


# --- Devices that compute wrongly


def test_a_wrong_gradient_is_named():
    name = "encoder: gradient of layers.layers.1.linear1.weight"
    comparisons = compare(changed("Gradients", lambda tensors: tensors[name].mul_(1.01)))
    (comparison,) = comparisons
    assert (comparison.agreement, comparison.worst_tensor) == (Agreement.DIFFERS, name)
    assert comparison.worst_error == pytest.approx(0.01, rel=1e-3)
    assert comparison.detail == check("Gradients").remedy
    assert "differ in: Gradients." in conclusion(comparisons, REFERENCE, CANDIDATE)
    assert "could not be compared" in conclusion((), REFERENCE, CANDIDATE)


def test_a_causal_mask_that_leaks_is_found(monkeypatch):
    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", leaky_attention())
    for comparison in compare(check("Causal mask in bf16"), check("Causal mask in fp16")):
        assert comparison.differs
        assert comparison.worst_tensor == "output in evaluation"
        assert (comparison.worst_error or 0) > 0.3


@pytest.mark.parametrize(
    ("tensor", "change"),
    [
        ("packed weights", lambda values: values[5].add_(1)),
        ("gradient of the input", lambda values: values[0, 0].add_(0.01)),
    ],
)
def test_a_weight_packed_otherwise_or_a_wrong_gradient_is_found(tensor, change):
    (comparison,) = compare(changed("Weights in 4 bits", lambda tensors: change(tensors[tensor])))
    assert (comparison.differs, comparison.worst_tensor) == (True, tensor)


def test_one_token_lost_from_a_sum_over_many_is_found(monkeypatch):
    entropy = torch.nn.functional.cross_entropy

    def losing(logits: torch.Tensor, labels: torch.Tensor, **options: object) -> torch.Tensor:
        if len(labels) > 20_000 and torch.get_num_threads() == CANDIDATE.threads:
            return entropy(logits[:-1], labels[:-1], reduction="sum", **options) / len(labels)
        return entropy(logits, labels, **options)

    monkeypatch.setattr("torch.nn.functional.cross_entropy", losing)
    (comparison,) = compare(check("More than 32,768 tokens"))
    assert comparison.differs


def test_nan_differs_and_can_be_encoded():
    (comparison,) = compare(changed("Loss", lambda tensors: tensors["decoder"].fill_(math.nan)))
    assert comparison.differs
    assert (comparison.worst_error, comparison.worst_tensor) == (None, "decoder")
    assert msgspec.json.decode(msgspec.json.encode(comparison), type=DeviceComparison) == comparison


@pytest.mark.parametrize(("second", "agrees"), [(1.0, True), (1.000001, True), (2.0, False)])
def test_a_repetition_need_not_be_the_same_bit_for_bit(second, agrees):
    values = iter((1.0, second))
    repeated = replace(check("Repeated"), probe=lambda _: {"loss": torch.tensor([next(values)])})
    (comparison,) = compare(repeated)
    assert comparison.agrees is agrees
    assert comparison.detail.startswith("Bit for bit" if second == 1.0 else "Not bit for bit")


def test_what_cannot_be_computed_or_comes_too_late_is_not_run_and_the_rest_is():
    def raising(_: Side) -> Tensors:
        raise NotImplementedError("The operator 'aten::x' is not implemented.\nraised at Fallback.mm:25")

    first, second = compare(replace(check("Gradients"), probe=raising), check("Layer norm on frozen layers"))
    assert first.agreement is Agreement.NOT_RUN
    assert first.detail == "NotImplementedError: The operator 'aten::x' is not implemented."
    assert second.agrees
    times = iter((0.0, 0.0, 3.0, 3.0, 6.0, 6.0))
    quick = DeviceProbe("Quick", "", lambda _: {"loss": torch.ones(1)})
    comparisons = run_checks([quick] * 3, REFERENCE, CANDIDATE, 5.0, clock=lambda: next(times))
    assert [comparison.agreement.value for comparison in comparisons] == ["agrees", "agrees", "not run"]
    assert [comparison.seconds for comparison in comparisons] == [3.0, 3.0, 0.0]
    text = conclusion(comparisons, REFERENCE, CANDIDATE)
    assert text.endswith("agree in 2 comparisons. 1 comparison was not run.")


@pytest.mark.parametrize(
    ("reference", "candidate", "error"),
    [
        ([4.0, 0.0], [4.0, 0.02], 0.005),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0, 0.0], [0.0, 0.5], 0.5),
        ([1.0, 1.0], [1.0, math.nan], math.inf),
        ([1.0, math.inf], [1.0, 1.0], math.inf),
    ],
)
def test_errors_are_shares_of_the_largest_value(reference, candidate, error):
    assert relative_error(torch.tensor(reference), torch.tensor(candidate)) == pytest.approx(error)


def test_only_the_same_tensors_can_be_compared():
    with pytest.raises(ValueError, match="can't be compared"):
        worst_difference({"a": torch.ones(1)}, {"b": torch.ones(1)})


def test_an_accelerator_is_compared_with_all_threads_and_a_cpu_with_itself():
    reference, candidate = sides(MAC, "auto", threads=8)
    assert (candidate.device, candidate.title, candidate.is_reference) == ("mps", "Apple M2", False)
    assert (reference.device, reference.threads, reference.is_reference) == ("cpu", 8, True)
    for threads in (1, 2):
        reference, candidate = sides(CPU_ONLY, "auto", threads)
        assert (reference.threads, candidate.threads) == (2, 1)


@pytest.mark.parametrize("device", ["mps", "cuda:7"])
def test_a_device_that_is_not_here_is_refused(device):
    with pytest.raises(DeviceError, match=f"{device} is not available here"):
        sides(CPU_ONLY, device, threads=2)
    if sys.platform != "darwin":
        with pytest.raises(DeviceError):
            check_device(DeviceCheckRequest(device=device, short=True))


# --- The first run on a Mac


class FakeCheck:
    """Compares what it is asked for, `most` at a time, or raises; `requests` are what it was asked to leave out.

    The comparison `name` has this answer, the others agree.
    """

    def __init__(
        self,
        answer: Agreement | Exception,
        error: float | None = 0.5,
        name: str = "Gradients",
        most: int = 99,
        speedup: float | None = 1.3,
    ) -> None:
        self._answer, self._error, self._name, self._most = answer, error, name, most
        self._speedup = speedup
        self.requests: list[tuple[str, ...]] = []

    def __call__(self, request: DeviceCheckRequest) -> DeviceCheckReport:
        assert (request.device, request.short, request.backend) == ("mps", True, Backend.TORCH)
        self.requests.append(request.finished)
        if isinstance(self._answer, Exception):
            raise self._answer
        left = [known for known in CHECKS if known.short and known.name not in request.finished]
        comparisons = [self._compared(known, place < self._most) for place, known in enumerate(left)]
        return DeviceCheckReport(
            device="mps",
            title="Apple M2",
            reference="Apple M2, 8 threads",
            software=software(),
            conclusion="",
            comparisons=tuple(comparisons),
            bf16_speedup=self._speedup,
            short=True,
        )

    def _compared(self, known: DeviceProbe, is_reached: bool) -> DeviceComparison:
        fields = {"name": known.name, "explanation": known.explanation}
        if not is_reached:
            return DeviceComparison(agreement=Agreement.NOT_RUN, **fields)
        if known.name != self._name or self._answer is Agreement.AGREES:
            return DeviceComparison(agreement=Agreement.AGREES, seconds=0.1, **fields)
        assert isinstance(self._answer, Agreement)
        return DeviceComparison(
            agreement=self._answer,
            worst_error=self._error,
            worst_tensor="gradient of head.weight",
            detail="Train on the CPU." if self._answer is Agreement.DIFFERS else "",
            seconds=0.1,
            **fields,
        )


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("platform.mac_ver", lambda: ("15.5", ("", "", ""), "arm64"))
    return tmp_path / "home"


@pytest.fixture
def messages(home, tmp_path, monkeypatch):
    """The warnings that one more run gets from a check."""
    count = iter(range(10))

    def warn(check: FakeCheck) -> list[MessageRaised]:
        run = RunFolder(tmp_path / f"run-{next(count)}")
        run.path.mkdir()
        monkeypatch.setattr(device_check, "run_job", lambda _name, request, *_rest, **_more: check(request))
        warn_of_wrong_numbers(Reporter(run))
        status = RunStatus()
        for event in EventReader(run.events_file).read_all():
            status.apply(event)
        return list(status.messages.values())

    return warn


@pytest.mark.parametrize("answer", [Agreement.AGREES, Agreement.NOT_RUN])
def test_a_sound_gpu_is_checked_once_and_nothing_is_said(answer, messages):
    check = FakeCheck(answer)
    assert messages(check) == messages(check) == []
    assert len(check.requests) == 1


@pytest.mark.parametrize(("error", "size"), [(0.5, "0.5"), (None, "inf")])
def test_a_difference_is_reported_to_every_run_and_checked_once_per_macos(error, size, messages, monkeypatch):
    check = FakeCheck(Agreement.DIFFERS, error)
    for _ in range(2):
        (message,) = messages(check)
        assert (message.id, message.level) == ("device-check", Level.WARNING)
        first, second = message.detail.splitlines()
        assert first == f"Gradients: error {size} in gradient of head.weight. Train on the CPU."
        assert second.startswith(f"{software()}. ")
        assert message.fixes[0].changes == {"device.name": "cpu"}
    assert len(check.requests) == 1
    monkeypatch.setattr("platform.mac_ver", lambda: ("15.6", ("", "", ""), "arm64"))
    messages(check)
    assert [key.rpartition(", ")[2] for key in stored_checks()] == ["macOS 15.5", "macOS 15.6"]


def test_comparisons_that_time_did_not_suffice_for_are_made_before_the_next_runs(messages):
    check = FakeCheck(Agreement.DIFFERS, name="Large vocabulary", most=3, speedup=0.8)
    short = [known.name for known in CHECKS if known.short]
    assert short[:3] == ["Gradients", "More than 32,768 tokens", "Causal mask in bf16"]
    assert messages(check) == messages(check) == []
    assert len(messages(check)) == 1, "the seventh differs"
    while len(stored_checks()[software()].comparisons) < len(short):
        assert len(messages(check)) == 1
    asked = len(check.requests)
    assert check.requests[:3] == [(), tuple(short[:3]), tuple(short[:6])]
    assert len(messages(check)) == 1
    assert len(check.requests) == asked, "all are made"
    assert stored_checks()[software()].bf16_speedup == 0.8


def test_a_check_leaves_out_what_is_finished(monkeypatch):
    finished = tuple(known.name for known in CHECKS if known.name != "Loss")
    report = check_device(DeviceCheckRequest(device="cpu", finished=finished))
    assert [comparison.name for comparison in report.comparisons] == ["Loss"]
    assert report.bf16_speedup is None


def test_where_only_the_causal_mask_differs_no_other_device_is_advised(messages):
    (message,) = messages(FakeCheck(Agreement.DIFFERS, name="Causal mask in bf16"))
    assert message.fixes == ()


def test_the_first_measurement_of_bf16_stays(messages):
    messages(FakeCheck(Agreement.AGREES, most=1, speedup=1.2))
    messages(FakeCheck(Agreement.AGREES, speedup=0.9))
    assert stored_checks()[software()].bf16_speedup == 1.2


@pytest.mark.parametrize(("steps_in_fp32", "steps_in_bf16", "ratio"), [(3.0, 2.0, 1.5), (2.0, 2.5, 0.8)])
def test_bf16_is_as_much_faster_as_its_median_step(steps_in_fp32, steps_in_bf16, ratio, monkeypatch):
    small = device_check.TinyTransformer(causal=True)
    monkeypatch.setattr(device_check, "TinyTransformer", lambda **_sizes: small)
    seconds = [9.0] * 3 + [steps_in_fp32] * 6 + [9.0] + [9.0] * 3 + [steps_in_bf16] * 6 + [9.0]
    times, now = [], 0.0
    for step in seconds:
        times += [now, now := now + step]
    state = torch.get_rng_state()
    assert bf16_speedup("cpu", clock=iter(times).__next__) == pytest.approx(ratio)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("error", "is_sound_at_last"),
    [(EngineCrashed("check-device", -6, "Gradients"), False), (UserError("No answer"), True)],
)
def test_a_check_that_fails_is_made_three_times_at_most(error, is_sound_at_last, messages):
    check = FakeCheck(error)
    for _ in range(2):
        (message,) = messages(check)
        assert str(error) in message.detail
    if is_sound_at_last:
        assert messages(sound := FakeCheck(Agreement.AGREES)) == messages(sound) == []
        assert len(sound.requests) == 1
    else:
        assert len(messages(check)) == len(messages(check)) == 1
        assert len(check.requests) == 3


@pytest.mark.parametrize("content", [b"", b"{", b'{"PyTorch 2, macOS 15": 3}'])
def test_a_damaged_file_of_checks_counts_as_none(home, content, messages):
    home.mkdir()
    (home / "device-checks.json").write_bytes(content)
    assert messages(FakeCheck(Agreement.AGREES)) == []
    assert len(stored_checks()) == 1


def test_a_home_that_can_t_be_written_to_stops_no_run(home, messages):
    home.write_text("a file where the folder should be")
    assert len(messages(FakeCheck(Agreement.DIFFERS))) == 1


def test_the_gpu_is_checked_before_its_precision_is_chosen(tmp_path, monkeypatch):
    order: list[str] = []

    def chosen(_options):
        order.append("chosen")
        raise UserError("as far as it goes")

    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    monkeypatch.setattr(training, "warn_of_wrong_numbers", lambda _reporter: order.append("checked"))
    monkeypatch.setattr(training, "chosen_device", chosen)
    for device, expected in (("auto", ["checked", "chosen"]), ("cpu", ["chosen"])):
        run = RunFolder(tmp_path / device)
        run.path.mkdir()
        assert training.train_run(run, run_options(name=device), Reporter(run)) == 1
        assert order == expected
        order.clear()
