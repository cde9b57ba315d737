"""The colours and the spacing of the whole window; no other file names a colour."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tokens:
    """One set of colours. Categorical colours mean the same everywhere.

    `run` is this run and weights, `gradients`, `optimizer`, `activations` (and the backward pass), `others` other
    programs; `bad` is for ceilings and failures only. `curve1` to `curve12` tell runs apart that are compared.
    """

    is_dark: bool
    background: str
    sidebar: str
    surface: str
    line: str
    text: str
    muted: str
    faint: str
    accent: str
    accent_strong: str
    accent_soft: str
    on_accent: str
    ok: str
    warn: str
    warn_soft: str
    bad: str
    bad_soft: str
    run: str
    gradients: str
    optimizer: str
    activations: str
    others: str
    grid: str
    curve1: str
    curve2: str
    curve3: str
    curve4: str
    curve5: str
    curve6: str
    curve7: str
    curve8: str
    curve9: str
    curve10: str
    curve11: str
    curve12: str


LIGHT = Tokens(
    is_dark=False,
    background="#f5f5f7",
    sidebar="#ececef",
    surface="#ffffff",
    line="#d9dae0",
    text="#1b1c20",
    muted="#5f636c",
    faint="#838892",
    accent="#345fe0",
    accent_strong="#2a50c8",
    accent_soft="#e7edfd",
    on_accent="#ffffff",
    ok="#24794c",
    warn="#945f0e",
    warn_soft="#fdf3dd",
    bad="#c33837",
    bad_soft="#fdeaea",
    run="#4c78f0",
    gradients="#8d63d6",
    optimizer="#e8710f",
    activations="#3fa66b",
    others="#8f95a0",
    grid="#eceef1",
    curve1="#345fe0",
    curve2="#d97a12",
    curve3="#23955a",
    curve4="#8a4fd3",
    curve5="#d23d86",
    curve6="#1496ab",
    curve7="#7d7a1d",
    curve8="#5f6673",
    curve9="#8a5526",
    curve10="#1f2a44",
    curve11="#739d1b",
    curve12="#6093e2",
)

DARK = Tokens(
    is_dark=True,
    background="#17181b",
    sidebar="#121316",
    surface="#1f2125",
    line="#363940",
    text="#ecedf0",
    muted="#a7acb5",
    faint="#7d838d",
    accent="#7396ff",
    accent_strong="#8ba8ff",
    accent_soft="#24305a",
    on_accent="#0d1330",
    ok="#5cc08d",
    warn="#e0ad55",
    warn_soft="#3a2f17",
    bad="#ee6d6b",
    bad_soft="#3d2022",
    run="#7396ff",
    gradients="#b08af0",
    optimizer="#f5a561",
    activations="#5cc08d",
    others="#7d838d",
    grid="#2a2d32",
    curve1="#7ba0ff",
    curve2="#f5a34f",
    curve3="#56c88d",
    curve4="#ba93f7",
    curve5="#f57fb5",
    curve6="#4fc8db",
    curve7="#c9c25a",
    curve8="#aab1bd",
    curve9="#c58f5c",
    curve10="#f2f3f5",
    curve11="#a9dc3c",
    curve12="#4f74c9",
)

SPACING = 8
"""The unit of all gaps, in device-independent pixels; use whole multiples or half."""

GUTTER = 14
"""Width of a scroll bar, kept free where there is none, so that cards keep their width."""

PAGE_MARGINS = (3 * SPACING, 2 * SPACING + 2, 3 * SPACING, 2 * SPACING)
"""Left, top, right and bottom of every page; a scroll bar stands within the right one."""
