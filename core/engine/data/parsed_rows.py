"""What a parser makes of a text file, whatever its form."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class ParsedRows:
    """Rows and named columns, and the place in the file each row has.

    `numbers` are counted from 1 in what `row_word` says: rows of a delimited file (the header is row 1), lines of
    JSONL, records of JSON.
    """

    table: pa.Table
    numbers: np.ndarray[Any, np.dtype[np.int64]]
    format: str
    row_word: str
    notes: tuple[str, ...] = ()
