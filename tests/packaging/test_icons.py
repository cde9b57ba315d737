"""The icons kept for each system are those of the SVG that the window shows."""

import io
import struct

import pytest
from PIL import Image, ImageChops, ImageStat

from make_icons import ICNS_KEYS, ICO_SIZES, ICONS, PNG_SIZES, SHARE_ON_A_MAC, drawn

pytestmark = pytest.mark.usefixtures("qapp")

MOST_APART = 1.5
"""Levels of 255, in the mean: another version of Qt smooths edges a little otherwise, another drawing is far beyond."""


def are_alike(left, right):
    """Whether two pictures look the same on white."""
    assert left.size == right.size
    white = Image.new("RGBA", left.size, "white")
    one, other = (
        Image.alpha_composite(white, image.convert("RGBA")).convert("RGB") for image in (left, right)
    )
    return max(ImageStat.Stat(ImageChops.difference(one, other)).mean) < MOST_APART


def icns_parts(path):
    """Name and content of each part, as https://en.wikipedia.org/wiki/Apple_Icon_Image_format says."""
    content = path.read_bytes()
    magic, length = struct.unpack(">4sI", content[:8])
    assert (magic, length) == (b"icns", len(content))
    found, at = {}, 8
    while at < length:
        name, size = struct.unpack(">4sI", content[at : at + 8])
        found[name.decode()] = content[at + 8 : at + size]
        at += size
    return found


@pytest.mark.parametrize("size", PNG_SIZES)
def test_the_pngs_show_the_drawing(size):
    assert are_alike(Image.open(ICONS / f"hone-{size}.png"), drawn(size))


def test_the_icon_of_windows_holds_every_size_drawn_for_it():
    with Image.open(ICONS / "hone.ico") as icon:
        assert icon.ico.sizes() == {(size, size) for size in ICO_SIZES}
        assert all(are_alike(icon.ico.getimage((size, size)), drawn(size)) for size in (16, 32, 256))


def test_the_icon_of_a_mac_holds_every_size_with_room_around():
    parts = icns_parts(ICONS / "hone.icns")
    assert set(parts) == {"ic04", "ic05", *ICNS_KEYS}
    assert parts["ic04"].startswith(b"ARGB")
    for key in ("ic11", "ic07", "ic10"):
        picture = Image.open(io.BytesIO(parts[key]))
        assert are_alike(picture, drawn(ICNS_KEYS[key], SHARE_ON_A_MAC))
    edge = picture.width * (1 - SHARE_ON_A_MAC) / 2
    assert picture.getbbox()[0] == pytest.approx(edge, abs=2)


def test_another_drawing_is_noticed():
    assert not are_alike(drawn(32), Image.new("RGBA", (32, 32), "#4a6fe6"))
    assert not are_alike(drawn(32), drawn(32).rotate(90))
