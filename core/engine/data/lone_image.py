"""A last batch of a single image, which some models can't train on, made to go away."""

from collections import Counter

from torch.utils.data import Subset

from core.engine.data.image_sets import ImageSet


def leaves_one_over(samples: int, batch_size: int) -> bool:
    """Whether the last batch of an epoch holds a single sample beside full batches."""
    return 1 < batch_size < samples and samples % batch_size == 1


def without_one(images: ImageSet) -> ImageSet:
    """All images but the last one of the class that has most, so that no class loses more than it can spare."""
    most = Counter(images.labels).most_common(1)[0][0]
    spared = max(index for index, label in enumerate(images.labels) if label == most)
    kept: ImageSet = Subset(images, [index for index in range(len(images)) if index != spared])
    return kept
