"""What MLX trained is exported to every format, and any run's model for mlx-lm, which loads it alone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from core.base.errors import ModelError
from core.engine.export.job import WRITERS, export
from core.engine.reporter import Reporter
from core.jobs.export import ExportKind, ExportReport, ExportRequest, NumberFormat
from core.options import RunOptions, run_file
from core.options.catalogue import with_changes
from core.options.choices import Method, Task
from core.options.packing import Packing
from core.runs.export_source import ExportSource
from core.runs.folder import RunFolder
from tests.fakes.models import instructions, save_tiny_talker, write_json
from tests.fakes.training import run_options

pytest.importorskip("mlx.core")

import mlx.core as mx
from mlx_lm import utils

from core.engine.mlx import export as mlx_export
from core.engine.mlx.train import train_run
from tests.core.engine.mlx.test_train import KINDS, save_shifted


def trained(folder: Path, options: RunOptions) -> RunFolder:
    folder.mkdir()
    run_file.write(options, folder / "run.toml")
    run, reporter = RunFolder(folder), Reporter(RunFolder(folder))
    reporter.start({})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HONE_MLX_CPU", "1")
        assert train_run(run, with_changes(options, {"device.backend": "mlx"}), reporter) == 0
    return run


def published_before(model: Path, into: Path) -> Path:
    """Copies a model, with the base of its rotary embeddings where transformers 4 wrote it."""
    shutil.copytree(model, into)
    config = json.loads((into / "config.json").read_text())
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    (into / "config.json").write_text(json.dumps(config))
    return into


def rename_base(run: RunFolder, base: Path) -> None:
    path = run.model / "adapter_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "base_model_name_or_path": str(base)}))


ROPE = {"rope_type": "default", "rope_theta": 500.0}
"""Not mlx-lm's default."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each method."""
    folder = tmp_path_factory.mktemp("runs")
    source = save_tiny_talker(folder / "talker", hidden_size=64, rope_parameters=ROPE)
    asked = {
        "max_length": 96,
        "max_steps": 6,
        "batch_size": 4,
        "eval_fraction": 0.2,
        "predictions": 2,
        "learning_rate": 1e-2,
    }
    rows = write_json(folder / "rows.json", instructions(20))
    return {
        method: trained(
            folder / method.value,
            run_options(Task.CHAT, source=source, method=method, train=rows, lora_rank=4, **asked),
        )
        for method in (Method.FULL, Method.LORA)
    }


def exported(
    run: RunFolder,
    kind: ExportKind,
    into: Path,
    numbers: NumberFormat = NumberFormat.AUTO,
    checkpoint: str = "",
) -> ExportReport:
    into.mkdir()
    request = ExportRequest(
        run=str(run.path),
        kind=kind,
        staging=str(into),
        target=str(into),
        numbers=numbers,
        checkpoint=checkpoint,
    )
    writers = {**WRITERS, **mlx_export.WRITERS}
    report = export(request, lambda _doing: None, writers, mlx_export.unpack)
    assert report.agreement is not None
    assert report.agreement.holds
    assert report.agreement.held_out
    return report


# --- What MLX trained


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        (Method.FULL, ExportKind.OLLAMA),
        (Method.LORA, ExportKind.ADAPTER),
        (Method.LORA, ExportKind.MERGED),
    ],
)
def test_what_mlx_trained_is_exported_as_what_pytorch_trained(method, kind, runs, tmp_path):
    report = exported(runs[method], kind, tmp_path / "out")
    assert report.agreement.largest < 1e-4
    assert report.files


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        (Method.FULL, ExportKind.FOLDER),
        (Method.FULL, ExportKind.MLX),
        (Method.LORA, ExportKind.ADAPTER),
        (Method.LORA, ExportKind.MERGED),
    ],
)
def test_a_checkpoint_of_mlx_is_exported_without_the_model(method, kind, runs, tmp_path):
    run = RunFolder(Path(shutil.copytree(runs[method].path, tmp_path / "run")))
    shutil.rmtree(run.model)
    report = exported(run, kind, tmp_path / "out", checkpoint="checkpoint-6")
    assert "checkpoint of step 6" in report.notes[0]


