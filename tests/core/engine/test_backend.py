"""Which engine trains a run: asked for, or chosen by computer, options and the model's architecture."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from core.base.errors import DeviceError, ModelError
from core.base.jobs import run_job
from core.engine import __main__ as engine
from core.engine import backend
from core.engine.backend import choose, choose_again, model_problems, why_not_mlx_here
from core.engine.run.checkpoints import MLX_OPTIMIZER
from core.memory.model import ModelReport, question_about
from core.options import RunOptions
from core.options.backend_rules import MLX_ON_CPU
from core.options.catalogue import with_changes
from core.options.choices import Backend, Task
from core.options.method_rules import starting_options
from core.runs.event_log import EventReader
from core.runs.events import MessageRaised, WhatRan
from core.runs.models import Checkpoint
from core.runs.words import AS_ASKED
from tests.fakes.jobs import ROOT
from tests.fakes.machines import M1, M1_ON_13, M4, M4_WITHOUT_BITSANDBYTES, PC, variant
from tests.fakes.models import edit_config, save_tiny_llama
from tests.fakes.runs import make_folder

pytest.importorskip("mlx_lm")
TESTING = variant(PC, optional=M4.optional, mlx_on_cpu=True)
LLAMA = {"model.source": "scratch:llama-tiny", "model.method": "full"}


def asked(kind: str = "auto", task: Task = Task.CAUSAL_LM, **more: object) -> RunOptions:
    changes = {f"{name.replace('__', '.')}": value for name, value in more.items()}
    return with_changes(starting_options(task), {**LLAMA, "device.backend": kind, **changes})


@pytest.fixture
def on(monkeypatch):
    """Makes this another computer."""

    def become(facts):
        monkeypatch.setattr(backend, "system_facts", lambda: facts)

    return become


@pytest.fixture
def opt(tmp_path):
    """A model that transformers has and mlx-lm has not."""
    folder = save_tiny_llama(tmp_path / "opt")
    (folder / "config.json").write_text(
        json.dumps({"model_type": "opt", "architectures": ["OPTForCausalLM"]})
    )
    return str(folder)


@pytest.mark.parametrize(
    ("facts", "more", "chosen", "reason"),
    [
        (M4, {}, Backend.MLX, "mlx: it is made by Apple"),
        (M4, {"kind": "torch"}, Backend.TORCH, AS_ASKED),
        (M4, {"kind": "mlx"}, Backend.MLX, AS_ASKED),
        (M4, {"task": Task.TEXT_CLASSIFICATION}, Backend.TORCH, "torch: MLX trains text generation"),
        (M4, {"training__optimizer": "ademamix"}, Backend.TORCH, "torch: MLX has AdamW"),
        (M4, {"device__name": "cpu"}, Backend.TORCH, "torch: MLX computes on the GPU"),
        (variant(M4, optional=PC.optional), {}, Backend.TORCH, "torch: needs the package mlx,"),
        (variant(M4, optional={"mlx": ""}), {}, Backend.TORCH, "torch: needs the package mlx-lm,"),
        (M1_ON_13, {}, Backend.TORCH, "torch: MLX needs macOS 14.0, and this is 13.6"),
        (PC, {}, Backend.TORCH, "torch: MLX computes on the GPU of Apple silicon"),
        (M4, {"training__optimizer": "muon"}, Backend.MLX, AS_ASKED),
        (M4, {"training__optimizer": "lion"}, Backend.MLX, "mlx: it is made by Apple"),
        (TESTING, {}, Backend.TORCH, "torch: on a CPU, MLX is for tests only"),
        (TESTING, {"kind": "mlx"}, Backend.MLX, AS_ASKED),
    ],
)
def test_the_engine_and_why(on, facts, more, chosen, reason):
    on(facts)
    found, why = choose(asked(**more))
    assert found is chosen
    assert why.startswith(reason)


@pytest.mark.parametrize(
    ("facts", "more", "detail"),
    [
        (PC, {}, "MLX computes on the GPU of Apple silicon."),
        (M1_ON_13, {}, "MLX needs macOS 14.0, and this is 13.6."),
        (variant(M4, optional={}), {}, "Needs the package mlx, which isn't installed."),
        (M4, {"training__optimizer": "ademamix"}, "MLX has AdamW, Adam, Adafactor, Lion, SGD and Muon."),
        (PC, {"kind": "auto", "model__method": "qlora", "model__quantization": "affine4"}, "MLX computes on"),
        (PC, {"kind": "auto", "training__optimizer": "muon"}, "MLX computes on"),
    ],
)
def test_where_only_mlx_would_do_and_can_not_the_reason_is_told_with_a_fix(on, facts, more, detail):
    on(facts)
    options = asked(**{"kind": "mlx", **more})
    with pytest.raises(DeviceError) as refused:
        choose(options)
    assert refused.value.detail.startswith(detail)
    (fix,) = refused.value.fixes
    assert choose(with_changes(options, fix.changes)) == (Backend.TORCH, AS_ASKED)


def test_a_model_that_mlx_lm_has_not_is_trained_by_pytorch_unless_mlx_is_asked_for(on, opt):
    on(M4)
    assert choose(asked(model__source=opt)) == (
        Backend.TORCH,
        "torch: the architecture opt is not in mlx-lm",
    )
    with pytest.raises(ModelError, match="The architecture opt is not in mlx-lm"):
        choose(asked("mlx", model__source=opt))


def test_qlora_for_such_a_model_needs_bitsandbytes(on, opt):
    qlora = asked(model__source=opt, model__method="qlora")
    on(M4)
    assert choose(qlora)[0] is Backend.TORCH
    on(M4_WITHOUT_BITSANDBYTES)
    (problem,) = model_problems(qlora)
    assert problem.message.endswith(
        "The architecture opt is not in mlx-lm, and PyTorch needs the package bitsandbytes, which isn't installed."
    )
    assert choose(with_changes(qlora, problem.fixes[0].changes))[0] is Backend.TORCH
    assert choose(with_changes(qlora, LLAMA | {"model.method": "qlora"}))[0] is Backend.MLX


def test_architectures_that_mlx_lm_calls_otherwise_are_known_too(on, tmp_path):
    on(M4)
    folder = save_tiny_llama(tmp_path / "mistral")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "mistral"}))
    assert choose(asked(model__source=str(folder)))[0] is Backend.MLX


def test_a_model_is_looked_at_only_where_all_else_speaks_for_mlx(on, tmp_path):
    gone = {"model__source": str(tmp_path)}
    on(PC)
    assert choose(asked(**gone))[0] is Backend.TORCH
    on(M4)
    assert choose(asked("torch", **gone))[0] is Backend.TORCH
    assert choose(asked(training__optimizer="ademamix", **gone))[0] is Backend.TORCH
    with pytest.raises(ModelError):
        choose(asked(**gone))


@pytest.fixture
def models(opt, tmp_path):
    plain, packed = (str(save_tiny_llama(tmp_path / name)) for name in ("plain", "packed"))
    edit_config(tmp_path / "packed", quantization={"group_size": 64, "bits": 4})
    return {"opt": opt, "plain": plain, "packed": packed}


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("mlx opt full", "The architecture opt is not in mlx-lm."),
        ("mlx packed full", "4-bit weights can't learn themselves"),
        ("torch packed lora", "packed is quantized for MLX. PyTorch can't read its 4-bit weights."),
        ("torch packed full", "packed is quantized for MLX."),
        ("mlx packed lora", ""),
        ("auto packed qlora", ""),
        ("torch opt full", ""),
        ("auto opt full", ""),
        ("mlx plain full", ""),
    ],
)
def test_a_model_that_its_engine_can_not_train_is_told_before_the_run(on, models, case, told):
    on(M4)
    kind, model, method = case.split()
    found = model_problems(asked(kind, model__source=models[model], model__method=method))
    assert [told in problem.message for problem in found] == [True] * bool(told)
    assert all(problem.fixes for problem in found)


@pytest.mark.parametrize(
    ("facts", "case", "more"),
    [
        (M1, "auto opt told", {}),
        (M1, "torch opt told", {}),
        (M1, "mlx opt told", {"model__method": "lora"}),
        (M1, "auto opt told", {"training__optimizer": "ademamix"}),
        (TESTING, "auto opt told", {}),
        (M1, "auto plain silent", {}),
        (M1, "torch plain silent", {}),
        (M1, "auto plain silent", {"model__method": "lora", "model__lora_targets": ("wrong",)}),
        (M1, "auto plain silent", {"model__method": "lora", "model__lora_layers": 99}),
        (M1, "auto opt silent", {"task": Task.TEXT_CLASSIFICATION}),
        (M1, "auto opt silent", {"device__name": "cpu"}),
        (M1_ON_13, "auto opt silent", {}),
        (PC, "mlx opt silent", {}),
    ],
)
def test_where_mlx_is_it_is_told_that_it_can_not_train_a_model(on, models, facts, case, more):
    on(facts)
    kind, model, told = case.split()
    reason = why_not_mlx_here(asked(kind, model__source=models[model], **more))
    assert reason == "the architecture opt is not in mlx-lm" * (told == "told")


@pytest.mark.skipif(sys.platform == "darwin", reason="it has MLX of its own")
def test_the_report_on_a_model_says_why_mlx_can_not_train_it(opt, monkeypatch):
    question = question_about(asked(model__source=opt))
    for on_cpu, told in (("1", "the architecture opt is not in mlx-lm"), ("", "")):
        monkeypatch.setenv(MLX_ON_CPU, on_cpu)
        report = run_job("check-model", question, ModelReport)
        assert (report.architecture, report.why_not_mlx) == ("OPTForCausalLM", told)


def test_a_model_that_sees_a_part_of_a_long_text_is_left_to_pytorch(on, tmp_path):
    on(M1)
    folder = save_tiny_llama(tmp_path / "qwen")
    edit_config(folder, model_type="qwen2", sliding_window=64, use_sliding_window=True)
    reasons = [
        why_not_mlx_here(asked(model__source=str(folder), data__max_length=length)) for length in (64, 65)
    ]
    assert reasons == ["", "mlx-lm ignores that this qwen2 model sees 64 tokens back only"]


def test_a_model_is_no_problem_where_mlx_can_not_train_any(on, opt):
    on(PC)
    assert model_problems(asked("mlx", model__source=opt)) == ()


@pytest.fixture
def saved(tmp_path):
    """Checkpoints of each engine."""
    found = {}
    for name, file in (("mlx", MLX_OPTIMIZER), ("torch", "optimizer.pt")):
        folder = tmp_path / name / "checkpoint-5"
        folder.mkdir(parents=True)
        (folder / file).write_bytes(b"")
        found[name] = Checkpoint(5, folder, 0)
    return found


@pytest.mark.parametrize("by", ["mlx", "torch"])
def test_a_run_is_resumed_by_the_engine_that_saved_its_checkpoint(on, saved, by):
    on(M4)
    assert choose_again(asked(by), saved[by]) == (Backend(by), AS_ASKED)
    assert choose_again(asked(), saved[by]) == (Backend(by), f"{by}: it saved the checkpoint")


@pytest.mark.parametrize(("by", "other"), [("mlx", "PyTorch"), ("torch", "MLX")])
def test_a_checkpoint_of_the_other_engine_is_refused_with_the_way_back(on, saved, by, other):
    on(M4)
    kind = "mlx" if by == "torch" else "torch"
    with pytest.raises(ModelError, match=f"checkpoint-5 can't be resumed with {other}") as refused:
        choose_again(asked(kind), saved[by])
    assert refused.value.detail.startswith(f"{Backend(by).label} saved it")
    assert refused.value.fixes[0].label == f'Write backend = "{by}" in run.toml, and resume'


def test_a_checkpoint_of_mlx_says_where_it_can_be_resumed(on, saved):
    on(PC)
    with pytest.raises(ModelError, match="checkpoint-5 can't be resumed here") as refused:
        choose_again(asked(), saved["mlx"])
    assert refused.value.detail.endswith("MLX computes on the GPU of Apple silicon.")
    assert choose_again(asked(), saved["torch"])[0] is Backend.TORCH


def test_on_this_computer_mlx_is_for_tests(monkeypatch):
    if sys.platform == "darwin":
        pytest.skip("it has MLX of its own")
    monkeypatch.setenv(MLX_ON_CPU, "1")
    assert choose(asked("mlx")) == (Backend.MLX, AS_ASKED)
    assert choose(asked())[0] is Backend.TORCH
    monkeypatch.delenv(MLX_ON_CPU)
    with pytest.raises(DeviceError):
        choose(asked("mlx"))


@pytest.mark.skipif(sys.platform == "darwin", reason="it has MLX of its own")
@pytest.mark.parametrize(("kind", "told"), [("mlx", "MLX can't train this run"), ("auto", "")])
def test_a_run_that_can_not_have_its_engine_fails_in_words_and_one_that_chooses_says_why(
    tmp_path, kind, told
):
    (tmp_path / "text.txt").write_text("a good story of the film. " * 200)
    more = {"data__train": str(tmp_path / "text.txt"), "data__max_length": 16, "training__max_steps": 1}
    run = make_folder(tmp_path / "run", asked(kind, **more))
    command = [sys.executable, "-P", "-m", "core.engine", "train", str(run.path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HONE_HOME": str(tmp_path)}
    ended = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert ended.returncode == bool(told)
    events = EventReader(run.events_file).read_all()
    failures = [event.title for event in events if isinstance(event, MessageRaised) and event.id == "failed"]
    assert failures == [told] * bool(told)
    reasons = [event.reasons["device.backend"] for event in events if isinstance(event, WhatRan)]
    assert reasons == ["torch: MLX computes on the GPU of Apple silicon"] * (not told)


def test_each_engine_is_loaded_for_its_runs(monkeypatch):
    mlx = SimpleNamespace(train_run=object())
    monkeypatch.setitem(sys.modules, "core.engine.mlx.train", mlx)
    assert engine.engine_of(asked("mlx")) is mlx.train_run
    assert engine.engine_of(asked("torch")).__module__ == "core.engine.train"
