"""Held-out samples: the right share of each class, the same for the same seed."""

from collections import Counter

from core.engine.data.splits import stratified_split


def test_each_class_gives_its_share() -> None:
    labels = [0] * 80 + [1] * 20
    train, held_out = stratified_split(labels, 0.1, seed=1)
    assert sorted(train + held_out) == list(range(100))
    assert Counter(labels[sample] for sample in held_out) == {0: 8, 1: 2}
    assert train == sorted(train)


def test_small_classes_still_add_up_to_the_share() -> None:
    labels = [number % 25 for number in range(100)]
    train, held_out = stratified_split(labels, 0.1, seed=1)
    assert len(held_out) == 10
    assert set(labels) == {labels[sample] for sample in train}


def test_a_single_sample_of_a_class_is_trained_on() -> None:
    train, held_out = stratified_split([0, 0, 0, 1], 0.9, seed=3)
    assert 3 in train
    assert len(held_out) == 2


def test_nothing_is_held_out_when_not_asked() -> None:
    assert stratified_split([0, 1, 0, 1], 0.0, seed=3) == ([0, 1, 2, 3], [])


def test_the_seed_decides() -> None:
    labels = [0, 1] * 50
    assert stratified_split(labels, 0.2, seed=5) == stratified_split(labels, 0.2, seed=5)
    assert stratified_split(labels, 0.2, seed=5) != stratified_split(labels, 0.2, seed=6)
