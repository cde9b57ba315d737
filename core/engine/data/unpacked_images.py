"""Images taken out of Parquet into a file that can be read in any order, kept between runs."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from core import settings
from core.engine.data.image_opening import Encoded
from core.engine.data.image_sets import EncodedImageSet, ImageSet, Rows
from core.engine.data.image_transform import ImageTransform
from core.errors import DataError, Fix
from core.files import written_whole

BATCH_BYTES = 32 * 2**20
"""Written at once: what unpacking holds in memory."""
UNUSED_SECONDS = 14 * 24 * 3600
"""So long a file stays that no run has used."""
SPARE_BYTES = 512 * 2**20
"""Left free on the disk."""

SCHEMA = pa.schema([("bytes", pa.large_binary()), ("path", pa.string())])


@dataclass(frozen=True)
class Stored:
    """Images in an unpacked file. `places` are their rows in it; workers map the file themselves."""

    file: Path
    places: list[int] = field(repr=False)
    names: Sequence[str] = field(repr=False)
    rows: Rows = field(repr=False)

    def where(self, index: int) -> str:
        """Where it stands in the file it came from."""
        return self.rows.where(index)

    def encoded(self, index: int) -> Encoded:
        """One image, read from the disk or from what the system keeps of it in memory."""
        table = _mapped(self.file)
        place = self.places[index]
        path = table["path"][place].as_py()
        return Path(path) if path else table["bytes"][place].as_py()

    def each(self) -> Iterator[Encoded]:
        """All of them in order."""
        return map(self.encoded, range(len(self.places)))

    def select(self, chosen: Sequence[int], labels: list[int], transform: ImageTransform) -> ImageSet:
        """A data set of some of them."""
        numbers = [self.rows.numbers[index] for index in chosen]
        kept = Stored(
            self.file,
            [self.places[index] for index in chosen],
            [self.names[index] for index in chosen],
            Rows(self.rows.table, numbers, self.rows.word),
        )
        return EncodedImageSet(kept, labels, transform)


def unpack(
    files: Sequence[Path], column: str, images: Callable[[], Iterator[Encoded]], expected_bytes: int
) -> Path:
    """The file with all images of a column, written now or by an earlier run.

    Args:
        files: Where they come from; when one of them changes, they are unpacked again.
        column: Which of their columns.
        images: Gives all images in order.
        expected_bytes: About what they take.

    Raises:
        DataError: There is no room for them on the disk.
    """
    folder = settings.home() / "cache" / "images"
    path = folder / f"{_key(files, column)}.arrow"
    if path.is_file():
        os.utime(path)
        return path
    folder.mkdir(parents=True, exist_ok=True)
    _make_room(folder)
    free = shutil.disk_usage(folder).free
    if free < expected_bytes + SPARE_BYTES:
        raise DataError(
            "There is no room to unpack the images",
            f"The images of {files[0].name} take about {expected_bytes / 1e9:,.1f} GB; on the disk of {folder} "
            f"{free / 1e9:,.1f} GB are free.",
            (Fix("Make room on that disk, or set HONE_HOME to a folder on another one"),),
        )
    with written_whole(path) as unfinished:
        _write(unfinished, images())
    return path


def _key(files: Sequence[Path], column: str) -> str:
    digest = hashlib.blake2b(column.encode(), digest_size=16)
    for path in files:
        state = path.stat()
        digest.update(f"\0{path.resolve()}\0{state.st_size}\0{state.st_mtime_ns}".encode())
    return digest.hexdigest()


def _make_room(folder: Path) -> None:
    """Take away what no run has used for two weeks, and what an interrupted one left unfinished."""
    for path in folder.iterdir():
        if time.time() - path.stat().st_mtime > UNUSED_SECONDS:
            path.unlink(missing_ok=True)


def _write(path: Path, images: Iterator[Encoded]) -> None:
    with path.open("wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
        for batch in _batches(images):
            writer.write_batch(batch)


def _batches(images: Iterator[Encoded]) -> Iterator[pa.RecordBatch]:
    held: list[Encoded] = []
    size = 0
    for image in images:
        held.append(image)
        size += len(image) if isinstance(image, bytes) else 0
        if size >= BATCH_BYTES:
            yield _batch(held)
            held, size = [], 0
    if held:
        yield _batch(held)


def _batch(images: list[Encoded]) -> pa.RecordBatch:
    stored = [image if isinstance(image, bytes) else None for image in images]
    paths = [None if isinstance(image, bytes) else str(image) for image in images]
    return pa.record_batch([pa.array(stored, pa.large_binary()), pa.array(paths, pa.string())], SCHEMA)


@lru_cache(maxsize=4)
def _mapped(path: Path) -> Any:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