def test_what_mlx_trained_becomes_a_gguf_file(runs, tmp_path, monkeypatch):
    shutil.copy(Path(__file__).parents[3] / "fakes" / "convert_hf_to_gguf.py", tmp_path)
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert "full.gguf" in exported(runs[Method.FULL], ExportKind.GGUF, tmp_path / "out").files


# --- Folders of MLX


@pytest.mark.parametrize(
    ("method", "numbers", "why"),
    [
        (Method.FULL, NumberFormat.AUTO, "another order"),
        (Method.FULL, NumberFormat.AFFINE4, "affine4 rounds the weights: read back, they are off by "),
        (Method.LORA, NumberFormat.BF16, "bf16 keeps 8 bits"),
        (Method.LORA, NumberFormat.AFFINE8, "affine8 rounds the weights: read back, they are off by 0."),
    ],
)
def test_mlx_lm_loads_an_exported_folder_alone(method, numbers, why, runs, tmp_path):
    report = exported(runs[method], ExportKind.MLX, tmp_path / "out", numbers)
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= {*report.files}
    assert not [name for name in report.files if "/" in name]
    assert why in report.agreement.why
    assert bool(report.notes) is (method is Method.LORA)
    model, _tokenizer = utils.load(str(tmp_path / "out"))
    assert model.args.rope_theta == ROPE["rope_theta"]
    bits = {module.bits for _name, module in model.named_modules() if hasattr(module, "bits")}
    assert bits == ({int(numbers[-1])} if numbers.is_affine else set())


@pytest.mark.parametrize("kind", ["qwen3", "gpt2", "gemma3", "phi3", "mixtral"])
def test_mlx_lm_computes_the_same_with_a_converted_folder(kind, tmp_path):
    source, into = KINDS[kind](tmp_path / "model"), tmp_path / "mlx"
    mlx_export._convert(source, into)
    ids = torch.tensor([[3, 4, 5, 6, 7, 8]])
    with torch.no_grad():
        expected = AutoModelForCausalLM.from_pretrained(source).eval()(input_ids=ids).logits.numpy()
    model, _config = utils.load_model(into)
    assert np.abs(np.array(model(mx.array(ids.numpy()))) - expected).max() < 1e-4


def test_a_quantized_weight_that_is_wrong_is_found(runs, tmp_path, monkeypatch):
    convert = mlx_export._convert

    def convert_wrongly(folder: Path, into: Path, bits: int | None = None) -> None:
        convert(folder, into, bits)
        weights = load_file(into / "model.safetensors")
        weights["model.layers.1.mlp.down_proj.weight"].view(torch.int32)[0, 0] ^= 0x80
        save_file(weights, into / "model.safetensors", metadata={"format": "mlx"})

    monkeypatch.setattr(mlx_export, "_convert", convert_wrongly)
    with pytest.raises(ModelError, match="differ from the trained ones"):
        exported(runs[Method.FULL], ExportKind.MLX, tmp_path / "out", NumberFormat.AFFINE4)


# --- Adapters of mlx-lm


def test_mlx_lm_adds_an_exported_adapter_to_a_model_of_the_hub(runs, tmp_path):
    """A config of before transformers 5, as most on the Hub are."""
    run = RunFolder(Path(shutil.copytree(runs[Method.LORA].path, tmp_path / "run")))
    base = published_before(Path(run.options().model.source), tmp_path / "base")
    rename_base(run, base)
    report = exported(run, ExportKind.MLX_ADAPTER, tmp_path / "out")
    assert {"adapters.safetensors", "adapter_config.json"} <= {*report.files}
    assert report.agreement.largest < 1e-4
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert config["fine_tune_type"] == "lora"
    assert config["lora_parameters"]["rank"] == 4
    assert "model.layers.0.self_attn.q_proj" in config["lora_parameters"]["keys"]
    model, _tokenizer = utils.load(str(base), adapter_path=str(tmp_path / "out"))
    assert model.layers[0].self_attn.q_proj.lora_b.any()


