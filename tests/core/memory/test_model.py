"""Which options change the memory of a run."""

import msgspec
import pytest

from core.memory.model import key_of, matters, that_matter
from core.options import RunOptions
from core.options.catalogue import all_options
from core.options.choices import Optimizer, Task
from core.options.sections import MemoryOptions, OutputOptions, TrainingOptions

PLAIN = RunOptions(task=Task.TEXT_CLASSIFICATION)


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [
        ({"training": TrainingOptions(epochs=9), "output": OutputOptions(name="Mine")}, True),
        ({"training": TrainingOptions(learning_rate=1e-3, warmup=0.1, max_steps=5)}, True),
        ({"training": TrainingOptions(optimizer=Optimizer.SGD)}, False),
        ({"training": TrainingOptions(momentum=0.0)}, False),
        ({"memory": MemoryOptions(batch_size=1)}, False),
        ({"task": Task.IMAGE_CLASSIFICATION}, False),
    ],
)
def test_options_that_change_memory_change_the_key(changed, is_same):
    other = msgspec.structs.replace(PLAIN, **changed)
    assert (that_matter(other) == that_matter(PLAIN)) is is_same
    assert (key_of(other) == key_of(PLAIN)) is is_same


def test_only_options_of_training_and_output_don_t_matter():
    unimportant = {option.path for option in all_options() if not matters(option.path)}
    assert {"training.epochs", "training.learning_rate", "output.name"} <= unimportant
    assert not {path for path in unimportant if path.split(".")[0] not in ("training", "output")}
    assert "training.optimizer" not in unimportant
