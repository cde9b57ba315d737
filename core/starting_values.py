"""Good values to start from, for each task."""

from core.choices import Method, Schedule, Task
from core.options import DataOptions, MemoryOptions, ModelOptions, RunOptions, TrainingOptions

ENCODER = ModelOptions(source="distilbert-base-uncased")
WRITER = ModelOptions(source="HuggingFaceTB/SmolLM2-135M")
FINE_TUNING = TrainingOptions(epochs=3, learning_rate=2e-5, warmup=0.1, weight_decay=0.01)


def _encoder(task: Task, train: str) -> RunOptions:
    """What suits an encoder, whatever it says of a text."""
    return RunOptions(
        task=task,
        model=ENCODER,
        data=DataOptions(train=train),
        memory=MemoryOptions(batch_size=16),
        training=FINE_TUNING,
    )


_STARTS = (
    _encoder(Task.TEXT_CLASSIFICATION, "train.csv"),
    _encoder(Task.TEXT_REGRESSION, "train.csv"),
    _encoder(Task.TOKEN_CLASSIFICATION, "train.conll"),
    RunOptions(
        task=Task.CAUSAL_LM,
        model=WRITER,
        data=DataOptions(train="text.txt", max_length=256),
        memory=MemoryOptions(batch_size=8),
        training=TrainingOptions(epochs=3, learning_rate=5e-5, schedule=Schedule.COSINE, warmup=0.05),
    ),
    RunOptions(
        task=Task.CHAT,
        model=ModelOptions(source=WRITER.source, method=Method.LORA),
        data=DataOptions(train="conversations.jsonl", max_length=1024),
        memory=MemoryOptions(batch_size=4, gradient_accumulation_steps=4),
        training=TrainingOptions(epochs=2, learning_rate=2e-4, schedule=Schedule.COSINE, warmup=0.05),
    ),
    RunOptions(
        task=Task.PREFERENCE,
        model=ModelOptions(source=f"{WRITER.source}-Instruct", method=Method.LORA),
        data=DataOptions(train="pairs.json", max_length=1024),
        memory=MemoryOptions(batch_size=2, gradient_accumulation_steps=8),
        training=TrainingOptions(epochs=1, learning_rate=5e-6, schedule=Schedule.LINEAR, warmup=0.1),
    ),
    RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source="torchvision:resnet18"),
        data=DataOptions(train="images"),
        memory=MemoryOptions(batch_size=32),
        training=TrainingOptions(
            epochs=5, learning_rate=1e-4, schedule=Schedule.COSINE, warmup=0.1, weight_decay=0.01
        ),
    ),
)


def starting_options(task: Task) -> RunOptions:
    """Options that suit a first run of `task`; the names of its data are there to be replaced."""
    return next(options for options in _STARTS if options.task is task)
