"""What the Hub's API tells of models and data sets, as far as Hone reads it; the rest is skipped.

The fields are those of `ModelInfo` and `DatasetInfo` in huggingface_hub 2.4.0, under the API's own names.
"""

from typing import Any

import msgspec


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Whose token it is."""

    name: str


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
