"""What the screenshots show: an invented machine, and two invented runs in folders of their own."""

import os
import time
from pathlib import Path

import msgspec

from core import run_file
from core.choices import Method, Task
from core.data_report import Column, ColumnKind, DataReport, InspectRequest
from core.device_check_report import Agreement, Comparison, DeviceCheckReport
from core.errors import Fix, Problem
from core.jobs import TellProgress
from core.model_report import ModelReport, ModelRequest
from core.reports import DeviceReport, MachineReport, Settled
from core.run_folder import RunFolder
from gui import invented_models
from gui.invented_data import report_for
from gui.invented_hub import ANSWERS
from gui.invented_runs import PROCESSOR, PROCESSOR_BYTES, VERSIONS, Plot, finish, write_story
from gui.screenshot_memory import traced

TOTAL_STEPS = 225
EPOCHS = 5

MACHINE = MachineReport(
    devices=(
        DeviceReport(
            name="cuda:0",
            title="NVIDIA GPU",
            available=False,
            reason="No NVIDIA driver was found. With an NVIDIA card in this computer, install its driver.",
        ),
        DeviceReport(
            name="mps",
            title="Apple GPU (MPS)",
            available=False,
            reason="MPS is the GPU of Apple computers.",
        ),
        DeviceReport(
            name="cpu",
            title=PROCESSOR,
            available=True,
            memory_bytes=PROCESSOR_BYTES,
            refusals={
                "device.precision": {
                    "fp16": "needs a GPU: PyTorch has no fp16 training on the CPU",
                    "tf32": "is a format of NVIDIA GPUs from Ampere on",
                },
                "device.processes": {
                    "*": "Hone trains in one process. A larger effective batch comes from gradient accumulation."
                },
                "device.compile_backend": {
                    "cudagraphs": "needs CUDA",
                    "openxla": "needs the package torch_xla, which isn't installed",
                },
                "training.optimizer": {
                    "adamw-8bit-torchao": "needs the package torchao, which isn't installed",
                    "paged-adamw-8bit": "needs CUDA, whose memory it pages",
                },
                "model.attention": {
                    "flash_attention_2": "needs an NVIDIA GPU from Ampere on",
                    "flash_attention_3": "needs an NVIDIA Hopper GPU",
                },
                "data.pin_memory": {"on": "serves NVIDIA GPUs, which fetch batches by themselves"},
                "memory.deepspeed": dict.fromkeys(
                    ("zero-2", "zero-3"), "needs the package deepspeed, which isn't installed"
                ),
                "memory.offload_optimizer": {
                    "true": "needs an NVIDIA GPU: it moves the state from the GPU's memory to the computer's"
                },
            },
            automatic={
                "device.precision": Settled("bf16", "this CPU computes bf16 in hardware"),
                "device.threads": Settled("8", "one for each core"),
                "data.group_by_length": Settled(
                    "on", "texts of like length in a batch leave little padding to compute"
                ),
                "data.pin_memory": Settled("off", "only NVIDIA GPUs fetch from pinned memory"),
                "data.workers": Settled("0", "the cores are busy computing; workers would take them away"),
            },
        ),
    ),
    automatic="cpu",
    choices={
        "device.compile_backend": ("inductor", "cudagraphs", "openxla"),
        "device.compile_mode": ("default", "reduce-overhead", "max-autotune"),
    },
    versions=VERSIONS,
)
"""A PC without a graphics card: what Hone has really been run on, so that its pictures promise nothing else."""

DIGITS = DataReport(
    source="builtin:digits",
    format="scikit-learn digits",
    rows=1797,
    labels={
        "3": 183,
        "1": 182,
        "5": 182,
        "4": 181,
        "6": 181,
        "9": 180,
        "7": 179,
        "0": 178,
        "2": 177,
        "8": 174,
    },
)

REVIEWS = DataReport(
    source="reviews.csv",
    format="CSV",
    rows=2340,
    columns=(
        Column(name="review", kind=ColumnKind.TEXT, distinct=2331, empty=0, examples=("Warm and quick.",)),
        Column(name="stars", kind=ColumnKind.NUMBER, distinct=5, empty=0, examples=("5",)),
    ),
    preview=(("Warm and quick.", "5"),),
    text_columns=("review",),
    label_column="stars",
    labels={"5": 1204, "4": 611, "3": 254, "1": 168, "2": 103},
    notes=("9 rows repeat an earlier one",),
)


