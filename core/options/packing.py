"""Whether a model's weights are quantized for MLX, as mlx-lm writes it into its config.json."""

from typing import Any

import msgspec


class Packing(msgspec.Struct, frozen=True):
    """A format of quantized weights: the bits of one, and how many share a scale, of affine ones a bias, too."""

    bits: int
    group: int
    is_affine: bool = True

    def size(self, number: int) -> float:
        """Returns the bytes of a weight with its share of scale and bias: `number` bytes each, or one if not affine."""
        return self.bits / 8 + (2 * number if self.is_affine else 1) / self.group


def packing(quantization: Any, module: str = "") -> Packing | None:
    """Returns the format of most of a model's weights, or of a `module`'s; None: they aren't quantized for MLX.

    `quantization` is what its config.json has under that name, with the modules that differ by mlx-lm's names, which
    are transformers' in models for texts.
    """
    if not isinstance(quantization, dict):
        return None
    own = quantization.get(module, quantization.get(f"language_model.{module}"))
    match quantization | (own if isinstance(own, dict) else {}):
        case {"bits": int(bits), "group_size": int(group), **rest} if own is not False and group > 0:
            return Packing(bits, group, rest.get("mode", "affine") == "affine")
    return None
