"""What of a model decides how much memory it takes: counts and widths, known from its config alone."""

import msgspec


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of weights, and widths of layers. The engine reads it off a model without numbers.

    `parameters` counts all weights, `packable` those that QLoRA packs, `head` those of the layers that turn what the
    model has seen into labels, `linear_sides` the sum of inputs and outputs of the layers LoRA stands beside (its
    matrices have as many weights, times the rank).

    Of a transformer: `layers` blocks of width `hidden`, `intermediate` wide inside, with `heads` attention heads
    (`key_heads` of them for keys and values, `head_width` each), `gated` where two layers feed the inner width;
    `vocabulary` tokens, `positions` at most. `experts` compute a token, of `all_experts`; 1 of 1 where there are none.
    Of a vision model: `kept_per_pixel` and `widest_per_pixel` are the numbers that a pass keeps, and that its widest
    layer puts out, for each pixel of the image; 0 for a transformer.
    """

    parameters: int
    packable: int = 0
    head: int = 0
    linear_sides: int = 0
    layers: int = 0
    hidden: int = 0
    intermediate: int = 0
    heads: int = 0
    key_heads: int = 0
    head_width: int = 0
    gated: bool = False
    vocabulary: int = 0
    positions: int | None = None
    experts: int = 1
    all_experts: int = 1
    kept_per_pixel: float = 0.0
    widest_per_pixel: float = 0.0
