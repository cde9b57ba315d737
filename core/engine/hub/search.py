"""Searching the Hub for models and data sets, and judging what is found before anything of it is fetched."""

from typing import Any

from core import hub
from core.engine.hub.asking import ask, has_token
from core.engine.hub.data_files import is_data, script_refusal
from core.engine.hub.records import Record
from core.engine.hub.words import Subject
from core.errors import UserError
from core.hub_files import bytes_here, names_here, partial_files
from core.hub_questions import Found, Kind, SearchAnswer, SearchRequest
from core.hub_standing import Standing, standing, suits, wanted, weight_bytes

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
