"""What a run on another computer takes along from this one, and whether the person has agreed to that.

Whoever starts a run asks first (`core.services.sending`). All that leaves goes through `Link.send_sources`, which sends
nothing else.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

import msgspec

from core.base import settings
from core.base.errors import DataError, Fix, UserError, why
from core.base.files import (
    is_link,
    is_plain,
    locked,
    open_plain,
    place_of,
    read_record,
    write_atomically,
    writing,
)
from core.base.language import _
from core.hosts.computers import Computer, find
from core.options import RunOptions
from core.options.catalogue import value_of
from core.options.past_runs import holds_adapter, run_folder
from core.options.sources import ADAPTER, scheme_of, what_lacks

# --- What a run takes along


SOURCES = ("data.train", "data.eval", "model.source")
"""The options that name what is sent."""


class ParcelKind(Enum):
    """What a parcel holds: data, a model's folder, a past run with its model, or the base model of its adapter."""

    DATA = auto()
    MODEL = auto()
    RUN = auto()
    BASE = auto()


@dataclass(frozen=True)
class Parcel:
    """A file or folder that is sent, which `option` names; a base model goes to the folder `into` there."""

    option: str
    path: Path
    kind: ParcelKind
    into: str = ""

    @property
    def place(self) -> str:
        """Where it really is: the person agrees to this place, whatever links lead to it."""
        return place_of(self.path)

    def files(self) -> dict[str, Path]:
        """Returns the parcel's files by their names there.

        Raises:
            DataError: Some of it can't be sent.
        """
        if self.kind is ParcelKind.RUN:
            return _files_of_run(self.path)
        if self.kind is not ParcelKind.BASE:
            return files_in(self.path)
        if not self.path.is_dir() or what_lacks(self.path, needs_weights=True) is not None:
            raise _refused(
                self.path, _("An adapter names it as its base model, but it isn't a model folder.")
            )
        below = files_in(self.path)
        return {f"{self.into}/{name.partition('/')[2]}": path for name, path in below.items()}


def parcels_of(options: RunOptions) -> tuple[Parcel, ...]:
    """Returns what a run takes along: none of what the Hub, torchvision or Hone itself has."""
    return tuple(parcel for option in SOURCES for parcel in _parcels(option, value_of(options, option) or ""))


def _parcels(option: str, source: str) -> Iterator[Parcel]:
    folder = run_folder(source)
    if folder is not None:
        yield Parcel(option, folder, ParcelKind.RUN)
        if holds_adapter(folder / "model") and not (folder / "model" / "base").is_dir():
            config = read_record(folder / "model" / ADAPTER, dict[str, Any]) or {}
            base = Path(str(config.get("base_model_name_or_path")))
            if base.is_absolute():  # otherwise it is on the Hub
                yield Parcel(option, base, ParcelKind.BASE, into=f"{folder.name}/model/base")
    elif scheme_of(source) is None and Path(source).is_absolute():
        yield Parcel(option, Path(source), ParcelKind.MODEL if option == "model.source" else ParcelKind.DATA)


