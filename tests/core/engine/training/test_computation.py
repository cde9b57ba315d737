"""Threads, determinism, number formats and operators on the CPU: set for real, and stated from torch's own settings."""

import pickle
import warnings

import pytest
import torch

from core.engine.data.batches import SinglePrecision, collator_for, stack
from core.engine.environment import prepare_torchvision, torch_settings
from core.engine.reporter import Reporter
from core.engine.training.what_ran import report_mps_fallbacks
from core.options import RunOptions
from core.options.choices import Precision, Task
from core.options.sections import DeviceOptions, TrainingOptions
from core.runs.events import Event, MessageRaised
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import TinyRun, model, resolved, train

prepare_torchvision()

SAMPLES = [{"pixel_values": torch.ones(3, 2, 2, dtype=torch.float64), "labels": row} for row in range(4)]
FALLBACK = (
    "The operator '{}' is not currently supported on the MPS backend and will fall back to run on the CPU. "
    "This may have performance implications."
)


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    threads, fp32 = torch.get_num_threads(), torch.backends.fp32_precision
    always = torch.is_warn_always_enabled()
    for name in ("CUDA_LAUNCH_BLOCKING", "CUBLAS_WORKSPACE_CONFIG", "FLASH_ATTENTION_DETERMINISTIC"):
        monkeypatch.setenv(name, "")
    for name in ("ASCEND_LAUNCH_BLOCKING", "HCCL_DETERMINISTIC"):
        monkeypatch.setenv(name, "")
    yield
    torch.set_num_threads(threads)
    torch.backends.fp32_precision = fp32
    torch.use_deterministic_algorithms(False)
    torch.set_warn_always(always)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("bert") / "bert", hidden_dropout_prob=0.1)


def test_threads_are_those_asked_for_or_one_for_each_core(bert, tmp_path):
    asked = DeviceOptions(name="cpu", precision=Precision.FP32, threads=3)
    assert train(tmp_path / "three", model=model(bert), device=asked).what_ran.threads == 3
    ran = train(tmp_path / "automatic", model=model(bert)).what_ran
    assert ran.reasons["device.threads"] == f"{ran.threads}: one for each core"
    assert (ran.deterministic, ran.matmul, ran.fell_back) == (False, "", ())


def test_full_determinism_repeats_losses_and_weights_to_the_bit(bert, tmp_path):
    def run(name: str, seed: int = 7) -> TinyRun:
        training = TrainingOptions(epochs=1.0, learning_rate=1e-2, deterministic=True, seed=seed)
        return train(tmp_path / name, model=model(bert), training=training)

    first, second, other = run("first"), run("second"), run("other", seed=8)
    assert (first.what_ran.deterministic, first.messages) == (True, {})
    losses = [[step.loss for step in tiny.steps] for tiny in (first, second, other)]
    assert losses[0] == losses[1] != losses[2]
    weights, repeated = (tiny.trainer.model.state_dict() for tiny in (first, second))
    assert all(torch.equal(weights[name], repeated[name]) for name in weights)


@pytest.mark.parametrize(("precision", "matmul"), [("tf32", "tf32"), ("ieee", "fp32"), ("none", "fp32")])
def test_how_cuda_multiplies_is_read_from_torch(precision, matmul):
    """The setting is there without a GPU; Trainer sets it through the same attribute."""
    torch.backends.fp32_precision = precision
    assert (torch_settings("cuda")["matmul"], torch_settings("cpu")["matmul"]) == (matmul, "")


@pytest.mark.parametrize(("kind", "dtype"), [("mps", torch.float32), ("cpu", torch.float64)])
def test_batches_for_a_device_without_float64_hold_none(kind, dtype, tmp_path):
    from core.engine.models.vision import VisionClassifier
    from core.engine.tasks import Prepared
    from core.engine.training.train import build_trainer

    network = VisionClassifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4)))
    prepared = Prepared(network, SAMPLES, None, stack, labels=(), save_extras=lambda _: None)
    run = resolved(RunOptions(task=Task.IMAGE_CLASSIFICATION), kind)
    batch = next(iter(build_trainer(tmp_path, run, prepared, Reporter(None)).get_train_dataloader()))
    assert batch["pixel_values"].dtype == dtype
    assert batch["labels"].dtype == torch.int64, "only float64 is cast"


def test_the_cast_can_be_sent_to_a_spawned_worker():
    collator = pickle.loads(pickle.dumps(collator_for("mps", stack)))
    assert isinstance(collator, SinglePrecision)
    assert collator(SAMPLES)["pixel_values"].dtype == torch.float32


def test_each_operator_that_mps_lacks_is_named_once_and_other_warnings_go_on(monkeypatch):
    passed_on: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: passed_on.append(str(message)))
    reporter, events = Reporter(None), list[Event]()
    reporter.listeners.append(events.append)
    fell_back = report_mps_fallbacks(reporter)
    for words in (*map(FALLBACK.format, ("aten::unique", "aten::unique", "aten::histc")), "something else"):
        warnings.showwarning(UserWarning(words), UserWarning, "here.py", 1)
    raised = [event.id for event in events if isinstance(event, MessageRaised)]
    assert raised == ["fallback-aten::unique", "fallback-aten::histc"]
    assert fell_back == ["aten::unique", "aten::histc"]
    assert passed_on == ["something else"]
