"""Good values to start from, for each task."""

from core.choices import Schedule, Task
from core.options import DataOptions, MemoryOptions, ModelOptions, RunOptions, TrainingOptions

_TEXT = RunOptions(
    task=Task.TEXT_CLASSIFICATION,
    model=ModelOptions(source="distilbert-base-uncased"),
    data=DataOptions(train="train.csv"),
    memory=MemoryOptions(batch_size=16),
    training=TrainingOptions(epochs=3, learning_rate=2e-5, warmup=0.1, weight_decay=0.01),
)

_IMAGES = RunOptions(
    task=Task.IMAGE_CLASSIFICATION,
    model=ModelOptions(source="torchvision:resnet18"),
    data=DataOptions(train="images"),
    memory=MemoryOptions(batch_size=32),
    training=TrainingOptions(
        epochs=5, learning_rate=1e-4, schedule=Schedule.COSINE, warmup=0.1, weight_decay=0.01
    ),
)


def starting_options(task: Task) -> RunOptions:
    """Options that suit a first run of `task`; the names of its data are there to be replaced."""
    return {Task.TEXT_CLASSIFICATION: _TEXT, Task.IMAGE_CLASSIFICATION: _IMAGES}[task]
