"""Folders of class folders: `cats/1.jpg`, `dogs/2.jpg`, optionally below `train/` and `val/`."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from core.engine.data.column_names import listed
from core.engine.data.image_sets import FoundImages, ImageFiles
from core.engine.data.text_files import in_order
from core.errors import DataError, Fix
from core.task_guess import IMAGE_FORMATS

TRAIN_FOLDERS = ("train", "training")
EVAL_FOLDERS = ("val", "valid", "validation", "eval", "test", "testing")
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
            found.append(f"Class folders without images are left out: {listed(self.empty)}.")
        if self.ignored:
            files = "1 file that is" if self.ignored == 1 else f"{self.ignored:,} files that are"
            found.append(f"{files} no image in a class folder of {self.root.name} left out.")
        return tuple(found)


def load_folder(folder: Path, train: str | None = None, held_out: str | None = None) -> FoundImages:
    """Find the images of a folder; none is opened.

    Args:
        folder: The class folders are in it, or in folders in it that are called as splits are.
        train: The name of the folder to train on; None: `train`, or the folder itself.
        held_out: The name of the folder to evaluate on; None: `val` or the like, where no other was chosen.

    Raises:
        DataError: There are no class folders, or no images, or no folder of such a name.
    """
    train_root, eval_root = _roots(folder, train, held_out)
    found = _load(train_root, eval_root)
    if train_root == folder:
        return found
    return replace(found, splits=tuple(path.name for path in _folders(folder)))


def _load(train_root: Path, eval_root: Path | None) -> FoundImages:
    train = _scan(train_root)
    held_out = _scan(eval_root) if eval_root else None
    notes = train.notes()
    if held_out is None:
        return FoundImages(train.images, "class folders", notes=notes)
    notes = (*notes, *held_out.notes())
    return FoundImages(train.images, "class folders", held_out.images, held_out.root.name, notes)


def _roots(folder: Path, asked_train: str | None, asked_eval: str | None) -> tuple[Path, Path | None]:
    """Where the class folders for training and, if the folder brings them, for evaluation are."""
    by_name = {path.name.lower(): path for path in _folders(folder)}
    for name in (asked_train, asked_eval):
        if name and name.lower() not in by_name:
            raise DataError(
                f"{folder.name} has no split {name}",
                f"{folder}: there is no folder {name}; there are {listed(list(by_name)) or 'none'}.",
            )
    if asked_train:
        return by_name[asked_train.lower()], by_name[asked_eval.lower()] if asked_eval else None
    train = next((by_name[name] for name in TRAIN_FOLDERS if name in by_name), None)
    held_out = next((by_name[name] for name in EVAL_FOLDERS if name in by_name), None)
    if train is None or not _folders(train):
        return folder, None
    return train, by_name[asked_eval.lower()] if asked_eval else held_out


def _folders(folder: Path) -> list[Path]:
    """The folders in it, but for hidden ones and links back to it or above it, which would show all images again."""
    above = {folder.resolve(), *folder.resolve().parents}
    return in_order(
        path
        for path in folder.iterdir()
        if not path.name.startswith(".")
        and path.is_dir()
        and not (path.is_symlink() and path.resolve() in above)
    )


def _scan(root: Path) -> _Scan:
    class_folders = _folders(root)
    if not class_folders:
        raise _no_class_folders(root)
    found: list[tuple[int, str, Path]] = []
    empty: list[str] = []
    ignored = sum(path.is_file() and not path.name.startswith(".") for path in root.iterdir())
    for class_folder in class_folders:
        files = _files(class_folder)
        images = [path for path in files if path.suffix.lower() in IMAGE_FORMATS]
        found += [(place, class_folder.name, path) for place, path in enumerate(images)]
        ignored += len(files) - len(images)
        if not images:
            empty.append(class_folder.name)
    if not found:
        raise DataError(
            f"{root.name} has no images in its class folders",
            f"{root}: the folders {listed(empty)} hold no {_endings()} files.",
        )
    found.sort()  # one of each class in turn: "the first 100" then holds all classes
    images_in_turn = ImageFiles([path for *_, path in found], [name for _, name, _ in found])
    return _Scan(root, images_in_turn, tuple(empty), ignored)


def _files(folder: Path) -> list[Path]:
    found = [Path(where, name) for where, _, names in os.walk(folder) for name in names]
    return in_order(path for path in found if not path.name.startswith(".") and path.name != "Thumbs.db")


def _no_class_folders(root: Path) -> DataError:
    images = sum(path.suffix.lower() in IMAGE_FORMATS for path in root.iterdir())
    count = "1 image" if images == 1 else f"{images:,} images"
    found = f"It holds {count} but no folders" if images else "There are no folders in it"
    return DataError(
        f"{root.name} has no class folders",
        f"{root}: {found}. The name of a folder is the label of the images in it: {root.name}/cat/1.jpg, "
        f"{root.name}/dog/2.jpg.",
        (Fix("Make one folder a class and move the images into them"), Fix("Choose the folder above it")),
    )


def _endings() -> str:
    return ", ".join(ending[1:] for ending in IMAGE_FORMATS)
