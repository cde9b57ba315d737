import pytest

from core.sources import Scheme, parse_synthetic, scheme_of, short_name, synthetic, unknown_scheme


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("synthetic:512x128", (512, 128)),
        (synthetic(3, 4), (3, 4)),
        ("synthetic:0x3", None),
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
