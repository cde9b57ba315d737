"""A run's data and its model on MLX, from its options."""

import copy
import os
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx
import transformers
from mlx import nn
from mlx.utils import tree_flatten, tree_map, tree_map_with_path
from mlx_lm.utils import quantize_model

from core.base.files import temporary_prefix
from core.base.language import _
from core.engine import environment
from core.engine.devices.capabilities import gather
from core.engine.devices.choose import ResolvedRun, resolve_run
from core.engine.mlx import model as models
from core.engine.mlx.names import Arrays, Shapes, as_published, sanitized
from core.engine.mlx.recompute import compute_depth_first, recompute
from core.engine.mlx.skeleton import add_adapter, empty, freeze_buffers, save_adapter, skeleton, take_adapter
from core.engine.models import refusals
from core.engine.models import text as text_models
from core.engine.models.method import apply_method
from core.engine.models.past_runs import weights_in
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.language import LanguageData, load_data, note_copy, prepared_with
from core.jobs.hub import DownloadRequest
from core.options import RunOptions, hub
from core.options.choices import AFFINE_BITS, AFFINE_GROUP, Backend, Method, Precision
from core.runs.events import Phase


@dataclass(frozen=True)
class MlxModel:
    """What a run trains, and on what.

    Attributes:
        model: Of mlx-lm; its trainable parameters learn, and are in fp32.
        prepared: The data, and the skeleton of transformers as the model.
        layers: PEFT's layer of each path in `model` with an adapter.
        shapes: The weights of the files that `model` was loaded from.
        reference: The model that preferences are compared with; None: `model` without its adapter.
    """

    model: nn.Module
    prepared: Prepared
    layers: dict[str, Any]
    shapes: Shapes
    reference: nn.Module | None

    @property
    def tokenizer(self) -> Any:
        return self.prepared.processing_class

    def save(self, folder: Path) -> None:
        """Saves the trained model as transformers and PEFT do: an adapter, or all weights.

        Raises:
            ValueError: The weights can't be brought into the order of transformers.
        """
        like: Any = self.prepared.model
        if self.layers:
            save_adapter(self.model, self.layers, like, folder)
        else:
            weights: Arrays = tree_flatten(self.model.parameters(), destination={})
            models.write(as_published(self.model, weights, self.shapes), folder)
            like.config.architectures = [type(like).__name__]
            like.config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        self.prepared.save_extras(folder)

    def take(self, folder: Path) -> None:
        """Takes the trained weights that `save` has written, bit for bit.

        Raises:
            ValueError: They are those of another model.
        """
        if self.layers:
            take_adapter(self.model, self.layers, self.prepared.model, folder)
        else:
            found = sanitized(self.model, models.read_all(folder))
            self.model.load_weights([(name, mx.contiguous(weight)) for name, weight in found.items()])


def resolve(options: RunOptions, why: str) -> ResolvedRun:
    """Resolves the device and everything automatic, and sets this process up for it; `why` MLX was chosen.

    Raises:
        DeviceError: This computer can't do what was chosen.
    """
    transformers.utils.logging.disable_progress_bar()  # redrawn bars fill a log
    resolved = resolve_run(gather(), options, sees_one_gpu=True)
    environment.apply(resolved.options)
    if resolved.precision is Precision.FP32:
        os.environ["MLX_ENABLE_TF32"] = "0"  # an M5 would multiply in 10 bits
    if resolved.kind == "cpu":
        use_cpu()
    if resolved.options.memory.activation_checkpointing:
        compute_depth_first()
    return replace(resolved, reasons={**resolved.reasons, "device.backend": why})


def use_cpu() -> None:
    mx.set_default_device(mx.Device(mx.cpu))
    mx.disable_compile()  # on a CPU it runs a C++ compiler, for each kernel anew


def load(options: RunOptions, reporter: Reporter) -> MlxModel:
    """Loads the data and the model, whose weights are read from its files when they are needed.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained with MLX.
    """
    data = load_data(options, reporter)
    reporter.phase(Phase.LOADING_MODEL, options.model.source)
    model, like, shapes = (_random if options.starts_random else _read)(options, data)
    _note_dropout(data.config, reporter)
    hold(model, options)
    layers, reference = {}, None
    if options.model.method is not Method.FULL:
        layers = add_adapter(model, like, shapes)
    else:
        freeze_buffers(model, like, shapes)
    if options.has_reference and not layers:
        reference = _copy(model, mx.bfloat16 if options.device.precision is Precision.BF16 else mx.float32)
        note_copy(reporter)
    if options.memory.activation_checkpointing:
        recompute(model)
    return MlxModel(model, prepared_with(like, like.generation_config, data), layers, shapes, reference)


