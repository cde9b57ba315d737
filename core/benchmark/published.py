"""Figures published by others, to compare with."""

from dataclasses import dataclass

from core.base.language import _
from core.benchmark.plan import Kind, Variant
from core.options.sources import Scheme

SOURCES = {
    Kind.METHODS: (
        "Published by others: transformers' guide “Efficient training on a single GPU” (4.19 to 4.26), BERT-large with "
        "its published weights on a Tesla V100 with 16 GB, in January 2022. Half precision is fp16 there; AdamW was "
        "not fused; times are those of all 128 steps, including the first; memory is what the driver showed as used."
    ),
    Kind.DEVICES: (
        _(
            "Published by others: an article on training with an Apple M1 Max, 1,000 images of MNIST at 224 x "
            "224 pixels, "
            "pretrained weights, CPU against MPS. Times only: the article trained on one logit, so its losses "
            "say nothing."
        )
    ),
}


@dataclass(frozen=True)
class GuideRow:
    """A row of the guide: sequences per second, and MB of 1024 x 1024 bytes."""

    samples_per_second: float
    megabytes: int

    @property
    def speed(self) -> float:
        return self.samples_per_second / GUIDE["plain"].samples_per_second

    @property
    def memory(self) -> float:
        return self.megabytes / GUIDE["plain"].megabytes


GUIDE = {
    "plain": GuideRow(8.86, 14_949),
    "accumulation": GuideRow(7.75, 8_681),
    "checkpointing": GuideRow(5.99, 6_775),
    "half": GuideRow(18.64, 13_939),
    "all": GuideRow(10.09, 7_275),
    "adafactor": GuideRow(7.96, 12_295),
    "all-adafactor": GuideRow(9.06, 4_847),
    "adamw-8bit": GuideRow(9.15, 13_085),
    "all-adamw-8bit": GuideRow(10.35, 5_363),
}
"""By the name of the variant without its prefix `bf16-` or `fp16-`; `half` is half precision alone.

https://github.com/huggingface/transformers/blob/v4.26.0/docs/source/en/perf_train_gpu_one.mdx
"""

ARTICLE = {
    "vgg16-4": (188.3, 36.3),
    "alexnet-4": (36.0, 10.7),
    "resnet18-4": (42.1, 18.6),
    "mobilenet_v2-4": (223.1, 45.1),
    "efficientnet_b0-4": (256.5, 75.5),
    "vgg16-64": (217.4, 35.7),
    "alexnet-64": (18.0, 5.0),
    "resnet18-64": (63.9, 10.4),
    "mobilenet_v2-64": (436.7, 17.1),
    "efficientnet_b0-64": (497.7, 25.9),
}
"""Seconds for 1,000 images on the CPU and with MPS, by group (model and batch size)."""


def guide_row(variant: Variant) -> GuideRow | None:
    """The guide's figures for the same method; None if it has none, or the data is a person's own."""
    source = variant.asked.get("data", {}).get("train")
    if source and Scheme.SYNTHETIC.name_of(source) is None:
        return None
    half, _rest, rest = variant.name.partition("-")
    return GUIDE.get(rest or "half" if half in ("bf16", "fp16") else variant.name)