def test_an_adapter_of_dora_comes_with_its_magnitudes_and_the_model_of_a_past_run(runs, tmp_path):
    past = runs[Method.FULL]
    options = with_changes(
        runs[Method.LORA].options(), {"model.source": f"run:{past.path}", "model.lora_dora": True}
    )
    run = trained(tmp_path / "run", options)
    report = exported(run, ExportKind.MLX_ADAPTER, tmp_path / "out")
    assert {"base/config.json", "base/model.safetensors"} <= {*report.files}
    assert report.agreement.largest < 1e-4
    assert json.loads((tmp_path / "out" / "adapter_config.json").read_text())["fine_tune_type"] == "dora"
    assert [note for note in report.notes if "base/" in note]


def test_an_adapter_whose_base_mlx_lm_would_misread_is_refused(runs, tmp_path):
    with pytest.raises(ModelError, match="of no use to mlx-lm"):
        exported(runs[Method.LORA], ExportKind.MLX_ADAPTER, tmp_path / "out")


def test_an_adapter_of_another_base_is_refused(runs, tmp_path):
    run = RunFolder(Path(shutil.copytree(runs[Method.LORA].path, tmp_path / "run")))
    rename_base(run, save_tiny_talker(tmp_path / "base"))
    with pytest.raises(ModelError, match="The adapter of run belongs to another model") as refused:
        exported(run, ExportKind.MLX_ADAPTER, tmp_path / "out")
    assert refused.value.fixes


def test_an_architecture_that_mlx_lm_has_not_is_refused(runs, tmp_path):
    run = RunFolder(Path(shutil.copytree(runs[Method.FULL].path, tmp_path / "run")))
    config = json.loads((run.model / "config.json").read_text())
    (run.model / "config.json").write_text(json.dumps({**config, "model_type": "codegen"}))
    with pytest.raises(ModelError, match="can't be exported for MLX") as refused:
        exported(run, ExportKind.MLX, tmp_path / "out")
    assert "codegen is not in mlx-lm" in refused.value.detail


# --- Bases that were quantized before


def quantized(model: Path, into: Path) -> Path:
    """Writes a model as mlx-lm's `convert` does, in 4 bits with scales in bf16."""
    into.mkdir()
    plain, config = utils.load_model(model)
    plain.set_dtype(mx.bfloat16)
    packed, config = utils.quantize_model(plain, {**config, "dtype": "bfloat16"}, 32, 4)
    utils.save_model(into, packed)
    utils.save_config(config, into / "config.json")
    for path in model.glob("*token*"):
        shutil.copy(path, into)
    return into


@pytest.fixture(scope="module")
def on_bits(tmp_path_factory):
    """A run of QLoRA on such a base."""
    folder = tmp_path_factory.mktemp("bits")
    plain = save_tiny_talker(folder / "talker", hidden_size=64, rope_parameters=ROPE)
    base = quantized(published_before(plain, folder / "before"), folder / "base")
    asked = {"max_length": 96, "max_steps": 6, "batch_size": 4, "eval_fraction": 0.2, "learning_rate": 1e-2}
    rows = write_json(folder / "rows.json", instructions(20))
    options = run_options(
        Task.CHAT, source=base, method=Method.QLORA, train=rows, lora_rank=4, predictions=2, **asked
    )
    return trained(folder / "run", options)


