"""Tokenized texts: their columns, how long they are, and where they are kept between runs."""

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from datasets import Dataset

TOKENS = "input_ids"
NO_LABEL = -100
"""The label of a token that is not learned from, as torch's cross entropy and transformers have it."""
PAIR = PROMPT, CHOSEN, REJECTED = "prompt_ids", "chosen_ids", "rejected_ids"


def lengths_of(samples: Any) -> list[int] | None:
    """Tokens of each sample of a `datasets.Dataset`, in its order; None for samples that are no texts.

    Of a pair of answers the longer one counts, with the prompt: both get rows of that length. Trainer would make lists
    of every sample for it at the start of a run.
    """
    from datasets import Dataset

    if not isinstance(samples, Dataset):
        return None
    names = set(samples.column_names)
    if TOKENS not in names and not names.issuperset(PAIR):
        return None
    table = samples.with_format("arrow")[:]  # as a table, so that a selection of rows is heeded
    if TOKENS in names:
        return list(pc.list_value_length(table[TOKENS]).to_pylist())
    prompt, chosen, rejected = (pc.list_value_length(table[name]) for name in PAIR)
    return list(pc.add(prompt, pc.max_element_wise(chosen, rejected)).to_pylist())


LIMIT_BYTES = 2 * 2**30
"""All files together; the one that wasn't used for longest goes first."""

UNFINISHED_SECONDS = 86_400.0
"""After so long a file that was never finished belongs to an engine that is gone."""

FORMAT = "1"
LIBRARIES = ("transformers", "tokenizers", "datasets")
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenCache:
    """Tokenized texts in a folder, which may be removed at any time. `limit` is in bytes."""

    folder: Path
    limit: int = LIMIT_BYTES

    def get(self, key: str, make: Callable[[], "Dataset"]) -> "Dataset":
        """What `make` returned for this key in an earlier run, or what it returns now."""
        kept = self._find(key)
        if kept is not None:
            return kept
        made = make()
        try:
            self._keep(key, made)
        except OSError as error:
            LOG.warning("Tokenized texts are not kept for the next run: %s", error)
            return made
        return self._find(key) or made

    def _find(self, key: str) -> "Dataset | None":
        """The whole and undamaged file of a key, read; damaged ones are taken away."""
        from datasets import Dataset

        for path in self._files(f"{key}.*.arrow"):
            try:
                if _digest(path) == path.suffixes[-2][1:]:
                    os.utime(path)
                    return Dataset.from_file(str(path))
                LOG.warning("%s is damaged; the texts are tokenized again", path)
                path.unlink()
            except OSError as error:
                LOG.warning("%s can't be used: %s", path, error)
        return None

    def _keep(self, key: str, made: "Dataset") -> None:
        """Write what was made; raises OSError where that fails, and leaves nothing behind."""
        table = made.data.table
        if table.nbytes > self.limit:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / f"{key}.{os.getpid()}.unfinished"
        try:
            with unfinished.open("wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table)
            unfinished.replace(self.folder / f"{key}.{_digest(unfinished)}.arrow")
        finally:
            unfinished.unlink(missing_ok=True)
        self._make_room(key)

    def _make_room(self, newest: str) -> None:
        """Take the oldest files away until the rest is within the limit; that of the key `newest` stays."""
        for path in self._files("*.unfinished"):
            if time.time() - path.stat().st_mtime > UNFINISHED_SECONDS:
                path.unlink(missing_ok=True)
        files = sorted(self._files("*.arrow"), key=lambda path: path.stat().st_mtime)
        size = sum(path.stat().st_size for path in files)
        for path in files:
            if size <= self.limit:
                return
            if not path.name.startswith(newest):
                size -= path.stat().st_size
                path.unlink(
                    missing_ok=True
                )  # Windows refuses where another run reads it: OSError, told in the log

    def _files(self, pattern: str) -> Iterator[Path]:
        return iter(list(self.folder.glob(pattern)))


def cache_key(texts: "Dataset", tokenizer: str, length: int) -> str:
    """What tokenized texts depend on, as 32 hexadecimal digits.

    Args:
        texts: The texts, with their labels.
        tokenizer: What `tokenizer_print` told of the tokenizer.
        length: Tokens at which they are cut off.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in (FORMAT, *map(version, LIBRARIES), tokenizer, str(length)):
        digest.update(part.encode() + b"\0")
    with pa.ipc.new_stream(_Digesting(digest), texts.data.table.schema.remove_metadata()) as stream:
        stream.write_table(texts.data.table.replace_schema_metadata(None))
    return digest.hexdigest()


def tokenizer_print(tokenizer: Any) -> str:
    """Everything about a tokenizer that decides its tokens; empty for one that can't be told apart from others.

    Ask before it is used: tokenizing leaves the last length in it.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # written in Python: what it does stands in its code
        return ""
    parts = (type(tokenizer).__qualname__, tokenizer.truncation_side, *tokenizer.model_input_names)
    return "\0".join((*parts, hashlib.blake2b(backend.to_str().encode()).hexdigest()))


class _Digesting:
    """A file for Arrow that keeps nothing of what is written but its digest."""

    closed = False

    def __init__(self, digest: "hashlib.blake2b") -> None:
        self._digest = digest

    def write(self, content: Any) -> int:
        self._digest.update(content)
        return len(content)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
