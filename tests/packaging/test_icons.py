"""The icons of each system are those of the SVG that the window shows."""

import io
import struct

import pytest
from PIL import Image, ImageChops, ImageStat

from make_icons import ICNS_KEYS, ICO_SIZES, ICONS, PNG_SIZES, SHARE_ON_A_MAC, drawn

pytestmark = pytest.mark.usefixtures("qapp")

MOST_APART = 1.5
"""Levels of 255, in the mean: versions of Qt smooth edges a little differently, another drawing is far beyond."""


def are_alike(left, right):
    """Whether two pictures look the same on white."""
    assert left.size == right.size
    white = Image.new("RGBA", left.size, "white")
    pair = [Image.alpha_composite(white, image.convert("RGBA")).convert("RGB") for image in (left, right)]
    return max(ImageStat.Stat(ImageChops.difference(*pair)).mean) < MOST_APART


def icns_parts(path):
    """Name and content of each part, as https://en.wikipedia.org/wiki/Apple_Icon_Image_format says."""
    content = path.read_bytes()
    assert struct.unpack(">4sI", content[:8]) == (b"icns", len(content))
    parts, at = {}, 8
    while at < len(content):
        name, size = struct.unpack(">4sI", content[at : at + 8])
        parts[name.decode()] = content[at + 8 : at + size]
        at += size
    return parts


def test_the_pngs_and_the_icon_of_windows_show_the_drawing():
    assert not are_alike(drawn(32), drawn(32).rotate(90))
    for size in PNG_SIZES:
        assert are_alike(Image.open(ICONS / f"hone-{size}.png"), drawn(size))
    with Image.open(ICONS / "hone.ico") as icon:
        assert icon.ico.sizes() == {(size, size) for size in ICO_SIZES}
        assert all(are_alike(icon.ico.getimage((size, size)), drawn(size)) for size in (16, 32, 256))


def test_the_icon_of_a_mac_has_every_size_with_a_margin():
    parts = icns_parts(ICONS / "hone.icns")
    assert set(parts) == {"ic04", "ic05", *ICNS_KEYS}
    assert parts["ic04"].startswith(b"ARGB")
    for key in ("ic11", "ic07", "ic10"):
        picture = Image.open(io.BytesIO(parts[key]))
        assert are_alike(picture, drawn(ICNS_KEYS[key], SHARE_ON_A_MAC))
    assert picture.getbbox()[0] == pytest.approx(picture.width * (1 - SHARE_ON_A_MAC) / 2, abs=2)
