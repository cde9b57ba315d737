"""The end of an attempt of one process of several, of which their agent learns why."""

import json

import pytest

from core.base.errors import UserError
from core.engine.reporter import Reporter
from core.engine.run.attempt import report_failure
from core.engine.run.failures import CantSave
from core.runs.events import Outcome
from core.runs.folder import RunFolder

EXPLAINED = UserError("The GPU is gone")


@pytest.mark.parametrize(
    ("error", "explained", "expected"),
    [
        (CantSave("Paused: the disk is full"), None, (Outcome.PAUSED, True)),
        (EXPLAINED, None, (Outcome.FAILED, True)),
        (RuntimeError("no CUDA device"), EXPLAINED, (Outcome.FAILED, True)),
        (RuntimeError("the connection was lost"), None, (Outcome.FAILED, False)),  # perhaps by another's end
    ],
)
def test_a_process_that_fails_or_pauses_itself_tells_why_and_whether_that_is_the_cause(
    error, explained, expected, tmp_path, monkeypatch
):
    told = tmp_path / "error.json"
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(told))
    status = report_failure(
        error, RunFolder(tmp_path), Reporter(None, writes=False), lambda _error: explained
    )
    assert status == 1, "with 0 the others would be found to fail, by a lost connection"
    failure = json.loads(told.read_text())["hone"]
    assert (failure["outcome"], failure["known"]) == expected
