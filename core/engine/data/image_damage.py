"""Images that can't be opened, found before a run begins."""

from pathlib import Path

from core.engine.data.image_looks import look
from core.engine.data.image_opening import looked_at
from core.engine.data.image_sets import EncodedImages
from core.errors import DataError, Fix

SHOWN = 5


def refuse_damaged(images: EncodedImages) -> None:
    """Look at every image.

    Raises:
        DataError: Some can't be read as images; the first are listed.
    """
    looks = enumerate(looked_at(images.each(), look))
    damaged = [(images.where(index), found.reason) for index, found in looks if found.fault]
    if not damaged:
        return
    count = "1 image can't" if len(damaged) == 1 else f"{len(damaged):,} images can't"
    lines = [f"{where}: {reason}" for where, reason in damaged[:SHOWN]]
    if len(damaged) > SHOWN:
        lines.append(f"... and {len(damaged) - SHOWN:,} more")
    raise DataError(
        f"{count} be read: {Path(damaged[0][0]).name}" + (", ..." if len(damaged) > 1 else ""),
        "\n".join(lines),
        (Fix("Remove or replace these images and start again"),),
    )