def _refused(path: Path, why: str) -> DataError:
    return DataError(_("{path} can't be sent").format(path=path), why)


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Translates OSErrors around code that reads a file to send it.

    Raises:
        DataError: It can't be read.
    """
    try:
        yield
    except OSError as error:
        raise _refused(path, why(error)) from error


def files_in(path: Path, home: Path | None = None) -> dict[str, Path]:
    """Returns a file, or all files of a folder but hidden ones, by their names relative to its parent.

    Args:
        home: The folder that no link may lead out of; None: itself.

    Raises:
        DataError: Some of it can't be read, lies elsewhere, or has no name that another computer could give it.
    """
    found: dict[str, Path] = {}
    cache = settings.hub_cache().resolve()
    home = (home or path).resolve()
    if home.is_relative_to(cache):  # models in there are folders of links to its files
        home = cache

    def add(file: Path) -> None:
        name = file.relative_to(path.parent).as_posix()
        try:
            name.encode()
        except UnicodeEncodeError:
            raise _refused(file, _("Its name is not Unicode.")) from None
        if is_link(file):
            stay_in(file)
        if not is_plain(file):
            raise _refused(file, _("It is neither a file nor a folder."))
        with readable(file), open_plain(file):
            found[name] = file

    def stop(error: OSError) -> None:
        raise _refused(Path(error.filename or path), why(error)) from error

    def stay_in(part: Path) -> None:
        if not (place := part.resolve()).is_relative_to(home):
            why = _("It is a link that leads out of its folder, to {path}.")
            raise _refused(part, why.format(path=place))

    stay_in(path)
    if not path.is_dir():
        add(path)
        return found
    for folder, folders, names in os.walk(path, onerror=stop):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in folders:
            if is_link(link := Path(folder, name)):
                raise _refused(
                    link, _("It is a link to a folder: copy that folder there, or name it itself.")
                )
        for name in names:
            if not name.startswith("."):
                add(Path(folder, name))
    if not found:
        raise _refused(path, _("It holds no files, or only hidden ones, which aren't sent."))
    return found


def _files_of_run(folder: Path) -> dict[str, Path]:
    """Returns what another run needs of one whose model it starts from."""
    found = {**files_in(folder / "run.toml", folder), **files_in(folder / "model", folder)}
    if (ended := folder / "exit.json").is_file():  # nobody there needs to wait for it
        found |= files_in(ended, folder)
    return {f"{folder.name}/{name}": path for name, path in found.items()}


# --- What the person has agreed to


def unasked(options: RunOptions) -> tuple[Parcel, ...]:
    """Returns what a run takes along to a computer to which the person hasn't agreed to send it."""
    computers = [find(name) for name in options.device.computers]
    parcels = parcels_of(options) if computers else ()
    return tuple(one for one in parcels if any(_is_unasked(one, computer) for computer in computers))


def agree(asked: Iterable[RunOptions]) -> None:
    """Records that the person lets runs take along to their computers what they name now.

    Raises:
        UserError: It can't be written, or a computer isn't known.
    """
    for options in asked:
        for computer in map(find, options.device.computers):
            places = {parcel.place for parcel in parcels_of(options)}
            with writing(_file()), locked(settings.home()):
                known = _agreed()
                if not places <= {*known.get(computer.address, ())}:
                    known[computer.address] = tuple(sorted(places.union(known.get(computer.address, ()))))
                    write_atomically(_file(), msgspec.json.format(msgspec.json.encode(known)))


def refuse_unasked(parcels: Sequence[Parcel], computer: Computer) -> None:
    """Refuses to send what the person hasn't agreed to.

    Raises:
        UserError: Some of it is that.
    """
    paths = [str(parcel.path) for parcel in parcels if _is_unasked(parcel, computer)]
    if paths:
        raise UserError(
            _("You haven't agreed yet to send this to {name}").format(name=computer.name),
            "\n".join(paths),
            (Fix(_("Start or resume the run: Hone asks then")),),
        )


def _is_unasked(parcel: Parcel, computer: Computer) -> bool:
    if parcel.kind is ParcelKind.BASE and _is_known_model(parcel.path.resolve()):
        return False
    return parcel.place not in _agreed().get(computer.address, ())


def _is_known_model(folder: Path) -> bool:
    """Returns whether a folder is in the Hub's cache, or a model of a past run."""
    runs = settings.runs_folder().resolve()
    if folder.is_relative_to(settings.hub_cache().resolve()):
        return True
    return folder.is_relative_to(runs) and folder.relative_to(runs).parts[1:2] == ("model",)


def _agreed() -> dict[str, tuple[str, ...]]:
    """Returns the agreed places by the computers' addresses, which stay if a computer gets another name."""
    return read_record(_file(), dict[str, tuple[str, ...]]) or {}


def _file() -> Path:
    return settings.home() / "agreed.json"
