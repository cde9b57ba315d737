"""What of a model decides how much memory it takes: counts and widths, known from its config alone."""

import msgspec


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of weights, and widths of layers. The engine reads it off a model without numbers.

    `parameters` counts all weights, `packable` those that QLoRA packs, `head` those of the layers that turn what the
    model has seen into labels (none of a model that writes), `linear_sides` the sum of inputs and outputs of the layers
    LoRA stands beside (its matrices have as many weights, times the rank). `linears` has inputs and outputs apart, by
    the last part of a layer's name, for LoRA on some layers only. `embeddings` counts the weights of tables of tokens
    and positions, `largest` those of the largest single weight, `factored` the numbers Adafactor remembers of all: a
    sum for each row and each column of their last two sides, which spares little of a convolution's 3 x 3.

    Of a transformer: `layers` blocks of width `hidden`, `intermediate` wide inside, with `heads` attention heads
    (`key_heads` of them for keys and values, `head_width` each), `gated` where two layers feed the inner width;
    `crossing` of the blocks, those of a decoder, look at what an encoder put out, too; `vocabulary` tokens, `positions`
    at most; `said` of them are told apart at every place by a model that writes, 0 by one with a head of labels.
    `experts` compute a token, of `all_experts`; 1 of 1 where there are none. `dropout` and `attention_dropout` tell
    that numbers are left out at random after layers and in attention's scores. `turns_fused` tells that one layer
    computes queries, keys and values, which are then turned by their positions. `norm_keeps` and `activation_keeps` are
    how many numbers a normalising layer and the activation function keep for each number they compute, beside it: 1 for
    LayerNorm and GELU by one kernel, more where written out step by step. `inner_dropped` are those kept for each
    number of the inner width because some are left out at random there: 0 where dropout comes after the inner layers
    only, as in BERT.

    Of a vision model: `kept_per_pixel` and `widest_per_pixel` are the numbers that a pass keeps, and that its widest
    layer puts out, for each pixel of the image; `recomputed_per_pixel` those kept where the others are computed again,
    `inputs_per_pixel` those that enter layers LoRA can stand beside. 0 for a transformer.
    """

    parameters: int
    packable: int = 0
    head: int = 0
    linear_sides: int = 0
    linears: dict[str, tuple[int, int]] = {}
    embeddings: int = 0
    largest: int = 0
    factored: int = 0
    layers: int = 0
    crossing: int = 0
    hidden: int = 0
    intermediate: int = 0
    heads: int = 0
    key_heads: int = 0
    head_width: int = 0
    gated: bool = False
    vocabulary: int = 0
    said: int = 0
    positions: int | None = None
    experts: int = 1
    all_experts: int = 1
    dropout: bool = False
    attention_dropout: bool = False
    turns_fused: bool = False
    norm_keeps: float = 1.0
    activation_keeps: float = 1.0
    inner_dropped: int = 0
    kept_per_pixel: float = 0.0
    widest_per_pixel: float = 0.0
    recomputed_per_pixel: float = 0.0
    inputs_per_pixel: float = 0.0
