"""Searching the Hub for models and data sets, and judging what is found before anything of it is fetched."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec
from huggingface_hub import constants, errors, get_session
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status  # type: ignore[attr-defined]

from core.base.errors import DataError, UserError
from core.engine.hub.account import FAILURES, Subject, find_token, not_the_hub, offline, page_of, told
from core.services import hub
from core.services.hub import (
    Found,
    Kind,
    SearchAnswer,
    SearchRequest,
    Standing,
    bytes_here,
    names_here,
    partial_files,
    snapshot,
    standing,
    suits,
    wanted,
    weight_bytes,
)


class Large(msgspec.Struct, frozen=True, kw_only=True):
    """A file kept in large-file storage, by its hash."""

    sha256: str = ""
    size: int | None = None


class Sibling(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a repository; a search tells its name only. `blobId` is Git's hash of it."""

    rfilename: str
    size: int | None = None
    blobId: str = ""  # noqa: N815 - the API's name
    lfs: Large | None = None


class Tensors(msgspec.Struct, frozen=True, kw_only=True):
    """How many numbers of each format a model's safetensors hold."""

    parameters: dict[str, int] = {}
    total: int | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A model or a data set.

    `gated` is "auto" or "manual" where terms have to be accepted; `mainSize` is told of data sets, in bytes.
    """

    id: str
    sha: str = ""
    downloads: int | None = None
    likes: int | None = None
    gated: Any = False
    private: bool = False
    tags: list[str] = []
    pipeline_tag: str | None = None
    library_name: str | None = None
    config: dict[str, Any] | None = None
    safetensors: Tensors | None = None
    siblings: list[Sibling] | None = None
    mainSize: int | None = None  # noqa: N815 - the API's name


# --- One request to the Hub's API: with the person's token, once, and read leniently


ASK_SECONDS = 15.0
"""How long the Hub may keep silent before a question is given up."""

MOST_ANSWER_BYTES = 64 << 20
"""More than this is no answer to a question."""

Answer = TypeVar("Answer")


def ask(path: str, kind: type[Answer], subject: Subject, params: dict[str, Any] | None = None) -> Answer:
    """What the Hub's API answers at `path` (`/api/models`), as a struct or list of structs.

    Raises:
        UserError: It can't be had, or isn't what the Hub would say.
    """
    if hub.is_forbidden():
        raise offline(subject)
    try:
        content = _content(f"{constants.ENDPOINT}{path}", params)
    except FAILURES as error:
        raise told(_sharper(error), subject) from error
    if len(content) > MOST_ANSWER_BYTES:
        raise not_the_hub(subject)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise not_the_hub(subject) from error


def _content(url: str, params: dict[str, Any] | None) -> bytes:
    """What is answered, read no further than shortly after `MOST_BYTES`."""
    asked = get_session().stream("GET", url, params=params, headers=headers(), timeout=ASK_SECONDS)
    content = bytearray()
    with asked as response:
        if response.is_error:
            response.read()  # what the Hub says of it
        hf_raise_for_status(response)
        for part in response.iter_bytes():
            content += part
            if len(content) > MOST_ANSWER_BYTES:
                break
    return bytes(content)


def headers() -> dict[str, str]:
    """What goes along with each request: the token where there is one, and which program asks."""
    token, _ = find_token()
    made: dict[str, str] = build_hf_headers(token=token or False, library_name="hone")
    return made


def has_token() -> bool:
    """Whether requests carry a token."""
    return bool(find_token()[0])


def _sharper(error: Exception) -> Exception:
    """The error as the Hub means it: for a wrong token it says 401 to every question, whatever it is about."""
    if isinstance(error, errors.RepositoryNotFoundError) and has_token():
        said = (error.response.headers.get("X-Error-Message") or "").lower()
        if "credential" in said or "token" in said:
            return errors.HfHubHTTPError(str(error), response=error.response)
    return error


# --- Which files of a data set on the Hub are its samples


DATA = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".txt")
"""What the files of a data set may end with, for Hone to read them."""

NO_DATA = (
    "dataset_infos.json",
    "dataset_info.json",
    "requirements.txt",
    "LICENSE.txt",
    "README.txt",
    "state.json",
)

TRAIN = "train"
SPLIT_NAMES = {
    TRAIN: (TRAIN, "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""What the names of files and folders say of each split."""

