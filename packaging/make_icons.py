"""Make the icons of every system from the one SVG: `python packaging/make_icons.py`.

They are kept beside, in packaging/icons, so that no build needs Qt for them; a test draws the SVG again and compares.
Needs icnsutil, which the extra `bundle` brings.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

from PIL import Image
from PySide6.QtCore import QBuffer, QIODevice, QRectF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

ROOT = Path(__file__).resolve().parent.parent
DRAWING = ROOT / "resources" / "icons" / "hone.svg"
ICONS = ROOT / "packaging" / "icons"

PNG_SIZES = (16, 24, 32, 48, 64, 128, 256, 512)
"""What the icon theme of a Linux desktop has folders for."""

ICO_SIZES = (16, 20, 24, 32, 40, 48, 64, 256)
"""What Windows asks for at 100 to 250 percent."""

ICNS_KEYS = {
    "ic11": 32, "ic12": 64, "ic07": 128, "ic13": 256, "ic08": 256, "ic14": 512, "ic09": 512, "ic10": 1024,
}  # fmt: skip
"""PNGs in an .icns, by the name of their place; the two smallest, ic04 and ic05, are no PNGs."""

SHARE_ON_A_MAC = 824 / 1024
"""How much of the square an icon fills among those of a Mac, by Apple's template."""

SHARE_DRAWN = 112 / 128
"""How much of its square the SVG fills."""


def drawn(size: int, share: float = SHARE_DRAWN) -> Image.Image:
    """The SVG in `size` x `size` pixels, of which it fills `share` in width and height."""
    scale = share / SHARE_DRAWN
    edge = size * (1 - scale) / 2
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(str(DRAWING)).render(painter, QRectF(edge, edge, size * scale, size * scale))
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")
    return Image.open(io.BytesIO(buffer.data().data())).convert("RGBA")


def write_pngs(folder: Path) -> None:
    """One PNG a size."""
    for size in PNG_SIZES:
        drawn(size).save(folder / f"hone-{size}.png", optimize=True)


def write_ico(path: Path) -> None:
    """All sizes in one file, each drawn anew instead of made smaller."""
    *smaller, largest = [drawn(size) for size in ICO_SIZES]
    largest.save(path, sizes=[(size, size) for size in ICO_SIZES], append_images=smaller)


def write_icns(path: Path) -> None:
    """All sizes a Mac asks for, in one file."""
    from icnsutil import ArgbImage, IcnsFile  # only who makes icons has it

    icons = IcnsFile()
    for key, size in (("ic04", 16), ("ic05", 32)):
        icons.add_media(key, data=ArgbImage(image=drawn(size, SHARE_ON_A_MAC)).argb_data())
    for key, size in ICNS_KEYS.items():
        content = io.BytesIO()
        drawn(size, SHARE_ON_A_MAC).save(content, "PNG", optimize=True)
        icons.add_media(key, data=content.getvalue())
    icons.write(str(path), toc=False)


def main() -> None:
    """Write them all."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QGuiApplication(["make_icons"])
    ICONS.mkdir(exist_ok=True)
    write_pngs(ICONS)
    write_ico(ICONS / "hone.ico")
    write_icns(ICONS / "hone.icns")
    del application


if __name__ == "__main__":
    main()
