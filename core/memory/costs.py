"""What each remedy costs in time: by what factor a step takes longer, and who says so.

"The guide" is "Efficient training on a single GPU" of transformers (4.27): BERT-large, 512 tokens, on a V100, 57.82 s
as it is. These are forecasts, for the order of tries and a first idea; a dry run measures them on the computer at hand.
"""

import msgspec


class Cost(msgspec.Struct, frozen=True):
    """By what factor a step takes longer (below 1: shorter), and why."""

    factor: float
    why: str


PADDING = Cost(1.0, "shorter rows are never slower; how much faster depends on the texts")
SHORTER = Cost(1.0, "only the long texts take less time, and those are few")
HALF_BATCH = Cost(
    1.07, "the guide: four batches of 1 in place of one of 4, 66.03 s; that is two halvings of 7 % each"
)
CHECKPOINTING = Cost(1.29, "the guide: 85.47 s after 66.03 s; one more forward pass would be a third")
HALF_ON_CUDA = Cost(0.48, "the guide, for fp16: 27.46 s")
HALF_ON_CPU = Cost(
    0.4, "measured with a CPU that computes bf16 in hardware: MiniLM, batch 16, 2.5 times as fast"
)
HALF_ON_MPS = Cost(1.0, "not measured, no Mac was at hand: taken to be no faster")
EMULATED = Cost(1.5, "a guess: this processor computes bf16 through fp32 and converts forth and back")
ADAMW_8BIT = Cost(0.97, "the guide: 55.95 s")
ADAFACTOR = Cost(1.11, "the guide: 64.31 s")
LORA = Cost(0.8, "LoRA's paper (arXiv 2106.09685, 4.2): 25 % faster than training all of GPT-3")
QLORA_OVER_LORA = Cost(
    1.39,
    "S. Raschka, Finetuning LLMs with LoRA and QLoRA (2023): 39 % more time than LoRA, for a model of 7 billion",
)
OFFLOAD_OPTIMIZER = Cost(
    1.2,
    "a guess: gradients and weights cross to main memory and back; torchao's README calls the loss minimal",
)
ZERO_2 = Cost(1.5, "a guess: the state is updated by the CPU")
ZERO_3 = Cost(2.0, "a guess: the weights, too, cross from main memory at each layer")
