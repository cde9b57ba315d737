"""Searching the Hub for models and data sets, and which files of a data set are its samples."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from huggingface_hub import DatasetInfo, ModelInfo, constants, errors, get_session
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status  # type: ignore[attr-defined]

from core.base.errors import DataError, UserError
from core.base.language import _
from core.engine.hub.account import (
    FAILURES,
    Subject,
    as_user_error,
    find_token,
    not_the_hub,
    offline,
    page_of,
)
from core.services import hub
from core.services.hub import (
    Found,
    Kind,
    SearchAnswer,
    SearchRequest,
    Standing,
    names_here,
    partial_bytes,
    partial_files,
    snapshot,
    standing,
    suits,
    wanted,
    weight_bytes,
)

ASK_SECONDS = 15.0
"""How long the Hub may be silent before a request is given up."""

Info = ModelInfo | DatasetInfo


def ask(path: str, subject: Subject, params: dict[str, Any] | None = None) -> Any:
    """What the Hub's API answers at `path` (`/api/models`), once: no tries again, and decoded from JSON.

    Raises:
        UserError: There is no answer, or it isn't the Hub's.
    """
    if hub.is_forbidden():
        raise offline(subject)
    try:
        response = get_session().get(
            f"{constants.ENDPOINT}{path}", params=params, headers=headers(), timeout=ASK_SECONDS
        )
        hf_raise_for_status(response)
    except FAILURES as error:
        raise as_user_error(_sharper(error), subject) from error
    try:
        return response.json()
    except ValueError as error:
        raise not_the_hub(subject) from error


def info(record: Any, kind: Kind, subject: Subject) -> Info:
    """A record of the API's as huggingface_hub reads it.

    Raises:
        UserError: It isn't one.
    """
    try:
        made: Info = (ModelInfo if kind is Kind.MODEL else DatasetInfo)(**record)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise not_the_hub(subject) from error
    return made


def headers() -> dict[str, str]:
    """With the token, where there is one."""
    made: dict[str, str] = build_hf_headers(token=find_token()[0] or False, library_name="hone")
    return made


def _sharper(error: Exception) -> Exception:
    """The error as the Hub means it: for a wrong token it says 401 to every question, whatever it is about."""
    if isinstance(error, errors.RepositoryNotFoundError) and find_token()[0]:
        message = (error.response.headers.get("X-Error-Message") or "").lower()
        if "credential" in message or "token" in message:
            return errors.HfHubHTTPError(str(error), response=error.response)
    return error


# --- Which files of a data set on the Hub are its samples


DATA = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".txt")
"""File name endings of samples that Hone reads."""

NO_DATA = (
    "dataset_infos.json", "dataset_info.json", "requirements.txt", "LICENSE.txt", "README.txt", "state.json",
)  # fmt: skip

TRAIN = "train"
SPLIT_NAMES = {
    TRAIN: (TRAIN, "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""What files and folders of each split are called."""

Splits = dict[str, list[str]]


def is_data(name: str) -> bool:
    """Whether a file holds samples that Hone could read."""
    path = PurePosixPath(name)
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return path.suffix.lower() in DATA and path.name not in NO_DATA and not hidden


def subsets(card: Mapping[str, Any], files: Iterable[str]) -> dict[str, Splits]:
    """The files of each split of each subset; a data set without named subsets has one with an empty name.

    Args:
        card: What stands at the top of the data set's README.md.
        files: Names of its files.
    """
    names = sorted(name for name in files if is_data(name))
    configs = card.get("configs")
    found: dict[str, Splits] = {}
    for config in configs if isinstance(configs, list) else ():
        if isinstance(config, Mapping) and (splits := _splits_of(config, names)):
            found[str(config.get("config_name") or "")] = splits
    return found or {"": by_names(names)}


def chosen(found: Mapping[str, Splits], subset: str, name: str) -> Splits:
    """One subset: the named one, else the one called `default`, else the first.

    Raises:
        DataError: There is none of this name.
    """
    if subset and subset not in found:
        known = ", ".join(sorted(found)[:20])
        raise DataError(
            _("{name} has no subset {subset}").format(name=name, subset=subset),
            _("It has: {known}.").format(known=known) if known else _("It names none."),
        )
    key = subset or ("default" if "default" in found else next(iter(found), ""))
    return found.get(key, {})


