"""What models are called on screen."""

VISION_TITLES = {
    "resnet18": "ResNet-18",
    "mobilenet_v2": "MobileNet V2",
    "efficientnet_b0": "EfficientNet-B0",
    "squeezenet1_0": "SqueezeNet 1.0",
    "alexnet": "AlexNet",
    "vgg16": "VGG-16",
}


def model_title(short_name: str) -> str:
    """A model's name as its makers write it, where it is one of torchvision's."""
    return VISION_TITLES.get(short_name, short_name)
