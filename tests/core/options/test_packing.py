"""What config.json says of weights that are quantized for MLX."""

import pytest

from core.options.packing import Packing, packing

OWN = {
    "bits": 4,
    "group_size": 64,
    "q": {"bits": 8, "group_size": 32},
    "k": False,
    "language_model.v": {"bits": 6},
}


@pytest.mark.parametrize(
    ("quantization", "module", "expected"),
    [
        ({"bits": 4, "group_size": 64}, "", Packing(4, 64)),
        ({"bits": 4, "group_size": 32, "mode": "mxfp4"}, "", Packing(4, 32, is_affine=False)),
        *((OWN, name, found) for name, found in (("q", Packing(8, 32)), ("k", None), ("o", Packing(4, 64)))),
        (OWN, "v", Packing(6, 64)),
        *((strange, "", None) for strange in (None, "4 bits", {}, {"bits": 4}, {"bits": 4, "group_size": 0})),
    ],
)
def test_the_format_of_a_module(quantization, module, expected):
    assert packing(quantization, module) == expected


def test_a_weight_has_its_share_of_scales():
    assert Packing(4, 64).size(2) == 0.5625
    assert Packing(8, 32).size(4) == 1.25
    assert Packing(4, 32, is_affine=False).size(2) == 0.53125
