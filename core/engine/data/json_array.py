"""The objects of a large JSON array one after another, so that the array needn't be in memory."""

import json
import re
from collections.abc import Iterator
from typing import Any

from core.engine.data.json_errors import refused
from core.engine.data.json_values import HALF_CHARACTER, mended
from core.engine.data.text_files import TextFile

LARGEST_RECORD = 64 * 2**20
"""Characters; what goes on for longer than that isn't one object, but one that never ends."""

_NEXT = re.compile(r"\s*(,?)\s*(?=\{)")


class UnevenArrayError(Exception):
    """It isn't an array of objects."""


class ArrayRecords:
    """The objects of a file that is one array, block by block, as often as asked."""

    def __init__(self, source: TextFile) -> None:
        self._source = source
        self._halved = 0

    def __iter__(self) -> Iterator[tuple[list[Any], list[int]]]:
        """Records and their numbers.

        Raises:
            UnevenArrayError: Something else than objects and commas stands in it, or after it.
        """
        rest, number, is_open = "", 1, False
        for text in self._source.texts():
            rest = rest + text if is_open else (rest + text).lstrip()
            if not is_open and rest:
                rest, is_open = rest.removeprefix("["), True
            records, end = self._taken(rest, number)
            rest = rest[end:]
            if len(rest) > LARGEST_RECORD:
                raise UnevenArrayError
            if records:
                yield records, list(range(number, number + len(records)))
                number += len(records)
        if rest.strip() != "]":
            raise UnevenArrayError

    def notes(self) -> tuple[str, ...]:
        """What had to be mended."""
        return (f"{HALF_CHARACTER}, first in record {self._halved:,}.",) if self._halved else ()

    def _taken(self, text: str, number: int) -> tuple[list[Any], int]:
        """The objects that are complete, and where what is left begins."""
        decoder, records, place = json.JSONDecoder(), list[Any](), 0
        while found := _NEXT.match(text, place):
            if bool(found[1]) is (
                number + len(records) == 1
            ):  # a comma before the first one, or none between two
                raise UnevenArrayError
            try:
                value, end = decoder.raw_decode(text, found.end())
            except json.JSONDecodeError:  # cut off here, unless nothing mends it
                break
            except (RecursionError, ValueError) as error:
                raise refused(self._source.path, f"record {number + len(records):,}", error) from error
            value, had_one = mended(value, text[place:end])
            records.append(value)
            self._halved = self._halved or (number + len(records) - 1 if had_one else 0)
            place = end
        return records, place
