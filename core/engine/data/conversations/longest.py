"""Which row of conversations gets the most tokens, found without rendering all of them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.choices import ChatTemplate, Task
from core.engine.data.conversations.reading import read_rows
from core.engine.data.conversations.rendering import Renderer
from core.engine.data.conversations.shapes import find_shape
from core.engine.data.conversations.templates import set_template
from core.engine.data.conversations.tokens import render_pairs, render_rows
from core.engine.data.shards import read_training
from core.engine.data.tables import Table
from core.findings import Tally
from core.options import RunOptions

CANDIDATES = 128
"""So many rows with the most bytes are rendered."""


@dataclass(frozen=True)
class LongestConversation:
    """Tokens of the longest row, 0 where none can be used; and bytes of all texts."""

    tokens: int
    text_bytes: int


def longest_conversation(options: RunOptions, tokenizer: Any, most: int) -> LongestConversation:
    """Look for the longest row, cut off at `most` tokens.

    Args:
        options: What is asked.
        tokenizer: The model's, which gets the template that is asked for; None: only bytes are told.
        most: The most tokens of a row.

    Raises:
        DataError: The data can't be read.
    """
    data, is_pairs = options.data, options.task is Task.PREFERENCE
    table = read_training(data).first(data.max_train_samples)
    shape = find_shape(table, preference=is_pairs, columns=data.columns)
    sizes = sum(
        (_bytes_of(table.rows[name]) for name in shape.columns.values()), np.zeros(table.rows.num_rows)
    )
    total = int(sizes.sum())
    if tokenizer is None:
        return LongestConversation(0, total)
    set_template(tokenizer, ChatTemplate(data.chat_template))
    tally = Tally(table.row_word)
    rows: Any = read_rows(_with_most(table, sizes), shape, tally, roles=data.roles)
    renderer = Renderer(tokenizer, data.loss_on)
    lengths: Iterable[int]
    if is_pairs:
        pairs = render_pairs(rows, renderer, tally, max_length=most)
        lengths = (len(p.prompt_ids) + max(len(p.chosen_ids), len(p.rejected_ids)) for p in pairs)
    else:
        lengths = (len(row.input_ids) for row in render_rows(rows, renderer, tally, max_length=most))
    return LongestConversation(max(lengths, default=0), total)


def _with_most(table: Table, sizes: Any) -> Table:
    places = np.sort(np.argsort(-sizes, kind="stable")[:CANDIDATES])
    return replace(table, rows=table.rows.take(pa.array(places)), numbers=np.asarray(table.numbers)[places])


def _bytes_of(column: Any) -> Any:
    """Bytes of the texts in each cell, also of texts within lists of objects."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(float)
    found = np.zeros(len(column))
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            found += _bytes_of(pc.struct_field(column, index))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        owners = pc.list_parent_indices(joined).to_numpy()
        np.add.at(found, owners, _bytes_of(pc.list_flatten(joined)))
    return found
