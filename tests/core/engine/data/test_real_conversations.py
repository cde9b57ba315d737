"""Real files are read as they are, without a problem."""

from pathlib import Path

import pytest

from core.engine.data.conversation_shapes import Pair, ShapeKind, find_shape
from core.engine.data.tables import read_table
from tests.fakes.conversation_tables import checked


@pytest.mark.data
def test_alpaca(shared_data: Path) -> None:
    table = read_table(shared_data / "instruct" / "alpaca_en_demo.json")
    found = checked(table)
    assert find_shape(table).kind is ShapeKind.ALPACA
    assert found.usable == 999
    assert [(finding.code, finding.count) for finding in found.findings] == [("duplicates", 14)]


@pytest.mark.data
def test_pairs_in_sharegpt_form(shared_data: Path) -> None:
    found = checked(read_table(shared_data / "instruct" / "dpo_en_demo.json"), preference=True)
    assert found.usable == 300
    assert [(finding.code, finding.count) for finding in found.findings] == [("duplicates", 5)]
    turns = [len(row.prompt) for row in found.first if isinstance(row, Pair)]
    assert (turns.count(1), turns.count(2), max(turns)) == (114, 80, 13)
