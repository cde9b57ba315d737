"""What models are called on screen."""

from core.vision_models import VISION_TITLES


def model_title(short_name: str) -> str:
    """A model's name as its makers write it, where it is one of torchvision's."""
    return VISION_TITLES.get(short_name, short_name)
