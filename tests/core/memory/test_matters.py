import msgspec
import pytest

from core.memory.model import key_of, matters, that_matter
from core.options import RunOptions
from core.options.catalogue import all_options
from core.options.choices import Optimizer, Task
from core.options.sections import MemoryOptions, OutputOptions, TrainingOptions

ASKED = RunOptions(task=Task.TEXT_CLASSIFICATION)


@pytest.mark.parametrize(
    "training", [TrainingOptions(epochs=9), TrainingOptions(learning_rate=1e-3, warmup=0.1, max_steps=5)]
)
def test_how_long_and_how_fast_it_learns_changes_nothing(training):
    other = msgspec.structs.replace(ASKED, training=training, output=OutputOptions(name="Mine"))
    assert that_matter(other) == that_matter(ASKED)
    assert key_of(other) == key_of(ASKED)


@pytest.mark.parametrize(
    "changed",
    [
        {"training": TrainingOptions(optimizer=Optimizer.SGD)},
        {"training": TrainingOptions(momentum=0.0)},
        {"memory": MemoryOptions(batch_size=1)},
        {"task": Task.IMAGE_CLASSIFICATION},
    ],
)
def test_what_changes_memory_is_told_apart(changed):
    assert that_matter(msgspec.structs.replace(ASKED, **changed)) != that_matter(ASKED)


def test_each_option_is_said_to_matter_or_not_as_it_does():
    quiet = {option.path for option in all_options() if not matters(option.path)}
    assert {"training.epochs", "training.learning_rate", "output.name"} <= quiet
    assert not {path for path in quiet if path.split(".")[0] not in ("training", "output")}
    assert "training.optimizer" not in quiet
