"""What the window is answered while it is drawn: an engine, the Hub, an export and models that never were."""

from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage, QPainter

from core.base.language import _
from core.engine.devices.choose import report
from core.jobs.chat import Answered, Ask, Chance, EndedBy, Load, Loaded, Said, Told, Which
from core.jobs.export import ExportKind
from core.jobs.hub import Account, Cached, CacheReport, Found, Removed, SearchAnswer
from core.jobs.inspect import DataReport, InspectRequest
from core.memory import estimate
from core.memory.model import (
    Forecast,
    Measurement,
    ModelReport,
    ModelShape,
    OptionsRequest,
    Room,
)
from core.options import RunOptions
from core.options.choices import Method, Task
from core.options.data import DataOptions
from core.options.device_support import DeviceReport
from core.options.hub import RepoKind, standing
from core.options.sections import ModelOptions, OutputOptions
from core.options.sources import short_name
from core.options.validate import read_options
from core.runs.events import Example, ExamplesChosen
from core.runs.folder import RunFolder
from core.services.chat import TryProcess
from core.services.offers import KindOffer
from tests.fakes.data_reports import report_for
from tests.fakes.jobs import FakeEngine
from tests.fakes.machines import PC, variant
from tests.fakes.model_shapes import DISTILBERT, RESNET, SMOL
from tests.fakes.runs import PROCESSOR, PROCESSOR_BYTES, VERSIONS, make_folder, write_events

MB, GB = 1 << 20, 1 << 30

# A PC without a graphics card: what Hone has really been run on, so that its pictures promise nothing else.
FACTS = variant(PC, cpu_name=PROCESSOR, memory_bytes=PROCESSOR_BYTES, cpu_bf16=True)
DIGITS = DataReport(
    source="builtin:digits",
    format="scikit-learn digits",
    rows=1797,
    labels=dict(zip("3154697028", (183, 182, 182, 181, 181, 180, 179, 178, 177, 174), strict=True)),
)
ARCHITECTURES = {
    RESNET.parameters: "ResNet",
    SMOL.parameters: "LlamaForCausalLM",
    DISTILBERT.parameters: "DistilBertForSequenceClassification",
}


def engine() -> FakeEngine:
    """An engine on that PC, which knows the digits and data for each task."""
    made = FakeEngine()
    made.answers |= {
        "devices": msgspec.structs.replace(report(FACTS), versions=VERSIONS),
        "inspect": _inspected,
        "check-model": _looked_at,
        "forecast": _traced,
        "hub-search": SearchAnswer(found=FOUND),
        "hub-cached": CacheReport(folder="~/.cache/huggingface/hub", repos=CACHED, total=209 * MB),
        "hub-account": Account(keychain="macOS Keychain"),
        "hub-remove": Removed(freed=0),
    }
    return made


def _inspected(request: bytes) -> DataReport:
    asked = msgspec.json.decode(request, type=InspectRequest)
    return DIGITS if asked.source == DIGITS.source else report_for(Task(asked.asked["task"]), asked.source)


def _looked_at(request: bytes) -> ModelReport:
    """A ResNet-18 for images, a small Llama to write texts, DistilBERT to read them."""
    asked = msgspec.json.decode(request, type=OptionsRequest).asked
    task, shape = Task(asked["task"]), _shape(Task(asked["task"]))
    is_whole = asked["model"]["method"] == Method.FULL or task.reads_images
    return ModelReport(
        architecture=ARCHITECTURES[shape.parameters],
        total_parameters=shape.parameters,
        trainable_parameters=shape.parameters if is_whole else 16 * sum(map(sum, shape.linears.values())),
        layers=21 if task.reads_images else shape.layers,
        activation_checkpointing=True,
        normalises_batch=task.reads_images,
        attention=() if task.reads_images else ("eager", "sdpa"),
        max_length=None if task.reads_images else shape.positions,
        shape=shape,
    )


def _shape(task: Task) -> ModelShape:
    return RESNET if task.reads_images else SMOL if task.writes_text else DISTILBERT


