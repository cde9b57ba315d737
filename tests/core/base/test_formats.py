import pytest

from core.base import formats


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (formats.size(None), "-"),
        (formats.size(500), "500 B"),
        (formats.size(912 << 20), "912 MB"),
        (formats.size(1.5 * (1 << 30)), "1.5 GB"),
        (formats.size(24 << 30), "24 GB"),
        (formats.plain_duration(8.2), "8 s"),
        (formats.plain_duration(125), "2 min 05 s"),
        (formats.plain_duration(4800), "1 h 20 min"),
        (formats.counted(1, "step"), "1 step"),
        (formats.counted(1797, "sample"), "1,797 samples"),
        (formats.counted(1.0, "epoch"), "1 epoch"),
        (formats.counted(2.5, "epoch"), "2.5 epochs"),
        (formats.number(float("nan")), "not a number"),
        (formats.number(0.123456), "0.1235"),
        (formats.metric("eval_recall", 0.5), "recall 0.5"),
    ],
)
def test_figures_have_units(text, expected):
    assert text == expected
