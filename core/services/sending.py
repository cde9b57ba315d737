"""Before the files of a run leave for another computer: check that they are data and models, and say which they are."""

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base import formats
from core.base.errors import DataError, Fix, OptionsError, UserError
from core.base.jobs import run_job
from core.base.language import _
from core.base.settings import hub_cache
from core.hosts.computers import find
from core.hosts.sending import Parcel, ParcelKind, agree, unasked
from core.jobs.inspect import DataReport, inspect_request
from core.options import RunOptions
from core.options.catalogue import options_by_path
from core.options.presets import DATA_ENDINGS
from core.options.validate import problems_of
from core.runs.folder import RunFolder


@dataclass(frozen=True)
class SendingRequest:
    """The question whether these files may leave: a title, and a line for each file or folder."""

    title: str
    lines: tuple[str, ...]


def to_ask(asked: Sequence[RunOptions], chosen: Collection[str] = ()) -> tuple[Parcel, ...]:
    """Returns what has to be asked about before these runs start; reads small files.

    Args:
        chosen: Options whose values the person has chosen here, which is an answer. The base model that an adapter
            names is nobody's choice.

    Raises:
        UserError: One of their computers isn't known.
    """
    found = (parcel for options in asked for parcel in unasked(options))
    return tuple(
        dict.fromkeys(one for one in found if one.kind is ParcelKind.BASE or one.option not in chosen)
    )


def request_for(asked: Sequence[RunOptions], parcels: Sequence[Parcel]) -> SendingRequest:
    """Returns what to ask about these parcels, after checking that each is what it is said to be. Takes long.

    Raises:
        UserError: Some of it is no data, no model, or lies elsewhere than asked about.
    """
    lines = [_line(parcel) for parcel in parcels]
    kinds = {parcel.kind for parcel in parcels}
    by_source = {(options.data.train, options.data.eval, options.model.source): options for options in asked}
    for options in by_source.values():
        if problems := problems_of(options):
            raise OptionsError(problems)
        if ParcelKind.DATA in kinds:
            report = run_job("inspect", inspect_request(options), DataReport)
            if report.problems:
                raise OptionsError(report.problems)
    names = dict.fromkeys(name for options in asked for name in options.device.computers)
    where = formats.enumerated(formats.with_note(name, find(name).address) for name in names)
    return SendingRequest(_("Send these files to {computer}?").format(computer=where), tuple(lines))


def agree_to_new(runs: Sequence[RunFolder]) -> None:
    """Records what new runs may take along: the second of a pair takes the model of the first, which has a folder now.

    Raises:
        UserError: It can't be written. The folders of the runs, which never began, are removed.
    """
    try:
        agree(run.options() for run in runs)
    except UserError:
        for run in runs:
            shutil.rmtree(run.path, ignore_errors=True)
        raise


def _line(parcel: Parcel) -> str:
    """Returns what a parcel is, where it lies, and how large it is."""
    if parcel.kind is ParcelKind.DATA and (reason := _no_data(parcel.path)):
        choose_it = _(
            "If you want to send it, choose a copy of it in the form, or name it in the terminal with --set "
            "{option}={path}"
        ).format(option=parcel.option, path=parcel.path)
        title = _("{path} isn't sent, because a run file names it").format(path=parcel.path)
        raise DataError(title, reason, (Fix(choose_it),), option=parcel.option)
    sizes = [path.stat().st_size for path in parcel.files().values()]
    title = options_by_path()[parcel.option].title
    if parcel.kind is ParcelKind.BASE:
        title = _("Base model of the adapter")
    place = parcel.place
    return _("{title}: {path} ({files}, {size})").format(
        title=title,
        path=parcel.path if place == str(parcel.path) else f"{parcel.path} → {place}",
        files=formats.counted(len(sizes), "file"),
        size=formats.memory(sum(sizes)),
    )


def _no_data(path: Path) -> str:
    """Returns why a file or folder that somebody else names is no data by its name; empty if it may be."""
    place = path.resolve()
    if any(part.startswith(".") for part in place.parts) and not place.is_relative_to(hub_cache().resolve()):
        return _("It lies in a hidden folder.")
    if place.is_file() and Path(place.name.lower().removesuffix(".gz")).suffix not in DATA_ENDINGS:
        return _("Its name has no ending of a data file, such as .csv or .txt.")
    return ""