CHECKED = DeviceCheckReport(
    device="mps",
    title="Apple M3 Max",
    reference="the CPU",
    software="PyTorch 2.13.0, macOS 15.6",
    conclusion="Batch norm differs from the CPU's; all else agrees. Train vision models on the CPU.",
    comparisons=(
        Comparison(
            name="Loss",
            explanation="The loss of one batch of texts.",
            agreement=Agreement.AGREES,
            worst_error=1.2e-7,
        ),
        Comparison(
            name="Gradients",
            explanation="The gradient of every weight.",
            agreement=Agreement.AGREES,
            worst_error=3.4e-6,
            worst_tensor="encoder.layer.1.output.dense.weight",
        ),
        Comparison(
            name="One optimizer step",
            explanation="Every weight after AdamW has moved it once.",
            agreement=Agreement.AGREES,
            worst_error=8.1e-7,
        ),
        Comparison(
            name="Batch norm, channels last",
            explanation="Running mean and variance of images in the other memory layout.",
            agreement=Agreement.DIFFERS,
            worst_error=0.31,
            detail="PyTorch issue 175189 is about this.",
        ),
        Comparison(
            name="Half-precision mask",
            explanation="Attention that may not look ahead, in half precision.",
            agreement=Agreement.NOT_RUN,
            detail="The time was over before it could be made.",
        ),
    ),
    seconds=11.4,
)


RESNET = ModelReport(
    architecture="ResNet",
    total_parameters=11_181_642,
    trainable_parameters=11_181_642,
    layers=21,
    activation_checkpointing=True,
    normalises_batch=True,
    shape=invented_models.RESNET,
)
DISTILBERT = ModelReport(
    architecture="DistilBertForSequenceClassification",
    total_parameters=66_957_317,
    trainable_parameters=66_957_317,
    layers=6,
    activation_checkpointing=True,
    attention=("eager", "sdpa"),
    max_length=512,
    shape=invented_models.DISTILBERT,
)
LLAMA = ModelReport(
    architecture="LlamaForCausalLM",
    total_parameters=invented_models.SMOL.parameters,
    trainable_parameters=16 * invented_models.SMOL.linear_sides,
    layers=invented_models.SMOL.layers,
    activation_checkpointing=True,
    attention=("eager", "sdpa"),
    max_length=8_192,
    shape=invented_models.SMOL,
)
PROJECTIONS = ("q_lin", "k_lin", "v_lin", "out_lin")


class InventedJob:
    """Answers the engine's questions from the figures above."""

    def __init__(self, job: str) -> None:
        self._job = job

    def ask(self, request: bytes = b"", *, tell: TellProgress | None = None) -> bytes:
        """The machine, or the data or model asked for."""
        if self._job == "devices":
            return msgspec.json.encode(MACHINE)
        if self._job == "check-device":
            return msgspec.json.encode(CHECKED)
        if self._job == "check-model":
            return msgspec.json.encode(_looked_at(msgspec.json.decode(request, type=ModelRequest)))
        if self._job == "forecast":
            return msgspec.json.encode(traced(request))
        if self._job in ANSWERS:
            return msgspec.json.encode(ANSWERS[self._job])
        return msgspec.json.encode(_seen_in(msgspec.json.decode(request, type=InspectRequest)))

    def kill(self) -> None:
        """Nothing runs."""


def _seen_in(asked: InspectRequest) -> DataReport:
    """The digits, the reviews, or data for the task that is asked about."""
    for known in (DIGITS, REVIEWS):
        if Path(asked.source).name == Path(known.source).name:
            return known
    return report_for(Task(asked.asked["task"]), asked.source)


def _looked_at(asked: ModelRequest) -> ModelReport:
    """A ResNet-18 for images, a small Llama to write texts, DistilBERT to read them, with odd projections."""
    model = asked.asked["model"]
    if asked.asked["task"] == Task.IMAGE_CLASSIFICATION:
        return RESNET
    if Task(asked.asked["task"]).writes_text:
        is_whole = model["method"] == Method.FULL
        trained = LLAMA.total_parameters if is_whole else LLAMA.trainable_parameters
        return msgspec.structs.replace(LLAMA, trainable_parameters=trained)
    unknown = [target for target in model["lora_targets"] if target not in PROJECTIONS]
    if model["method"] == Method.LORA and unknown:
        words = f"no layer's name ends with {', '.join(unknown)}; this model has {', '.join(PROJECTIONS)}"
        fix = Fix("All linear layers", {"model.lora_targets": ()})
        return msgspec.structs.replace(DISTILBERT, problems=(Problem("model.lora_targets", words, (fix,)),))
    is_whole = model["method"] == Method.FULL
    return DISTILBERT if is_whole else msgspec.structs.replace(DISTILBERT, trainable_parameters=1_922_309)


def make_run(folder: Path, example: Path, reached: int) -> RunFolder:
    """Write the folder of a run that has come to step `reached`; finished where that is the last."""
    folder.mkdir(parents=True)
    run = RunFolder(folder)
    run_file.write(run_file.read(example), run.options_file)
    run.log_file.write_text("loading torchvision:resnet18\n1,438 samples to train on, 359 held out\n")
    is_over = reached == TOTAL_STEPS
    start = time.time() - (86_400 if is_over else reached * 0.23 + 8)
    plot = Plot(steps=TOTAL_STEPS, epochs=EPOCHS, reached=reached, start=start)
    clock = write_story(run, plot)
    if is_over:
        run.model.mkdir()
        finish(run, plot, clock)
    else:
        run.record_keeper(os.getpid())
    return run
