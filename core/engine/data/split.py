"""Hold out a part of the data, each class by its share where there are classes."""

from collections.abc import Sequence

import numpy as np


def stratified_split(labels: Sequence[int], fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """Split sample numbers into training and held-out ones, both in ascending order.

    Each class gives its share, rounded so that the whole comes out at `fraction` (largest remainders first). A class
    always keeps one sample for training, so one that has only a single sample is not held out.

    Args:
        labels: The class index of each sample.
        fraction: The share to hold out, 0 to 1.
        seed: The same seed gives the same split.

    Returns:
        Training samples and held-out samples.
    """
    classes = np.asarray(labels)
    order = np.random.default_rng(seed).permutation(len(classes))
    members = [order[classes[order] == label] for label in np.unique(classes)]
    held_out = [
        int(sample)
        for group, share in zip(members, _shares([len(group) for group in members], fraction), strict=True)
        for sample in group[:share]
    ]
    training = np.setdiff1d(order, held_out)  # sorted
    return training.tolist(), sorted(held_out)


def random_split(samples: int, fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """As `stratified_split`, where there are no classes to heed; one sample is always trained on."""
    return stratified_split([0] * samples, fraction, seed)


def held_out_count(sizes: Sequence[int], fraction: float) -> int:
    """How many samples `stratified_split` holds out of classes of these sizes, in the order of their indices."""
    return sum(_shares(list(sizes), fraction))


def _shares(sizes: list[int], fraction: float) -> list[int]:
    exact = np.asarray(sizes) * fraction
    shares = np.floor(exact).astype(int)
    missing = round(sum(sizes) * fraction) - int(shares.sum())
    for group in np.argsort(shares - exact, kind="stable")[: max(0, missing)]:
        shares[group] += 1
    return np.minimum(shares, np.asarray(sizes) - 1).tolist()