Splits = dict[str, list[str]]


def is_data(name: str) -> bool:
    """Whether a file holds samples that Hone could read."""
    path = PurePosixPath(name)
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return path.suffix.lower() in DATA and path.name not in NO_DATA and not hidden


def script_refusal(files: Iterable[str]) -> Standing:
    """Why a data set can't be read; empty words: it can."""
    names = list(files)
    if any(is_data(name) for name in names):
        return Standing()
    if any(name.endswith(".py") and "/" not in name for name in names):
        return Standing(
            "It comes as Python code that makes the samples, which Hone doesn't run: such code could do anything on "
            "this computer.",
            "Look on its page under Files for a branch refs/convert/parquet, download that, and choose the folder.",
        )
    return Standing("It has no Parquet, CSV or JSON files.")


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
        if isinstance(config, Mapping):
            splits = _said(config, names)
            if splits:
                found[str(config.get("config_name") or "")] = splits
    return found or {"": by_names(names)}


def chosen(found: Mapping[str, Splits], subset: str, name: str) -> tuple[str, Splits]:
    """One subset: the named one, else the one called `default`, else the first.

    Raises:
        DataError: There is none of this name.
    """
    if subset and subset not in found:
        known = ", ".join(sorted(found)[:20])
        raise DataError(f"{name} has no subset {subset}", f"It has: {known}." if known else "It names none.")
    key = subset or ("default" if "default" in found else next(iter(found), ""))
    return key, found.get(key, {})


def by_names(names: Iterable[str]) -> Splits:
    """The split of each file, told by its name or a folder above it; all are for training where none says anything."""
    found: Splits = {}
    rest: list[str] = []
    for name in names:
        split = split_of(name)
        (found.setdefault(split, []) if split else rest).append(name)
    if not found and rest:
        found[TRAIN] = rest
    return found


def split_of(name: str) -> str:
    """The split that the name of a file, or of a folder above it, speaks of; empty: none."""
    parts = re.split(r"[^a-z]+", name.lower())
    for part in reversed(parts[:-1]):  # the last is the file's ending
        for split, words in SPLIT_NAMES.items():
            if part in words:
                return split
    return ""


def _said(config: Mapping[str, Any], names: list[str]) -> Splits:
    """The splits of one entry of a card's `configs`."""
    folder = str(config.get("data_dir") or "").strip("/")
    within = [name for name in names if not folder or name.startswith(f"{folder}/")]
    said = config.get("data_files")
    if said is None:
        return by_names(within)
    if isinstance(said, list) and any(isinstance(entry, Mapping) for entry in said):
        entries = [entry for entry in said if isinstance(entry, Mapping)]
        splits = {
            str(entry.get("split") or TRAIN): _matching(entry.get("path"), within, folder)
            for entry in entries
        }
    elif isinstance(said, Mapping):
        splits = {str(split): _matching(pattern, within, folder) for split, pattern in said.items()}
    else:
        matching = _matching(said, within, folder)
        splits = by_names(matching)
    return {split: files for split, files in splits.items() if files}


def _matching(patterns: Any, names: list[str], folder: str) -> list[str]:
    wanted = [str(one) for one in (patterns if isinstance(patterns, list) else [patterns]) if one]
    full = [f"{folder}/{one}" if folder else one for one in wanted]
    return [name for name in names if any(_matches(name, one.removeprefix("./")) for one in full)]


