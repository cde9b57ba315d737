"""The five examples on MNIST: each can be read, and asks for the thousand images it promises."""

import struct
from collections import Counter
from pathlib import Path

import pytest

from core.engine.data.images import load_image_data
from core.options import run_file
from core.options.choices import Optimizer, Schedule
from core.options.sources import VISION_MODELS

EXAMPLES = Path(__file__).parents[4] / "resources" / "examples"
NAMES = ("resnet18", "alexnet", "mobilenet_v2", "vgg16", "efficientnet_b0")
IMAGES = "t10k-images-idx3-ubyte"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """1,500 black images in ten classes, as MNIST ships them."""
    folder = tmp_path_factory.mktemp("mnist")
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", 1500, 28, 28)
    (folder / IMAGES).write_bytes(header + bytes(1500 * 28 * 28))
    labels = bytes(number % 10 for number in range(1500))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", 1500) + labels)
    return folder / IMAGES


@pytest.mark.parametrize("name", NAMES)
def test_the_example_asks_for_a_thousand_images(name, images):
    options = run_file.read(EXAMPLES / f"mnist-{name}.hone", (f"data.train={images}",))
    assert name in VISION_MODELS
    assert options.model.source == f"torchvision:{name}"
    assert not options.model.pretrained
    assert (options.memory.batch_size, options.memory.gradient_accumulation_steps) == (4, 1)
    training = options.training
    assert (training.optimizer, training.schedule) == (Optimizer.ADAM, Schedule.CONSTANT)
    assert (training.learning_rate, training.epochs, training.weight_decay) == (1e-3, 1, 0)
    data = load_image_data(options)
    assert (len(data.train), len(data.eval or ())) == (1000, 250)
    assert set(Counter(data.train.labels).values()) == {100}
    assert data.train[0]["pixel_values"].shape == (3, 224, 224)
