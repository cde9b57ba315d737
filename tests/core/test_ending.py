import signal
from pathlib import Path

import pytest

from core.ending import OUT_OF_MEMORY, describe, log_tail, out_of_memory_kills, signal_name


def test_signals_have_their_names() -> None:
    assert signal_name(-signal.SIGTERM) == "SIGTERM"
    assert signal_name(-250) == "signal 250"
    assert signal_name(1) is None
    assert signal_name(None) is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "by itself"),
        (3, "exit status 3"),
        (-9, "killed from outside"),
        (-11, "native code"),
        (0xC0000005, "native"),
    ],
)
def test_every_ending_is_described(code: int, words: str) -> None:
    assert words in describe(code)


def test_the_out_of_memory_killer_is_named_for_a_kill_only() -> None:
    assert describe(-9, out_of_memory=True) == OUT_OF_MEMORY
    assert describe(1, out_of_memory=True) != OUT_OF_MEMORY


def test_the_tail_is_the_last_lines_without_redrawn_bars(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"first\n" * 50 + b"10%\r50%\r100%\r\nlast \xff\n")
    tail = log_tail(log).split("\n")
    assert len(tail) == 40
    assert tail[-2:] == ["100%", "last \ufffd"]


def test_the_tail_of_a_huge_log_or_of_none(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    assert log_tail(log) == ""
    log.write_bytes(b"x" * 5_000_000 + b"\nend")
    assert len(log_tail(log)) < 40_000
    assert log_tail(log).endswith("\nend")


def test_kills_are_counted_or_not_told() -> None:
    count = out_of_memory_kills()
    assert count is None or count >= 0