def _matches(name: str, pattern: str) -> bool:
    """Whether a file's name answers to a pattern; `**` stands for any folders, or none."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, pattern.replace("**/", ""))


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
    return list(chosen(_found(name), subset, name)[1])


def dataset_files(name: str, subset: str = "", split: str = "") -> list[Path]:
    """The files of one split of a data set in the cache, in order: Parquet, CSV, TSV, JSON or JSON Lines.

    Args:
        name: Its id, `owner/name`.
        subset: The part of it, where it has several; empty: `default`, or the first.
        split: Which split; empty: `train`, or the only one.

    Raises:
        DataError: It isn't on this computer, or has no such subset or split.
    """
    _, splits = chosen(_found(name), subset, name)
    split = split or (TRAIN if TRAIN in splits or len(splits) != 1 else next(iter(splits)))
    if split not in splits:
        raise DataError(f"{name} has no split {split}", f"It has: {', '.join(splits)}.")
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
    if folder is None or not names:
        raise _not_here(name)
    return subsets(card_of(folder / CARD), names)


def _not_here(name: str) -> DataError:
    if not hub.is_name(name):
        return DataError(
            f"“{name}” is no name of a data set on the Hub",
            "Such a name is “owner/name”, as its page shows it.",
        )
    if partial_files(name, Kind.DATASET):
        return DataError(
            f"{name} has not come to its end yet",
            f"Go on with its download: hone hub --data --download {name}",
        )
    return DataError(
        f"The data set {name} isn't on this computer",
        f"Download it first: hone hub --data --download {name} ({page_of(name, Kind.DATASET)})",
    )


# --- Searching the Hub for models and data sets


LOOKED_THROUGH = 100
"""How many of the most downloaded a search looks at."""

_ASKED = {
    Kind.MODEL: (
        "config", "downloads", "gated", "library_name", "likes", "pipeline_tag", "private", "safetensors", "siblings",
        "tags",
    ),
    Kind.DATASET: ("downloads", "gated", "likes", "mainSize", "private", "siblings", "tags"),
}  # fmt: skip
"""What the Hub is asked to tell of each; more would make its answer longer."""


def search(request: SearchRequest) -> SearchAnswer:
    """Find models or data sets by the words in their names, the most downloaded first.

    Raises:
        UserError: The Hub can't be asked.
    """
    subject = Subject(kind=request.kind, has_token=has_token())
    words = request.words.strip()
    params: dict[str, Any] = {
        "sort": "downloads",
        "limit": LOOKED_THROUGH,
        "expand": list(_ASKED[request.kind]),
    }
    if words:
        params["search"] = words
    if request.kind is Kind.MODEL:
        params["filter"] = "transformers"
    records = ask(f"/api/{request.kind}s", list[Record], subject, params)
    exact = next((record for record in records if record.id == words), None)
    if exact is None and hub.is_name(words) and "/" in words:
        exact = _one(words, request.kind)
    others = [record for record in records if record.id != words and _suits(record, request)]
    found = [found_of(record, request.kind) for record in ([exact] if exact else []) + others]
    return SearchAnswer(found=tuple(found), signed_in=subject.has_token)


def found_of(record: Record, kind: Kind) -> Found:
    """What the person is told of a model or data set."""
    names = [sibling.rfilename for sibling in record.siblings or ()]
    judged = _standing(record, names, kind)
    needed = wanted(names) if kind is Kind.MODEL else [name for name in names if is_data(name)]
    here, complete = bytes_here(record.id, kind, needed)
    if kind is Kind.DATASET:
        complete = any(is_data(name) for name in names_here(record.id, kind)) and not partial_files(
            record.id, kind
        )
    tensors = record.safetensors
    return Found(
        id=record.id,
        kind=kind,
        downloads=record.downloads,
        likes=record.likes,
        size=weight_bytes(tensors.parameters) if tensors and tensors.parameters else record.mainSize,
        parameters=tensors.total if tensors else None,
        licence=_tagged(record.tags, "license:"),
        purpose=record.pipeline_tag or _tagged(record.tags, "task_categories:"),
        gated=bool(record.gated),
        private=record.private,
        here=here,
        complete=complete,
        refusal=judged.refusal,
        remedy=judged.remedy,
        command=judged.command,
    )


def _one(name: str, kind: Kind) -> Record | None:
    """The one of this name; None where there is none that the token may see."""
    params = {"expand": list(_ASKED[kind])}
    try:
        return ask(f"/api/{kind}s/{name}", Record, Subject(name, kind, has_token()), params)
    except UserError:
        return None


def _suits(record: Record, request: SearchRequest) -> bool:
    return request.kind is Kind.DATASET or suits(record.pipeline_tag or "", request.task)


def _standing(record: Record, names: list[str], kind: Kind) -> Standing:
    if kind is Kind.DATASET:
        return script_refusal(names)
    purpose = record.pipeline_tag or ""
    return standing(record.id, names, tags=record.tags, config=record.config, purpose=purpose)


def _tagged(tags: list[str], prefix: str) -> str:
    return next((tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)), "")
