"""How long the longest text is stays known while padding and a limit that cuts nothing change."""

import pytest

from gui.new_run.memory_state import KnownLength
from tests.fakes.asked_of_bert import asked

FOUND = {"max_length": 128, "train": "texts.csv"}


@pytest.mark.parametrize(
    ("tokens", "data", "known"),
    [
        (61, FOUND, 61),
        (61, {**FOUND, "padding": "fixed"}, 61),
        (61, {**FOUND, "max_length": 64}, 61),
        (61, {**FOUND, "max_length": 32}, 32),
        (61, {**FOUND, "max_length": 512}, 61),
        (128, {**FOUND, "max_length": 512}, None),  # it was cut off
        (128, {**FOUND, "max_length": 64}, 64),
        (61, {**FOUND, "train": "others.csv"}, None),
    ],
)
def test_it_is_known_where_the_same_texts_are_cut_no_later(tokens, data, known):
    assert KnownLength(asked(data=FOUND), tokens).of(asked(data=data)) == known
