"""The script of a run on MLX: with nothing but mlx-lm it has the run's losses; what it can't repeat is said."""

import re
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import ModelError, OptionsError
from core.engine.reporter import Reporter
from core.jobs.script import ScriptRequest
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Method, Optimizer, Precision, Quantization, Schedule, Task
from core.runs.folder import RunFolder
from tests.fakes.bare import link_packages, run_bare
from tests.fakes.models import instructions, pairs, save_tiny_gpt2, save_tiny_talker, write_json, write_text
from tests.fakes.trained_runs import story_of
from tests.fakes.training import run_options

pytest.importorskip("mlx.core")

from core.engine.mlx.script import write_script
from core.engine.mlx.train import train_run

WRITES: dict[str, Any] = {
    "max_length": 96,
    "max_steps": 7,
    "batch_size": 3,
    "gradient_accumulation_steps": 2,
    "eval_fraction": 0.2,
    "weight_decay": 0.1,
    "learning_rate": 1e-2,
    "warmup": 2.0,
    "schedule": Schedule.COSINE,
    "lora_dropout": 0.0,
    "predictions": 0,
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    return link_packages(tmp_path_factory.mktemp("site"), ("mlx[cpu]", "mlx-lm", "pyarrow"))


def trained(folder: Path, options: RunOptions) -> tuple[list[float], float]:
    """The losses of a run's steps, and its last validation loss."""
    folder.mkdir()
    reporter = Reporter(RunFolder(folder))
    reporter.start({})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HONE_MLX_CPU", "1")
        assert train_run(RunFolder(folder), options, reporter) == 0
    story = story_of(RunFolder(folder))
    last = story.evaluations[max(story.evaluations)]
    return [loss for loss, *_more in story.steps.values()], last["eval_loss"]


def written(folder: Path, options: RunOptions) -> str:
    folder.mkdir()
    request = ScriptRequest(asked={}, folder=str(folder), title="A run", device="cpu")
    return write_script(request, options).text


@pytest.mark.parametrize(
    ("task", "method", "more"),
    [
        (Task.CHAT, Method.FULL, {}),
        (Task.CHAT, Method.FULL, {"precision": Precision.BF16}),
        (Task.CHAT, Method.LORA, {"lora_dora": True, "activation_checkpointing": True, "lora_layers": 1}),
        (Task.CHAT, Method.QLORA, {"quantization": Quantization.AFFINE4}),
        (Task.CAUSAL_LM, Method.LORA, {"max_length": 16, "max_grad_norm": 0.0}),
        (Task.CAUSAL_LM, Method.FULL, {"max_length": 16, "optimizer": Optimizer.LION, "learning_rate": 1e-3}),
        (Task.CAUSAL_LM, Method.FULL, {"source": "scratch:llama-tiny", "vocabulary": 300, "max_length": 16}),
    ],
    ids=["chat", "bf16", "DoRA", "QLoRA", "text", "Lion", "from scratch"],
)
def test_a_script_has_the_losses_of_its_run(task, method, more, packages, tmp_path):
    file = (
        write_json(tmp_path / "rows.json", instructions(20))
        if task is Task.CHAT
        else write_text(tmp_path / "text.txt")
    )
    asked = {"source": save_tiny_talker(tmp_path / "talker", hidden_size=64), **WRITES, **more}
    options = with_changes(run_options(task, method=method, train=file, **asked), {"device.backend": "mlx"})
    losses, validation = trained(tmp_path / "run", options)
    text = written(tmp_path / "script", options)
    assert "hone" not in text.partition("\nimport json")[2].lower(), "it needs mlx-lm alone"
    ran = run_bare(packages, tmp_path / "script" / "train.py")
    assert ran.returncode == 0, ran.stderr
    told = [float(loss) for loss in re.findall(r"loss:? (\S+)\n", ran.stdout)]
    assert told == pytest.approx([*losses, validation], abs=1e-4)


@pytest.mark.parametrize(
    ("task", "more", "path"),
    [
        (Task.PREFERENCE, {}, "task"),
        (Task.CHAT, {"method": Method.HEAD}, "model.method"),
        (Task.CHAT, {"optimizer": Optimizer.SGD}, "training.optimizer"),
        (Task.CHAT, {"optimizer": Optimizer.MUON}, "training.optimizer"),
    ],
)
def test_what_it_cannot_repeat_is_said_in_a_sentence(task, more, path, tmp_path):
    file = write_json(tmp_path / "rows.json", pairs(8) if task is Task.PREFERENCE else instructions(8))
    options = run_options(task, source=save_tiny_talker(tmp_path / "talker"), train=file, **more)
    with pytest.raises(OptionsError) as refused:
        written(tmp_path / "script", options)
    [problem] = refused.value.problems
    assert (problem.path, "a script with mlx-lm" in problem.message) == (path, True)


def test_a_model_that_mlx_lm_alone_cannot_read_is_refused(tmp_path):
    source, text = save_tiny_gpt2(tmp_path / "gpt2"), write_text(tmp_path / "text.txt")
    with pytest.raises(ModelError, match="mlx-lm alone can't read gpt2"):
        written(tmp_path / "script", run_options(Task.CAUSAL_LM, source=source, train=text, max_length=16))
