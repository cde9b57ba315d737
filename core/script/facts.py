"""What a script has to be told beside the options: how the data was read, and what was guessed in it.

The engine finds it out (`core.engine.script_facts`), because only it reads data.
"""

from enum import StrEnum

import msgspec

from core.options import Tree

Colours = tuple[float, float, float]


class ScriptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The question. `asked` is a run's options as plain values, paths absolute."""

    asked: Tree


class Form(StrEnum):
    """How rows lie in a file."""

    DELIMITED = "delimited"
    JSON = "json"
    JSON_LINES = "jsonl"
    PARQUET = "parquet"
    CONLL = "conll"
    TEXT = "text"


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Files of rows, or of running text, in order.

    `encoding` is Python's name of it, `delimiter` a character (empty: there is one column). `columns` are their names
    in order. `numbers` say what the numbers of a column of tags stand for.
    """

    files: tuple[str, ...]
    form: Form
    encoding: str = "utf-8-sig"
    is_packed: bool = False
    delimiter: str = ""
    is_quoted: bool = False
    has_header: bool = True
    columns: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


class Template(StrEnum):
    """How the template of a conversation tells its answers: marked in it, or by rendering up to each."""

    MARKED = "marked"
    PLAIN = "plain"


class Conversations(msgspec.Struct, frozen=True, kw_only=True):
    """Which column is what, by role. `chatml` is the template to give the tokenizer; empty: it has its own."""

    columns: dict[str, str]
    template: Template = Template.MARKED
    chatml: str = ""


class Images(msgspec.Struct, frozen=True, kw_only=True):
    """Images in class folders (`folder`, one), or a pair of IDX files (`files`: images, labels)."""

    folder: str = ""
    files: tuple[str, str] | None = None


class ScriptFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. What a task has nothing to do with is left at its default.

    `rows` and `eval_rows` are the data of a task that reads texts; `images` and `eval_images` of one that reads images
    from a disk. `mean` and `std` are what images are normalised with, `is_read` tells that a model's own config asked
    for them.
    """

    rows: Rows | None = None
    eval_rows: Rows | None = None
    text_columns: tuple[str, ...] = ()
    label_column: str = ""
    conversations: Conversations | None = None
    images: Images | None = None
    eval_images: Images | None = None
    mean: Colours = (0.485, 0.456, 0.406)
    std: Colours = (0.229, 0.224, 0.225)
