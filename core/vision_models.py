"""The torchvision models Hone trains, and how large their images must be."""

import msgspec


class ImageLimits(msgspec.Struct, frozen=True):
    """Sizes in pixels below which a model can't be trained.

    `smallest` holds for every batch, `smallest_alone` for a batch of one image: batch normalisation needs more than
    one value a channel, so a single image must still be larger than 1 x 1 where the network ends.
    """

    smallest: int
    smallest_alone: int

    @property
    def normalises_batch(self) -> bool:
        """Whether the model has batch normalisation: nothing else makes a single image need more pixels."""
        return self.smallest_alone > self.smallest


VISION_MODELS: dict[str, ImageLimits] = {
    "resnet18": ImageLimits(1, 33),
    "mobilenet_v2": ImageLimits(1, 33),
    "efficientnet_b0": ImageLimits(1, 33),
    "squeezenet1_0": ImageLimits(21, 21),
    "alexnet": ImageLimits(63, 63),
    "vgg16": ImageLimits(32, 32),
}
"""The torchvision models Hone trains, smallest computation per accuracy first, each with what a test found it needs."""

VISION_TITLES = {
    "resnet18": "ResNet-18",
    "mobilenet_v2": "MobileNet V2",
    "efficientnet_b0": "EfficientNet-B0",
    "squeezenet1_0": "SqueezeNet 1.0",
    "alexnet": "AlexNet",
    "vgg16": "VGG-16",
}
"""What they are called in words, as their makers write it."""
