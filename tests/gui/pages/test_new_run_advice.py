"""The decision tree for large models stands in the form, every branch of it."""

from core.options.method_rules import big_model_advice
from gui.new_run.options import BigModelAdvice


def test_every_branch_is_told_once_it_is_asked_for(qtbot):
    advice = BigModelAdvice()
    qtbot.addWidget(advice)
    assert not advice.words.is_open
    advice.words.open(True)
    assert len(advice.words.details) == len(big_model_advice())
    for found, line in zip(big_model_advice(), advice.words.details, strict=True):
        assert found.condition in line
        assert found.advice in line
