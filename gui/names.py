"""What devices and models are called on screen."""

DEVICE_KINDS = {"cuda": "CUDA", "mps": "MPS", "cpu": "CPU"}

VISION_TITLES = {
    "resnet18": "ResNet-18",
    "mobilenet_v2": "MobileNet V2",
    "efficientnet_b0": "EfficientNet-B0",
    "squeezenet1_0": "SqueezeNet 1.0",
    "alexnet": "AlexNet",
    "vgg16": "VGG-16",
}


def device_title(name: str) -> str:
    """A device's kind and, where it has one, its number: `CUDA 1`; a name of no known kind stays as it is."""
    kind, _, index = name.partition(":")
    return f"{DEVICE_KINDS[kind]} {index}".rstrip() if kind in DEVICE_KINDS else name


def model_title(short_name: str) -> str:
    """A model's name as its makers write it, where it is one of torchvision's."""
    return VISION_TITLES.get(short_name, short_name)
