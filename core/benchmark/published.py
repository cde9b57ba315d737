"""Figures that others have published, to stand beside what is measured here. They are theirs, and say so."""

from dataclasses import dataclass

from core.benchmark.plan import Rung
from core.options.sources import Scheme

MARK = "published by others"

GUIDE_IS = (
    "Published by others: transformers' guide “Efficient training on a single GPU” (4.19 to 4.26), BERT-large with its "
    "published weights on a Tesla V100 with 16 GB, in January 2022. Half precision is fp16 there; AdamW was not fused; "
    "times are those of all 128 steps, the first included; memory is all that the driver showed as taken."
)
ARTICLE_IS = (
    "Published by others: an article on training with an Apple M1 Max, 1,000 images of MNIST at 224 x 224 pixels, "
    "pretrained weights, CPU against MPS. Times only: the article trained on one logit, so that its losses say nothing."
)


@dataclass(frozen=True)
class GuideRow:
    """A row of the guide: seconds of an epoch of 512 sequences, sequences a second, and MB of 1024 x 1024 bytes."""

    seconds: float
    samples_per_second: float
    megabytes: int

    @property
    def speed(self) -> float:
        """How many times as fast as the guide's plain row."""
        return self.samples_per_second / GUIDE["plain"].samples_per_second

    @property
    def memory(self) -> float:
        """What share of the plain row's memory it took."""
        return self.megabytes / GUIDE["plain"].megabytes


@dataclass(frozen=True)
class ArticleRow:
    """A row of the article: seconds of an epoch on the CPU, and on the GPU by MPS."""

    cpu_seconds: float
    mps_seconds: float

    @property
    def speed(self) -> float:
        """How many times as fast MPS was."""
        return self.cpu_seconds / self.mps_seconds


GUIDE = {
    "plain": GuideRow(57.82, 8.86, 14_949),
    "accumulation": GuideRow(66.03, 7.75, 8_681),
    "checkpointing": GuideRow(85.47, 5.99, 6_775),
    "half": GuideRow(27.46, 18.64, 13_939),
    "all": GuideRow(50.76, 10.09, 7_275),
    "adafactor": GuideRow(64.31, 7.96, 12_295),
    "all-adafactor": GuideRow(56.54, 9.06, 4_847),
    "adamw-8bit": GuideRow(55.95, 9.15, 13_085),
    "all-adamw-8bit": GuideRow(49.46, 10.35, 5_363),
}
"""By the name of the rung, without the half precision it begins with; `half` is half precision alone.

https://github.com/huggingface/transformers/blob/v4.26.0/docs/source/en/perf_train_gpu_one.mdx
"""

ARTICLE = {
    "vgg16-4": ArticleRow(188.3, 36.3),
    "alexnet-4": ArticleRow(36.0, 10.7),
    "resnet18-4": ArticleRow(42.1, 18.6),
    "mobilenet_v2-4": ArticleRow(223.1, 45.1),
    "efficientnet_b0-4": ArticleRow(256.5, 75.5),
    "vgg16-64": ArticleRow(217.4, 35.7),
    "alexnet-64": ArticleRow(18.0, 5.0),
    "resnet18-64": ArticleRow(63.9, 10.4),
    "mobilenet_v2-64": ArticleRow(436.7, 17.1),
    "efficientnet_b0-64": ArticleRow(497.7, 25.9),
}
"""By group: the model and its batch."""

_HALVES = ("bf16", "fp16")


def guide_row(rung: Rung) -> GuideRow | None:
    """What the guide measured of the same method; None: it didn't, and it never saw a person's own data."""
    source = rung.asked.get("data", {}).get("train")
    if source and Scheme.SYNTHETIC.name_of(source) is None:
        return None
    half, _, rest = rung.name.partition("-")
    name = (rest or "half") if half in _HALVES else rung.name
    return GUIDE.get(name)


def article_row(rung: Rung) -> ArticleRow | None:
    """What the article measured of the same model in the same batches; None: it didn't."""
    return ARTICLE.get(rung.group)
