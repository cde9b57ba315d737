"""Values of JSON as Arrow has them: one type for a column, or text where no one type holds its values."""

import json
from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeAlias

import pyarrow as pa

EXACT_FLOAT = 2.0**53
"""Below this, a float holds every whole number exactly."""
DEEPEST = 32
MOST_FIELDS = 256
"""Values nested more deeply, and objects of which no two have the same names, are kept as the text they are."""


HALF_CHARACTER = "Half a character, as an emoji cut in two leaves it, is read as �"


class Why(Enum):
    """Why the values of a column are read as text."""

    MIXED = "mixes kinds of values"
    BIG = "holds numbers beyond 64 bits"
    DEEP = "holds values nested very deeply"
    WIDE = f"holds objects with more than {MOST_FIELDS} different names"


Form: TypeAlias = pa.DataType | Why
"""What a column is read as."""


def form_of(values: Sequence[Any]) -> Form:
    """The type that holds all values, or why none does."""
    try:
        kind = pa.array(values).type
    except OverflowError:
        return Why.BIG
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, RecursionError):
        return Why.MIXED
    return _within_bounds(kind)


def both(one: Form, other: Form) -> Form:
    """The type that holds the values of two parts of a column."""
    if isinstance(one, Why):
        return one
    if isinstance(other, Why):
        return other
    merged = _merged(one, other)
    return Why.MIXED if merged is None else _within_bounds(merged)


def _merged(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        inner = _merged(one.value_type, other.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _merged_struct(one, other)
    return None


def _merged_struct(one: pa.StructType, other: pa.StructType) -> pa.DataType | None:
    fields = {field.name: field.type for field in one}
    for field in other:
        kind = _merged(fields.get(field.name, pa.null()), field.type)
        if kind is None:
            return None
        fields[field.name] = kind
    return pa.struct(list(fields.items()))


def _within_bounds(kind: pa.DataType) -> Form:
    fields, depth, layer = 0, 0, [kind]
    while layer:
        depth += 1
        inner = [one.field(place).type for one in layer for place in range(one.num_fields)]
        fields = max(fields, *(one.num_fields for one in layer))
        layer = inner
        if depth > DEEPEST:
            return Why.DEEP
    return Why.WIDE if fields > MOST_FIELDS else kind


def arrow_array(values: Sequence[Any], form: Form) -> pa.Array | None:
    """The values in the type chosen; None where a value doesn't fit it after all, as 2⁶⁰ + 1 and 0.5 don't."""
    if isinstance(form, Why):
        return pa.array([_as_text(value) for value in values], pa.string())
    try:
        return pa.array(values, form)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None


def _as_text(value: Any) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_FLOAT:
        value = int(value)  # 1.0 is the label 1
    return json.dumps(value, ensure_ascii=False)


def mended(value: Any, text: str) -> tuple[Any, bool]:
    """The value that was parsed from a text, with halves of characters read as �; and whether there was one."""
    if "\\ud" not in text and "\\uD" not in text:
        return value, False
    written = json.dumps(value, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.loads(written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")), True
    return value, False
