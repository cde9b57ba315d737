"""torch's warning about an operator that MPS lacks becomes a message of the run, once each."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from core.engine.reporter import Reporter
from core.engine.training.what_ran import report_fallbacks
from core.runs.event_log import EventReader
from core.runs.events import MessageRaised
from core.runs.folder import RunFolder

WORDS = (
    "The operator '{}' is not currently supported on the MPS backend and will fall back to run on the CPU. "
    "This may have performance implications."
)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    show, always = warnings.showwarning, torch.is_warn_always_enabled()
    yield
    warnings.showwarning = show
    torch.set_warn_always(always)


def test_each_operator_is_named_once_and_other_warnings_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed_on: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: passed_on.append(str(message)))
    run = RunFolder(tmp_path)
    fell_back = report_fallbacks(Reporter(run))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        listener = warnings.showwarning
        for operator in ("aten::unique", "aten::unique", "aten::histc"):
            listener(UserWarning(WORDS.format(operator)), UserWarning, "here.py", 1)
        listener(UserWarning("something else"), UserWarning, "here.py", 1)
    raised = [event for event in EventReader(run.events_file).read_all() if isinstance(event, MessageRaised)]
    assert [event.title for event in raised] == [
        "aten::unique runs on the CPU",
        "aten::histc runs on the CPU",
    ]
    assert fell_back == ["aten::unique", "aten::histc"]
    assert passed_on == ["something else"]
