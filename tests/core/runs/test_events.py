import math
from pathlib import Path

import msgspec
import pytest

from core.base.errors import Fix, FixAction
from core.runs import events
from core.runs.event_log import EventReader, EventWriter
from core.runs.events import (
    Evaluated,
    Level,
    MemorySampled,
    MessageRaised,
    RunStarted,
    Source,
    StepFinished,
    decode,
    encode,
    split_non_finite,
)


def step(number: int, **values: object) -> StepFinished:
    return StepFinished(
        **{
            "step": number,
            "epoch": 0.5,
            "seconds": 0.1,
            "learning_rate": 1e-3,
            "samples": 8,
            "time": 12.5,
            **values,
        }
    )


@pytest.mark.parametrize(
    "event",
    [
        RunStarted(pid=3, versions={"torch": "2.13.0"}),
        step(4, loss=0.25, tokens=100),
        MemorySampled(source=Source.SYSTEM, bytes=1 << 40, ceiling=1 << 41, swap=0),
        Evaluated(step=3, epoch=1, metrics={"eval_loss": 0.5, "eval_f1": None}, seconds=1),
        MessageRaised(id="nan", level=Level.ERROR, title="T", fixes=(Fix("x", {"memory.batch_size": 4}),)),
        MessageRaised(id="a", level=Level.INFO, title="T", fixes=(Fix("x", action=FixAction.END), Fix("y"))),
    ],
)
def test_every_event_comes_back_as_it_was(event: events.Event) -> None:
    line = encode(event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == event


def test_a_fix_of_an_older_hone_does_nothing_but_change_options() -> None:
    line = b'{"type":"message_raised","time":1.0,"attempt":1,"id":"a","level":"info","title":"T",'
    line += b'"fixes":[{"label":"x","changes":{"memory.batch_size":4}},{"label":"y","changes":{}}]}'
    read = decode(line)
    assert isinstance(read, MessageRaised)
    assert read.fixes == (Fix("x", {"memory.batch_size": 4}), Fix("y"))
    assert [fix.is_advice for fix in read.fixes] == [False, True]


@pytest.mark.parametrize(("value", "name"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "inf")])
def test_a_loss_that_is_no_number_is_null_in_json_and_itself_again_when_read(value: float, name: str) -> None:
    loss, non_finite = split_non_finite(value)
    line = encode(step(1, loss=loss, non_finite=non_finite))
    assert msgspec.json.decode(line)["loss"] is None
    read = decode(line)
    assert isinstance(read, StepFinished)
    assert read.loss_value is not None
    assert str(read.loss_value) == name


def test_a_loss_not_known_yet_stays_unknown() -> None:
    assert split_non_finite(None) == (None, None)
    assert step(1).loss_value is None


def test_a_type_of_a_newer_version_is_counted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(encode(step(1)) + b'{"type":"step_dreamt","time":1}\n' + encode(step(2)))
    reader = EventReader(path)
    assert [event.step for event in reader.read_all()] == [1, 2]
    assert reader.skipped == 1


def test_lines_that_are_no_events_are_counted_too(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'not json\n{"type":"step_finished","step":"four"}\n[1]\n\n' + encode(step(1)))
    reader = EventReader(path)
    assert [event.step for event in reader.read_all()] == [1]
    assert reader.skipped == 3


def test_a_torn_last_line_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    line = encode(step(2))
    path.write_bytes(encode(step(1)) + line[:20])
    reader = EventReader(path)
    assert [event.step for event in reader.read()] == [1]
    assert reader.read() == []
    with path.open("ab") as file:
        file.write(line[20:])
    assert [event.step for event in reader.read()] == [2]
    assert reader.skipped == 0


def test_a_reader_that_starts_at_the_end_tells_what_comes_then(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(encode(step(1)) * 3 + b'{"type":"step_fin')
    reader = EventReader(path)
    reader.start_at_end()
    assert reader.read() == []
    writer = EventWriter(path, attempt=2)  # cuts off what was torn
    writer.write(step(4))
    writer.close()
    assert [event.step for event in reader.read()] == [4]
    nothing = EventReader(tmp_path / "absent.jsonl")
    nothing.start_at_end()
    assert nothing.read() == []


def test_a_writer_cuts_a_torn_line_off_and_keeps_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(encode(step(1)) + b'{"type":"step_fin')
    writer = EventWriter(path, attempt=2)
    writer.write(step(2))
    writer.close()
    assert [(event.step, event.attempt) for event in EventReader(path).read_all()] == [(1, 1), (2, 2)]
    assert path.with_name("events.jsonl.torn").read_bytes() == b'{"type":"step_fin\n'


def test_a_file_is_read_in_parts_and_tells_when_all_is_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(encode(step(number)) for number in range(100)))
    reader = EventReader(path)
    first = reader.read(limit=1000)
    assert 0 < len(first) < 100
    assert not reader.is_at_end
    assert len(first) + len(reader.read_all()) == 100
    assert reader.is_at_end


def test_a_line_longer_than_a_part_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(encode(MessageRaised(id="x", level=Level.INFO, title="T" * 5000)) + encode(step(1)))
    assert len(EventReader(path).read(limit=100)) == 1


def test_a_file_that_is_not_there_yet_has_no_events(tmp_path: Path) -> None:
    reader = EventReader(tmp_path / "events.jsonl")
    assert reader.read() == []
    assert reader.is_at_end


def test_events_written_together_stand_in_their_order_and_belong_to_the_attempt(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "events.jsonl", attempt=3)
    writer.write(*map(step, (1, 2, 3)))
    writer.close()
    found = EventReader(tmp_path / "events.jsonl").read_all()
    assert [(event.step, event.attempt) for event in found] == [(1, 3), (2, 3), (3, 3)]
