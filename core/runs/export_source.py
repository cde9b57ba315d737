"""The model that an export is made from."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import OptionsError, UserError
from core.base.files import read_small
from core.base.language import _
from core.options import RunOptions, hub
from core.options.choices import Method
from core.options.hub import RepoKind, snapshot
from core.options.packing import Packing, packing
from core.options.past_runs import holds_adapter
from core.options.sources import Scheme
from core.runs.folder import RunFolder
from core.runs.models import newest_first, step_of, trained_model


@dataclass(frozen=True)
class ExportSource:
    """A run's model on disk.

    `architecture` is its class in transformers; empty if unknown or a torchvision network. `packing` is that of an
    adapter's base model if it is quantized for MLX; `plain` is then the folder of that model with weights that
    transformers can read, once there is one.
    """

    run: RunFolder
    options: RunOptions
    folder: Path
    is_adapter: bool
    architecture: str = ""
    packing: Packing | None = None
    plain: Path | None = None

    @property
    def bits(self) -> int:
        return self.packing.bits if self.packing else 0

    @property
    def network(self) -> str:
        """ "torchvision" for a torchvision network (an image model without config.json), else empty."""
        is_bare = self.options.task.reads_images and not (self.folder / "config.json").is_file()
        return "torchvision" if is_bare else ""

    @property
    def checkpoint_text(self) -> str:
        """A sentence naming the checkpoint; empty for the trained model."""
        if self.folder == self.run.model:
            return ""
        return _("The weights are those of the checkpoint of step {step:,}.").format(
            step=step_of(self.folder)
        )

    @property
    def is_packed(self) -> bool:
        """Whether its base was quantized for the training."""
        return self.options.model.method is Method.QLORA and not self.bits


def find_source(run: RunFolder, checkpoint: str = "") -> ExportSource:
    """Finds a run's model: `checkpoint`, or by default the newest weights.

    Raises:
        UserError: There is no such model, or the run file can't be read.
    """
    try:
        options = run.options()
    except OptionsError as error:
        raise UserError(
            _("The run file of {name} can't be read").format(name=run.name), str(error)
        ) from error
    if checkpoint:
        complete = {each.path.name: each.path for each in newest_first(run.checkpoints)}
        if checkpoint not in complete:
            title = _("{name} has no complete checkpoint {checkpoint}")
            names = (
                _("There are {names}.").format(names=", ".join(complete)) if complete else _("It has none.")
            )
            raise UserError(title.format(name=run.name, checkpoint=checkpoint), names)
        folder = complete[checkpoint]
    else:
        newest = trained_model(run)
        if newest is None:
            title = _("{name} has no model to export").format(name=run.name)
            raise UserError(
                title,
                _(
                    "It has not finished, was not to keep one, or its model was deleted; it has no checkpoint either."
                ),
            )
        folder = newest.folder
    is_adapter = holds_adapter(folder)
    base = base_folder(folder) if is_adapter else None
    of_base = config_of(base) if base else {}
    architecture = ""
    match (config_of(folder) or of_base).get("architectures"):
        case [str(first), *_others]:
            architecture = first
    return ExportSource(run, options, folder, is_adapter, architecture, packing(of_base.get("quantization")))


def base_name(folder: Path) -> str:
    """Returns an adapter's base model: a folder, an id on the Hub, or `torchvision:NAME`."""
    return str(_read(folder / "adapter_config.json").get("base_model_name_or_path") or "")


def base_folder(folder: Path) -> Path | None:
    """Returns the folder of an adapter's base model; None if it isn't on this computer, or is torchvision's."""
    named = base_name(folder)
    cached = snapshot(named, RepoKind.MODEL) if hub.is_name(named) else None
    places = (folder / "base", Path(named), cached)
    return next((place for place in places if place and (place / "config.json").is_file()), None)


def config_of(folder: Path) -> dict[str, Any]:
    """Returns a model folder's config.json; empty if it can't be read."""
    return _read(folder / "config.json")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_small(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_on_hub(base: str) -> bool:
    is_id = Scheme.TORCHVISION.name_of(base) is None and not Path(base).is_absolute()
    return is_id and hub.is_name(base) and "/" in base
