"""The process that holds a model, whether there is memory for two, and what models are called."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from core.base import ceiling
from core.base.errors import OutOfMemory, UserError
from core.base.jobs import EngineCrashed, JobCancelled
from core.jobs.chat import Ask, EndedBy, Load, Loaded, NotAnswered, Stop, TextPiece, Texts, Which
from core.options import RunOptions
from core.options.choices import Method, Precision, Task
from core.options.sections import DeviceOptions, ModelOptions
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from core.runs.models import lacks_model, name_of
from core.services import chat
from core.services.chat import TryProcess, judge, memory_needed, parameters_of, room_for, that_train
from tests.fakes.runs import keep_alive, keep_checkpoint, new_run
from tests.fakes.try_process import command

LOAD = Load(run="/runs/one", which=Which.TRAINED)
GIB = 1 << 30
BOTH = {Which.TRAINED: 3 * GIB, Which.BEFORE: 3 * GIB}


def test_questions_are_answered_one_by_one_until_it_is_closed():
    process = TryProcess(LOAD, command())
    for number, text in enumerate(("good", "refuse", "long"), 1):
        process.say(Ask(id=number, given=Texts(texts=(text,))))
    answers = []
    for line in process.lines():
        if isinstance(line, TextPiece):
            process.say(Stop(id=3))
            process.say(Ask(id=4, given=Texts(texts=("good",))))
        else:
            answers.append(line)
        if getattr(line, "id", 0) == 4:
            process.close()
    loaded, labelled, refused, stopped, last = answers
    assert isinstance(loaded, Loaded)
    assert labelled.chances[0].label == last.chances[0].label == "yes"
    assert isinstance(refused, NotAnswered)
    assert (stopped.id, stopped.ended_by) == (3, EndedBy.PERSON)
    assert not psutil.pid_exists(process.pid)


@pytest.mark.parametrize(
    ("scenario", "error", "message"),
    [
        ("refuse", UserError, "is gone"),
        ("spin", UserError, "The tokenizer"),
        ("crash", EngineCrashed, "a bug in the fake model"),
        ("killed", OutOfMemory, "ended the model's process"),
        ("nonsense", EngineCrashed, "no line of ours"),
        ("cancelled", JobCancelled, ""),
    ],
)
def test_how_a_process_ends(monkeypatch, scenario, error, message):
    monkeypatch.setitem(ceiling.SECONDS, ceiling.Pace.QUICK, 0.5)  # for a tokenizer that never ends
    commands = {"crash": "chat", "killed": "hang", "cancelled": "hang"}
    process = TryProcess(LOAD, command(commands.get(scenario, scenario)))
    if scenario == "crash":
        process.say(Ask(id=1, given=Texts(texts=("crash",))))
    if scenario == "killed":
        psutil.Process(process.pid).kill()
    if scenario == "cancelled":
        process.kill()
    with pytest.raises(error) as caught:
        list(process.lines())
    assert message in str(caught.value)
    assert not psutil.pid_exists(process.pid)
    if scenario == "refuse":
        assert caught.value.fixes[0].label == "Put it back"


@pytest.mark.parametrize(
    ("free", "allowed", "words"),
    [
        (8, (Which.TRAINED, Which.BEFORE), ""),
        (5, (Which.TRAINED,), "6.00 GB, and 5.00 GB are free"),
        (2, (), "3.00 GB"),
    ],
)
def test_memory_for_both_models_for_one_or_none(free, allowed, words):
    verdict = judge(BOTH, free * GIB)
    assert verdict.allowed == allowed
    assert bool(verdict.title) == (len(allowed) < 2)
    assert words in verdict.detail
    training = judge(BOTH, free * GIB, ("Digits",))
    assert (training.allowed, training.title) == ((), "Digits is running")
    assert training.cpu_helps is bool(allowed)
    assert ("on the CPU" in training.detail) is bool(allowed)
    assert judge(BOTH, free * GIB, ("Digits",), on_cpu=True) == verdict


def test_an_adapter_takes_memory_once_for_both_models(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(chat, "memory_needed", lambda *_of: 3 * GIB)
    monkeypatch.setattr(chat, "shared_room", lambda *_of: SimpleNamespace(free=5 * GIB))
    run = new_run(tmp_path / "runs")
    run.model.mkdir(exist_ok=True)
    for wanted in (tuple(Which), (Which.BEFORE,)):
        assert room_for(run, wanted, tmp_path / "runs").allowed == wanted[:1]
    (run.model / "adapter_config.json").write_text("{}")
    assert room_for(run, tuple(Which), tmp_path / "runs").allowed == tuple(Which)
    monkeypatch.setattr(chat, "shared_room", lambda *_of: SimpleNamespace(free=2 * GIB))
    assert not room_for(run, (Which.BEFORE,), tmp_path / "runs").allowed


def test_a_model_of_unknown_size_may_fit():
    assert judge({Which.TRAINED: GIB, Which.BEFORE: None}, 2 * GIB).allowed == (Which.TRAINED, Which.BEFORE)


def test_runs_that_train_elsewhere_count_too(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    here, elsewhere = new_run(tmp_path / "runs"), new_run(tmp_path / "elsewhere")
    for run in (here, elsewhere):
        keep_alive(run)
        queue.hold(run, "cpu", KeeperRecord.of(os.getpid()))
    assert that_train(tmp_path / "runs") == (here, elsewhere)
    assert that_train(tmp_path / "nowhere") == (here, elsewhere)
    queue.leave(elsewhere)
    assert that_train(tmp_path / "runs") == (here,)


def safetensors(path: Path, *shape: int) -> None:
    header = json.dumps({"__metadata__": {"format": "pt"}, "w": {"dtype": "BF16", "shape": list(shape)}})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode())


def test_sizes_come_from_the_headers_of_files(tmp_path):
    run, base = RunFolder(tmp_path / "run"), tmp_path / "base"
    options = RunOptions(
        task=Task.CHAT,
        model=ModelOptions(source=str(base), method=Method.LORA),
        device=DeviceOptions(precision=Precision.FP32),
    )
    safetensors(run.model / "adapter_model.safetensors", 1000)
    (run.model / "adapter_config.json").write_text("{}")
    assert parameters_of(run, options, Which.TRAINED) is None
    assert memory_needed(run, options, Which.BEFORE) is None
    safetensors(base / "model-1.safetensors", 1000, 1000)
    safetensors(base / "model-2.safetensors", 500)
    assert parameters_of(run, options, Which.BEFORE) == 1_000_500
    assert parameters_of(run, options, Which.TRAINED) == 1_001_500
    small = memory_needed(run, options, Which.BEFORE)
    safetensors(base / "model-1.safetensors", 1000, 1001)
    assert memory_needed(run, options, Which.BEFORE) - small == pytest.approx(1000 * 4 * 1.1)
    (base / "model-2.safetensors").write_bytes(b"\xff" * 20)
    assert parameters_of(run, options, Which.BEFORE) == 1_001_000
    before = memory_needed(run, options, Which.BEFORE)
    (base / "config.json").write_text('{"quantization": {"bits": 4, "group_size": 64}}')
    whole = sum(path.stat().st_size for path in base.glob("*.safetensors"))
    assert before - memory_needed(run, options, Which.BEFORE) == pytest.approx(
        1.1 * (4 * 1_001_000 - whole), abs=2
    )


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (ModelOptions(source="scratch:llama-tiny"), "Llama tiny (untrained)"),
        (ModelOptions(source="/models/writer", pretrained=False), "writer (untrained)"),
        (ModelOptions(source="/models/writer"), "writer"),
    ],
)
def test_name_before_training(tmp_path, model, name):
    assert name_of(RunFolder(tmp_path), RunOptions(task=Task.CHAT, model=model), Which.BEFORE) == name


def test_a_strangers_header_of_large_numbers_is_not_counted(tmp_path):
    run = RunFolder(tmp_path)
    run.model.mkdir()
    header = b'{"a": {"shape": [' + b", ".join([b"9" * 4000] * 2000) + b"]}}"  # a product of 8 million digits
    (run.model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert parameters_of(run, RunOptions(task=Task.CHAT), Which.TRAINED) is None


def test_a_run_that_trains_longer_can_be_tried_with_its_earlier_model(tmp_path):
    run = new_run(tmp_path / "run")
    keep_checkpoint(run, 90)
    assert "checkpoint of step 90" in lacks_model(run)
    run.model.mkdir()
    (run.model / "model.safetensors").touch()
    assert lacks_model(run) == ""
    assert name_of(run, run.options(), Which.TRAINED) != run.name