def by_names(names: Iterable[str]) -> Splits:
    """Files by the split that their names or folders tell; all are for training where none tells any."""
    found: Splits = {}
    rest: list[str] = []
    for name in names:
        split = split_of(name)
        (found.setdefault(split, []) if split else rest).append(name)
    if not found and rest:
        found[TRAIN] = rest
    return found


def split_of(name: str) -> str:
    """The split in the name of a file or of a folder above it; empty: none."""
    parts = re.split(r"[^a-z]+", name.lower())
    for part in reversed(parts[:-1]):  # the last is the file's ending
        for split, words in SPLIT_NAMES.items():
            if part in words:
                return split
    return ""


def _splits_of(config: Mapping[str, Any], names: list[str]) -> Splits:
    """The splits of one entry of a card's `configs`."""
    folder = str(config.get("data_dir") or "").strip("/")
    within = [name for name in names if not folder or name.startswith(f"{folder}/")]
    files = config.get("data_files")
    if files is None:
        return by_names(within)
    if isinstance(files, list) and any(isinstance(entry, Mapping) for entry in files):
        files = {
            entry.get("split") or TRAIN: entry.get("path") for entry in files if isinstance(entry, Mapping)
        }
    if not isinstance(files, Mapping):
        return by_names(_matching(files, within, folder))
    splits = {str(split): _matching(patterns, within, folder) for split, patterns in files.items()}
    return {split: matching for split, matching in splits.items() if matching}


def _matching(patterns: Any, names: list[str], folder: str) -> list[str]:
    """The names that match one of the patterns; `**` stands for any folders, or none."""
    given = [str(one) for one in (patterns if isinstance(patterns, list) else [patterns]) if one]
    full = [(f"{folder}/{one}" if folder else one).removeprefix("./") for one in given]
    return [
        name
        for name in names
        if any(fnmatchcase(name, one) or fnmatchcase(name, one.replace("**/", "")) for one in full)
    ]


# --- A data set of the Hub that lies in the cache: its subsets, its splits


CARD = "README.md"


def dataset_splits(name: str, subset: str = "") -> list[str]:
    """The splits of a data set in the cache, such as `train` and `test`.

    Args:
        name: Its id, `owner/name`.
        subset: The part of it, where it has several; empty: `default`, or the first.

    Raises:
        DataError: It isn't on this computer, or has no such subset.
    """
    return list(chosen(_found(name), subset, name))


def dataset_files(name: str, subset: str = "", split: str = "") -> list[Path]:
    """The files of one split of a data set in the cache, in order: Parquet, CSV, TSV, JSON or JSON Lines.

    Args:
        name: Its id, `owner/name`.
        subset: The part of it, where it has several; empty: `default`, or the first.
        split: Which split; empty: `train`, or the only one.

    Raises:
        DataError: It isn't on this computer, or has no such subset or split.
    """
    splits = chosen(_found(name), subset, name)
    split = split or (TRAIN if TRAIN in splits or len(splits) != 1 else next(iter(splits)))
    if split not in splits:
        raise DataError(
            _("{name} has no split {split}").format(name=name, split=split),
            _("It has: {splits}.").format(splits=", ".join(splits)),
        )
    folder = snapshot(name, Kind.DATASET)
    assert folder is not None
    return [folder / one for one in splits[split]]


def card_of(path: Path) -> dict[str, Any]:
    """What stands at the top of a data set's README.md; empty where there is none, or it can't be read."""
    import yaml  # type: ignore[import-untyped]  # comes with huggingface_hub, which reads cards with it
    from huggingface_hub import metadata_load

    if not path.is_file():
        return {}
    try:
        return metadata_load(path) or {}
    except (OSError, ValueError, yaml.YAMLError):  # a damaged card says nothing
        return {}


