"""What the pictures show of the Hugging Face Hub: models as there are, with figures of about their size."""

import msgspec

from core.hub_questions import Account, Cached, CacheReport, Found, Kind, Removed, SearchAnswer
from core.hub_standing import NEEDS_CODE, standing

MB = 1 << 20
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
HALF = "distilbert/distilbert-base-uncased"
PICKLED = "somebody/old-bert"

_PICKLED = standing(PICKLED, ("config.json", "pytorch_model.bin"), purpose="fill-mask")

FOUND = (
    Found(
        id="google-bert/bert-base-uncased",
        downloads=58_120_000,
        likes=2310,
        size=420 * MB,
        parameters=110_106_428,
        licence="apache-2.0",
        purpose="fill-mask",
    ),
    Found(
        id=HALF,
        downloads=12_340_000,
        likes=720,
        size=256 * MB,
        parameters=66_985_530,
        licence="apache-2.0",
        purpose="fill-mask",
        here=120 * MB,
    ),
    Found(
        id=MINILM,
        downloads=9_830_000,
        likes=3720,
        size=87 * MB,
        parameters=22_713_728,
        licence="apache-2.0",
        purpose="sentence-similarity",
        here=88 * MB,
        complete=True,
    ),
    Found(
        id="a-company/guarded-encoder",
        downloads=345_600,
        likes=120,
        size=1272 * MB,
        parameters=333_500_000,
        licence="other",
        purpose="fill-mask",
        gated=True,
    ),
    Found(
        id=PICKLED,
        downloads=24_500,
        likes=25,
        licence="mit",
        purpose="fill-mask",
        refusal=_PICKLED.refusal,
        remedy=_PICKLED.remedy,
        command=_PICKLED.command,
    ),
    Found(
        id="somebody/encoder-with-code",
        downloads=4500,
        likes=12,
        size=522 * MB,
        parameters=137_000_000,
        licence="mit",
        purpose="fill-mask",
        refusal=NEEDS_CODE.refusal,
        remedy=NEEDS_CODE.remedy,
    ),
)

CACHED = (
    Cached(id=HALF, kind=Kind.MODEL, size=0, partial=120 * MB, changed=1_795_200_000),
    Cached(id=MINILM, kind=Kind.MODEL, size=88 * MB, complete=True, changed=1_795_100_000),
    Cached(id="nyu-mll/glue", kind=Kind.DATASET, size=MB, complete=True, changed=1_794_000_000),
)

ANSWERS: dict[str, msgspec.Struct] = {
    "hub-search": SearchAnswer(found=FOUND),
    "hub-cached": CacheReport(folder="~/.cache/huggingface/hub", repos=CACHED, total=209 * MB),
    "hub-account": Account(keychain="macOS Keychain"),
    "hub-remove": Removed(freed=0),
}
