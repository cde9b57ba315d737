"""Folders of class folders: `cats/1.jpg`, `dogs/2.jpg`, optionally below `train/` and `val/`."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from core.engine.data.image_sets import FoundImages, ImageFiles
from core.errors import DataError, Fix

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"})
TRAIN_FOLDERS = ("train", "training")
EVAL_FOLDERS = ("val", "valid", "validation", "eval", "test", "testing")
READERS = 4
"""Threads that check files; waiting for the disk, not the processor, takes the time."""
JPEG_END = b"\xff\xd9"
JPEG_TAIL_BYTES = 4096
SHOWN = 5


@dataclass(frozen=True)
class _Scan:
    """The images below one root, and what was passed over."""

    root: Path
    images: ImageFiles
    empty: tuple[str, ...]
    ignored: int

    def notes(self) -> tuple[str, ...]:
        """What a person may want to know about what was passed over."""
        found = []
        if self.empty:
            found.append(f"Class folders without images are left out: {_some(self.empty)}.")
        if self.ignored:
            files = "1 file that is" if self.ignored == 1 else f"{self.ignored:,} files that are"
            found.append(f"{files} no image in a class folder of {self.root.name} left out.")
        return tuple(found)


def load_folder(folder: Path) -> FoundImages:
    """Find the images of a folder, and check that each can be opened.

    Raises:
        DataError: There are no class folders, no images, or some are damaged.
    """
    train_root, eval_root = _roots(folder)
    train = _scan(train_root)
    held_out = _scan(eval_root) if eval_root else None
    refuse_damaged([*train.images.paths, *(held_out.images.paths if held_out else ())])
    notes = train.notes()
    if held_out is None:
        return FoundImages(train.images, "class folders", notes=notes)
    notes = (*notes, *held_out.notes())
    return FoundImages(train.images, "class folders", held_out.images, held_out.root.name, notes)


def _roots(folder: Path) -> tuple[Path, Path | None]:
    """Where the class folders for training and, if the folder brings them, for evaluation are."""
    by_name = {path.name.lower(): path for path in _folders(folder)}
    train = next((by_name[name] for name in TRAIN_FOLDERS if name in by_name), None)
    held_out = next((by_name[name] for name in EVAL_FOLDERS if name in by_name), None)
    if train is None or not _folders(train):
        return folder, None
    return train, held_out


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _scan(root: Path) -> _Scan:
    class_folders = _folders(root)
    if not class_folders:
        raise _no_class_folders(root)
    found: list[tuple[int, str, Path]] = []
    empty: list[str] = []
    ignored = sum(path.is_file() and not path.name.startswith(".") for path in root.iterdir())
    for class_folder in class_folders:
        files = _files(class_folder)
        images = [path for path in files if path.suffix.lower() in ENDINGS]
        found += [(place, class_folder.name, path) for place, path in enumerate(images)]
        ignored += len(files) - len(images)
        if not images:
            empty.append(class_folder.name)
    if not found:
        raise DataError(
            f"{root.name} has no images in its class folders",
            f"{root}: the folders {_some(empty)} hold no {_endings()} files.",
        )
    found.sort()  # one of each class in turn: "the first 100" then holds all classes
    images_in_turn = ImageFiles([path for *_, path in found], [name for _, name, _ in found])
    return _Scan(root, images_in_turn, tuple(empty), ignored)


def _files(folder: Path) -> list[Path]:
    found = [Path(where, name) for where, _, names in os.walk(folder) for name in names]
    return sorted(path for path in found if not path.name.startswith(".") and path.name != "Thumbs.db")


def _no_class_folders(root: Path) -> DataError:
    images = sum(path.suffix.lower() in ENDINGS for path in root.iterdir())
    count = "1 image" if images == 1 else f"{images:,} images"
    found = f"It holds {count} but no folders" if images else "There are no folders in it"
    return DataError(
        f"{root.name} has no class folders",
        f"{root}: {found}. The name of a folder is the label of the images in it: {root.name}/cat/1.jpg, "
        f"{root.name}/dog/2.jpg.",
        (Fix("Make one folder a class and move the images into them"), Fix("Choose the folder above it")),
    )


def refuse_damaged(paths: Sequence[Path]) -> None:
    """Open every file and read its header; decode those that look cut off.

    Raises:
        DataError: Some can't be read as images; the first are listed.
    """
    with ThreadPoolExecutor(READERS) as pool:
        reasons = list(pool.map(_damage, paths))
    damaged = [(path, reason) for path, reason in zip(paths, reasons, strict=True) if reason]
    if not damaged:
        return
    count = "1 image can't" if len(damaged) == 1 else f"{len(damaged):,} images can't"
    lines = [f"{path}: {reason}" for path, reason in damaged[:SHOWN]]
    if len(damaged) > SHOWN:
        lines.append(f"... and {len(damaged) - SHOWN:,} more")
    raise DataError(
        f"{count} be read: {damaged[0][0].name}" + (", ..." if len(damaged) > 1 else ""),
        "\n".join(lines),
        (Fix("Remove or replace these files and start again"),),
    )


def _damage(path: Path) -> str:
    """Why the file can't be read as an image; empty where it can."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            kind = image.format
            image.verify()
        if kind == "JPEG" and not _has_jpeg_end(path):
            with Image.open(path) as image:
                image.load()
    except UnidentifiedImageError:
        return "the file is empty" if path.stat().st_size == 0 else "not an image, whatever its ending says"
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return str(error) or type(error).__name__
    return ""


def _has_jpeg_end(path: Path) -> bool:
    """Whether the end marker is there; PIL's verify() reads only the header of a JPEG file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - JPEG_TAIL_BYTES))
        return JPEG_END in file.read()


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else "")


def _endings() -> str:
    return ", ".join(sorted(ending[1:] for ending in ENDINGS))