@pytest.mark.parametrize(
    ("kind", "numbers", "note"),
    [
        (ExportKind.MERGED, NumberFormat.AUTO, "have 4 bits. The adapter was merged in fp32"),
        (ExportKind.MERGED, NumberFormat.FP32, "and written in fp32"),
        (ExportKind.MLX, NumberFormat.FP32, "and written in fp32"),
        (ExportKind.MLX, NumberFormat.AFFINE4, "and written in bf16"),
        (ExportKind.MLX_ADAPTER, NumberFormat.AUTO, "it is needed to use the adapter"),
        (ExportKind.ADAPTER, NumberFormat.AUTO, "was quantized for MLX and has plain weights in base/"),
    ],
)
def test_what_was_trained_on_quantized_weights_is_exported(kind, numbers, note, on_bits, tmp_path):
    report = exported(on_bits, kind, tmp_path / "out", numbers)
    is_rounded = numbers is not NumberFormat.FP32 and kind is not ExportKind.MLX_ADAPTER
    assert (report.agreement.largest > 1e-4) is is_rounded
    assert note in " ".join(report.notes)
    assert not [one for one in report.notes if "trained with quantized weights" in one]
    assert not [name for name in report.files if name.startswith("plain")]
    if kind is ExportKind.MLX_ADAPTER:
        assert "model.safetensors" not in " ".join(report.files)
        return
    folder = tmp_path / "out" / ("base" if kind is ExportKind.ADAPTER else "")
    config = json.loads((folder / "config.json").read_text())
    assert ("quantization" in config) is numbers.is_affine
    assert config["rope_theta" if kind is ExportKind.MLX else "rope_parameters"]


def test_peft_adds_an_exported_adapter_to_its_plain_base(on_bits, tmp_path):
    from peft import AutoPeftModelForCausalLM

    exported(on_bits, ExportKind.ADAPTER, tmp_path / "out")
    exported(on_bits, ExportKind.MERGED, tmp_path / "merged", NumberFormat.FP32)
    ids = torch.tensor([[3, 4, 5, 6, 7, 8]])
    with torch.no_grad():
        adapted, merged = (
            load(tmp_path / name, dtype=torch.float32).eval()(input_ids=ids).logits
            for load, name in (
                (AutoPeftModelForCausalLM.from_pretrained, "out"),
                (AutoModelForCausalLM.from_pretrained, "merged"),
            )
        )
    assert (adapted - merged).abs().max() < 0.05 * merged.abs().max()
    assert (
        load_file(tmp_path / "out" / "base" / "model.safetensors")["model.norm.weight"].dtype
        is torch.bfloat16
    )


def beside_quantized(model: Path, folder: Path) -> tuple[ExportSource, Path]:
    """What is read of an adapter for a model that is quantized into `folder`, and the base that this makes."""
    converted, adapter = folder / "converted", folder / "adapter"
    mlx_export._convert(model, converted)
    base = quantized(converted, folder / "base")
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    options = RunOptions(task=Task.CHAT)
    return ExportSource(RunFolder(folder), options, adapter, is_adapter=True, packing=Packing(4, 32)), base


def test_a_base_whose_weights_can_not_be_brought_back_is_refused_before_anything_is_written(tmp_path):
    source, _base = beside_quantized(save_shifted(tmp_path / "model"), tmp_path)
    with pytest.raises(ModelError, match="can't bring the weights into the order of transformers"):
        mlx_export.unpack(source, tmp_path / "plain", lambda _doing: None)
    assert not (tmp_path / "plain").exists()


@pytest.mark.parametrize("kind", ["gpt2", "gemma3", "phi3", "mixtral"])
def test_the_plain_weights_of_a_quantized_base_compute_the_same(kind, tmp_path):
    source, base = beside_quantized(KINDS[kind](tmp_path / "model"), tmp_path)
    plain = mlx_export.unpack(source, tmp_path / "plain", lambda _doing: None).plain
    ids = torch.tensor([[3, 4, 5, 6, 7, 8]])
    with torch.no_grad():
        found = AutoModelForCausalLM.from_pretrained(plain).eval()(input_ids=ids).logits.numpy()
    packed = mlx_export._plain(base)
    assert any(hasattr(module, "bits") for _name, module in packed.named_modules())
    assert np.abs(np.array(mlx_export._exact(packed)(mx.array(ids.numpy()))) - found).max() < 1e-4
