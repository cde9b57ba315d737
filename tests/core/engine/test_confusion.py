"""Which labels are taken for which."""

from types import SimpleNamespace

import numpy as np

from core.engine.metrics import confusion, confusion_of


def test_rows_are_what_is_right_and_columns_what_was_answered():
    found = confusion([0, 1, 1, 2, 0], [0, 0, 1, 2, 2], ("cat", "dog", "emu"))
    assert found.labels == ("cat", "dog", "emu")
    assert found.counts == ((1, 1, 0), (0, 1, 0), (1, 0, 1))
    assert found.left_out == 0


def test_labels_without_samples_keep_their_place():
    assert confusion([2], [2], ("a", "b", "c")).counts == ((0, 0, 0), (0, 0, 0), (0, 0, 1))


def test_no_samples_at_all():
    assert confusion([], [], ("a", "b")).counts == ((0, 0), (0, 0))


def test_what_carries_no_label_is_passed_over():
    assert confusion([0, 1, 1], [0, -100, 1], ("a", "b")).counts == ((1, 0), (0, 1))


def test_of_many_labels_the_worst_are_kept_in_their_order():
    labels = [f"label {index}" for index in range(60)]
    true = [*range(60), 7, 7, 40]
    answered = [*range(60), 59, 59, 3]
    found = confusion(answered, true, labels, most=4)
    assert found.labels == ("label 3", "label 7", "label 40", "label 59")
    assert found.counts == ((1, 0, 0, 0), (0, 1, 0, 2), (1, 0, 1, 0), (0, 0, 0, 1))
    assert found.left_out == 56
    assert len(confusion(answered, true, labels).labels) == 50


def test_from_what_trainer_predicts():
    logits = np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
    for predictions in (logits, (logits, "hidden states")):
        prediction = SimpleNamespace(predictions=predictions, label_ids=np.array([0, 1, 1]))
        assert confusion_of(prediction, ("no", "yes")).counts == ((1, 0), (1, 1))