def _read(options: RunOptions, data: LanguageData) -> tuple[nn.Module, Any, Shapes]:
    """Reads a model of this computer or the Hub; returns it, its skeleton and the weights of its files."""
    refusals.check_quantized(options.model.source, data.config, Backend.MLX, options.model.method)
    folder = folder_of(options.model.source)
    like = skeleton(options, data.config, data.tokenizer)
    with refusals.explained(options.model.source):
        if (folder / "generation_config.json").is_file():
            like.generation_config = transformers.GenerationConfig.from_pretrained(folder)
    return models.load(folder), like, models.published(folder)


def folder_of(source: str) -> Path:
    """Returns the folder of a model's weights; one of the Hub is downloaded.

    Raises:
        ModelError: There are no safe weights, or the Hub can't be reached.
    """
    found = weights_in(source)
    refusals.check_weights(found)
    if Path(found).is_dir():
        return Path(found)
    here = hub.snapshot(found, hub.RepoKind.MODEL)
    if here is not None and hub.has_all_weights(hub.names_here(found, hub.RepoKind.MODEL)):
        return here
    from core.engine.hub.download import download

    return Path(download(DownloadRequest(id=found), lambda *_progress: None).path)


def _random(options: RunOptions, data: LanguageData) -> tuple[nn.Module, Any, Shapes]:
    """Draws the weights as the other engine does; returns as `_read`."""
    like: Any = text_models.load_model(options, data.config, (), data.tokenizer).model
    with TemporaryDirectory(prefix=temporary_prefix("weights")) as name:
        folder = Path(name)
        like.save_pretrained(folder)
        model, shapes = models.load(folder), models.published(folder)
        mx.eval(model.parameters())
    empty(like)
    return model, apply_method(like, options), shapes


def _copy(model: nn.Module, dtype: mx.Dtype) -> nn.Module:
    """Returns a frozen copy of a model; in its own format it shares the arrays, which no training changes."""
    memo: dict[int, Any] = {id(weight): weight for _name, weight in tree_flatten(model.parameters())}
    copied = copy.deepcopy(model, memo)
    copied.update(tree_map(lambda weight: weight.astype(dtype), copied.parameters()))
    copied.freeze()
    return copied


def _note_dropout(config: Any, reporter: Reporter) -> None:
    """Notes dropout of the model itself, which models of mlx-lm have none of."""
    rates = {name: rate for name, rate in config.to_dict().items() if name.endswith(("dropout", "_pdrop"))}
    if any(rates.values()):
        named = ", ".join(f"{name} {rate:g}" for name, rate in rates.items() if rate)
        title = _("MLX trains without the model's own dropout")
        reporter.note("no-dropout", title, _("PyTorch would train with {named}.").format(named=named))


def hold(model: nn.Module, options: RunOptions) -> None:
    """Gives weights that learn fp32, and frozen ones the format that a run computes in, or quantizes them."""
    method = options.model.method
    is_half = method is not Method.FULL and options.device.precision is Precision.BF16
    cast_weights(model, mx.bfloat16 if is_half else mx.float32)
    if method is Method.QLORA and not packed(model):
        quantize_model(model, {}, AFFINE_GROUP, AFFINE_BITS[options.model.quantization])


def cast_weights(model: nn.Module, dtype: mx.Dtype) -> None:
    """Gives weights this format, of quantized ones their scales, and not bf16 where they need fp32, as routers'."""
    is_cast = getattr(model, "cast_predicate", lambda _name: True)

    def cast(name: str, weight: mx.array) -> mx.array:
        is_exact = dtype == mx.bfloat16 and not is_cast(name)
        if is_exact or not mx.issubdtype(weight.dtype, mx.floating):
            return weight
        return mx.contiguous(weight.astype(dtype))  # weights in another order are summed in another one

    model.update(tree_map_with_path(cast, model.parameters()))


def packed(model: nn.Module) -> dict[str, Any]:
    """Returns the modules of a model whose weights are quantized, by path."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "bits")}