def forecast_of(options: RunOptions) -> Forecast:
    """The formula's figure, for a machine of no special kind."""
    device = DeviceReport(name="cpu", title="CPU", available=True)
    return estimate.forecast(options, _shape(options.task), device, length=min(128, options.data.max_length))


def _traced(request: bytes) -> Forecast:
    options, _ = read_options(msgspec.json.decode(request, type=OptionsRequest).asked)
    assert options is not None
    return msgspec.structs.replace(forecast_of(options), notes=())


def measured(options: RunOptions, room: Room) -> Measurement:
    """What a dry run comes to: what is forecast, and a time that grows with the batch."""
    parts = forecast_of(options).parts
    step = 0.021 * options.effective_batch * (1.3 if options.memory.activation_checkpointing else 1.0)
    return Measurement(
        device="cpu",
        parts=parts,
        peak=parts.total,
        base=parts.overhead,
        room=room,
        longest=128,
        step_seconds=step,
        total_steps=440,
        run_seconds=440 * step,
        out_of_memory="It was stopped before other programs ran out of memory."
        if parts.total > room.free
        else "",
    )


HALF = "distilbert/distilbert-base-uncased"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
PICKLED = standing(("config.json", "pytorch_model.bin"))
NO_PICKLE = {"refusal": PICKLED.refusal, "remedy": PICKLED.remedy}
FOUND = tuple(
    Found(id=name, downloads=downloads, likes=likes, licence="apache-2.0", purpose="fill-mask", **more)
    for name, downloads, likes, more in (
        ("google-bert/bert-base-uncased", 58_120_000, 2310, {"size": 420 * MB, "parameters": 110_106_428}),
        (HALF, 12_340_000, 720, {"size": 256 * MB, "parameters": 66_985_530, "here": 120 * MB}),
        (MINILM, 9_830_000, 3720, {"size": 87 * MB, "here": 88 * MB, "complete": True}),
        ("a-company/guarded-encoder", 345_600, 120, {"size": 1272 * MB, "gated": True}),
        ("somebody/old-bert", 24_500, 25, NO_PICKLE),
    )
)
CACHED = (
    Cached(id=HALF, kind=RepoKind.MODEL, size=0, partial=120 * MB, changed=1_795_200_000),
    Cached(id=MINILM, kind=RepoKind.MODEL, size=88 * MB, complete=True, changed=1_795_100_000),
    Cached(id="nyu-mll/glue", kind=RepoKind.DATASET, size=MB, complete=True, changed=1_794_000_000),
)
UNSUITED = _("This run trained no LoRA adapter: its model is whole already.")
OFFERS = (
    *(KindOffer(kind) for kind in (ExportKind.FOLDER, ExportKind.ONNX, ExportKind.HUB)),
    KindOffer(ExportKind.COREML, _("Only on a Mac: Hone checks a Core ML model with macOS itself.")),
    *(KindOffer(kind, UNSUITED, suits=False) for kind in (ExportKind.ADAPTER, ExportKind.MERGED)),
)


TRIED: dict[str, tuple[Task, str, str, str, tuple[tuple[str, str], ...]]] = {
    "chat": (
        *(Task.CHAT, "Kitchen helper", "qwen2.5-0.5b", "/data/kitchen.jsonl"),
        (("What can I cook from rice and one egg?", ""), ("How long does bread dough rest?", "")),
    ),
    "text": (
        *(Task.TEXT_CLASSIFICATION, "Reviews by stars", "distilbert-base-uncased", "/data/reviews.csv"),
        (("Warm and quick, but the handle broke.", "4 stars"), ("Would buy it again at once.", "5 stars")),
    ),
    "image": (
        *(Task.IMAGE_CLASSIFICATION, "Handwritten digits", "torchvision:resnet18", "builtin:digits"),
        tuple((f"examples/{digit}.png", digit) for digit in "7301942"),
    ),
}
"""By the picture's name: what a run learned, what it is called, its model, its data, and examples with their labels."""

