import pytest

from core.options.sources import (
    Scheme,
    parse_synthetic,
    scheme_of,
    short_name,
    synthetic,
    synthetic_lengths,
    unknown_scheme,
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("synthetic:512x128", (512, 128)),
        (synthetic(3, 4), (3, 4)),
        ("synthetic:0x3", None),
        ("synthetic:512x64-128", (512, 128)),
        (synthetic(3, 4, 2), (3, 4)),
        ("synthetic:5x9-8", None),
        ("synthetic:5x0-8", None),
        ("synthetic:5x8-", None),
        ("synthetic:5x-8", None),
        ("synthetic:5x1-2-3", None),
        ("synthetic:5", None),
        ("synthetic:", None),
        ("synthetic:5x²", None),
        ("synthetic:" + "9" * 5000 + "x5", None),
        ("other:5x5", None),
        ("data.csv", None),
    ],
)
def test_synthetic_sizes(source: str, expected: tuple[int, int] | None) -> None:
    assert parse_synthetic(source) == expected


def test_synthetic_texts_may_differ_in_length() -> None:
    assert synthetic_lengths("synthetic:512x64-128") == (64, 128)
    assert synthetic_lengths("synthetic:512x128") == (128, 128)
    assert synthetic_lengths("data.csv") is None
    assert synthetic(512, 128, 64) == "synthetic:512x64-128"
    assert synthetic(512, 128, 128) == "synthetic:512x128"


@pytest.mark.parametrize(
    ("source", "scheme", "unknown", "short"),
    [
        ("builtin:digits", Scheme.BUILTIN, "", "digits"),
        ("torchvision:vgg16", Scheme.TORCHVISION, "", "vgg16"),
        ("synthetic:8x8", Scheme.SYNTHETIC, "", "8x8"),
        ("tape:bert", None, "tape", "tape:bert"),
        ("C:/data.csv", None, "", "data.csv"),
        ("/data/a:b.csv", None, "", "a:b.csv"),
        ("somebody/bert-base", None, "", "bert-base"),
        ("synthetic", None, "", "synthetic"),
    ],
)
def test_what_stands_before_the_colon(source: str, scheme: Scheme | None, unknown: str, short: str) -> None:
    assert scheme_of(source) is scheme
    assert unknown_scheme(source) == unknown
    assert short_name(source) == short
