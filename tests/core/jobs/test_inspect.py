"""What a report on data depends on."""

import pytest

from core.jobs.inspect import inspect_request
from core.options.catalogue import with_changes
from tests.fakes.runs import digits_options


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"training.epochs": 9.0, "data.workers": 2, "model.lora_rank": 4}, True),
        ({"training.seed": 9}, False),  # draws the validation data
        ({"data.eval_fraction": 0.3}, False),
        ({"model.source": "torchvision:resnet50"}, False),
    ],
)
def test_only_options_that_change_the_report_are_asked(changes, is_same):
    asked = digits_options()
    assert (inspect_request(with_changes(asked, changes)) == inspect_request(asked)) is is_same
