"""Exports as processes: what is left of them, however they end."""

import json
import os
import shutil
import sys
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from core.base.errors import OptionsError, UserError
from core.base.jobs import EngineJob, JobCancelled
from core.options import RunOptions, run_file
from core.options.choices import Task
from core.options.sections import ModelOptions
from core.runs.folder import RunFolder
from core.services.export import SMALL_FILES, Export, ExportKind, NumberFormat, Wanted, bytes_of, find_source

SCRIPT = Path(__file__).parents[1] / "fakes" / "export_job.py"


def playing(scenario: str):
    return lambda job: EngineJob(job, [sys.executable, str(SCRIPT), job, scenario])


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = tmp_path / "run"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "model.safetensors").write_bytes(b"weights")
    (folder / "model" / "config.json").write_text('{"architectures": ["BertForSequenceClassification"]}')
    run = RunFolder(folder)
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(source="bert"))
    run_file.write(options, run.options_file)
    return run


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "exports" / "mine"


def wanted(run: RunFolder, out: Path | str, kind: ExportKind = ExportKind.FOLDER, **more: object) -> Wanted:
    return Wanted(run=str(run.path), kind=kind, folder=str(out), **more)


def test_what_is_done_lies_in_its_place_and_nothing_beside(run: RunFolder, out: Path) -> None:
    told = []
    report = Export(wanted(run, out), playing("do")).run(told.append)
    assert report.path == str(out)
    assert (out / "README.md").read_text() == "# Model"
    assert [path.name for path in out.parent.iterdir()] == ["mine"]
    assert told[0].what == "Copying the model"


def test_an_empty_folder_is_taken_and_no_other(run: RunFolder, out: Path) -> None:
    out.mkdir(parents=True)
    Export(wanted(run, out), playing("do")).run()
    with pytest.raises(OptionsError, match="1 problem") as refused:
        Export(wanted(run, out), playing("do")).run()
    assert "not empty" in refused.value.problems[0].message
    with pytest.raises(OptionsError):
        Export(wanted(run, ""), playing("do")).run()


def test_what_is_refused_leaves_nothing(run: RunFolder, out: Path) -> None:
    with pytest.raises(UserError, match="doesn't answer as the trained one"):
        Export(wanted(run, out), playing("refuse")).run()
    assert not list(out.parent.iterdir())


def test_what_is_cancelled_leaves_nothing(run: RunFolder, out: Path) -> None:
    export = Export(wanted(run, out), playing("hang"))
    ended = []

    def work() -> None:
        try:
            export.run(lambda _: export.kill())
        except JobCancelled:
            ended.append(list(out.parent.iterdir()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=30)
    assert ended == [[]]
    with pytest.raises(JobCancelled):
        export.run()


def test_what_somebody_puts_there_meanwhile_stays(run: RunFolder, out: Path) -> None:
    with pytest.raises(UserError, match="can't be put in its place"):
        Export(wanted(run, out), playing("taken")).run()
    assert [path.name for path in out.iterdir()] == ["mine"]
    assert [path.name for path in out.parent.iterdir()] == ["mine"]


def test_what_a_killed_window_left_is_taken_away(run: RunFolder, out: Path) -> None:
    gone, here = out.parent / ".mine.999999999.exporting", out.parent / f".mine.{os.getppid()}.exporting"
    for folder in (gone, here):
        folder.mkdir(parents=True)
    Export(wanted(run, out), playing("do")).run()
    assert not gone.exists()
    assert here.exists(), "another process is at it"


def test_a_disk_without_room_is_told_first(
    run: RunFolder, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10, 9, 1 << 20))
    with pytest.raises(UserError, match="too little room") as refused:
        Export(wanted(run, out), playing("do")).run()
    assert "1.0 MB are free" in refused.value.detail
    assert not out.parent.exists()


def weights(folder: Path, kind: str, count: int, size: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    header = json.dumps({"w": {"dtype": kind, "shape": [count]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))


@pytest.mark.parametrize(
    ("kind", "numbers", "bytes_a_weight"),
    [
        (ExportKind.FOLDER, NumberFormat.AUTO, 2),
        (ExportKind.FOLDER, NumberFormat.FP32, 4),
        (ExportKind.GGUF, NumberFormat.FP32, 8),
        (ExportKind.ONNX, NumberFormat.AUTO, 4),
    ],
)
def test_room_is_looked_for_by_what_comes_out(
    run: RunFolder, kind: ExportKind, numbers: NumberFormat, bytes_a_weight: int
) -> None:
    weights(run.model, "BF16", 100_000, 200_000)
    needed = bytes_of(find_source(run), kind, numbers) - SMALL_FILES
    assert needed == pytest.approx(100_000 * bytes_a_weight, rel=0.01)


def test_packed_weights_come_out_whole(run: RunFolder, tmp_path: Path) -> None:
    base = tmp_path / "base"
    weights(base, "U8", 50_000, 50_000)
    (base / "config.json").write_text('{"quantization_config": {"load_in_4bit": true}}')
    (run.model / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    needed = bytes_of(find_source(run), ExportKind.MERGED, NumberFormat.AUTO) - SMALL_FILES
    assert needed == 100_000 * 4
    (base / "config.json").write_text('{"quantization_config": {"load_in_4bit": true}, "dtype": "bfloat16"}')
    needed = bytes_of(find_source(run), ExportKind.MERGED, NumberFormat.AUTO) - SMALL_FILES
    assert needed == 100_000 * 2


def test_a_kind_that_does_not_suit_is_refused_before_anything_is_started(run: RunFolder, out: Path) -> None:
    for kind in (ExportKind.ADAPTER, ExportKind.OLLAMA):
        with pytest.raises(UserError, match="can't be exported as"):
            Export(wanted(run, out, kind), playing("do")).run()
    assert not out.parent.exists()


def test_the_hub_is_sent_the_model_and_nothing_stays_here(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_HUB_OFFLINE")
    to_hub = wanted(run, "", ExportKind.HUB, repo="me/mine", numbers=NumberFormat.BF16)
    report = Export(to_hub, playing("do")).run()
    assert report.path == "https://huggingface.co/me/mine"
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    with pytest.raises(UserError, match="takes a token"):
        Export(to_hub, playing("no-token")).run()
    with pytest.raises(OptionsError):
        Export(wanted(run, "", ExportKind.HUB, repo="mine"), playing("do")).run()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="can't be exported") as refused:
        Export(to_hub, playing("do")).run()
    assert "forbids" in refused.value.detail


def test_a_checkpoint_that_is_not_there_is_named(run: RunFolder, out: Path) -> None:
    with pytest.raises(UserError, match="no complete checkpoint checkpoint-7"):
        Export(wanted(run, out, checkpoint="checkpoint-7"), playing("do")).run()
    shutil.rmtree(run.model)
    with pytest.raises(UserError, match="no model to export"):
        Export(wanted(run, out), playing("do")).run()