def _found(name: str) -> dict[str, Splits]:
    folder = snapshot(name, Kind.DATASET)
    names = [one for one in names_here(name, Kind.DATASET) if is_data(one)]
    if folder is not None and names:
        return subsets(card_of(folder / CARD), names)
    if not hub.is_name(name):
        detail = _("Such a name is “owner/name”, as its page shows it.")
        raise DataError(_("“{name}” is no name of a data set on the Hub").format(name=name), detail)
    command = f"hone hub --data --download {name}"
    if partial_files(name, Kind.DATASET):
        raise DataError(
            _("{name} has not come to its end yet").format(name=name),
            _("Go on with its download: {command}").format(command=command),
        )
    page = page_of(name, Kind.DATASET)
    raise DataError(
        _("The data set {name} isn't on this computer").format(name=name),
        _("Download it first: {command} ({page})").format(command=command, page=page),
    )


# --- Searching


MOST = 100
"""How many of the most downloaded a search asks for."""

_FIELDS = {
    Kind.MODEL: (
        "config", "downloads", "gated", "library_name", "likes", "pipeline_tag", "private", "safetensors", "siblings",
        "tags",
    ),
    Kind.DATASET: ("downloads", "gated", "likes", "mainSize", "private", "siblings", "tags"),
}  # fmt: skip


def search(request: SearchRequest) -> SearchAnswer:
    """Find models or data sets by their names, the most downloaded first.

    Raises:
        UserError: The Hub can't be asked.
    """
    kind, words = request.kind, request.words.strip()
    subject = Subject(kind=kind, has_token=bool(find_token()[0]))
    params: dict[str, Any] = {"sort": "downloads", "limit": MOST, "expand": list(_FIELDS[kind])}
    if words:
        params["search"] = words
    if kind is Kind.MODEL:
        params["filter"] = "transformers"
    answer = ask(f"/api/{kind}s", subject, params)
    if not isinstance(answer, list):
        raise not_the_hub(subject)
    records = [info(record, kind, subject) for record in answer]
    exact = [record for record in records if record.id == words]
    if not exact and hub.is_name(words) and "/" in words:  # a private one is found by its whole name only
        named = Subject(words, kind, subject.has_token)
        try:
            record = ask(f"/api/{kind}s/{words}", named, {"expand": list(_FIELDS[kind])})
            exact = [info(record, kind, named)]
        except UserError:
            pass
    others = [
        record
        for record in records
        if record.id != words
        and (not isinstance(record, ModelInfo) or suits(record.pipeline_tag or "", request.task))
    ]
    found = tuple(found_of(record) for record in exact + others)
    return SearchAnswer(found=found, signed_in=subject.has_token)


def found_of(record: Info) -> Found:
    """What Hone says of a model or data set."""
    names = [sibling.rfilename for sibling in record.siblings or ()]
    tags = record.tags or []
    if isinstance(record, ModelInfo):
        kind, needed = Kind.MODEL, wanted(names)
        purpose, tensors = record.pipeline_tag or "", record.safetensors
        judged = standing(record.id, names, tags=tags, config=record.config, purpose=purpose)
        size = weight_bytes(tensors.parameters) if tensors and tensors.parameters else None
    else:
        kind, needed = Kind.DATASET, [name for name in names if is_data(name)]
        purpose, tensors = _tagged(tags, "task_categories:"), None
        judged = _standing_of_data(names)
        size = record.main_size
    here, partial = names_here(record.id, kind), partial_bytes(record.id, kind)
    if kind is Kind.MODEL:
        complete = bool(needed) and here.keys() >= set(needed)
    else:  # one subset of it is enough
        complete = any(map(is_data, here)) and not partial
    return Found(
        id=record.id,
        kind=kind,
        downloads=record.downloads,
        likes=record.likes,
        size=size,
        parameters=tensors.total if tensors else None,
        licence=_tagged(tags, "license:"),
        purpose=purpose,
        gated=bool(record.gated),
        private=bool(record.private),
        here=partial + sum(here.get(name, 0) for name in needed),
        complete=complete,
        **judged._asdict(),
    )


def _standing_of_data(names: list[str]) -> Standing:
    if any(map(is_data, names)):
        return Standing()
    if any(name.endswith(".py") and "/" not in name for name in names):
        return Standing(
            _(
                "It comes as Python code that makes the samples, which Hone doesn't run: such code could do anything "
                "on "
                "this computer."
            ),
            _(
                "Look on its page under Files for a branch refs/convert/parquet, download that, and "
                "choose the folder."
            ),
        )
    return Standing(_("It has no Parquet, CSV or JSON files."))


def _tagged(tags: list[str], prefix: str) -> str:
    return next((tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)), "")