SAYS = {
    Which.TRAINED: "Give it light and little water: pour into the saucer when the top of the soil is dry. Pinch off "
    "the tips above a pair of leaves every week, and it grows bushy instead of tall.",
    Which.BEFORE: "Basil is a herb of the mint family that is used in many kitchens of the world. Basil is a herb "
    "that needs light. Basil is",
}
STARS = {Which.TRAINED: (0.71, 0.18, 0.08, 0.02, 0.01), Which.BEFORE: (0.22, 0.21, 0.2, 0.19, 0.18)}
SEEN = {Which.TRAINED: (0.962, 0.021, 0.009), Which.BEFORE: (0.148, 0.131, 0.122)}


class FakeTry(TryProcess):
    """In place of a model's process: loads at once, and answers from the tables above."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._task = RunFolder(Path(load.run)).options().task
        self._heard: SimpleQueue[Said | None] = SimpleQueue()

    def say(self, said: Said) -> None:
        self._heard.put(said)

    def lines(self) -> Iterator[Told]:
        yield Loaded(name="", task=self._task, device="mps", dtype="bf16")
        while (said := self._heard.get()) is not None:
            if isinstance(said, Ask):
                yield self._answer(said)

    def kill(self) -> None:
        self._heard.put(None)

    def _answer(self, asked: Ask) -> Answered:
        which, task = self._load.which, self._task
        is_trained = which is Which.TRAINED
        _, title, model, *_ = next(row for row in TRIED.values() if row[0] is task)
        answer: dict[str, Any] = {}
        match task:
            case Task.CHAT:
                ended = EndedBy.MODEL if is_trained else EndedBy.LENGTH
                answer = {"text": SAYS[which], "tokens": 44 if is_trained else 32, "ended_by": ended}
            case Task.TEXT_CLASSIFICATION:
                labels = ("4 stars", "3 stars", "5 stars", "2 stars", "1 star")
                answer = {"chances": tuple(map(Chance, labels, STARS[which]))}
            case _:
                rest = (1 - sum(SEEN[which])) / 7
                others = (rest * (1.3 - 0.1 * place) for place in range(7))
                seen = Path(asked.given.path).read_bytes()
                answer = {
                    "chances": tuple(map(Chance, "7192384650", (*SEEN[which], *others))),
                    "image": seen,
                }
        return Answered(
            id=asked.id,
            name=title if is_trained else short_name(model),
            seconds=1.31 if task.writes_text else 0.021,
            device="mps",
            dtype="bf16",
            read=31,
            **answer,
        )


def make_tried(folder: Path) -> dict[str, RunFolder]:
    """Write the folders of runs whose models can be tried, with examples."""
    return {name: _tried(folder / f"2026-11-2{place}-{name}", name) for place, name in enumerate(TRIED)}


def _tried(path: Path, name: str) -> RunFolder:
    task, title, model, data, given = TRIED[name]
    options = RunOptions(
        task=task,
        model=ModelOptions(source=model),
        data=DataOptions(train=data),
        output=OutputOptions(name=title),
    )
    run = make_folder(path, options)
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    if task.reads_images:
        shown = tuple(Example(image=file, expected=label) for file, label in given)
        for example in shown:
            _draw(run.path / example.image, example.expected)
    else:
        shown = tuple(Example(given=text, expected=label, is_own=task.writes_text) for text, label in given)
    write_events(run.events_file, ExamplesChosen(examples=shown, time=0.0, attempt=1))
    return run


def _draw(path: Path, digit: str) -> None:
    picture = QImage(64, 64, QImage.Format.Format_RGB32)
    picture.fill(QColor("black"))
    painter = QPainter(picture)
    painter.setPen(QColor("white"))
    font = painter.font()
    font.setPixelSize(52)
    painter.setFont(font)
    painter.drawText(picture.rect(), Qt.AlignmentFlag.AlignCenter, digit)
    painter.end()
    path.parent.mkdir(exist_ok=True)
    picture.save(str(path))
