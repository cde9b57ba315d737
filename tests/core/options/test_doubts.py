"""Nobody waits for an answer about what no machine and no model refuses."""

from typing import Any

import pytest

from core.options.device_support import machine_may_refuse, model_may_refuse
from tests.fakes.asked_of_bert import asked

BERT = {"source": "/somewhere/bert"}


@pytest.mark.parametrize(
    ("sections", "machine", "model"),
    [
        ({}, False, False),
        ({"model": {**BERT, "method": "lora"}}, False, True),
        ({"model": {**BERT, "method": "qlora"}}, True, True),
        ({"model": {**BERT, "attention": "eager"}}, False, True),
        ({"memory": {"activation_checkpointing": True}}, False, True),
        ({"device": {"precision": "bf16"}}, True, False),
        ({"training": {"optimizer": "adamw-8bit"}}, True, False),
    ],
)
def test_who_may_refuse_what(sections: dict[str, Any], machine: bool, model: bool) -> None:
    options = asked(**sections)
    assert (machine_may_refuse(options), model_may_refuse(options)) == (machine, model)
