"""Type sizes and lengths of the style sheet, all made from one font, and where its icons lie."""

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtGui import QFont, QFontMetricsF

from gui.tokens import Tokens

ICONS = Path(__file__).resolve().parent.parent / "resources" / "icons"


@dataclass(frozen=True)
class Sizes:
    """Type sizes and lengths made from one font. `*_font` are values of `font-size`, the others are pixels."""

    title_font: str
    app_font: str
    heading_font: str
    small_font: str
    line: int
    control: int
    indicator: int


def sizes_for(font: QFont) -> Sizes:
    """Sizes that go with a base font, given in points or in pixels."""
    unit, base = ("pt", font.pointSizeF()) if font.pointSizeF() > 0 else ("px", float(font.pixelSize()))
    line = round(QFontMetricsF(font).height())
    return Sizes(
        title_font=f"{base * 1.55:.1f}{unit}",
        app_font=f"{base * 1.2:.1f}{unit}",
        heading_font=f"{base * 1.02:.1f}{unit}",
        small_font=f"{base * 0.92:.1f}{unit}",
        line=line,
        control=line + 2,
        indicator=round(line * 0.9),
    )


def icon_url(name: str, tokens: Tokens) -> str:
    """An icon in the shade that goes with the colours, as a style sheet names it."""
    shade = "dark" if tokens.is_dark else "light"
    return f'url("{(ICONS / f"{name}-{shade}.svg").as_posix()}")'
