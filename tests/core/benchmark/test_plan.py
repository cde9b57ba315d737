"""The runs of a benchmark: their folders, which of them belong together, and another computer's devices."""

import errno

import msgspec
import pytest

from core.base.errors import OptionsError
from core.benchmark.methods import methods_plan
from core.benchmark.plan import FILE, create, list_benchmarks, part_of, shared_benchmark
from core.engine.devices.choose import report
from core.memory.model import Room
from core.options import past_runs
from core.runs import queue
from core.runs.library import list_runs, run_title
from tests.fakes.bench import LADDER, make_benchmark
from tests.fakes.machines import LAPTOP, M3_MAX
from tests.fakes.runs import make_folder


def test_each_row_that_isnt_refused_is_a_run_with_a_tag_and_the_whole_plan(tmp_path):
    first, second = make_benchmark(tmp_path), make_benchmark(tmp_path)
    assert list(first.runs) == [one.row.name for one in LADDER if not one.row.refusal]
    assert (first.benchmark.name, second.benchmark.name) == ("Methods, BERT-large", "Methods, BERT-large 2")
    run = first.runs["bf16-all"]
    assert run_title(run) == "Methods, BERT-large · bf16 + accumulation + checkpointing"
    assert past_runs.read(run.path).tags == ("methods-1",)
    assert past_runs.read(second.runs["plain"].path).tags == ("methods-2",)
    assert part_of(run) == msgspec.structs.replace(part_of(run), row="bf16-all", benchmark=first.benchmark)
    assert queue.device_held(run.readable_options()) == "auto", "it waits until nothing trains on any device"


def test_benchmarks_are_found_by_their_runs_the_newest_first(tmp_path):
    first, second = make_benchmark(tmp_path), make_benchmark(tmp_path)
    other = make_folder(tmp_path / "other")
    (second.runs["plain"].path / FILE).write_text("{")
    found = list_benchmarks(tmp_path)
    assert {one.benchmark.name: set(one.runs) for one in found} == {
        second.benchmark.name: set(second.runs) - {"plain"},
        first.benchmark.name: set(first.runs),
    }
    plain, bf16 = first.runs["plain"], first.runs["bf16"]
    assert shared_benchmark([plain, bf16]) == first
    assert shared_benchmark([plain, second.runs["bf16"]]) is shared_benchmark([plain, other]) is None
    (other.path / FILE).write_bytes((plain.path / FILE).read_bytes())
    found = next(one for one in list_benchmarks(tmp_path) if one.benchmark == first.benchmark)
    assert found.runs == {**first.runs, "plain": other}, "of a row that was measured twice it is the newest"


def test_nothing_is_left_where_a_folder_cant_be_made(tmp_path, monkeypatch):
    def refuse(_folder, _notes):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("core.runs.compare.notes.write", refuse)
    with pytest.raises(OSError, match="No space"):
        make_benchmark(tmp_path)
    assert list_runs(tmp_path) == []


def test_another_computer_is_measured_with_its_own_devices(tmp_path):
    here, box = report(LAPTOP), report(M3_MAX)
    devices = tuple(msgspec.structs.replace(one, name=f"{one.name}@box") for one in box.devices)
    machine = msgspec.structs.replace(here, devices=(*here.devices, *devices))
    room = Room(free=64 << 30, ceiling=64 << 30)
    plan = methods_plan(machine, size="tiny", device="auto@box", room=room)
    assert {one.device.name for one in plan.options.values()} == {"mps@box"}
    assert plan.benchmark.warm_up == 1
    runs = create(plan, tmp_path).runs
    assert runs["plain"].options().device.computers == ("box",)
    with pytest.raises(OptionsError):
        methods_plan(machine, size="tiny", device="cuda:0@box", room=room)
