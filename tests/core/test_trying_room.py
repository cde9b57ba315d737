"""Whether two models, one or none may be loaded beside what else needs memory."""

import json
import os
from pathlib import Path

import pytest

from core.options import RunOptions
from core.options.choices import Method, Precision, Task
from core.options.sections import DeviceOptions, ModelOptions
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from core.services.chat import Need, Which, judge, name_of, need_of, parameters_of, that_train
from tests.fakes.run_stories import keep_alive
from tests.fakes.runs import new_run

GIB = 1 << 30
BOTH = (Need(Which.TRAINED, 3 * GIB), Need(Which.BEFORE, 3 * GIB))


def test_room_for_both() -> None:
    verdict = judge(BOTH, 8 * GIB)
    assert verdict.allowed == (Which.TRAINED, Which.BEFORE)
    assert verdict.title == ""


def test_room_for_one_says_what_both_take() -> None:
    verdict = judge(BOTH, 5 * GIB)
    assert verdict.allowed == (Which.TRAINED,)
    assert verdict.title == "Only one of the two models fits into memory"
    assert "6.0 GB" in verdict.detail
    assert "5.0 GB" in verdict.detail


def test_no_room_refuses() -> None:
    verdict = judge(BOTH, 2 * GIB)
    assert verdict.allowed == ()
    assert "3.0 GB" in verdict.detail


@pytest.mark.parametrize(("free", "helps"), [(8 * GIB, True), (GIB, False)])
def test_a_run_that_trains_comes_first(free: int, helps: bool) -> None:
    verdict = judge(BOTH, free, ("Digits",))
    assert (verdict.allowed, verdict.title) == ((), "Digits is training")
    assert verdict.cpu_helps is helps
    assert ("on the CPU" in verdict.detail) is helps
    assert judge(BOTH, free, ("Digits",), on_cpu=True).allowed == judge(BOTH, free).allowed


def test_a_run_that_trains_elsewhere_is_known_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    here, elsewhere = new_run(tmp_path / "runs"), new_run(tmp_path / "elsewhere")
    for run in (here, elsewhere):
        keep_alive(run)
        queue.hold(run, "cpu", KeeperRecord.of(os.getpid()))
    assert that_train(tmp_path / "runs") == (here, elsewhere)
    assert that_train(tmp_path / "nowhere") == (here, elsewhere)
    queue.leave(elsewhere)
    assert that_train(tmp_path / "runs") == (here,)


def test_of_an_unknown_size_it_is_hoped() -> None:
    unknown = (Need(Which.TRAINED, GIB), Need(Which.BEFORE, None))
    assert judge(unknown, 2 * GIB).allowed == (Which.TRAINED, Which.BEFORE)


def safetensors(path: Path, *shape: int) -> None:
    header = json.dumps({"__metadata__": {"format": "pt"}, "w": {"dtype": "BF16", "shape": list(shape)}})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode())


def test_sizes_come_from_the_headers_of_files(tmp_path: Path) -> None:
    run, base = RunFolder(tmp_path / "run"), tmp_path / "base"
    options = RunOptions(
        task=Task.CHAT,
        model=ModelOptions(source=str(base), method=Method.LORA),
        device=DeviceOptions(precision=Precision.FP32),
    )
    safetensors(run.model / "adapter_model.safetensors", 1000)
    (run.model / "adapter_config.json").write_text("{}")
    assert parameters_of(run, options, Which.TRAINED) is None
    assert need_of(run, options, Which.BEFORE).size is None
    safetensors(base / "model-1.safetensors", 1000, 1000)
    safetensors(base / "model-2.safetensors", 500)
    assert parameters_of(run, options, Which.BEFORE) == 1_000_500
    assert parameters_of(run, options, Which.TRAINED) == 1_001_500
    small = need_of(run, options, Which.BEFORE).size
    safetensors(base / "model-1.safetensors", 1000, 1001)
    large = need_of(run, options, Which.BEFORE).size
    assert small is not None
    assert large is not None
    assert large - small == pytest.approx(1000 * 4 * 1.1)
    (base / "model-2.safetensors").write_bytes(b"\xff" * 20)
    assert parameters_of(run, options, Which.BEFORE) == 1_001_000


def test_an_untrained_model_is_called_so(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    scratch = RunOptions(task=Task.CAUSAL_LM, model=ModelOptions(source="scratch:llama-tiny"))
    assert name_of(run, scratch, Which.BEFORE) == "llama-tiny (untrained)"
    bare = RunOptions(task=Task.CHAT, model=ModelOptions(source="/models/writer", pretrained=False))
    assert name_of(run, bare, Which.BEFORE) == "writer (untrained)"
    whole = RunOptions(task=Task.CHAT, model=ModelOptions(source="/models/writer"))
    assert name_of(run, whole, Which.BEFORE) == "writer"


def test_a_strangers_header_of_large_numbers_is_not_counted(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.model.mkdir()
    header = b'{"a": {"shape": [' + b", ".join([b"9" * 4000] * 2000) + b"]}}"  # a product of 8 million digits
    (run.model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert parameters_of(run, RunOptions(task=Task.CHAT), Which.TRAINED) is None
